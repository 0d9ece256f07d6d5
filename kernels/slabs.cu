/* Kernels for ranks that share a box by planes of cells: migrants, and starts of planes; from
   `cells_of_held` on those of steps in which no host takes part (common/part.h).

   One thread per particle or entry. Particles have one or two COLUMNS; with HALO_COLUMN the last travels with
   the edges' places. MARKED: coarse positions are laid too (common/coarse.h). */
#include "common/box.h"
#include "common/coarse.h"
#include "common/part.h"

#if COLUMNS > 1
#define LAST_COLUMN second
#else
#define LAST_COLUMN velocities
#endif

/* The cell of each particle. */
__global__ void cells_of_part(GLOBAL const uint4 *__restrict__ places,
                              GLOBAL int *__restrict__ cell_of, GLOBAL const Box *__restrict__ box,
                              int low, int high, int held, int rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < rows)
        cell_of[i] = cell_in_part(places, box, low, high, held, i);
}

/* The coarse positions of rows that no sort has written, as in sph.cu. */
__global__ void coarsen(GLOBAL const uint4 *__restrict__ places, GLOBAL const Box *__restrict__ box,
                        int first, int last, GLOBAL unsigned *__restrict__ coarse)
{
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i < last)
        coarse[i] = coarse_of(box, places[i]);
}

/* Collect migrants from the planes from `low` to before `high`, and count them: to the plane `above`
   in the upper half of the output, to the one below in the lower, `room` rows each. Particles have
   one or two columns. */
__global__ void find_leavers(GLOBAL const uint4 *__restrict__ places,
                             GLOBAL const float4 *__restrict__ first_column,
                             GLOBAL const float4 *__restrict__ second_column,
                             GLOBAL const Box *__restrict__ box, int low, int high, int above,
                             int first, int last, int room,
                             GLOBAL uint4 *__restrict__ leaving_places,
                             GLOBAL float4 *__restrict__ leaving_first,
                             GLOBAL float4 *__restrict__ leaving_second,
                             GLOBAL int *__restrict__ leaving)
{
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i >= last)
        return;
    uint4 p = places[i];
    int z = cell_at(box, 2, p.z);
    if (z >= low && z < high)
        return;
    int side = z == above;
    int k = atomicAdd(&leaving[side], 1);
    if (k < room) {
        leaving_places[side * room + k] = p;
        leaving_first[side * room + k] = first_column[i];
#if COLUMNS > 1
        leaving_second[side * room + k] = second_column[i];
#endif
    }
}

/* The start of each plane, and the end of the last. */
__global__ void plane_starts(GLOBAL const int *__restrict__ start, int plane, int first, int count,
                             GLOBAL int *__restrict__ found)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < count)
        found[k] = start[(first + (int)k) * plane];
}

/* Copy cell starts, shifted by `shift` rows. */
__global__ void lay_starts(GLOBAL const int *__restrict__ source, int from,
                           GLOBAL int *__restrict__ target, int to, int count, int shift)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < count)
        target[to + (int)k] = source[from + (int)k] + shift;
}

/* As `cells_of_part`, for as many rows as the part holds. */
__global__ void cells_of_held(GLOBAL const uint4 *__restrict__ places,
                              GLOBAL int *__restrict__ cell_of, GLOBAL const Box *__restrict__ box,
                              GLOBAL const int *__restrict__ part, int rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < rows)
        cell_of[i] =
            cell_in_part(places, box, part[PART_LOW], part[PART_TOP], part[PART_HELD], i);
}

/* Gather the sorted particles from row `edge` on, lay the starts of their cells, and note the rows of
   the part and the starts of its planes. For each side `per_side` blocks gather its edge plane, and write it
   into the neighbour's memory: up to `room` rows, and the starts of the cells from the first row. They are
   spread over the first half of the launch, so that others compute while these wait for that memory. May
   anything rise out of the sorted planes, none may be in their uppermost. With ONCE, forces become 0. */
__global__ void arrange(FLAGS, GLOBAL const int *__restrict__ start,
                        GLOBAL const int *__restrict__ order,
                        GLOBAL const uint4 *__restrict__ places,
                        GLOBAL const float4 *__restrict__ velocities,
#if COLUMNS > 1
                        GLOBAL const float4 *__restrict__ second,
#endif
                        GLOBAL const Box *__restrict__ box, int edge, int room, int per_side,
                        GLOBAL int *part, GLOBAL int *__restrict__ found,
                        GLOBAL int *__restrict__ cells, GLOBAL uint4 *__restrict__ sorted_places,
                        GLOBAL float4 *__restrict__ sorted_velocities,
#if COLUMNS > 1
                        GLOBAL float4 *__restrict__ sorted_second,
#endif
                        GLOBAL unsigned *__restrict__ coarse,
#if HALO_COLUMN
                        GLOBAL float4 *__restrict__ force, GLOBAL uint4 *low_rows,
                        GLOBAL float4 *low_column, GLOBAL int *low_starts, GLOBAL uint4 *high_rows,
                        GLOBAL float4 *high_column, GLOBAL int *high_starts)
#else
                        GLOBAL uint4 *low_rows, GLOBAL int *low_starts, GLOBAL uint4 *high_rows,
                        GLOBAL int *high_starts)
