/* The kernels of sph.cu for ranks that share a box by planes, over rows that are numbered on the device
   (common/part.h), so that a CUDA graph can hold steps whose number of rows changes.

   One thread per particle. */
#include "common/as_functions.h"
#include "sph.cu"
#include "common/as_functions.h"
#include "common/halo.h"

/* The parameters of the halo: see TAKE. */
#define HALO                                                                                       \
    GLOBAL const uint4 *low_rows, GLOBAL const int *low_starts, GLOBAL const uint4 *high_rows,     \
        GLOBAL const int *high_starts, int edge

/* Takers, from block `from` on, take the halo and return. */
#define TAKE(kind, from, rows, coarse, cells)                                                      \
    if (block < (from) + takers) {                                                                     \
        SIDE_OF_HALF(from)                                                                             \
        if (HAS_SIDE(side) && IS_HERE(kind, side ? high_flags : low_flags))                            \
            take_edge(side ? high_rows : low_rows, side ? high_starts : low_starts, box, side, 0, 0,   \
                      edge, k, stride, part, rows, coarse, cells, 0);                                     \
        count_taker(&part[PART_TAKEN + (kind)]);                                                       \
        return;                                                                                        \
    }

/* Densities of the inner planes, and of the edge planes once their halo is here. */
__global__ void OCCUPANCY(DENSITY_BLOCKS)
    densities_of(ROLES, FLAGS, HALO, GLOBAL uint4 *places, GLOBAL unsigned *coarse,
                 GLOBAL const float4 *__restrict__ velocities, GLOBAL int *cells,
                 GLOBAL const Box *__restrict__ box, GLOBAL const Fluid *__restrict__ fluid,
                 Clock clock, int particles, GLOBAL int *part, GLOBAL float4 *__restrict__ flow,
                 GLOBAL int *__restrict__ noted, GLOBAL int *__restrict__ notes)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        clock[1] = clock[0];
    ROLE
    TAKE(EDGES, 0, places, coarse, cells)
    int first, last;
    if (is_edge) {
        EDGE_ROWS
        AWAIT_TAKERS(EDGES)
    } else {
        first = FIRST(part[PART_INNER], takers);
        last = part[PART_LAST];
    }
    densities(places, coarse, velocities, cells, cells, box, fluid, clock, particles, first, last,
              0, 0x7fffffff, flow, noted, notes);
}

/* As many blocks as there are takers, and before them, write velocities and densities of the edge
   planes into the neighbours' memory, up to `room` rows. Then forces on the upper half of the inner
   planes, on the edge planes once their halo is here, and on the lower half; moves them, and finds
   their cells. Migrants, which left the planes of the part, go into the neighbours' memory, up to
   `room` of them. */
__global__ void OCCUPANCY(FORCE_BLOCKS)
    forces_of(ROLES, FLAGS, HALO, GLOBAL const uint4 *__restrict__ places, GLOBAL float4 *flow,
              GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ noted,
              GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
              GLOBAL const Fluid *__restrict__ fluid, Clock clock, int particles, GLOBAL int *part,
              int room, GLOBAL float4 *low_flow, GLOBAL float4 *high_flow, GLOBAL uint4 *low_places,
              GLOBAL float4 *low_velocities, GLOBAL int *low_count, GLOBAL uint4 *high_places,
              GLOBAL float4 *high_velocities, GLOBAL int *high_count, GLOBAL uint4 *new_places,
              GLOBAL float4 *new_velocities, GLOBAL int *new_cells, GLOBAL int *fault,
              GLOBAL int4 *__restrict__ result)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        clock[0] = next_step(clock[1]);
    ROLE
    int shift = part[PART_BEGIN];
    if (block < takers) {
        SIDE_OF_HALF(0)
        int begin = side ? part[PART_UPPER] : shift, end = part[side ? PART_END : PART_INNER];
        for (int rows = HAS_SIDE(side) ? min(end - begin, room) : 0; k < rows; k += stride)
            (side ? high_flow : low_flow)[k] = flow[begin + k];
        if (is_last(&part[PART_SENT + FLOW], takers)) {
            TELL(FLOW)
        }
        return;
    }
    TAKE(FLOW, takers, (GLOBAL uint4 *)flow, 0, 0)
    int first, last;
    if (is_edge) {
        EDGE_ROWS
        AWAIT_TAKERS(FLOW)
    } else {
        int is_upper = block < edges;
        first = is_upper ? FIRST(part[PART_MIDDLE], 2 * takers)
                         : FIRST(part[PART_INNER], edges + 2 * per_side);
        last = part[is_upper ? PART_LAST : PART_MIDDLE];
    }
    forces(places, flow, cells, cells, noted, notes, box, fluid, particles, first, last, 0, clock,
           new_places - shift, new_velocities - shift, new_cells - shift, fault, result);
    int i = first + (int)(blockIdx.x * BLOCK + threadIdx.x), row = i - shift;
    if (i < last) {
        int plane = (int)(box->cells[0] * box->cells[1]), low = part[PART_LOW] * plane;
        int ends = part[PART_TOP] * plane - low, cell = new_cells[row] - low;
        int is_above = cell >= part[PART_HIGH] * plane - low;
        new_cells[row] = cell >= 0 && cell < ends ? cell : ends + row % plane;
        if (cell < 0 || is_above) {
            int k = atomicAdd(&part[PART_LEFT + is_above], 1);
            if (k < room) {
                (is_above ? high_places : low_places)[k] = new_places[row];
                (is_above ? high_velocities : low_velocities)[k] = new_velocities[row];
            }
        }
    }
    TELL_MOVERS
}
