/* The images of a box, one by one, and the distance test of stretch.h for them. PERIODIC is 0 for boxes open along
   every axis. */
#ifndef GPUBENCH_COMMON_SHIFTS_H
#define GPUBENCH_COMMON_SHIFTS_H

#define REACH 1 /* of rows of cells, which are not used here */
#include "common/stretch.h"

#define NO_IMAGE 13
#define FIRST_IMAGE (PERIODIC ? 0 : NO_IMAGE)
#define LAST_IMAGE (PERIODIC ? 26 : NO_IMAGE)

/* Images are numbered x fastest, from the one before along every axis; this is -1, 0 or 1. */
__device__ __forceinline__ int step_along(int image, int axis)
{
    return (axis == 0 ? image : axis == 1 ? image / 3 : image / 9) % 3 - 1;
}

/* Whether the box has an image: those along open axes are none. */
__device__ __forceinline__ int is_image(GLOBAL const Grid *grid, int image)
{
    int is = 1;
    for (int axis = 0; axis < 3; ++axis)
        is &= grid->periodic[axis] || step_along(image, axis) == 0;
    return is;
}

/* What to add to a difference of positions, from a particle to its neighbour, to reach the image. */
__device__ __forceinline__ float4 shift_of(GLOBAL const Grid *grid, int image)
{
#if PERIODIC
    return make_float4((float)step_along(image, 0) * grid->size[0], (float)step_along(image, 1) * grid->size[1],
                       (float)step_along(image, 2) * grid->size[2], 0.0f);
#else
    return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#endif
}

#endif
