/* Which sorted particles may be neighbours of one, and which are. PERIODIC, REACH: see neighbour_count.cu. */
#ifndef GPUBENCH_COMMON_STRETCH_H
#define GPUBENCH_COMMON_STRETCH_H
#include "common/grid.h"

/* Coordinate of a neighbouring cell, or -1 outside an open box. Along a periodic axis it wraps,
   and `shift` is what to add to a difference of coordinates to reach the image. */
__device__ __forceinline__ int neighbour_cell(GLOBAL const Grid *grid, int axis, int cell,
                                              float *shift)
{
    int last = grid->cells[axis] - 1;
    *shift = 0.0f;
    if (cell >= 0 && cell <= last)
        return cell;
    if (!PERIODIC || !grid->periodic[axis])
        return -1;
    *shift = cell < 0 ? -grid->size[axis] : grid->size[axis];
    return cell < 0 ? last : 0;
}

/* The shift is added to the difference, not to a position: (a - b) + s and (b - a) - s round
   alike, so that a pair is a pair from either side. */
__device__ __forceinline__ int is_near(float4 p, float4 q, float shift_x, float shift_y,
                                       float shift_z, float cutoff2)
{
    float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
#if PERIODIC
    dx += shift_x;
    dy += shift_y;
    dz += shift_z;
#endif
    return fmaf(dz, dz, fmaf(dy, dy, dx * dx)) < cutoff2;
}

/* What of a row of cells may be neighbours of a particle. Cells that follow each other along x are
   one stretch of the sorted particles; past the end of a periodic row there is another. */
typedef struct Stretch {
    int begin, end, far_begin, far_end;
} Stretch;

__device__ __forceinline__ int length_of(Stretch s)
{
    return s.end - s.begin + (PERIODIC ? s.far_end - s.far_begin : 0);
}

/* How far a particle is, at least, from the cells before it along an axis, and from those behind.
   `slack` is what rounding may have taken from a distance. */
__device__ __forceinline__ void gaps(GLOBAL const Grid *grid, int axis, int cell, float coordinate,
                                     float slack, float *before, float *behind)
{
    float edge = grid->size[axis] / grid->cells[axis];
    float inside = fmaf(-(float)cell, edge, coordinate - grid->low[axis]);
    *before = fmaxf(inside - slack, 0.0f);
    *behind = fmaxf(edge - inside - slack, 0.0f);
}

/* The stretch of a row that is `gap2` away, squared: cells may be short along x, so the row is cut
   where the ball about the particle ends. Positions, and the ends of the ball, go through the same
   rounding to cells, which keeps their order: only `half_width` has to be large enough. Along a
   periodic row it must not reach a cell whose image is the nearer one: no further than REACH cells,
   which are as long as the cutoff. */
__device__ __forceinline__ Stretch stretch_of(GLOBAL const Grid *grid, GLOBAL const int *start, int row,
                                              float x, float gap2, float cutoff2, float slack)
{
    Stretch s = {0, 0, 0, 0};
    float left = fmaf(cutoff2, 1.000001f, -gap2);
    float half_width = fmaf(sqrt_about(fmaxf(left, 0.0f)), 1.000001f, slack);
    int first = cell_along(grid, 0, x - half_width), last = cell_along(grid, 0, x + half_width);
    if (left < 0.0f)
        return s;
#if PERIODIC
    if (grid->periodic[0]) {
        float low = grid->low[0], size = grid->size[0];
        int cells = grid->cells[0], own = cell_along(grid, 0, x), far_first = 0, far_last = -1;
        first = max(first, own - REACH);
        last = min(last, own + REACH);
        if (own < REACH) {
            far_first = max(cell_along(grid, 0, x - half_width + size), own - REACH + cells);
            far_last = x - half_width < low ? cells - 1 : -1;
        } else if (own >= cells - REACH) {
            far_last = x + half_width >= low + size
                           ? min(cell_along(grid, 0, x + half_width - size), own + REACH - cells)
                           : -1;
        }
        if (far_first <= far_last) {
            s.far_begin = start[row + far_first];
            s.far_end = start[row + far_last + 1];
        }
    }
#endif
    s.begin = start[row + first];
    s.end = start[row + last + 1];
    return s;
}

#endif
