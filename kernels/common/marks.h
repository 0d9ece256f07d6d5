/* The neighbours of a particle in a row of cells as words of 32 bits, which neighbour_bitmask_count.cu keeps for
   neighbour_bitmask_list.cu. HALF, PERIODIC: see neighbour_sorted_count.cu; STEP: candidates loaded at once. */
#ifndef GPUBENCH_COMMON_MARKS_H
#define GPUBENCH_COMMON_MARKS_H
#include "common/stretch.h"

#define ROWS 9

/* Bit k: particle first + k is near, of those before `end`, 1 to 32. From the last to the first, STEP loads at a time:
   the sign of each difference is shifted into the bits. */
__device__ __forceinline__ unsigned near_bits(GLOBAL const float4 *positions, float4 p, int first,
                                              int end, float shift_x, float shift_y, float shift_z, float cutoff2)
{
    const int many = end - first;
    unsigned bits = 0;
    /* not unrolled: most rows are short */
#pragma unroll 1
    for (int group = (many - 1) & -STEP; group >= 0; group -= STEP) {
        float4 q[STEP];
        float over[STEP];
#pragma unroll
        for (int k = 0; k < STEP; ++k)
            if (k == 0 || group + k < many)
                q[k] = positions[first + group + k];
        excesses(p, q, shift_x, shift_y, shift_z, cutoff2, over);
#pragma unroll
        for (int k = STEP - 1; k >= 0; --k)
            bits = with_sign(bits, __float_as_int(over[k]));
    }
    return bits & 0xffffffffu >> (32 - many);
}

/* A contiguous piece of a row (a row that wraps has two), and its shift along x. With HALF, particles up to `own` are
   skipped. */
typedef struct Piece {
    int begin, end;
    float shift_x;
} Piece;

__device__ __forceinline__ void set_piece(Piece *piece, Stretch s, int is_far, GLOBAL const Grid *grid, int own)
{
    piece->begin = is_far ? s.far_begin : s.begin;
    piece->end = is_far ? s.far_end : s.end;
    piece->shift_x = !is_far ? 0.0f : s.far_begin < s.begin ? grid->size[0] : -grid->size[0];
    if (HALF)
        piece->begin = max(piece->begin, own + 1);
}

/* The number of 32-bit words for the candidates of a row; those of the far piece begin in a new word. */
__device__ __forceinline__ int words_of(Stretch s, int own)
{
    const int begin = HALF ? max(s.begin, own + 1) : s.begin, far = HALF ? max(s.far_begin, own + 1) : s.far_begin;
    return (max(s.end - begin, 0) + 31) / 32 + (max(s.far_end - far, 0) + 31) / 32;
}

/* Bit k: particle first + k is a neighbour, of those of a piece. */
__device__ __forceinline__ unsigned word_of(GLOBAL const float4 *positions, float4 p, const Piece *piece, int first,
                                            float shift_y, float shift_z, float cutoff2, int own)
{
    const unsigned near = near_bits(positions, p, first, min(first + 32, piece->end), piece->shift_x, shift_y, shift_z,
                                    cutoff2);
    return own >= 0 && (unsigned)(own - first) < 32u ? near & ~(1u << (own - first)) : near;
}

#endif
