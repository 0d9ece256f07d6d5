/* Neighbours of each particle within the cutoff: 27 cells, exact distance test, strictly nearer.
   After the near-field test of "Some GPU-based algorithms" (slides). One thread a particle;
   every pair is found from both sides, and both sides compute the same distance to the bit.

   LINKED chooses the cell list: 1 for head and next, 0 for start and order with positions in
   cell order. FILL chooses the work: 0 counts, 1 writes the neighbours at the offsets that the
   counts gave. PERIODIC is 0 for boxes that are open along every axis, which then pay nothing
   for images. The cutoff is at most the shortest cell edge (of sorted cells along x, REACH
   edges), and a periodic axis is at least three cutoffs long, so that no cell is met twice. BLOCK
   threads a block. */
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
                      int64 capacity, GLOBAL unsigned *__restrict__ masks)
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

/* Cells that follow each other along x are one stretch of the sorted particles, so they may be
   short, REACH of them to the cutoff, which leaves fewer particles out of reach; a row costs one
   pair of bounds. Past the end of a periodic row the stretch goes on at the row's other end.

   MASKS: whether who counts writes down which candidates of a row are neighbours, as the bits of
   a word (`masks`, 9 rows of `particles`), so that who fills need not test them again. A row of
   more than 32 candidates has no word. */
__global__ void query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours,
                      int64 capacity, GLOBAL unsigned *__restrict__ masks)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    float4 p = positions[slot];
    int i = order[slot];
    int cx = cell_along(grid, 0, p.x), cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    int last = grid->cells[0] - 1;
    int first_x = max(cx - REACH, 0), last_x = min(cx + REACH, last);
    int wraps = PERIODIC && grid->periodic[0] && (cx < REACH || cx > last - REACH);
    int first_far = cx < REACH ? last + 1 + cx - REACH : 0;
    int last_far = cx < REACH ? last : cx + REACH - last - 1;
    float far_shift = cx < REACH ? -grid->size[0] : grid->size[0];
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
        int begin[3], near_end[3], far_begin[3], length[3];
        float shift_y[3];
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int y = neighbour_cell(grid, 1, cy + r - 1, &shift_y[r]);
            int row = cell_number(grid, 0, y, z);
            begin[r] = y < 0 ? 0 : start[row + first_x];
            near_end[r] = y < 0 ? 0 : start[row + last_x + 1] - begin[r];
            length[r] = near_end[r];
            far_begin[r] = 0;
            if (wraps && y >= 0) {
                far_begin[r] = start[row + first_far] - near_end[r];
                length[r] += start[row + last_far + 1] - start[row + first_far];
            }
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
#if MASKS
            size_t word = (size_t)((dz + 1) * 3 + r) * particles + slot;
#endif
#if FILL && MASKS
            if (length[r] <= 32) {
                for (unsigned mask = length[r] ? masks[word] : 0; mask;) {
                    int k = 31 - __clz(mask);
                    mask ^= 1u << k;
                    if (place + found < capacity)
                        neighbours[place + found] =
                            order[k + (k < near_end[r] ? begin[r] : far_begin[r])];
                    ++found;
                }
                continue;
            }
#endif
            /* Candidate k lies behind the near stretch's begin, or the far one's. */
            int k = 0, from = begin[r], stop = near_end[r];
            float shift_x = 0.0f;
            unsigned mask = 0;
            for (int piece = 0; piece <= wraps; ++piece) {
                if (piece) {
                    from = far_begin[r];
                    stop = length[r];
                    shift_x = far_shift;
                }
#pragma unroll 2
                for (; k < stop; ++k) {
                    int j = from + k;
                    if (is_near(p, positions[j], shift_x, shift_y[r], shift_z, cutoff2) &&
                        j != (int)slot) {
#if FILL
                        if (place + found < capacity)
                            neighbours[place + found] = order[j];
#elif MASKS
                        mask |= 1u << (k & 31);
#endif
                        ++found;
                    }
                }
            }
#if MASKS && !FILL
            if (length[r] && length[r] <= 32)
                masks[word] = mask;
#endif
        }
    }
#if !FILL
    counts[i] = found;
#endif
}

/* Bring positions into the order of the cells. */
__global__ void gather(GLOBAL const int *__restrict__ order, GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot < particles)
        sorted[slot] = positions[order[slot]];
}

#endif
