/* Marks of candidates, in pairs of words: the last of up to 32 consecutive candidates, and a bit
   for each, lowest for the last. A particle's pairs are in its `notes`, with capacity PAIRS;
   current ones are `held`, on a GPU up to HELD in shared memory, where threads can read different
   ones at once. HOLD_PAIRS, HOLD_OWN_PAIRS: declarations for the block and for the thread `i`. */
#ifndef GPUBENCH_COMMON_HELD_H
#define GPUBENCH_COMMON_HELD_H
#include "common/coarse.h"

#define PAIRS (NEAR / 2)
#if LIST_BY_PARTICLE
#define PAIR(i, k) ((GLOBAL int2 *)notes)[(int64)(i)*PAIRS + (k)]
#define PAIR_STEP 1
#define HELD PAIRS
#define HELD_STEP 1
#define HELD_SPACE GLOBAL
#define HELD_IS_SHARED 0
#define HOLD_PAIRS
#define HOLD_OWN_PAIRS GLOBAL int2 *held = &PAIR(i, 0);
#else
#define PAIR(i, k) ((GLOBAL int2 *)notes)[(int64)(k)*particles + (i)]
#define PAIR_STEP particles
#define HELD 10 /* nine if no row wraps around */
#define HELD_STEP BLOCK
#define HELD_SPACE LOCAL
#define HELD_IS_SHARED 1
#define HOLD_PAIRS __shared__ int2 pairs[HELD * BLOCK];
#define HOLD_OWN_PAIRS LOCAL int2 *held = pairs + threadIdx.x;
#endif

/* Mark the candidates from `begin` to before `end` that may be in range of particle `i`, except
   itself: for each group of up to 32 with any, its last, and marks. Takes `coarse`, `own`, of the
   particle, `least`, and `met`, the number of pairs of words needed so far; see common/marked.h. */
#define MARK_STRETCH(begin, end)                                                                   \
    for (int from = (begin), behind; from < (end); from = behind) {                                \
        behind = min((from & -AT_ONCE) + 32, (end));                                               \
        unsigned marks = coarse_marks(coarse, own, from, behind, least);                           \
        unsigned place = (unsigned)(behind - 1 - (int)i);                                          \
        if (r == 1 && dz == 0 && place < 32u)                                                      \
            marks &= ~(1u << place);                                                               \
        if (marks) {                                                                               \
            if (met < HELD)                                                                        \
                held[met * HELD_STEP] = make_int2(behind - 1, (int)marks);                         \
            else if (met < PAIRS)                                                                  \
                PAIR(i, met) = make_int2(behind - 1, (int)marks);                                  \
            ++met;                                                                                 \
        }                                                                                          \
    }

#endif
