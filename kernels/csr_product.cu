/* Compressed rows of blocks: the k-th block of row i is at start[i] + k. With one thread per row (multiply) the
   threads of a warp read blocks a row apart; with one warp per row (multiply_by_warps) adjacent ones, and lanes
   beyond a short row idle (Bell and Garland, NVR-2008-004, section 4). */

#define WARP 32

__device__ __forceinline__ int64 place_of(int i, int k, int rows, int width, GLOBAL const int64 *start)
{
    return start[i] + k;
}

/* A thread reads half a memory sector at a time: the other half must stay in a cache until its turn. */
#define STREAMED(address) (*(address))
#include "common/block_rows.h"

__global__ void multiply(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                         GLOBAL const int *__restrict__ columns, GLOBAL const float *__restrict__ blocks,
                         int64 plane, GLOBAL const float *__restrict__ diagonal, int rows, int width,
                         GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int64 from = start[i];
    Sum sum = first_term(block_at(diagonal, rows, i), factors[i]);
    sums[i] = add_blocks(sum, columns, blocks, plane, from, 1, (int)(start[i + 1] - from), factors);
}

#if TRANSPOSED
#define NOTHING make_float4(0.0f, 0.0f, 0.0f, 0.0f)
#define ADDED(a, b) make_float4(a.x + b.x, a.y + b.y, a.z + b.z, 0.0f)
#else
#define NOTHING 0.0f
#define ADDED(a, b) (a + b)
#endif
#ifdef __CUDACC__
#define JOIN_WARP() __syncwarp()
#else
#define JOIN_WARP() __syncthreads()
#endif

__global__ void multiply_by_warps(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                                  GLOBAL const int *__restrict__ columns, GLOBAL const float *__restrict__ blocks,
                                  int64 plane, GLOBAL const float *__restrict__ diagonal, int rows, int width,
                                  GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    __shared__ Sum part[BLOCK];
    int lane = threadIdx.x % WARP, i = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    Sum sum = NOTHING;
    if (i < rows) {
        int64 from = start[i];
        int mine = ((int)(start[i + 1] - from) - lane + WARP - 1) / WARP;
        if (lane == 0)
            sum = first_term(block_at(diagonal, rows, i), factors[i]);
        sum = add_blocks(sum, columns, blocks, plane, from + lane, WARP, mine, factors);
    }
    part[threadIdx.x] = sum;
    for (int reach = WARP / 2; reach > 0; reach /= 2) {
        JOIN_WARP();
        if (lane < reach)
            part[threadIdx.x] = ADDED(part[threadIdx.x], part[threadIdx.x + reach]);
    }
    if (lane == 0 && i < rows)
        sums[i] = part[threadIdx.x];
}

/* Three scalars per block, the diagonal first: the input of sparse matrix libraries. */
__global__ void to_scalars(GLOBAL const int64 *__restrict__ start, GLOBAL const int *__restrict__ columns,
                           GLOBAL const float4 *__restrict__ blocks, GLOBAL const float4 *__restrict__ diagonal,
                           int rows, GLOBAL int *__restrict__ scalar_start, GLOBAL int *__restrict__ scalar_columns,
                           GLOBAL float *__restrict__ scalars)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i == 0)
        scalar_start[0] = 0;
    if (i >= rows)
        return;
    int64 begin = start[i], entries = start[i + 1] - begin;
    int64 at = 3 * (begin + i);
    for (int64 k = -1; k < entries; ++k, at += 3) {
        float4 b = k < 0 ? diagonal[i] : blocks[begin + k];
        int column = 3 * (k < 0 ? i : columns[begin + k]);
        for (int part = 0; part < 3; ++part)
            scalar_columns[at + part] = column + part;
        scalars[at] = b.x;
        scalars[at + 1] = b.y;
        scalars[at + 2] = b.z;
    }
    scalar_start[i + 1] = (int)at;
}
