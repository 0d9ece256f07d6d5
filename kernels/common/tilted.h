/* The rows of cells around a particle in a brick that repeats along vectors which are the rows of a lower triangular
   matrix: beyond its last layer along z it follows again, moved by the third vector, beyond its last row along y by the
   second. Along x it is a ring. A particle is moved to each row, not the row to it: coordinates and vectors are whole
   steps, at most 2^24 from the middle, so all of this is exact. REACH: cells along x that are at least the cutoff. */
#ifndef GPUBENCH_COMMON_TILTED_H
#define GPUBENCH_COMMON_TILTED_H
#include "common/stretch.h"

/* The layout of TILT_DTYPE in gpubench/neighbours/tilted.py. */
typedef struct Tilt {
    int low[3]; /* the corner of the brick */
    int a, b[2], c[3];
} Tilt;

/* The three rows in a layer: where the particle is to them, its cell, and its distance from the others. */
typedef struct Layer {
    float x, y, z, gap, before, behind;
    int cell_y, cell_z;
} Layer;

/* The candidates in a row, and the particle as it is to the first stretch; to the second, x is far_x. */
typedef struct TiltedRow {
    Stretch stretch;
    float x, y, z, far_x;
} TiltedRow;

/* 1 for cells before the first one, -1 for those past the last. */
__device__ __forceinline__ int turns_of(int cell, int cells)
{
    return cell < 0 ? 1 : cell >= cells ? -1 : 0;
}

/* The coordinate in the ring of one that is given from the corner, at most twice around it. */
__device__ __forceinline__ float in_ring(GLOBAL const Tilt *tilt, int x)
{
    for (int k = 0; k < 2; ++k)
        x += x < 0 ? tilt->a : x > tilt->a ? -tilt->a : 0;
    return (float)(x + tilt->low[0]);
}

__device__ __forceinline__ void set_layer(Layer *l, GLOBAL const Grid *grid, GLOBAL const Tilt *tilt, float4 p, int dz,
                                          float slack)
{
    const int own = cell_along(grid, 2, p.z), turns = turns_of(own + dz, grid->cells[2]);
    gaps(grid, 2, own, p.z, slack, &l->before, &l->behind);
    l->gap = dz < 0 ? l->before : dz > 0 ? l->behind : 0.0f;
    l->cell_z = own + dz + turns * grid->cells[2];
    l->x = p.x;
    l->y = p.y;
    l->z = p.z;
    if (turns) {
        const int y = (int)p.y - tilt->low[1] + turns * tilt->c[1], back = y < 0 ? 1 : y > tilt->b[1] ? -1 : 0;
        l->x = in_ring(tilt, (int)p.x - tilt->low[0] + turns * tilt->c[0] + back * tilt->b[0]);
        l->y = (float)(y + back * tilt->b[1] + tilt->low[1]);
        l->z = (float)((int)p.z + turns * tilt->c[2]);
    }
    l->cell_y = cell_along(grid, 1, l->y);
    gaps(grid, 1, l->cell_y, l->y, slack, &l->before, &l->behind);
}

__device__ __forceinline__ void set_row(TiltedRow *row, const Layer *l, GLOBAL const Grid *grid,
                                        GLOBAL const Tilt *tilt, GLOBAL const int *start, int dy, float cutoff2,
                                        float slack)
{
    const int turns = turns_of(l->cell_y + dy, grid->cells[1]), cells = grid->cells[0];
    row->x = l->x;
    row->y = l->y;
    if (turns) {
        row->x = in_ring(tilt, (int)l->x - tilt->low[0] + turns * tilt->b[0]);
        row->y = (float)((int)l->y + turns * tilt->b[1]);
    }
    row->far_x = row->x;
    row->z = l->z;
    Stretch *s = &row->stretch;
    s->begin = s->end = s->far_begin = s->far_end = 0;
    /* As set_stretch clips a row to the ball around the particle. */
    const float gap = dy < 0 ? l->before : dy > 0 ? l->behind : 0.0f, per_edge = grid->inverse_cell[0];
    const float left = fmaf(cutoff2, 1.000001f, -fmaf(gap, gap, l->gap * l->gap));
    const float at = __fmul_rn(row->x - grid->low[0], per_edge);
    const float half_width = fmaf(sqrt_about(left), 1.000001f * per_edge, slack * per_edge);
    const int own = max(0, min(cells - 1, (int)floorf(at)));
    const int first = max((int)floorf(at - half_width), own - REACH);
    const int last = min((int)floorf(at + half_width), own + REACH);
    if (left < 0.0f)
        return;
    GLOBAL const int *begin = start + cell_number(grid, 0, l->cell_y + dy + turns * grid->cells[1], l->cell_z);
    s->begin = begin[max(first, 0)];
    s->end = begin[min(last, cells - 1) + 1];
    if (first < 0) {
        s->far_begin = begin[first + cells];
        s->far_end = begin[cells];
        row->far_x = (float)((int)row->x + tilt->a);
    } else if (last >= cells) {
        s->far_begin = begin[0];
        s->far_end = begin[last - cells + 1];
        row->far_x = (float)((int)row->x - tilt->a);
    }
}

#endif
