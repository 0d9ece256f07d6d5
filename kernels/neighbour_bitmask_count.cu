/* Count the neighbours of each particle, as neighbour_sorted_count.cu does and with the same constants, and mark
   them for neighbour_bitmask_list.cu, which need not test them again:

       for each particle i, for each of the nine rows around it:
           begins[row][i] = its first candidate, and wraps[row][i] where it goes on past a periodic end (see wraps.h)
           masks[row * WORDS + w][i] = a bit for each of 32 candidates, set where one is nearer than the cutoff

   If these take more than WORDS words, begins is -1. Rows of `masks`, `begins` and `wraps` are `particles` long. */
#include "common/wraps.h"

/* If rows take several words, the latency hidden by more warps outweighs a few spilled registers. */
#if defined(__CUDACC__) && WORDS > 1
#define OCCUPANCY __launch_bounds__(BLOCK, 1024 / BLOCK)
#else
#define OCCUPANCY
#endif

#define KEEP(word)                                                                                                    \
    {                                                                                                                 \
        if (w < WORDS) {                                                                                              \
            *mask = word;                                                                                             \
            mask += particles;                                                                                        \
        }                                                                                                             \
        ++w;                                                                                                          \
    }

__global__ void OCCUPANCY count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      float cutoff2, float slack, int particles, GLOBAL int *__restrict__ counts,
                      GLOBAL int *__restrict__ begins, GLOBAL int *__restrict__ wraps,
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
    Along along;
    set_along(&along, grid, p.x, slack);
    GLOBAL int *begin_of = begins + slot;
    GLOBAL unsigned *mask = masks + slot;
    int found = 0;
#pragma unroll 1
    for (int dz = 0; dz < 3; ++dz) {
        float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
        int z = neighbour_cell(grid, 2, cz + dz - 1, &shift_z);
        /* The bounds of three rows first: their loads overlap. */
        Stretch row[3];
        float shift_y[3];
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            int y = neighbour_cell(grid, 1, cy + dy - 1, &shift_y[dy]);
            float gap2 = fmaf(gap_y[dy], gap_y[dy], gap_z * gap_z);
            set_stretch(&row[dy], grid, start, cell_number(grid, 0, max(y, 0), max(z, 0)), &along,
                        y < 0 || z < 0 ? 2.0f * cutoff2 : gap2, cutoff2);
        }
#pragma unroll
        for (int dy = 0; dy < 3; ++dy, begin_of += particles) {
            const Stretch s = row[dy];
            const int own = dy == 1 ? (int)slot : -1; /* in a row with its own y only */
            int w = 0, many = 0, begin = HALF ? max(s.begin, (int)slot + 1) : s.begin;
            unsigned word = 0; /* of a wrapped row, that is not yet full */
            for (int is_far = 0; is_far <= PERIODIC; ++is_far) {
                Piece piece;
                set_piece(&piece, s, is_far, grid, slot);
                if (is_far && piece.begin < piece.end)
                    begin = wrapped(begin, many, piece.begin, &wraps[(3 * dz + dy) * (size_t)particles + slot]);
#pragma unroll 1
                for (int first = piece.begin; first < piece.end; first += 32) {
                    const unsigned near = word_of(positions, p, &piece, first, shift_y[dy], shift_z, cutoff2, own);
                    found += __popc(near);
                    if (PERIODIC) {
                        const int at = many & 31, more = min(32, piece.end - first);
                        many += more;
                        word |= near << at;
                        if (at + more < 32)
                            continue;
                        KEEP(word)
                        word = at ? near >> (32 - at) : 0;
                    } else {
                        KEEP(near)
                    }
                }
            }
            if (PERIODIC && many & 31)
                KEEP(word)
            *begin_of = w > WORDS ? -1 : begin;
            for (; w < WORDS; ++w, mask += particles)
                *mask = 0;
        }
    }
    counts[order[slot]] = found;
}
