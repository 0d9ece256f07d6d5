/* Neighbours over particles sorted by cell (Rozen et al. 2008, section 2.3), whose cells may be shorter than the
   radius. The plain version, one thread per particle in the order of the cells:

       for each row of cells along x that touches the ball around i:
           for each particle j in the cells of the row that touch it:
               if |x[j] - x[i] + shift| < radius and it is not i: it is a neighbour

   for each image of the box. With RADII, each particle has a radius of its own, and the list of i holds the particles
   nearer than that of i, so that a pair may appear from one side. BLOCK threads per block. */
#include "common/shifts.h"

/* The cells along an axis that a range may touch: the last is before the first if there are none. */
__device__ __forceinline__ int2 cells_between(GLOBAL const Grid *grid, int axis, float from, float to)
{
    const float first = floorf((from - grid->low[axis]) * grid->inverse_cell[axis]);
    const float last = floorf((to - grid->low[axis]) * grid->inverse_cell[axis]);
    const float most = (float)(grid->cells[axis] - 1);
    if (last < 0.0f || first > most)
        return make_int2(0, -1);
    return make_int2((int)fmaxf(first, 0.0f), (int)fminf(last, most));
}

/* The least distance along an axis to a cell. */
__device__ __forceinline__ float gap(GLOBAL const Grid *grid, int axis, int cell, float at, float slack)
{
    const float edge = grid->size[axis] / grid->cells[axis], low = fmaf((float)cell, edge, grid->low[axis]);
    return fmaxf(fmaxf(low - at, at - low - edge) - slack, 0.0f);
}

/* Count the neighbours of each particle or, if `fills`, list them at the offsets from the counts. positions: in the
   order of the cells. slack bounds the rounding of coordinates. */
__global__ void search(GLOBAL const Grid *__restrict__ grid, int particles, GLOBAL const int *__restrict__ start,
                       GLOBAL const int *__restrict__ order, GLOBAL const float4 *__restrict__ positions, float cutoff,
                       GLOBAL const float *__restrict__ radii, float slack, GLOBAL int *__restrict__ counts,
                       GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity,
                       int fills)
{
    const int own = blockIdx.x * BLOCK + threadIdx.x;
    if (own >= particles)
        return;
    const int particle = order[own];
    const float4 p = positions[own];
    const float radius = RADII ? radii[particle] : cutoff, reach = radius + slack, radius2 = radius * radius;
    const int64 place = fills ? offsets[particle] : 0;
    int found = 0;
    for (int image = FIRST_IMAGE; image <= LAST_IMAGE; ++image) {
        const float4 shift = shift_of(grid, image);
        const float4 at = make_float4(p.x - shift.x, p.y - shift.y, p.z - shift.z, 0.0f);
        const int2 y = cells_between(grid, 1, at.y - reach, at.y + reach);
        const int2 z = cells_between(grid, 2, at.z - reach, at.z + reach);
        if (!is_image(grid, image))
            continue;
        for (int k = z.x; k <= z.y; ++k) {
            const float gap_z = gap(grid, 2, k, at.z, slack);
            for (int i = y.x; i <= y.y; ++i) {
                const float gap_y = gap(grid, 1, i, at.y, slack);
                const float left = fmaf(reach, reach, -fmaf(gap_y, gap_y, gap_z * gap_z));
                const float half_width = fmaf(sqrt_about(fmaxf(left, 0.0f)), 1.000001f, slack);
                if (left < 0.0f)
                    continue;
                const int2 x = cells_between(grid, 0, at.x - half_width, at.x + half_width);
                const int row = cell_number(grid, 0, i, k), stop = start[row + x.y + 1];
                for (int j = start[row + x.x]; j < stop; ++j) {
                    if (j == own || !is_near(p, positions[j], shift.x, shift.y, shift.z, radius2))
                        continue;
                    if (fills && place + found < capacity)
                        neighbours[place + found] = order[j];
                    ++found;
                }
            }
        }
    }
    if (!fills)
        counts[particle] = found;
}
