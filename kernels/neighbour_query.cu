/* Neighbours of each particle within the cutoff: 27 cells, exact distance test, strictly nearer.
   After the near-field test of "Some GPU-based algorithms" (slides). One thread a particle;
   every pair is found from both sides, and both sides compute the same distance to the bit.

   LINKED chooses the cell list: 1 for head and next, 0 for start and order with positions in
   cell order. FILL chooses the work: 0 counts, 1 writes the neighbours at the offsets that the
   counts gave. PERIODIC is 0 for boxes that are open along every axis, which then pay nothing
   for images. The cutoff is at most the shortest cell edge, and a periodic axis has at least
   three cells, so that no cell is met twice. BLOCK threads a block. */
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
    return dx * dx + dy * dy + dz * dz < cutoff2;
}

#if LINKED

__global__ void query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ head,
                      GLOBAL const int *__restrict__ next, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours,
                      int64 capacity)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float4 p = positions[i];
    int cx = cell_along(grid, 0, p.x), cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float shift_x, shift_y, shift_z;
    int found = 0;
#if FILL
    int64 place = offsets[i];
#endif
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
#if FILL
                        if (place + found < capacity)
                            neighbours[place + found] = j;
#endif
                        ++found;
                    }
                }
            }
        }
    }
#if !FILL
    counts[i] = found;
#endif
}

#else

/* Cells that follow each other along x are one stretch of the sorted particles: a row of three
   cells costs one pair of bounds. At the end of a periodic row the third cell lies at the row's
   other end, a stretch of its own. */
__global__ void query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours,
                      int64 capacity)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    float4 p = positions[slot];
    int i = order[slot];
    int cx = cell_along(grid, 0, p.x), cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    int last = grid->cells[0] - 1;
    int first_x = max(cx - 1, 0), last_x = min(cx + 1, last);
    int wraps = PERIODIC && grid->periodic[0] && (cx == 0 || cx == last);
    float shift_z;
    int found = 0;
#if FILL
    int64 place = offsets[i];
#endif
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_cell(grid, 2, cz + dz, &shift_z);
        if (z < 0)
            continue;
        /* The bounds of three rows first: their loads overlap. */
        int row[3], begin[3], end[3];
        float shift_y[3];
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int y = neighbour_cell(grid, 1, cy + r - 1, &shift_y[r]);
            row[r] = cell_number(grid, 0, y, z);
            begin[r] = y < 0 ? 0 : start[row[r] + first_x];
            end[r] = y < 0 ? 0 : start[row[r] + last_x + 1];
            if (y < 0)
                row[r] = -1;
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            float shift_x = 0.0f;
            int j = begin[r], stop = end[r];
            for (int piece = 0; piece <= wraps; ++piece) {
                if (piece) {
                    if (row[r] < 0)
                        break;
                    j = start[row[r] + (cx == 0 ? last : 0)];
                    stop = start[row[r] + (cx == 0 ? last : 0) + 1];
                    shift_x = cx == 0 ? -grid->size[0] : grid->size[0];
                }
#pragma unroll 2
                for (; j < stop; ++j) {
                    if (is_near(p, positions[j], shift_x, shift_y[r], shift_z, cutoff2) &&
                        j != (int)slot) {
#if FILL
                        if (place + found < capacity)
                            neighbours[place + found] = order[j];
#endif
                        ++found;
                    }
                }
            }
        }
    }
#if !FILL
    counts[i] = found;
#endif
}

#endif
