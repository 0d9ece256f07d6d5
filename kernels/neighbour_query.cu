/* Neighbours of each particle within the cutoff: 27 cells, exact distance test, strictly nearer.
   After the near-field test of "Some GPU-based algorithms" (slides). One thread a particle;
   every pair is found from both sides, and both sides compute the same distance to the bit.

   LINKED chooses the cell list: 1 for head and next, 0 for start and order with positions in
   cell order. FILL chooses the work: 0 counts, 1 writes the neighbours at the offsets that the
   counts gave. PERIODIC is 0 for boxes that are open along every axis, which then pay nothing
   for images. The cutoff is at most the shortest cell edge (of sorted cells along x, REACH edges),
   and a periodic axis is at least three cutoffs long, so that no cell is met twice. BLOCK threads
   a block. With HALF (sorted cells only) each pair is found once, in the row of the particle that comes
   first in the order of the cells.

   The fill kernel repeats the distance tests of the count kernel: products are fused with sums by
   hand, so that no compiler does it in one of the two kernels alone. */
#include "common/stretch.h"

#ifndef HALF
#define HALF 0
#endif

#if LINKED

__global__ void query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ head,
                      GLOBAL const int *__restrict__ next, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, float slack, int particles, GLOBAL int *__restrict__ counts,
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

/* MASKS: whether the count kernel writes down which candidates of a row are neighbours, as the bits of
   a word (`masks`, 9 rows of `particles`), so that the fill kernel need not test them again. A row of
   more than 32 candidates has no word.

   STAGED, where the fill kernel runs on a GPU: up to that many neighbours of each particle are collected in
   shared memory, and a warp writes them row by row, instead of each thread in a row of its own. */
/* A count in an open box fits into 32 registers, but for one; with more of them an SM would hold
   three quarters of the warps. */
#if defined(__CUDACC__) && !FILL && !MASKS && !PERIODIC
#define OCCUPANCY __launch_bounds__(BLOCK, 2048 / BLOCK)
#else
#define OCCUPANCY
#endif

#if FILL && STAGED
#define NEIGHBOUR(j)                                    \
    do {                                                \
        if (staged && found < STAGED)                   \
            stage[threadIdx.x * PITCH + found++] = (j); \
        else if (!staged && place + found < capacity)   \
            neighbours[place + found++] = order[j];     \
    } while (0)
#define PITCH (STAGED + 1) /* odd, so that neither side meets a bank twice */
#elif FILL
#define NEIGHBOUR(j)                                \
    do {                                            \
        if (place + found < capacity)               \
            neighbours[place + found++] = order[j]; \
    } while (0)
#endif

__global__ void OCCUPANCY query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, float slack, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours,
                      int64 capacity, GLOBAL unsigned *__restrict__ masks)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
#if FILL && STAGED
    __shared__ int stage[BLOCK * PITCH];
    if (particles == 0)
        return;
    int is_here = slot < particles;
    slot = min(slot, (unsigned)particles - 1);
#else
    if (slot >= particles)
        return;
#endif
    float4 p = positions[slot];
    int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float gap_y[3], before, behind, shift_z;
    gaps(grid, 1, cy, p.y, slack, &gap_y[0], &gap_y[2]);
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    gap_y[1] = 0.0f;
    int found = 0;
#if FILL
    int i = order[slot];
    int64 place = offsets[i];
#if STAGED
    int listed = (int)(min(offsets[i + 1], capacity) - min(place, capacity));
    int staged = listed <= STAGED;
#endif
#endif
    for (int dz = 0; dz < 3; ++dz) {
        float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
        int z = neighbour_cell(grid, 2, cz + dz - 1, &shift_z);
        if (z < 0)
            continue;
        /* The bounds of three rows first: their loads overlap. */
        Stretch row[3];
        float shift_y[3];
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            int y = neighbour_cell(grid, 1, cy + dy - 1, &shift_y[dy]);
            float gap2 = fmaf(gap_y[dy], gap_y[dy], gap_z * gap_z);
            row[dy] = stretch_of(grid, start, cell_number(grid, 0, max(y, 0), z), p.x,
                                 y < 0 ? 2.0f * cutoff2 : gap2, cutoff2, slack);
        }
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            const Stretch s = row[dy];
#if MASKS
            const size_t word = (size_t)(dz * 3 + dy) * particles + slot;
#endif
#if FILL && MASKS
            if (length_of(s) <= 32) {
                int near = s.end - s.begin;
                for (unsigned mask = length_of(s) ? masks[word] : 0; mask;) {
                    int k = 31 - __clz(mask);
                    mask ^= 1u << k;
                    NEIGHBOUR(k < near ? s.begin + k : s.far_begin + k - near);
                }
                continue;
            }
#endif
#if MASKS && !FILL
            unsigned mask = 0;
#endif
            int j = s.begin, end = s.end;
#if HALF
            j = max(j, (int)slot + 1);
#endif
            float shift_x = 0.0f;
            for (int piece = 0; piece < (PERIODIC ? 2 : 1); ++piece, j = s.far_begin, end = s.far_end) {
                if (piece)
                    shift_x = s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
#if HALF
                if (piece)
                    j = max(j, (int)slot + 1);
#endif
#if !FILL
#if MASKS
                /* Which bit of the mask candidate 0 would be. */
                int zero = piece ? s.end - s.begin - s.far_begin : -s.begin;
#endif
                /* Two at a time: their loads overlap. */
                for (; j + 1 < end; j += 2) {
                    float4 q = positions[j], next = positions[j + 1];
                    int near = is_near(p, q, shift_x, shift_y[dy], shift_z, cutoff2);
                    int near_next = is_near(p, next, shift_x, shift_y[dy], shift_z, cutoff2);
                    found += near + near_next;
#if MASKS
                    mask |= (unsigned)(near + 2 * near_next) << (zero + j & 31);
#endif
                }
#endif
                for (; j < end; ++j) {
                    int near = is_near(p, positions[j], shift_x, shift_y[dy], shift_z, cutoff2);
#if FILL
                    if (near && j != (int)slot)
                        NEIGHBOUR(j);
#else
                    found += near;
#if MASKS
                    mask |= (unsigned)near << (zero + j & 31);
#endif
#endif
                }
            }
#if MASKS && !FILL
            /* A particle is in its own row, too. */
            if (dy == 1 && dz == 1 && length_of(s) <= 32)
                mask &= ~(1u << (slot - s.begin));
            if (length_of(s) > 0 && length_of(s) <= 32)
                masks[word] = mask;
#endif
        }
    }
#if !FILL
    counts[order[slot]] = HALF ? found : found - 1;
#elif STAGED
    __syncwarp();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
    listed = is_here && staged ? listed : 0;
    for (int other = 0; other < 32; ++other) {
        int length = __shfl_sync(0xffffffffu, listed, other);
        int64 target = __shfl_sync(0xffffffffu, place, other);
        for (int k = lane; k < length; k += 32)
            neighbours[target + k] = order[stage[(warp + other) * PITCH + k]];
    }
#endif
}

#endif
