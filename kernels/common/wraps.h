/* The candidates of a particle in a row of cells as one sequence, 32 to a word: those of its near piece, then those past
   a periodic end. What neighbour_bitmask_count.cu keeps of it for neighbour_bitmask_list.cu: the first candidate; or -2
   minus it, if there are any past the end, and then a wrap: the number of near ones, with the step to the others. */
#ifndef GPUBENCH_COMMON_WRAPS_H
#define GPUBENCH_COMMON_WRAPS_H
#include "common/marks.h"

#define NEAR_BITS 10 /* of the number of near ones, below the step, which has a sign */
#define LONGEST_STEP (1 << 21)

/* The number of candidates in a row. */
__device__ __forceinline__ int candidates_of(Stretch s, int own)
{
    const int begin = HALF ? max(s.begin, own + 1) : s.begin, far = HALF ? max(s.far_begin, own + 1) : s.far_begin;
    return max(s.end - begin, 0) + max(s.far_end - far, 0);
}

/* The part of a piece from `first` on that shares a word, if there are `before` candidates before it. */
__device__ __forceinline__ Piece part_of(Piece piece, int first, int before)
{
    piece.end = min(first + 32 - (before & 31), piece.end);
    return piece;
}

/* What to keep as the first candidate, with the wrap; -1 if it does not fit. */
__device__ __forceinline__ int wrapped(int begin, int near, int far_begin, GLOBAL int *wrap)
{
    const int step = far_begin - begin - near;
    *wrap = step << NEAR_BITS | near;
    return near < 1 << NEAR_BITS && step > -LONGEST_STEP && step < LONGEST_STEP ? -2 - begin : -1;
}

#endif
