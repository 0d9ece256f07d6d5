/* Kernels for ranks that share a box by planes of cells: migrants, and starts of planes.

   One thread per particle or entry. */
#include "common/box.h"

/* The cell of each particle, relative to the plane `low`. Rows from `held` on are empty, and
   particles below `low` or from `high` on belong to another rank: they go to cells past the last
   plane, spread over one more plane. */
__global__ void cells_of_part(GLOBAL const uint4 *__restrict__ places,
                              GLOBAL int *__restrict__ cell_of, GLOBAL const Box *__restrict__ box,
                              int low, int high, int held, int rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int plane = (int)(box->cells[0] * box->cells[1]);
    int cell = plane * (high - low) + (int)(i % plane);
    if (i < held) {
        uint4 p = places[i];
        int z = cell_at(box, 2, p.z);
        if (z >= low && z < high)
            cell = cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), z - low);
    }
    cell_of[i] = cell;
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
