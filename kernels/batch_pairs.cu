/* Neighbours in many small systems at once, each with a cell that repeats along any vectors, or none:

       for each particle i, for each j of its system and each sum S of whole multiples of its cell's vectors:
           if |x[j] - x[i] + S| < cutoff: image S of j is a neighbour of i

   All particles of a system are tried, in the images that are near enough along each vector. Float32 finds which
   images are, from positions relative to the first particle of the system; double precision decides where rounding
   could. LANES threads share a row: each takes as many particles, one after the other, and so rows ascend by neighbour
   and shift. What is near is kept as bits, from which rows are written once their places are known.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). */
#include "common/ways.h"

/* The layout of SYSTEM_DTYPE in gpubench/neighbours/batch.py. Matrices are by rows. */
typedef struct System {
    double cell[9];  /* vectors; 0 along open axes */
    double dual[9];  /* columns: their product with a position is its fraction of each vector */
    float vectors[9]; /* the cell */
    float near[3];   /* the cutoff, in fractions, and a little more */
    float span;      /* the greatest length of a shift */
    int number[3];   /* images of a pair that may be near, along each vector */
    int images;      /* their product */
    int first, end;  /* particles */
} System;

#define MOST_IMAGES 536870912.0 /* of which the difference still fits into an int */
#define ROUNDING 9.53674316e-7f /* 2^-20: more than that of a difference, relative to what it is of */

/* Move each particle into the cell at the first one of its system. placed: relative to that one, without the `moves`,
   multiples of vectors, that lead back to the given position. One thread per particle. */
__global__ void place(GLOBAL const REAL *__restrict__ given, GLOBAL const System *__restrict__ systems,
                      GLOBAL const int *__restrict__ system_of, int particles, GLOBAL float4 *__restrict__ placed,
                      GLOBAL float4 *__restrict__ fractions, GLOBAL int4 *__restrict__ moves,
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
    moves[i] = make_int4(is_sound ? (int)whole[0] : 0, is_sound ? (int)whole[1] : 0, is_sound ? (int)whole[2] : 0, 0);
    for (int axis = 0; axis < 3; ++axis)
        x[axis] -= whole[0] * own->cell[axis] + whole[1] * own->cell[3 + axis] + whole[2] * own->cell[6 + axis];
    placed[i] = make_float4((float)x[0], (float)x[1], (float)x[2], 0.0f);
    fractions[i] = make_float4((float)fraction[0], (float)fraction[1], (float)fraction[2], 0.0f);
}

/* A row, as one of its threads sees it. */
typedef struct Row {
    GLOBAL const System *own;
    float4 p, f;         /* the particle, and its fractions */
    float most2, least2; /* beyond the first square no image is near; below the second all are */
    double reach2;
    int i, first, end;   /* the particle, and those that the thread tries */
    int words;           /* of bits */
    int in_word;         /* particles, if a word holds their images */
    float per_plane, per_line; /* reciprocals of the images in a plane of two vectors, and in a line */
} Row;

/* Words hold the images of one or more whole particles, or several words those of one. */
__device__ __forceinline__ Row row_of(GLOBAL const System *systems, GLOBAL const int *system_of,
                                      GLOBAL const float4 *placed, GLOBAL const float4 *fractions, double reach,
                                      int i, int lane)
{
    Row row;
    row.own = systems + system_of[i];
    row.p = placed[i];
    row.f = fractions[i];
    row.i = i;
    const int each = (row.own->end - row.own->first + LANES - 1) / LANES;
    row.first = min(row.own->first + lane * each, row.own->end);
    row.end = min(row.first + each, row.own->end);
    /* A neighbour is as far from the first particle as this one, but for the cutoff. */
    const float most = (float)reach, of = fabsf(row.p.x) + fabsf(row.p.y) + fabsf(row.p.z) + row.own->span + most;
    const float rounding = ROUNDING * of, least = most - rounding;
    row.most2 = (most + rounding) * (most + rounding);
    row.least2 = least > 0.0f ? least * least : 0.0f;
    row.reach2 = reach * reach;
    row.per_plane = 1.0f / (float)(row.own->number[1] * row.own->number[2]);
    row.per_line = 1.0f / (float)row.own->number[2];
    row.in_word = row.own->images < 32 ? 32 / row.own->images : 1;
    row.words = row.own->images < 32 ? (row.end - row.first + row.in_word - 1) / row.in_word
                                     : (row.end - row.first) * ((row.own->images + 31) / 32);
    return row;
}

