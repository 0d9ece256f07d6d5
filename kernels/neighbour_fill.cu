/* Write the neighbours of each particle at the offsets that the counts gave. Plainly:

       for each particle i, for each candidate j that neighbour_mark.cu marked for it:
           neighbours[offsets[i]++] = order[j]

   Rows of more than 32 candidates, which have no word of bits, are tested again: distances are products
   fused with sums by hand, so that no compiler does it in one of the two kernels alone. Words as in
   neighbour_count.cu.

   STAGED is 0 for the plain kernel, which comes first: each thread writes a row of its own. On CUDA, up
   to STAGED neighbours of each particle are collected in shared memory, and a warp writes them row by
   row. */
#include "common/stretch.h"

#if !STAGED

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity,
                     GLOBAL const unsigned *__restrict__ masks)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    float4 p = positions[slot];
    int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float gap_y[3], before, behind, shift_z;
    gaps(grid, 1, cy, p.y, slack, &gap_y[0], &gap_y[2]);
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    gap_y[1] = 0.0f;
    int found = 0;
    int i = order[slot];
    int64 place = offsets[i];
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
            const size_t word = (size_t)(dz * 3 + dy) * particles + slot;
            if (length_of(s) <= 32) {
                int near = s.end - s.begin;
                for (unsigned mask = length_of(s) ? masks[word] : 0; mask;) {
                    int k = 31 - __clz(mask);
                    mask ^= 1u << k;
                    if (place + found < capacity)
                        neighbours[place + found++] = order[k < near ? s.begin + k : s.far_begin + k - near];
                }
                continue;
            }
            int j = s.begin, end = s.end;
            float shift_x = 0.0f;
            for (int piece = 0; piece < (PERIODIC ? 2 : 1); ++piece, j = s.far_begin, end = s.far_end) {
                if (piece)
                    shift_x = s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
                if (HALF)
                    j = max(j, (int)slot + 1);
                for (; j < end; ++j) {
                    int near = is_near(p, positions[j], shift_x, shift_y[dy], shift_z, cutoff2);
                    if (near && j != (int)slot)
                        if (place + found < capacity)
                            neighbours[place + found++] = order[j];
                }
            }
        }
    }
}

#else

#define PITCH (STAGED + 1) /* odd, so that neither side meets a bank twice */

/* Collect a neighbour; the rows of particles that have more of them are written at once. */
#define KEEP(j)                                         \
    do {                                                \
        if (staged && found < STAGED)                   \
            stage[threadIdx.x * PITCH + found++] = (j); \
        else if (!staged && place + found < capacity)   \
            neighbours[place + found++] = order[j];     \
    } while (0)

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity,
                     GLOBAL const unsigned *__restrict__ masks)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    __shared__ int stage[BLOCK * PITCH];
    if (particles == 0)
        return;
    int is_here = slot < particles;
    slot = min(slot, (unsigned)particles - 1);
    float4 p = positions[slot];
    int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float gap_y[3], before, behind, shift_z;
    gaps(grid, 1, cy, p.y, slack, &gap_y[0], &gap_y[2]);
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    gap_y[1] = 0.0f;
    int found = 0;
    int i = order[slot];
    int64 place = offsets[i];
    int listed = (int)(min(offsets[i + 1], capacity) - min(place, capacity));
    int staged = listed <= STAGED;
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
            const size_t word = (size_t)(dz * 3 + dy) * particles + slot;
            if (length_of(s) <= 32) {
                int near = s.end - s.begin;
                for (unsigned mask = length_of(s) ? masks[word] : 0; mask;) {
                    int k = 31 - __clz(mask);
                    mask ^= 1u << k;
                    KEEP(k < near ? s.begin + k : s.far_begin + k - near);
                }
                continue;
            }
            int j = s.begin, end = s.end;
            float shift_x = 0.0f;
            for (int piece = 0; piece < (PERIODIC ? 2 : 1); ++piece, j = s.far_begin, end = s.far_end) {
                if (piece)
                    shift_x = s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
                if (HALF)
                    j = max(j, (int)slot + 1);
                for (; j < end; ++j) {
                    int near = is_near(p, positions[j], shift_x, shift_y[dy], shift_z, cutoff2);
                    if (near && j != (int)slot)
                        KEEP(j);
                }
            }
        }
    }
    __syncwarp();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
    listed = is_here && staged ? listed : 0;
    for (int other = 0; other < 32; ++other) {
        int length = __shfl_sync(0xffffffffu, listed, other);
        int64 target = __shfl_sync(0xffffffffu, place, other);
        for (int k = lane; k < length; k += 32)
            neighbours[target + k] = order[stage[(warp + other) * PITCH + k]];
    }
}

#endif
