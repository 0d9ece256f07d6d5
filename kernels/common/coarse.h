/* Places in steps that three bytes hold, and a test by them of which candidates may be in range: in
   four instructions each, where the exact one takes twenty.

   A neighbour is at most 98 steps away along each axis, so that bytes tell its distance though they
   wrap, as they do where the box repeats. Words are subtracted whole: a byte may lack one for the one
   below, and roundings take less than a step, which box->coarse_square allows for: no neighbour is
   left out. */
#ifndef GPUBENCH_COMMON_COARSE_H
#define GPUBENCH_COMMON_COARSE_H

__device__ __forceinline__ unsigned coarse_at(GLOBAL const Box *box, int axis, unsigned place)
{
    return __umulhi(box->periodic[axis] ? place : place << 1, box->coarse[axis]) & 255u;
}

__device__ __forceinline__ unsigned coarse_of(GLOBAL const Box *box, uint4 p)
{
    return coarse_at(box, 0, p.x) | coarse_at(box, 1, p.y) << 8 | coarse_at(box, 2, p.z) << 16;
}

/* Bit k: particle stop - 1 - k may be in range, of up to 32 candidates. */
__device__ __forceinline__ unsigned coarse_marks(GLOBAL const unsigned *coarse, unsigned p,
                                                 int first, int stop, int square)
{
    unsigned marks = 0;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int j = first; j < stop; ++j) {
        int apart = (int)(coarse[j] - p);
        marks = with_sign(marks, __dp4a(apart, apart, -square));
    }
    return marks;
}

/* Note which of the candidates from `begin` to before `end` may be in range of particle `i`, itself
   left out: for each stretch of 32 with any, its last, and marks. Takes `coarse`, `own`, of the
   particle, `notes` with NEAR and NOTE, and `met`, how many words are noted, or would be. */
#define MARK_STRETCH(begin, end)                                                                   \
    for (int from = (begin); from < (end); from += 32) {                                           \
        int behind = min(from + 32, (end));                                                        \
        unsigned marks = coarse_marks(coarse, own, from, behind, box->coarse_square);              \
        unsigned place = (unsigned)(behind - 1 - (int)i);                                          \
        if (place < 32u)                                                                           \
            marks &= ~(1u << place);                                                               \
        if (marks) {                                                                               \
            if (met + 1 < NEAR) {                                                                  \
                notes[NOTE(i, met)] = behind - 1;                                                  \
                notes[NOTE(i, met + 1)] = (int)marks;                                              \
            }                                                                                      \
            met += 2;                                                                              \
        }                                                                                          \
    }

#endif
