/* Which sorted particles may be neighbours of a given particle, and the distance test. PERIODIC, REACH: see
   neighbour_sorted_count.cu. */
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

__device__ __forceinline__ float square_distance(float4 p, float4 q)
{
    const float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
    return fmaf(dz, dz, fmaf(dy, dy, dx * dx));
}

/* The shift is added to the difference, not to a position: (a - b) + s and (b - a) - s round alike, so that pairs
   are symmetric. A shift of 0 changes no square. */
__device__ __forceinline__ float square_distance_of_image(float4 p, float4 q, float shift_x, float shift_y,
                                                          float shift_z)
{
#if PERIODIC
    const float dx = q.x - p.x + shift_x, dy = q.y - p.y + shift_y, dz = q.z - p.z + shift_z;
    return fmaf(dz, dz, fmaf(dy, dy, dx * dx));
#else
    return square_distance(p, q);
#endif
}

__device__ __forceinline__ int is_near(float4 p, float4 q, float shift_x, float shift_y,
                                       float shift_z, float cutoff2)
{
    return square_distance_of_image(p, q, shift_x, shift_y, shift_z) < cutoff2;
}

#ifdef STEP
/* Squared distances minus the squared cutoff: negative for neighbours. Few rows are images, so most rows add no
   shift. */
__device__ __forceinline__ void excesses(float4 p, const float4 *q, float shift_x, float shift_y, float shift_z,
                                         float cutoff2, float *over)
{
    if (PERIODIC && (shift_x != 0.0f || shift_y != 0.0f || shift_z != 0.0f)) {
#pragma unroll
        for (int k = 0; k < STEP; ++k)
            over[k] = square_distance_of_image(p, q[k], shift_x, shift_y, shift_z) - cutoff2;
    } else {
#pragma unroll
        for (int k = 0; k < STEP; ++k)
            over[k] = square_distance(p, q[k]) - cutoff2;
    }
}
#endif

/* The candidates of a particle in a row of cells. Successive cells along x are one stretch of the
   sorted particles; a row that continues past a periodic end has a second stretch. */
typedef struct Stretch {
    int begin, end, far_begin, far_end;
} Stretch;

__device__ __forceinline__ int length_of(Stretch s)
{
    return s.end - s.begin + (PERIODIC ? s.far_end - s.far_begin : 0);
}

/* Least distance of a particle to the cells before it along an axis, and to the cells behind it.
   `slack` bounds the rounding error of a distance. */
__device__ __forceinline__ void gaps(GLOBAL const Grid *grid, int axis, int cell, float coordinate,
                                     float slack, float *before, float *behind)
{
    float edge = grid->size[axis] / grid->cells[axis];
    float inside = fmaf(-(float)cell, edge, coordinate - grid->low[axis]);
    *before = fmaxf(inside - slack, 0.0f);
    *behind = fmaxf(edge - inside - slack, 0.0f);
}

/* The position of a particle along x, in cells, shared by all rows of cells around it. */
typedef struct Along {
    float at, per_width, margin;
    int cells;
} Along;

__device__ __forceinline__ void set_along(Along *a, GLOBAL const Grid *grid, float x, float slack)
{
    const float per_edge = grid->inverse_cell[0];
    a->at = __fmul_rn(x - grid->low[0], per_edge);
    a->per_width = 1.000001f * per_edge;
    a->margin = slack * per_edge;
    a->cells = grid->cells[0];
}

/* The range of cells to search in a row at squared distance `gap2`. Cells may be short along x, so it is clipped to
   the ball around the particle. Its ends, computed in units of cells, round differently from the particles' own cell
   numbers; `slack` covers both errors. In a periodic row the range extends at most REACH cells (together at least the
   cutoff), so that it never includes a cell whose image is nearer. */
__device__ __forceinline__ void set_stretch(Stretch *s, GLOBAL const Grid *grid, GLOBAL const int *start,
                                            int row, const Along *x, float gap2, float cutoff2)
{
    s->begin = s->end = s->far_begin = s->far_end = 0;
    const float left = fmaf(cutoff2, 1.000001f, -gap2);
    const float half_width = fmaf(sqrt_about(left), x->per_width, x->margin);
    const float begin = x->at - half_width, end = x->at + half_width;
    int first = max(0, min(x->cells - 1, (int)floorf(begin))), last = max(0, min(x->cells - 1, (int)floorf(end)));
    if (left < 0.0f)
        return;
#if PERIODIC
    if (grid->periodic[0]) {
        const int own = max(0, min(x->cells - 1, (int)floorf(x->at)));
        int far_first = 0, far_last = -1;
        first = max(first, own - REACH);
        last = min(last, own + REACH);
        if (own < REACH) {
            far_first = max(min((int)floorf(begin + (float)x->cells), x->cells - 1), own - REACH + x->cells);
            far_last = begin < 0.0f ? x->cells - 1 : -1;
        } else if (own >= x->cells - REACH) {
            far_last = end >= (float)x->cells ? min((int)floorf(end - (float)x->cells), own + REACH - x->cells) : -1;
        }
        if (far_first <= far_last) {
            s->far_begin = start[row + far_first];
            s->far_end = (start + 1)[row + far_last];
        }
    }
#endif
    s->begin = start[row + first];
    s->end = (start + 1)[row + last];
}

#endif
