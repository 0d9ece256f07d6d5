/* The box of a search, and the vectors of pairs in double precision, from the users' positions.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). */
#ifndef GPUBENCH_COMMON_WAYS_H
#define GPUBENCH_COMMON_WAYS_H

#ifdef __OPENCL_VERSION__
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* The layout of BOX_DTYPE in gpubench/neighbours/box.py. An axis repeats if `periodic` is not 0. */
typedef struct Box {
    double low[3];
    double size[3];
    double periodic[3];
    double steps[3]; /* the edges, in whole steps */
    double per_size[3]; /* their reciprocals; 0 for axes that do not repeat */
    double per_step; /* the reciprocal of the step of coordinates that are searched */
} Box;

__device__ __forceinline__ double nearest(double difference, GLOBAL const Box *box, int axis)
{
    if (box->periodic[axis] == 0.0)
        return difference;
    return difference - rint(difference / box->size[axis]) * box->size[axis];
}

/* Along one axis, the vector from a particle to the nearest image of another. */
__device__ __forceinline__ double way_to(GLOBAL const REAL *given, size_t i, size_t j, GLOBAL const Box *box, int axis)
{
    return nearest((double)given[j * STRIDE + axis] - given[i * STRIDE + axis], box, axis);
}

/* The same to the image that is moved by a, b and c vectors of the cell. cell: vectors as rows. */
__device__ __forceinline__ double way_by(GLOBAL const REAL *given, size_t i, size_t j, int a, int b, int c,
                                         GLOBAL const double *cell, int axis)
{
    /* The sum of the shifts first, whose opposite is that of the opposite pair. */
    double shift = a * cell[axis] + b * cell[3 + axis] + c * cell[6 + axis];
    return ((double)given[j * STRIDE + axis] - given[i * STRIDE + axis]) + shift;
}

/* The same where the first is moved by `from` vectors, and the second by `to`. */
__device__ __forceinline__ double way_to_image(GLOBAL const REAL *given, size_t i, size_t j, GLOBAL const int *from,
                                               GLOBAL const int *to, GLOBAL const double *cell, int axis)
{
    return way_by(given, i, j, to[0] - from[0], to[1] - from[1], to[2] - from[2], cell, axis);
}

/* Whether a half list holds a pair in the row of its first particle: one of (i, j, S) and (j, i, -S). */
__device__ __forceinline__ int is_first(int i, int j, int a, int b, int c)
{
    return i != j ? i < j : a != 0 ? a > 0 : b != 0 ? b > 0 : c > 0;
}

#endif
