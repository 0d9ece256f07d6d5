/* Neighbours of each particle within the cutoff over linked lists (`head` and `next`): 27 cells, exact
   distance test, strictly nearer. One thread per particle, in input order. Otherwise as in
   neighbour_sorted_count.cu and neighbour_bitmask_list.cu. `fill` repeats the distance tests of `count`. A
   cell is at least as long as the cutoff. COUNT_BLOCK, FILL_BLOCK: threads per block. */
#include "common/stretch.h"

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ head,
                      GLOBAL const int *__restrict__ next, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, int particles, GLOBAL int *__restrict__ counts)
{
    unsigned i = blockIdx.x * COUNT_BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float4 p = positions[i];
    int cx = cell_along(grid, 0, p.x), cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float shift_x, shift_y, shift_z;
    int found = 0;
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_cell(grid, 2, cz + dz, &shift_z);
        for (int dy = -1; dy <= 1; ++dy) {
            int y = neighbour_cell(grid, 1, cy + dy, &shift_y);
            for (int dx = -1; dx <= 1; ++dx) {
                int x = neighbour_cell(grid, 0, cx + dx, &shift_x);
                if (x < 0 || y < 0 || z < 0)
                    continue;
                for (int j = head[cell_number(grid, x, y, z)]; j >= 0; j = next[j])
                    if (is_near(p, positions[j], shift_x, shift_y, shift_z, cutoff2) && j != (int)i)
                        ++found;
            }
        }
    }
    counts[i] = found;
}

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ head,
                     GLOBAL const int *__restrict__ next, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity)
{
    unsigned i = blockIdx.x * FILL_BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float4 p = positions[i];
    int cx = cell_along(grid, 0, p.x), cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float shift_x, shift_y, shift_z;
    int found = 0;
    int64 place = offsets[i];
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_cell(grid, 2, cz + dz, &shift_z);
        for (int dy = -1; dy <= 1; ++dy) {
            int y = neighbour_cell(grid, 1, cy + dy, &shift_y);
            for (int dx = -1; dx <= 1; ++dx) {
                int x = neighbour_cell(grid, 0, cx + dx, &shift_x);
                if (x < 0 || y < 0 || z < 0)
                    continue;
                for (int j = head[cell_number(grid, x, y, z)]; j >= 0; j = next[j]) {
                    if (is_near(p, positions[j], shift_x, shift_y, shift_z, cutoff2) && j != (int)i) {
                        if (place + found < capacity)
                            neighbours[place + found] = j;
                        ++found;
                    }
                }
            }
        }
    }
}
