/* Rows of 1x3 blocks in any layout: loads, sums, and the assembly.

   Before it is included, a layout defines

     __device__ int64 place_of(int i, int k, int rows, int width, GLOBAL const int64 *start)

   the index of the k-th block of row i; a layout with another order of rows also defines ROW_AT(p, order), the row at
   position p, and place_of takes p. The host defines PLANES (three planes of floats in place of float4, whose fourth
   component is ignored) and TRANSPOSED. In the plain version, a product is

     sum = diagonal[i] . factors[i]
     for k < lengths[i]: at = place_of(i, k, ...), sum += blocks[at] . factors[columns[at]]

   and a transposed one, of a matrix with B_ji = -B_ij, with numbers for factors and a 3-vector for the sum

     sum = diagonal[i] * factors[i]
     for k < lengths[i]: at = place_of(i, k, ...), sum -= blocks[at] * factors[columns[at]] */
#ifndef GPUBENCH_COMMON_BLOCK_ROWS_H
#define GPUBENCH_COMMON_BLOCK_ROWS_H

#ifndef ROW_AT
#define ROW_AT(p, order) (p)
#endif

/* The matrix is read once: on CUDA it is evicted from the caches first, and the factors stay. */
#ifndef STREAMED
#ifdef __CUDACC__
#define STREAMED(address) __ldcs(address)
#else
#define STREAMED(address) (*(address))
#endif
#endif

__device__ __forceinline__ float4 block_at(GLOBAL const float *__restrict__ blocks, int64 plane, int64 at)
{
#if PLANES
    return make_float4(STREAMED(blocks + at), STREAMED(blocks + plane + at), STREAMED(blocks + 2 * plane + at),
                       0.0f);
#else
    return STREAMED((GLOBAL const float4 *)blocks + at);
#endif
}

__device__ __forceinline__ void store_block(GLOBAL float *__restrict__ blocks, int64 plane, int64 at, float4 b)
{
#if PLANES
    blocks[at] = b.x;
    blocks[plane + at] = b.y;
    blocks[2 * plane + at] = b.z;
#else
    ((GLOBAL float4 *)blocks)[at] = b;
#endif
}

#if TRANSPOSED
typedef float Factor;
typedef float4 Sum;

__device__ __forceinline__ Sum first_term(float4 d, Factor z)
{
    return make_float4(d.x * z, d.y * z, d.z * z, 0.0f);
}

__device__ __forceinline__ Sum add_term(Sum sum, float4 b, Factor z)
{
    return make_float4(fmaf(-b.x, z, sum.x), fmaf(-b.y, z, sum.y), fmaf(-b.z, z, sum.z), 0.0f);
}
#else
typedef float4 Factor;
typedef float Sum;

__device__ __forceinline__ Sum first_term(float4 d, Factor x)
{
    return fmaf(d.z, x.z, fmaf(d.y, x.y, d.x * x.x));
}

__device__ __forceinline__ Sum add_term(Sum sum, float4 b, Factor x)
{
    return fmaf(b.z, x.z, fmaf(b.y, x.y, fmaf(b.x, x.x, sum)));
}
#endif

/* Add `count` blocks, from index `at` on, `stride` apart. UNROLL blocks and columns are loaded before their factors,
   so that these loads overlap. With further unrolling by the compiler, this takes twice the time on an H200. */
__device__ __forceinline__ Sum add_blocks(Sum sum, GLOBAL const int *__restrict__ columns,
                                          GLOBAL const float *__restrict__ blocks, int64 plane, int64 at,
                                          int64 stride, int count, GLOBAL const Factor *__restrict__ factors)
{
#pragma unroll 1
    for (; count >= UNROLL; count -= UNROLL) {
        int column[UNROLL];
        float4 block[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u, at += stride) {
            column[u] = STREAMED(columns + at);
            block[u] = block_at(blocks, plane, at);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            sum = add_term(sum, block[u], factors[column[u]]);
    }
    for (; count > 0; --count, at += stride)
        sum = add_term(sum, block_at(blocks, plane, at), factors[STREAMED(columns + at)]);
    return sum;
}

/* The gradient of a pair, see gpubench/inputs/matrices.py. */
__device__ __forceinline__ float4 pair_block(float4 p, float4 q, float inverse_cutoff)
{
    float x = (p.x - q.x) * inverse_cutoff, y = (p.y - q.y) * inverse_cutoff, z = (p.z - q.z) * inverse_cutoff;
    float left = 1.0f - fmaf(z, z, fmaf(y, y, x * x)), w = left * left;
    return make_float4(w * x, w * y, w * z, 0.0f);
}

/* One thread per row: its blocks from a neighbour list and positions, or, if `given`, from compressed rows with
   blocks `values` and diagonal `given_diagonal`. */
__global__ void assemble(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                         GLOBAL const float4 *__restrict__ values,
                         GLOBAL const float4 *__restrict__ given_diagonal, int given, float inverse_cutoff,
                         int rows, int width, GLOBAL const int64 *__restrict__ start,
                         GLOBAL const int *__restrict__ order, GLOBAL int *__restrict__ lengths,
                         GLOBAL int *__restrict__ columns, GLOBAL float *__restrict__ blocks, int64 plane,
                         GLOBAL float *__restrict__ diagonal)
{
    int p = blockIdx.x * BLOCK + threadIdx.x;
    if (p >= rows)
        return;
    int i = ROW_AT(p, order);
    int64 from = offsets[i];
    int length = (int)(offsets[i + 1] - from);
    float4 own = given ? given_diagonal[i] : values[i], sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < length; ++k) {
        int j = neighbours[from + k];
        int64 at = place_of(p, k, rows, width, start);
        float4 b = given ? values[from + k] : pair_block(own, values[j], inverse_cutoff);
        sum = make_float4(sum.x - b.x, sum.y - b.y, sum.z - b.z, 0.0f);
        columns[at] = j;
        store_block(blocks, plane, at, b);
    }
    store_block(diagonal, rows, i, given ? own : sum);
    lengths[i] = length;
}

#endif
