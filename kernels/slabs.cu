/* What ranks need that share a box by planes of cells: who leaves, and where planes begin.

   One thread a particle or an entry. */
#include "common/box.h"

/* The cell of each particle from `first` to `rows`. Of those up to `owned`, who is in a plane of
   another rank, below `low` or from `high` on, goes into the lower or the upper half of the
   leavers, `room` rows each, and is counted. Who has left, and rows that hold nobody, are in cells
   past the last, spread over a plane of them. */
__global__ void cells_of_part(GLOBAL const uint4 *__restrict__ places,
                              GLOBAL const float4 *__restrict__ velocities,
                              GLOBAL int *__restrict__ cell_of, GLOBAL const Box *__restrict__ box,
                              int low, int high, int first, int owned, int rows, int room,
                              GLOBAL uint4 *__restrict__ leaving_places,
                              GLOBAL float4 *__restrict__ leaving_velocities,
                              GLOBAL int *__restrict__ leaving)
{
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int plane = (int)(box->cells[0] * box->cells[1]);
    int nowhere = plane * (int)box->cells[2] + (int)(i % plane);
    if (i >= owned) {
        cell_of[i] = nowhere;
        return;
    }
    uint4 p = places[i];
    int z = cell_at(box, 2, p.z);
    if (z >= low && z < high) {
        cell_of[i] = cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), z);
        return;
    }
    cell_of[i] = nowhere;
    int side = z >= high;
    int k = atomicAdd(&leaving[side], 1);
    if (k < room) {
        leaving_places[side * room + k] = p;
        leaving_velocities[side * room + k] = velocities[i];
    }
}

/* Where planes begin: of each from the first, and the end of the last. */
__global__ void plane_starts(GLOBAL const int *__restrict__ start, int plane, int first, int count,
                             GLOBAL int *__restrict__ found)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < count)
        found[k] = start[(first + (int)k) * plane];
}

/* Copy where cells begin, for particles that are `shift` rows further on. */
__global__ void lay_starts(GLOBAL const int *__restrict__ source, int from,
                           GLOBAL int *__restrict__ target, int to, int count, int shift)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < count)
        target[to + (int)k] = source[from + (int)k] + shift;
}
