/* Neighbours in many small systems at once, each with a cell that repeats along any vectors, or none:

       for each particle i, for each j of its system and each sum S of whole multiples of its cell's vectors:
           if |x[j] - x[i] + S| < cutoff: image S of j is a neighbour of i

   All particles of a system are tried, in the images of the cell that are near enough. Float32 selects, from positions
   relative to the first particle of the system; double precision decides.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). */
#include "common/ways.h"

/* The layout of SYSTEM_DTYPE in gpubench/neighbours/batch.py. Matrices are by rows. */
typedef struct System {
    double cell[9];  /* vectors; 0 along open axes */
    double dual[9];  /* columns: their product with a position is its fraction of each vector */
    double reach[3]; /* of the cutoff, in fractions */
    double span;     /* the greatest length of a shift */
    int first, end;  /* particles */
} System;

/* On a CPU, the inner loop over particles is for vectors, not the rows of several threads. */
#ifdef __OPENCL_VERSION__
#define ROW_BY_ROW __attribute__((vec_type_hint(float16)))
#else
#define ROW_BY_ROW
#endif

#define MOST_IMAGES 536870912.0 /* of which the difference still fits into an int */
#define ROUNDING 4.76837158e-7f /* 2^-21: more than that of a difference, relative to what it is of */
#define SLACK 1e-5              /* of fractions, which float32 rounds */

/* Move each particle into the cell at the first one of its system. placed: relative to that one, without the `moves`,
   multiples of vectors, that lead back to the given position. One thread per particle. */
__global__ void place(GLOBAL const REAL *__restrict__ given, GLOBAL const System *__restrict__ systems,
                      GLOBAL const int *__restrict__ system_of, int particles, GLOBAL float4 *__restrict__ placed,
                      GLOBAL float4 *__restrict__ fractions, GLOBAL int *__restrict__ moves,
                      GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    GLOBAL const System *own = systems + system_of[i];
    double x[3], fraction[3], whole[3];
    int is_sound = 1, at_fault = (int)i;
    for (int axis = 0; axis < 3; ++axis) {
        double coordinate = given[(size_t)i * STRIDE + axis];
        x[axis] = coordinate - given[(size_t)own->first * STRIDE + axis];
        if (coordinate - coordinate == 0.0 && !(x[axis] - x[axis] == 0.0))
            at_fault = own->first;
    }
    for (int axis = 0; axis < 3; ++axis) {
        fraction[axis] = x[0] * own->dual[axis] + x[1] * own->dual[3 + axis] + x[2] * own->dual[6 + axis];
        whole[axis] = floor(fraction[axis]);
        is_sound &= x[axis] - x[axis] == 0.0 && fabs(whole[axis]) <= MOST_IMAGES;
        fraction[axis] -= whole[axis];
    }
    if (!is_sound)
        status[0] = at_fault + 1;
    for (int axis = 0; axis < 3; ++axis) {
        moves[3 * (size_t)i + axis] = is_sound ? (int)whole[axis] : 0;
        x[axis] -= whole[0] * own->cell[axis] + whole[1] * own->cell[3 + axis] + whole[2] * own->cell[6 + axis];
    }
    placed[i] = make_float4((float)x[0], (float)x[1], (float)x[2], 0.0f);
    fractions[i] = make_float4((float)fraction[0], (float)fraction[1], (float)fraction[2], 0.0f);
}

/* Which of up to 32 particles are not further from a point than sqrt(most2), as bits; also those of which float32 does not
   know. */
__device__ __forceinline__ unsigned near_of(GLOBAL const float4 *placed, int number, float x, float y, float z,
                                            float most2)
{
    unsigned bits = 0;
    for (int k = 0; k < number; ++k) {
        const float4 q = placed[k];
        const float dx = q.x - x, dy = q.y - y, dz = q.z - z;
        bits |= (unsigned)!(dx * dx + dy * dy + dz * dz > most2) << k;
    }
    return bits;
}

/* Count the neighbours of each particle, or with WRITES list them with their shifts; those of TILE particles, one after
   the other, by their images: with TILE 1, rows ascend by neighbour and shift. One thread per particle. */
__global__ void ROW_BY_ROW pairs(GLOBAL const REAL *__restrict__ given, GLOBAL const System *__restrict__ systems,
                      GLOBAL const int *__restrict__ system_of, int particles, GLOBAL const float4 *__restrict__ placed,
                      GLOBAL const float4 *__restrict__ fractions, GLOBAL const int *__restrict__ moves, double reach,
                      GLOBAL int *__restrict__ counts, GLOBAL const int64 *__restrict__ offsets,
                      GLOBAL int *__restrict__ neighbours, GLOBAL int *__restrict__ shifts)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    GLOBAL const System *own = systems + system_of[i];
    const float4 p = placed[i];
    const double f[3] = {fractions[i].x, fractions[i].y, fractions[i].z};
    int low[3], high[3];
    for (int axis = 0; axis < 3; ++axis) {
        const double near = own->reach[axis];
        low[axis] = near > 0.0 ? (int)floor(f[axis] - near - SLACK) : 0;
        high[axis] = near > 0.0 ? (int)floor(f[axis] + near + SLACK) : 0;
    }
    /* A neighbour is as far from the first particle as this one, but for the cutoff. */
    const float rounding = ROUNDING * (fabsf(p.x) + fabsf(p.y) + fabsf(p.z) + (float)own->span + (float)reach);
    const float most2 = ((float)reach + rounding) * ((float)reach + rounding);
    const double reach2 = reach * reach;
    int found = 0;
    for (int block = own->first; block < own->end; block += TILE)
        for (int a = low[0]; a <= high[0]; ++a)
            for (int b = low[1]; b <= high[1]; ++b)
                for (int c = low[2]; c <= high[2]; ++c) {
                    GLOBAL const double *v = own->cell;
                    const float x = p.x - (float)(a * v[0] + b * v[3] + c * v[6]);
                    const float y = p.y - (float)(a * v[1] + b * v[4] + c * v[7]);
                    const float z = p.z - (float)(a * v[2] + b * v[5] + c * v[8]);
                    unsigned bits = near_of(placed + block, min(own->end - block, TILE), x, y, z, most2);
                    for (; bits; bits &= bits - 1) {
                        const int j = block + 31 - __clz((int)(bits & -bits));
                        const size_t from = 3 * (size_t)i, to = 3 * (size_t)j;
                        const int shift[3] = {a + moves[from] - moves[to], b + moves[from + 1] - moves[to + 1],
                                              c + moves[from + 2] - moves[to + 2]};
                        double sum = 0.0;
                        for (int axis = 0; axis < 3; ++axis) {
                            double way = way_by(given, i, j, shift[0], shift[1], shift[2], v, axis);
                            sum += way * way;
                        }
                        const int is_itself = j == (int)i && a == 0 && b == 0 && c == 0;
                        if (is_itself || !(sum < reach2))
                            continue;
#if HALF
                        if (!is_first(i, j, shift[0], shift[1], shift[2]))
                            continue;
#endif
#if WRITES
                        const int64 k = offsets[i] + found;
                        neighbours[k] = j;
                        for (int axis = 0; axis < 3; ++axis)
                            shifts[3 * k + axis] = shift[axis];
#endif
                        ++found;
                    }
                }
#if !WRITES
    counts[i] = found;
#endif
}
