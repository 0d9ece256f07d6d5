/* Lesson 2 of the neighbour count: one thread per particle, in the order of the cells. positions are sorted by cell, so
   the threads of a warp have the same cells around them: their candidates come from the cache, at successive
   addresses, and order is read once, to write the count of the particle in this slot. PERIODIC: see
   common/stretch.h. */
#include "common/stretch.h"

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                      int particles, GLOBAL int *__restrict__ counts)
{
    const unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    const int x = cell_along(grid, 0, p.x), y = cell_along(grid, 1, p.y), z = cell_along(grid, 2, p.z);
    int found = 0;
    for (int around = 0; around < 27; ++around) {
        float shift_x, shift_y, shift_z;
        const int near_x = neighbour_cell(grid, 0, x + around % 3 - 1, &shift_x);
        const int near_y = neighbour_cell(grid, 1, y + around / 3 % 3 - 1, &shift_y);
        const int near_z = neighbour_cell(grid, 2, z + around / 9 - 1, &shift_z);
        if (near_x < 0 || near_y < 0 || near_z < 0)
            continue;
        const int cell = cell_number(grid, near_x, near_y, near_z);
        for (int k = start[cell]; k < start[cell + 1]; ++k)
            found += k != (int)slot && is_near(p, positions[k], shift_x, shift_y, shift_z, cutoff2);
    }
    counts[order[slot]] = found;
}