/* The first image that may be near, along a vector. */
__device__ __forceinline__ int first_along(float from, float to, float near)
{
    return -(int)floorf((to - from) + near);
}

/* An image of j by its number: the multiples of each vector. Below 2^21, rounding does not change the quotients. */
__device__ __forceinline__ int4 image_of(const Row *row, float4 f, int number)
{
    GLOBAL const System *own = row->own;
    const int a = (int)((number + 0.5f) * row->per_plane), left = number - a * own->number[1] * own->number[2];
    const int b = (int)((left + 0.5f) * row->per_line);
    return make_int4(a + first_along(row->f.x, f.x, own->near[0]), b + first_along(row->f.y, f.y, own->near[1]),
                     left - b * own->number[2] + first_along(row->f.z, f.z, own->near[2]), 0);
}

/* Whether an image of j is nearer than the cutoff, in double precision. */
__device__ __forceinline__ int is_near(const Row *row, GLOBAL const REAL *given, GLOBAL const int4 *moves, int j,
                                       int4 image)
{
    const int4 from = moves[row->i], to = moves[j];
    const int a = image.x + from.x - to.x, b = image.y + from.y - to.y, c = image.z + from.z - to.z;
    double sum = 0.0;
    for (int axis = 0; axis < 3; ++axis) {
        double way = way_by(given, row->i, j, a, b, c, row->own->cell, axis);
        sum += way * way;
    }
    return sum < row->reach2;
}

/* Which of the images of j from number `from` on, up to 32, are neighbours, as bits. */
__device__ __forceinline__ unsigned images_of(const Row *row, GLOBAL const REAL *given,
                                              GLOBAL const float4 *placed, GLOBAL const float4 *fractions,
                                              GLOBAL const int4 *moves, int j, int from)
{
    GLOBAL const System *own = row->own;
    GLOBAL const float *v = own->vectors;
    const float4 q = placed[j], f = fractions[j];
    const int4 first = image_of(row, f, 0), start = from == 0 ? first : image_of(row, f, from);
    const float end_b = (float)(first.y + own->number[1]), end_c = (float)(first.z + own->number[2]);
    const int images = min(own->images - from, 32);
    const float dx = q.x - row->p.x, dy = q.y - row->p.y, dz = q.z - row->p.z;
    float a = (float)start.x, b = (float)start.y, c = (float)start.z;
    float x = dx + a * v[0] + b * v[3], y = dy + a * v[1] + b * v[4], z = dz + a * v[2] + b * v[5];
    unsigned near = 0, sure = 0, bit = 1;
    for (int k = 0; k < images; ++k, bit <<= 1) {
        const float wx = x + c * v[6], wy = y + c * v[7], wz = z + c * v[8], d2 = wx * wx + wy * wy + wz * wz;
        near |= d2 > row->most2 ? 0 : bit; /* double precision sees what is not finite */
        sure |= d2 < row->least2 ? bit : 0;
        c += 1.0f;
        if (c == end_c) {
            c = (float)first.z;
            b += 1.0f;
            if (b == end_b) {
                b = (float)first.y;
                a += 1.0f;
            }
            x = dx + a * v[0] + b * v[3];
            y = dy + a * v[1] + b * v[4];
            z = dz + a * v[2] + b * v[5];
        }
    }
    for (unsigned left = near & ~sure; left; left &= left - 1) {
        const int k = 31 - __clz((int)(left & -left));
        if (!is_near(row, given, moves, j, image_of(row, f, from + k)))
            near ^= 1u << k;
    }
    if (j == row->i) { /* is no neighbour of itself; half a list has the images behind it */
        const int k = -(first.x * own->number[1] + first.y) * own->number[2] - first.z - from;
        if (HALF)
            near = k < 0 ? near : k < 31 ? near & 0xffffffffu << (k + 1) : 0;
        else if (k >= 0 && k < 32)
            near &= ~(1u << k);
    }
    return near;
}

/* A word of the bits of a thread. */
__device__ __forceinline__ unsigned word_of(const Row *row, GLOBAL const REAL *given, GLOBAL const float4 *placed,
                                            GLOBAL const float4 *fractions, GLOBAL const int4 *moves, int word)
{
    const int images = row->own->images, of_one = (images + 31) / 32;
    const int j = row->first + (images < 32 ? word * row->in_word : word / of_one);
    unsigned bits = 0;
    for (int k = 0; k < row->in_word && j + k < row->end; ++k)
        if (!HALF || j + k >= row->i)
            bits |= images_of(row, given, placed, fractions, moves, j + k, images < 32 ? 0 : word % of_one * 32)
                    << (images < 32 ? k * images : 0);
    return bits;
}