#endif
{
    int plane = (int)(box->cells[0] * box->cells[1]), base = part[PART_LOW] * plane;
    int ends = part[PART_TOP] * plane - base, owned = start[ends], highest = start[ends - plane];
    int low = HAS_SIDE(0) ? start[plane] : 0, high = HAS_SIDE(1) ? highest : owned;
    int last = max(low, high), row = owned;
    int each = max((int)gridDim.x / (4 * per_side), 1), edges = (int)blockIdx.x / each;
    if ((int)blockIdx.x % each == 0 && edges < 2 * per_side) {
        int side = edges >= per_side, k = (edges - side * per_side) * BLOCK + (int)threadIdx.x;
        if (HAS_SIDE(side)) {
            int from = side ? ends - plane : 0, begin = start[from];
            int count = start[from + plane] - begin;
            if (k < count)
                row = begin + k;
            if (k < min(count, room)) {
                (side ? high_rows : low_rows)[k] = places[order[row]];
#if HALO_COLUMN
                (side ? high_column : low_column)[k] = LAST_COLUMN[order[row]];
#endif
            }
            if (k <= plane)
                (side ? high_starts : low_starts)[k] = min(start[from + k] - begin, min(count, room));
            if (side && row < last)
                row = owned; /* a single plane, which the lower side gathers */
        }
        if (is_last(&part[PART_SENT + EDGES], 2 * per_side)) {
            TELL(EDGES)
        }
    } else {
        int k = ((int)blockIdx.x - min(edges + 1, 2 * per_side)) * BLOCK + (int)threadIdx.x;
        if (k == 0) {
            int first = edge + low;
            part[PART_OWNED] = owned;
            part[PART_BEGIN] = edge;
            part[PART_INNER] = first;
            part[PART_MIDDLE] = max(first, ((first + edge + last) / 2) & -32);
            part[PART_LAST] = edge + last;
            part[PART_END] = edge + owned;
            part[PART_UPPER] = edge + high;
            int fault = low > room || owned - high > room ? PART_CROWDED : 0;
            if (part[PART_TOP] < part[PART_HIGH] && highest < owned)
                fault |= PART_ROSE;
            if (fault)
                atomicOr(&part[PART_FAULT], fault);
        }
        if (k <= ends) {
            cells[base + k] = start[k] + edge;
            if (k % plane == 0)
                found[k / plane] = start[k];
        }
        if (k >= low && k < last)
            row = k;
    }
    if (row < owned) {
        int i = order[row];
        uint4 p = places[i];
        sorted_places[edge + row] = p;
        sorted_velocities[edge + row] = velocities[i];
#if COLUMNS > 1
        sorted_second[edge + row] = second[i];
#endif
#if MARKED
        coarse[edge + row] = coarse_of(box, p);
#endif
#if ONCE
        force[edge + row] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
    }
}

/* Append the migrants that neighbours wrote here to the rows of the part, find their cells and those
   of the empty rows, and end the step. Any number of blocks. */
__global__ void take_movers(FLAGS, GLOBAL const uint4 *low_places,
                            GLOBAL const float4 *low_velocities,
#if COLUMNS > 1
                            GLOBAL const float4 *low_second,
#endif
                            GLOBAL const int *low_count, GLOBAL const uint4 *high_places,
                            GLOBAL const float4 *high_velocities,
#if COLUMNS > 1
                            GLOBAL const float4 *high_second,
#endif
                            GLOBAL const int *high_count, GLOBAL const Box *__restrict__ box,
                            int capacity, GLOBAL int *part, GLOBAL uint4 *places,
                            GLOBAL float4 *velocities,
#if COLUMNS > 1
                            GLOBAL float4 *second,
#endif
                            GLOBAL int *cell_of)
{
    uint64 begin = nanoseconds();
    int below = 0, above = 0;
    if (HAS_SIDE(0) && IS_HERE(MOVERS, low_flags))
        below = low_count[0];
    if (HAS_SIDE(1) && IS_HERE(MOVERS, high_flags))
        above = high_count[0];
    int waited = (int)(nanoseconds() - begin);
    int owned = part[PART_OWNED], held = owned + below + above, rows = min(held, capacity);
    int low = part[PART_LOW], top = part[PART_TOP];
    for (int row = owned + (int)(blockIdx.x * BLOCK + threadIdx.x); row < capacity;
         row += (int)gridDim.x * BLOCK) {
        int k = row - owned, side = k >= below;
        if (row < rows) {
            k -= side ? below : 0;
            places[row] = (side ? high_places : low_places)[k];
            velocities[row] = (side ? high_velocities : low_velocities)[k];
#if COLUMNS > 1
            second[row] = (side ? high_second : low_second)[k];
#endif
        }
        cell_of[row] = cell_in_part(places, box, low, top, rows, row);
    }
    if (!is_last(&part[PART_ENDED], (int)gridDim.x))
        return;
    if (held > capacity)
        part[PART_FAULT] |= PART_FULL;
    part[PART_HELD] = rows;
    part[PART_STAYED] = held - part[PART_LEFT] - part[PART_LEFT + 1];
    part[PART_WAITED + MOVERS] += waited;
    for (int k = 0; k < PART_ZEROS; ++k)
        part[PART_LEFT + k] = 0;
    turn[0] += 1;
}
