/* Count the neighbours of each particle, as neighbour_count.cu does and with the same words, and mark
   them for neighbour_fill.cu, which need not test them again:

       for each particle i, for each of the nine rows around it:
           masks[row][i] = a bit for each candidate, set where it is nearer than the cutoff and not i

   A row of no or of more than 32 candidates has no word of bits; `masks` are 9 rows of `particles`. */
#include "common/stretch.h"

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, float slack, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL unsigned *__restrict__ masks)
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
            unsigned mask = 0;
            int j = HALF ? max(s.begin, (int)slot + 1) : s.begin, end = s.end;
            float shift_x = 0.0f;
            for (int piece = 0; piece < (PERIODIC ? 2 : 1); ++piece, j = s.far_begin, end = s.far_end) {
                if (piece)
                    shift_x = s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
                if (piece && HALF)
                    j = max(j, (int)slot + 1);
                /* Which bit of the mask candidate 0 would be. */
                int zero = piece ? s.end - s.begin - s.far_begin : -s.begin;
                /* Two at a time: their loads overlap. */
                for (; j + 1 < end; j += 2) {
                    float4 q = positions[j], next = positions[j + 1];
                    int near = is_near(p, q, shift_x, shift_y[dy], shift_z, cutoff2);
                    int near_next = is_near(p, next, shift_x, shift_y[dy], shift_z, cutoff2);
                    found += near + near_next;
                    mask |= (unsigned)(near + 2 * near_next) << (zero + j & 31);
                }
                for (; j < end; ++j) {
                    int near = is_near(p, positions[j], shift_x, shift_y[dy], shift_z, cutoff2);
                    found += near;
                    mask |= (unsigned)near << (zero + j & 31);
                }
            }
            /* A particle is in its own row, too. */
            if (dy == 1 && dz == 1 && length_of(s) <= 32)
                mask &= ~(1u << (slot - s.begin));
            if (length_of(s) > 0 && length_of(s) <= 32)
                masks[word] = mask;
        }
    }
    counts[order[slot]] = HALF ? found : found - 1;
}