#define WORD(number) words[(size_t)(number) * gridDim.x * BLOCK + thread]

/* Count the neighbours of each row, and those before each of its threads. With KEPT, keep the words of all threads.
   LANES threads per row, a divisor of the block. */
__global__ void count_pairs(GLOBAL const REAL *__restrict__ given, GLOBAL const System *__restrict__ systems,
                            GLOBAL const int *__restrict__ system_of, int particles,
                            GLOBAL const float4 *__restrict__ placed, GLOBAL const float4 *__restrict__ fractions,
                            GLOBAL const int4 *__restrict__ moves, double reach, GLOBAL unsigned *__restrict__ words,
                            GLOBAL int *__restrict__ before, GLOBAL int *__restrict__ counts)
{
    __shared__ int found[BLOCK];
    const size_t thread = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    const int lane = threadIdx.x % LANES, i = (int)(thread / LANES);
    int number = 0;
    if (i < particles) {
        const Row row = row_of(systems, system_of, placed, fractions, reach, i, lane);
        for (int w = 0; w < row.words; ++w) {
            const unsigned bits = word_of(&row, given, placed, fractions, moves, w);
#if KEPT
            WORD(w) = bits;
#endif
            number += __popc(bits);
        }
    }
    found[threadIdx.x] = number;
    __syncthreads();
    int sum = 0;
    for (int k = threadIdx.x - lane; k < threadIdx.x; ++k)
        sum += found[k];
    before[thread] = sum;
    if (lane == LANES - 1 && i < particles)
        counts[i] = sum + number;
}

/* List the neighbours that were counted, with their shifts. Those of a block follow each other: they are staged in
   shared memory as far as it holds them, for the block to write them in order. */
__global__ void write_pairs(GLOBAL const REAL *__restrict__ given, GLOBAL const System *__restrict__ systems,
                            GLOBAL const int *__restrict__ system_of, int particles,
                            GLOBAL const float4 *__restrict__ placed, GLOBAL const float4 *__restrict__ fractions,
                            GLOBAL const int4 *__restrict__ moves, double reach,
                            GLOBAL const unsigned *__restrict__ words, GLOBAL const int *__restrict__ before,
                            GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours,
                            GLOBAL int *__restrict__ shifts)
{
    __shared__ int staged[STAGE], staged_shifts[3 * STAGE];
    const size_t thread = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    const int lane = threadIdx.x % LANES, i = (int)(thread / LANES), first = blockIdx.x * (BLOCK / LANES);
    const int64 start = offsets[first], end = offsets[min(first + BLOCK / LANES, particles)];
    if (i < particles) {
        const Row row = row_of(systems, system_of, placed, fractions, reach, i, lane);
        const int images = row.own->images, of_one = (images + 31) / 32;
        const float per_one = images < 32 ? 1.0f / (float)images : 0.0f;
        const int4 from = moves[i];
        int64 place = offsets[i] - start + before[thread];
        for (int w = 0; w < row.words; ++w) {
#if KEPT
            unsigned bits = WORD(w);
#else
            unsigned bits = word_of(&row, given, placed, fractions, moves, w);
#endif
            for (; bits; bits &= bits - 1, ++place) {
                const int bit = 31 - __clz((int)(bits & -bits)), past = (int)((bit + 0.5f) * per_one);
                const int j = row.first + (images < 32 ? w * row.in_word + past : w / of_one);
                const int4 image =
                    image_of(&row, fractions[j], images < 32 ? bit - past * images : w % of_one * 32 + bit);
                const int4 to = moves[j];
                const int a = image.x + from.x - to.x, b = image.y + from.y - to.y, c = image.z + from.z - to.z;
                if (place < STAGE) {
                    staged[place] = j;
                    staged_shifts[3 * place] = a;
                    staged_shifts[3 * place + 1] = b;
                    staged_shifts[3 * place + 2] = c;
                } else {
                    neighbours[start + place] = j;
                    shifts[3 * (start + place)] = a;
                    shifts[3 * (start + place) + 1] = b;
                    shifts[3 * (start + place) + 2] = c;
                }
            }
        }
    }
    __syncthreads();
    const int number = (int)min(end - start, (int64)STAGE);
    for (int k = threadIdx.x; k < number; k += BLOCK)
        neighbours[start + k] = staged[k];
    for (int k = threadIdx.x; k < 3 * number; k += BLOCK)
        shifts[3 * start + k] = staged_shifts[k];
}
