/* Users' positions as a search takes them: wrapped and shifted into the box, in whole steps. REAL, STRIDE: see ways.h.
   What a search reports in its status: the last particle that is not finite, plus 1; one outside; the pairs. */
#ifndef GPUBENCH_COMMON_PLACED_H
#define GPUBENCH_COMMON_PLACED_H
#include "common/ways.h"

/* Box edges. Beyond, rounding in double precision would exceed the bound, and shifts an int. */
#define MOST_IMAGES 1073741823.0
#define NOT_FINITE 0
#define OUTSIDE 1
#define MOST_PAIRS 2

/* A coordinate relative to the corner of the box, inside it, rounded to whole steps. Differences of two are exact in
   float32. Invalid ones are set to 0, so that no kernel reads out of bounds, and reported: status[...] = particle + 1. */
__device__ __forceinline__ float placed(double coordinate, GLOBAL const Box *box, int axis, int particle,
                                        GLOBAL int64 *status)
{
    double x = coordinate - box->low[axis], size = box->size[axis];
    int repeats = box->periodic[axis] != 0.0;
    if (!(x - x == 0.0) || (repeats && !(fabs(x) <= MOST_IMAGES * size))) {
        status[NOT_FINITE] = particle + 1;
        return 0.0f;
    }
    if (repeats) {
        if (!(x >= 0.0 && x < size)) /* inside, the same without the division */
            x = fma(-floor(x / size), size, x);
        x = rint(x * box->per_step);
        /* Rounded past one end, which is equivalent to the other end. */
        return x >= 0.0 && x < box->steps[axis] ? (float)x : 0.0f;
    }
    if (x >= 0.0 && x <= size)
        return (float)fmin(rint(x * box->per_step), box->steps[axis]);
    status[OUTSIDE] = particle + 1;
    return 0.0f;
}

/* The position of a particle. */
__device__ __forceinline__ float4 placed_at(GLOBAL const REAL *given, int particle, GLOBAL const Box *box,
                                            GLOBAL int64 *status)
{
    const size_t row = (size_t)particle * STRIDE;
    const float x = placed(given[row], box, 0, particle, status);
    const float y = placed(given[row + 1], box, 1, particle, status);
    return make_float4(x, y, placed(given[row + 2], box, 2, particle, status), 0.0f);
}

#endif
