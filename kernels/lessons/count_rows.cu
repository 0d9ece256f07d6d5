/* Lesson 3 of the neighbour count: nine rows in place of 27 cells. Cells are numbered along x first, so the cells from
   x - REACH to x + REACH of a row are one range of positions: two loads of start in place of six, and one long loop in
   place of three short ones. A row that continues past a periodic end has a second range.

   Lesson 4 runs the same kernel over cells cut in REACH parts along x, which are a REACH-th of the cutoff long: a row
   is 2 + 1 / REACH cutoffs long in place of 3, so that fewer candidates are out of reach.

   One thread per particle, in the order of the cells. PERIODIC: see common/stretch.h. */
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
    const int along = grid->cells[0], first = x - REACH, last = x + REACH;
    int found = -1; /* without the particle itself */
    for (int row = 0; row < 9; ++row) {
        float shift_y, shift_z;
        const int near_y = neighbour_cell(grid, 1, y + row % 3 - 1, &shift_y);
        const int near_z = neighbour_cell(grid, 2, z + row / 3 - 1, &shift_z);
        if (near_y < 0 || near_z < 0)
            continue;
        GLOBAL const int *const begins = start + cell_number(grid, 0, near_y, near_z);
        for (int k = begins[max(first, 0)]; k < begins[min(last, along - 1) + 1]; ++k)
            found += is_near(p, positions[k], 0.0f, shift_y, shift_z, cutoff2);
#if PERIODIC
        if (grid->periodic[0] && first < 0)
            for (int k = begins[first + along]; k < begins[along]; ++k)
                found += is_near(p, positions[k], -grid->size[0], shift_y, shift_z, cutoff2);
        if (grid->periodic[0] && last >= along)
            for (int k = begins[0]; k < begins[last - along + 1]; ++k)
                found += is_near(p, positions[k], grid->size[0], shift_y, shift_z, cutoff2);
#endif
    }
    counts[order[slot]] = found;
}
