/* Lesson 5 of the neighbour count: each row ends where the sphere of the cutoff leaves it. The gaps from the particle
   to the walls of its cell along y and z say how far off a row is; what is left of the cutoff is half the length of its
   range in start, so far rows are short, and rows out of reach are skipped. See common/stretch.h, whose PERIODIC and
   REACH these are; slack bounds the rounding errors.

   What ships (neighbour_sorted_count.cu) also loads the ends of three rows at once, and two candidates at a time, and
   adds up the signs of distances less the cutoff in place of branching.

   One thread per particle, in the order of the cells. */
#include "common/stretch.h"

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                      float slack, int particles, GLOBAL int *__restrict__ counts)
{
    const unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    const int y = cell_along(grid, 1, p.y), z = cell_along(grid, 2, p.z);
    float gap_y[3] = {0.0f, 0.0f, 0.0f}, gap_z[3] = {0.0f, 0.0f, 0.0f};
    gaps(grid, 1, y, p.y, slack, &gap_y[0], &gap_y[2]);
    gaps(grid, 2, z, p.z, slack, &gap_z[0], &gap_z[2]);
    Along along;
    set_along(&along, grid, p.x, slack);
    int found = -1; /* without the particle itself */
#pragma unroll
    for (int row = 0; row < 9; ++row) {
        float shift_y, shift_z;
        const int near_y = neighbour_cell(grid, 1, y + row % 3 - 1, &shift_y);
        const int near_z = neighbour_cell(grid, 2, z + row / 3 - 1, &shift_z);
        if (near_y < 0 || near_z < 0)
            continue;
        Stretch s;
        const float gap2 = fmaf(gap_y[row % 3], gap_y[row % 3], gap_z[row / 3] * gap_z[row / 3]);
        set_stretch(&s, grid, start, cell_number(grid, 0, near_y, near_z), &along, gap2, cutoff2);
        for (int k = s.begin; k < s.end; ++k)
            found += is_near(p, positions[k], 0.0f, shift_y, shift_z, cutoff2);
        const float shift_x = s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
        for (int k = s.far_begin; PERIODIC && k < s.far_end; ++k)
            found += is_near(p, positions[k], shift_x, shift_y, shift_z, cutoff2);
    }
    counts[order[slot]] = found;
}
