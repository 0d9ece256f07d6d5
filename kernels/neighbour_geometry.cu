/* Conversion of users' positions for a search, and geometry of the pairs found.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). All arithmetic
   on them is in double precision. CELLS: whether to compute cells. */
#include "common/grid.h"

#ifdef __OPENCL_VERSION__
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* The box in double precision; an axis repeats if `periodic` is not 0. */
typedef struct Box {
    double low[3];
    double size[3];
    double periodic[3];
} Box;

/* Box edges. Beyond, rounding in double precision would exceed the bound, and shifts an int. */
#define MOST_IMAGES 1073741823.0
#define NOT_FINITE 0
#define OUTSIDE 1
#define MOST_PAIRS 2

/* A coordinate relative to the corner of the box, inside it. Invalid ones are set to 0, so that no kernel reads
   out of bounds, and reported: status[...] = particle + 1. */
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
        x -= floor(x / size) * size;
        /* Rounded past one end, which is equivalent to the other end. */
        return x >= 0.0 && x < size ? (float)x : 0.0f;
    }
    if (x >= 0.0 && x <= size)
        return (float)x;
    status[OUTSIDE] = particle + 1;
    return 0.0f;
}

/* Wrap and shift positions, and with CELLS compute their cells. One thread per particle. */
__global__ void place(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box,
                      GLOBAL const Grid *__restrict__ grid, int particles,
                      GLOBAL float4 *__restrict__ positions, GLOBAL int *__restrict__ cell_of,
                      GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    size_t row = (size_t)i * STRIDE;
    float x = placed(given[row], box, 0, i, status);
    float y = placed(given[row + 1], box, 1, i, status);
    float z = placed(given[row + 2], box, 2, i, status);
    positions[i] = make_float4(x, y, z, 0.0f);
#if CELLS
    cell_of[i] = cell_number(grid, cell_along(grid, 0, x), cell_along(grid, 1, y), cell_along(grid, 2, z));
#endif
}

/* Store the number of pairs of a search, or with `keeps_most` the maximum over searches. One thread. */
__global__ void note_pairs(GLOBAL const int64 *offsets, int particles, int keeps_most, GLOBAL int64 *status)
{
    if (blockIdx.x == 0 && threadIdx.x == 0 && (!keeps_most || offsets[particles] > status[MOST_PAIRS]))
        status[MOST_PAIRS] = offsets[particles];
}

__device__ __forceinline__ double nearest(double difference, GLOBAL const Box *box, int axis)
{
    if (box->periodic[axis] == 0.0)
        return difference;
    return difference - rint(difference / box->size[axis]) * box->size[axis];
}

/* Set `status` if a particle has moved further than sqrt(reach2), beside the change of the box: a matrix by rows, and
   the corner, which stays. One thread per particle. */
__global__ void has_moved(GLOBAL const REAL *__restrict__ before, GLOBAL const REAL *__restrict__ now,
                          GLOBAL const Box *__restrict__ box, GLOBAL const double *__restrict__ change, int particles,
                          double reach2, GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    double sum = 0.0;
    GLOBAL const REAL *old = before + (size_t)i * STRIDE;
    for (int axis = 0; axis < 3; ++axis) {
        double d = (double)now[(size_t)i * STRIDE + axis] - change[9 + axis];
        for (int from = 0; from < 3; ++from)
            d -= ((double)old[from] - change[9 + from]) * change[3 * from + axis];
        d = nearest(d, box, axis);
        sum += d * d;
    }
    if (!(sum <= reach2))
        status[0] = 1;
}

/* For each of the first `most` pairs of a list: its two rows (pairs), and the vector from first to second, or its
   length (geometry). Row r is of particle ids[r]. One thread per row. */
__global__ void write_pairs(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                            int64 most, int rows, GLOBAL int *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        out[2 * k] = (int)row;
        out[2 * k + 1] = neighbours[k];
    }
}

__global__ void write_geometry(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                               GLOBAL const int *__restrict__ ids, GLOBAL const REAL *__restrict__ given,
                               GLOBAL const Box *__restrict__ box, int64 most, int rows, int wants_vectors,
                               GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    size_t i = (size_t)ids[row] * STRIDE;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        size_t j = (size_t)ids[neighbours[k]] * STRIDE;
        double x = nearest((double)given[j] - given[i], box, 0);
        double y = nearest((double)given[j + 1] - given[i + 1], box, 1);
        double z = nearest((double)given[j + 2] - given[i + 2], box, 2);
        if (wants_vectors) {
            out[3 * k] = (REAL)x;
            out[3 * k + 1] = (REAL)y;
            out[3 * k + 2] = (REAL)z;
        } else {
            out[k] = (REAL)sqrt(x * x + y * y + z * z);
        }
    }
}

/* Which image of its second particle a pair has: the number of edges that lead to the one nearest to the first. */
__global__ void write_shifts(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                             GLOBAL const int *__restrict__ ids, GLOBAL const REAL *__restrict__ given,
                             GLOBAL const Box *__restrict__ box, int64 most, int rows, GLOBAL int *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    size_t i = (size_t)ids[row] * STRIDE;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        size_t j = (size_t)ids[neighbours[k]] * STRIDE;
        for (int axis = 0; axis < 3; ++axis) {
            double edges = ((double)given[j + axis] - given[i + axis]) / box->size[axis];
            out[3 * k + axis] = box->periodic[axis] == 0.0 ? 0 : -(int)rint(edges);
        }
    }
}

/* The same for pairs of images: image k is moved from its particle by moves[k] vectors of the cell. */
__global__ void write_image_shifts(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ images,
                                   GLOBAL const int *__restrict__ moves, int64 most, int rows,
                                   GLOBAL int *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k)
        for (int axis = 0; axis < 3; ++axis)
            out[3 * k + axis] = moves[3 * (size_t)images[k] + axis] - moves[3 * (size_t)row + axis];
}

/* As write_geometry, for pairs of images. cell: vectors as rows. */
__global__ void write_image_geometry(GLOBAL const int64 *__restrict__ offsets,
                                     GLOBAL const int *__restrict__ neighbours, GLOBAL const int *__restrict__ images,
                                     GLOBAL const int *__restrict__ moves, GLOBAL const REAL *__restrict__ given,
                                     GLOBAL const double *__restrict__ cell, int64 most, int rows,
                                     int wants_vectors, GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    size_t i = (size_t)row * STRIDE;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        size_t j = (size_t)neighbours[k] * STRIDE, to = 3 * (size_t)images[k], from = 3 * (size_t)row;
        double sum = 0.0;
        for (int axis = 0; axis < 3; ++axis) {
            /* The sum of the shifts first, whose opposite is that of the opposite pair. */
            double shift = (moves[to] - moves[from]) * cell[axis] + (moves[to + 1] - moves[from + 1]) * cell[3 + axis] +
                           (moves[to + 2] - moves[from + 2]) * cell[6 + axis];
            double way = ((double)given[j + axis] - given[i + axis]) + shift;
            sum += way * way;
            if (wants_vectors)
                out[3 * k + axis] = (REAL)way;
        }
        if (!wants_vectors)
            out[k] = (REAL)sqrt(sum);
    }
}
