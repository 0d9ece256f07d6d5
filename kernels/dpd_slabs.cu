/* The kernels of dpd.cu for ranks that share a box by planes, over rows that are numbered on the device
   (common/part.h). Where z is periodic, ranks are a ring. One thread per particle. DEFER must be 0 in OpenCL C,
   whose functions have no local memory. */
#define RING 1
#include "common/as_functions.h"
#include "dpd.cu"
#include "common/as_functions.h"
#if MARKED
#include "common/coarse.h" /* before halo.h, whose takers then lay coarse positions too */
#endif
#include "common/halo.h"

/* The rows of the halo on a side, that `nearer` of the other side's precede. */
#define HALO_ROWS(side, nearer) min(((side) ? high_starts : low_starts)[plane], edge - (nearer))

/* Forces on the inner planes, and on the edge planes once their halo is here. With ONCE, the particles of
   the halo before this rank's compute the forces on its edge in as many blocks behind all others; what they
   add to the halo is not used. */
__global__ void OCCUPANCY
    forces_of(ROLES, FLAGS, GLOBAL const uint4 *low_rows, GLOBAL const uint4 *low_column,
              GLOBAL const int *low_starts, GLOBAL const uint4 *high_rows,
              GLOBAL const uint4 *high_column, GLOBAL const int *high_starts, int edge,
              GLOBAL uint4 *places, GLOBAL unsigned *coarse, GLOBAL float4 *drags,
              GLOBAL int *cells, GLOBAL const Box *__restrict__ box,
              GLOBAL const Fluid *__restrict__ fluid, Clock clock, float range, int particles,
              GLOBAL int *part, GLOBAL float4 *result)
{
    int plane = (int)(box->cells[0] * box->cells[1]), first, last;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        clock[1] = clock[0];
    ROLE
    if (block < takers) {
        SIDE_OF_HALF(0)
        int wraps = WRAPS(side);
        /* The flag of the other side too, whose rows a plane beyond the periodic end is behind. */
        if (HAS_SIDE(side) && IS_HERE(EDGES, side ? high_flags : low_flags) &&
            (!wraps || IS_HERE(EDGES, side ? low_flags : high_flags))) {
            GLOBAL const int *starts = side ? high_starts : low_starts;
            int nearer = wraps ? HALO_ROWS(!side, 0) : 0;
            take_edge(side ? high_rows : low_rows, starts, box, side, wraps, nearer, edge, k, stride,
                      part, places, coarse, cells, ONCE && side == wraps);
            take_edge(side ? high_column : low_column, starts, box, side, wraps, nearer, edge, k,
                      stride, part, (GLOBAL uint4 *)drags, 0, 0, 0);
        }
        count_taker(&part[PART_TAKEN + EDGES]);
        return;
    }
    if (is_edge) {
        EDGE_ROWS
        AWAIT_TAKERS(EDGES)
    } else if (block < edges) {
        first = FIRST(part[PART_INNER], takers);
        last = part[PART_LAST];
    } else {
        (void)wait_for_takers(&part[PART_TAKEN + EDGES], takers);
        int low = HAS_SIDE(0) && !WRAPS(0) ? HALO_ROWS(0, 0) : 0;
        last = part[PART_BEGIN];
        first = FIRST(last - low - (WRAPS(1) ? HALO_ROWS(1, low) : 0), edges + 2 * per_side);
    }
    forces(places, coarse, drags, cells, cells, box, fluid, clock, range, particles, first, last,
           result);
}

/* Moves the edge planes, whose blocks are the first, and the inner planes, and finds their cells.
   Migrants, which left the planes of the part, go into the neighbours' memory, up to `room` of them. */
__global__ void integrate_of(int skip, int per_side, FLAGS, GLOBAL const uint4 *places,
                             GLOBAL const float4 *velocities, GLOBAL const float4 *__restrict__ force,
                             GLOBAL const Box *__restrict__ box,
                             GLOBAL const Fluid *__restrict__ fluid, Clock clock, GLOBAL int *part,
                             int room, GLOBAL uint4 *low_places, GLOBAL float4 *low_velocities,
#if AHEAD
                             GLOBAL float4 *low_drags,
#endif
                             GLOBAL int *low_count, GLOBAL uint4 *high_places,
                             GLOBAL float4 *high_velocities,
#if AHEAD
                             GLOBAL float4 *high_drags,
#endif
                             GLOBAL int *high_count, GLOBAL uint4 *new_places,
                             GLOBAL float4 *new_velocities,
#if AHEAD
                             GLOBAL float4 *new_drags,
#endif
                             GLOBAL int *new_cells, GLOBAL int *fault)
{
#if !AHEAD
    GLOBAL float4 *new_drags = 0;
#endif
    const int edges = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        clock[0] = next_step(clock[1]);
    ROLE
    int first = FIRST(part[PART_INNER], 2 * per_side), last = part[PART_LAST];
    if (is_edge) {
        EDGE_ROWS
    }
    int shift = part[PART_BEGIN], i = first + (int)(blockIdx.x * BLOCK + threadIdx.x);
    integrate(places, velocities, force, 0, 0, box, fluid, clock, first, last, shift, 0.0f, new_places,
              new_velocities, new_drags, 0, 0, fault);
    if (i < last) {
        int row = i - shift, low = part[PART_LOW], high = part[PART_HIGH];
        uint4 p = new_places[row];
        int z = cell_at(box, 2, p.z);
        new_cells[row] = cell_in_part(new_places, box, low, part[PART_TOP], row + 1, row);
        if (z < low || z >= high) {
            int is_above = z == (WRAPS(1) ? 0 : high);
            int k = atomicAdd(&part[PART_LEFT + is_above], 1);
            if (k < room) {
                (is_above ? high_places : low_places)[k] = p;
                (is_above ? high_velocities : low_velocities)[k] = new_velocities[row];
#if AHEAD
                (is_above ? high_drags : low_drags)[k] = new_drags[row];
#endif
            }
        }
    }
    TELL_MOVERS
}
