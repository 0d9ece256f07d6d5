/* Kernels for ranks that share a box by planes of cells: migrants, and starts of planes; from
   `cells_of_held` on those of steps in which no host takes part (common/part.h).

   One thread per particle or entry. */
#include "common/box.h"
#include "common/coarse.h"
#include "common/part.h"

/* The cell of a row, relative to the plane `low`. Rows from `held` on are empty, and particles below
   `low` or from `high` on belong to another rank: they go to cells past the last plane, spread over
   one more plane. */
__device__ __forceinline__ int cell_in_part(GLOBAL const uint4 *places, GLOBAL const Box *box,
                                            int low, int high, int held, unsigned i)
{
    int plane = (int)(box->cells[0] * box->cells[1]);
    if (i < held) {
        uint4 p = places[i];
        int z = cell_at(box, 2, p.z);
        if (z >= low && z < high)
            return cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), z - low);
    }
    return plane * (high - low) + (int)(i % plane);
}

/* The cell of each particle. */
__global__ void cells_of_part(GLOBAL const uint4 *__restrict__ places,
                              GLOBAL int *__restrict__ cell_of, GLOBAL const Box *__restrict__ box,
                              int low, int high, int held, int rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < rows)
        cell_of[i] = cell_in_part(places, box, low, high, held, i);
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
                              GLOBAL const int *__restrict__ part, int low, int high, int rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < rows)
        cell_of[i] = cell_in_part(places, box, low, high, part[PART_HELD], i);
}

/* Gather the sorted particles from row `edge` on, lay the starts of their cells from `base` on, and
   note the rows of the part and the starts of its planes. May anything rise out of the sorted
   planes, `rises`, none may be in their uppermost. */
__global__ void arrange(GLOBAL const int *__restrict__ start, GLOBAL const int *__restrict__ order,
                        GLOBAL const uint4 *__restrict__ places,
                        GLOBAL const float4 *__restrict__ velocities,
                        GLOBAL const Box *__restrict__ box, int planes, int base, int edge,
                        int room, int sides, int rises, GLOBAL int *__restrict__ part,
                        GLOBAL int *__restrict__ leaving, GLOBAL int *__restrict__ found,
                        GLOBAL int *__restrict__ cells, GLOBAL uint4 *__restrict__ sorted_places,
                        GLOBAL float4 *__restrict__ sorted_velocities,
                        GLOBAL unsigned *__restrict__ coarse)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    int plane = (int)(box->cells[0] * box->cells[1]), ends = plane * planes, owned = start[ends];
    if (k == 0) {
        int upper = owned - start[ends - plane];
        int low = HAS_SIDE(0) ? start[plane] : 0, high = HAS_SIDE(1) ? upper : 0;
        int first = edge + low, last = max(first, edge + owned - high);
        part[PART_OWNED] = owned;
        part[PART_BEGIN] = edge;
        part[PART_INNER] = first;
        part[PART_MIDDLE] = max(first, ((first + last) / 2) & -32);
        part[PART_LAST] = last;
        part[PART_END] = edge + owned;
        if (low > room || high > room)
            part[PART_FAULT] |= PART_CROWDED;
        if (rises && upper > 0)
            part[PART_FAULT] |= PART_ROSE;
        leaving[0] = leaving[1] = 0;
    }
    if (k <= ends) {
        cells[base + (int)k] = start[k] + edge;
        if (k % plane == 0)
            found[k / plane] = start[k];
    }
    if (k < owned) {
        int i = order[k];
        uint4 p = places[i];
        sorted_places[edge + (int)k] = p;
        sorted_velocities[edge + (int)k] = velocities[i];
        coarse[edge + (int)k] = coarse_of(box, p);
    }
}

/* Write the rows of the edge planes into the neighbours' memory, `per_side` blocks for each side; with
   `first`, also the starts of their cells, from the first row. At most `room` rows. */
