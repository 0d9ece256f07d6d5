/* Positions quantised to three bytes, and a test with them of which candidates may be in range, in
   four instructions each, where the exact test takes twenty.

   A neighbour is at most 98 steps away along each axis, so that bytes determine its distance even
   though they wrap, as the periodic box does. Whole words are subtracted: a byte may be one too
   small after a carry below it, and rounding takes less than a step; box->coarse_square allows for both, so no neighbour
   is missed. */
#ifndef GPUBENCH_COMMON_COARSE_H
#define GPUBENCH_COMMON_COARSE_H

/* Candidates per load: `coarse` is padded by that many. */
#ifdef __CUDACC__
#define AT_ONCE 4
#else
#define AT_ONCE 1
#endif

__device__ __forceinline__ unsigned coarse_at(GLOBAL const Box *box, int axis, unsigned place)
{
    return __umulhi(box->periodic[axis] ? place : place << 1, box->coarse[axis]) & 255u;
}

__device__ __forceinline__ unsigned coarse_of(GLOBAL const Box *box, uint4 p)
{
    return coarse_at(box, 0, p.x) | coarse_at(box, 1, p.y) << 8 | coarse_at(box, 2, p.z) << 16;
}

__device__ __forceinline__ unsigned with_mark(unsigned marks, unsigned p, unsigned q, int least)
{
    int apart = (int)(q - p);
    return with_sign(marks, __dp4a(apart, apart, least));
}

/* Bit k: particle stop - 1 - k may be in range, of those from `first` on. At most 32, including
   those that loads read before and after them. */
__device__ __forceinline__ unsigned coarse_marks(GLOBAL const unsigned *coarse, unsigned p,
                                                 int first, int stop, int least)
{
    unsigned marks = 0;
    int j = first & -AT_ONCE;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (; j < stop; j += AT_ONCE) {
#if AT_ONCE == 1
        marks = with_mark(marks, p, coarse[j], least);
#else
        uint4 q = *(GLOBAL const uint4 *)&coarse[j];
        marks = with_mark(marks, p, q.x, least);
        marks = with_mark(marks, p, q.y, least);
        marks = with_mark(marks, p, q.z, least);
        marks = with_mark(marks, p, q.w, least);
#endif
    }
    return marks >> (j - stop) & 0xffffffffu >> (32 - (stop - first));
}

#endif
