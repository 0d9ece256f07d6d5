/* Sliced ELL (SELL-32-1: Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36, 2014): rows of a
   warp are a slice, as wide as its longest row. The k-th block of row i is at start[i / 32] + 32 k + i % 32. */

#define SLICE 32

__device__ __forceinline__ int64 place_of(int i, int k, int rows, int width, GLOBAL const int64 *start)
{
    return start[i / SLICE] + (int64)SLICE * k + i % SLICE;
}

#include "common/block_rows.h"

/* How many places each slice takes: one thread a slice. */
__global__ void count_places(GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ places,
                             int rows, int slices)
{
    int slice = blockIdx.x * BLOCK + threadIdx.x, longest = 0;
    if (slice >= slices)
        return;
    int end = min((slice + 1) * SLICE, rows);
    for (int i = slice * SLICE; i < end; ++i)
        longest = max(longest, (int)(offsets[i + 1] - offsets[i]));
    places[slice] = longest * SLICE;
}

__global__ void multiply(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                         GLOBAL const int *__restrict__ columns, GLOBAL const float *__restrict__ blocks,
                         int64 plane, GLOBAL const float *__restrict__ diagonal, int rows, int width,
                         GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    Sum sum = first_term(block_at(diagonal, rows, i), factors[i]);
    sums[i] = add_blocks(sum, columns, blocks, plane, place_of(i, 0, rows, width, start), SLICE,
                         STREAMED(lengths + i), factors);
}