__global__ void send_edges(GLOBAL const uint4 *__restrict__ rows,
                           GLOBAL const int *__restrict__ start, int plane, int planes, int edge,
                           int room, int sides, int per_side, int first,
                           GLOBAL uint4 *__restrict__ low_rows, GLOBAL int *__restrict__ low_starts,
                           GLOBAL uint4 *__restrict__ high_rows,
                           GLOBAL int *__restrict__ high_starts)
{
    SIDE_AND_ITEM(side, k)
    if (!HAS_SIDE(side))
        return;
    int from = side ? plane * (planes - 1) : 0;
    int begin = start[from], count = min(start[from + plane] - begin, room);
    if (k < count)
        (side ? high_rows : low_rows)[k] = rows[edge + begin + k];
    if (first && k <= plane)
        (side ? high_starts : low_starts)[k] = min(start[from + k] - begin, count);
}

/* Copy what `send_edges` of the neighbours wrote here to the halo: before the rows of the part, and
   behind them. With `first`, rows are places, and the cells of the planes from before `low` and from
   `high` on are laid. */
__global__ void take_edges(GLOBAL const uint4 *__restrict__ low_rows,
                           GLOBAL const int *__restrict__ low_starts,
                           GLOBAL const uint4 *__restrict__ high_rows,
                           GLOBAL const int *__restrict__ high_starts,
                           GLOBAL const Box *__restrict__ box, int plane, int low, int high,
                           int edge, int sides, int per_side, int first, GLOBAL int *__restrict__ part,
                           GLOBAL int *__restrict__ cells, GLOBAL unsigned *__restrict__ coarse,
                           GLOBAL uint4 *__restrict__ rows)
{
    SIDE_AND_ITEM(side, k)
    if (!HAS_SIDE(side))
        return;
    GLOBAL const int *starts = side ? high_starts : low_starts;
    int count = min(starts[plane], edge), begin = side ? part[PART_END] : edge - count;
    if (k == 0 && starts[plane] > edge)
        part[PART_FAULT] |= PART_CROWDED;
    if (k < count) {
        uint4 row = (side ? high_rows : low_rows)[k];
        rows[begin + k] = row;
        if (first)
            coarse[begin + k] = coarse_of(box, row);
    }
    /* The end of the lower plane is the start of this rank's cells, which is already set. */
    if (first && k < plane + side)
        cells[(side ? high : low - 1) * plane + k] = begin + min(starts[k], count);
}

/* Tell the neighbours how many migrants were written to them. One block. */
__global__ void count_movers(GLOBAL const int *__restrict__ leaving, int room, int sides,
                             GLOBAL int *__restrict__ part, GLOBAL int *__restrict__ low_count,
                             GLOBAL int *__restrict__ high_count)
{
    if (threadIdx.x > 0)
        return;
    if (HAS_SIDE(0))
        low_count[0] = min(leaving[0], room);
    if (HAS_SIDE(1))
        high_count[0] = min(leaving[1], room);
    if (max(leaving[0], leaving[1]) > room)
        part[PART_FAULT] |= PART_CROWDED;
}

/* Append the migrants that neighbours wrote here to the rows of the part, and end the step. */
__global__ void take_movers(GLOBAL const uint4 *__restrict__ low_places,
                            GLOBAL const float4 *__restrict__ low_velocities,
                            GLOBAL const int *__restrict__ low_count,
                            GLOBAL const uint4 *__restrict__ high_places,
                            GLOBAL const float4 *__restrict__ high_velocities,
                            GLOBAL const int *__restrict__ high_count,
                            GLOBAL const int *__restrict__ leaving, int capacity, int sides,
                            int per_side, GLOBAL int *__restrict__ part,
                            GLOBAL uint4 *__restrict__ places,
                            GLOBAL float4 *__restrict__ velocities)
{
    SIDE_AND_ITEM(side, k)
    int below = HAS_SIDE(0) ? low_count[0] : 0, above = HAS_SIDE(1) ? high_count[0] : 0;
    int owned = part[PART_OWNED], held = owned + below + above;
    int row = owned + (side ? below : 0) + k;
    if (k < (side ? above : below) && row < capacity) {
        places[row] = (side ? high_places : low_places)[k];
        velocities[row] = (side ? high_velocities : low_velocities)[k];
    }
    if (side == 0 && k == 0) {
        if (held > capacity)
            part[PART_FAULT] |= PART_FULL;
        part[PART_HELD] = min(held, capacity);
        part[PART_STAYED] = held - leaving[0] - leaving[1];
    }
}
