/* Block ELLPACK with factors in shared memory: a thread block first copies the stretches of the vector that
   its rows need most. Rows in cell order need nine: consecutive cells along x hold consecutive particles.

   A stretch is (first column, length, place in shared memory). Columns in a stretch are stored as -1 - place
   (see `localise`), the others as they are and read from global memory. */

__device__ __forceinline__ int64 place_of(int i, int k, int rows, int width, GLOBAL const int64 *start)
{
    return (int64)k * rows + i;
}

#include "common/block_rows.h"

/* Store columns as places in shared memory; one thread a row. `staged` counts them. */
__global__ void localise(GLOBAL const int *__restrict__ lengths, GLOBAL int *__restrict__ columns,
                         GLOBAL const int4 *__restrict__ stretches, int rows, GLOBAL int *__restrict__ staged)
{
    int i = blockIdx.x * BLOCK + threadIdx.x, found = 0;
    if (i >= rows)
        return;
    for (int k = 0; k < lengths[i]; ++k) {
        int64 at = place_of(i, k, rows, 0, 0);
        int column = columns[at], is_in = 0;
        for (int s = 0; s < STRETCHES && !is_in; ++s) {
            int4 stretch = stretches[blockIdx.x * STRETCHES + s];
            is_in = column >= stretch.x && column < stretch.x + stretch.y;
            if (is_in)
                columns[at] = -1 - (stretch.z + column - stretch.x);
        }
        found += is_in;
    }
    atomicAdd(staged, found);
}

__global__ void multiply(GLOBAL const int *__restrict__ lengths, GLOBAL const int4 *__restrict__ stretches,
                         GLOBAL const int *__restrict__ columns, GLOBAL const float *__restrict__ blocks,
                         int64 plane, GLOBAL const float *__restrict__ diagonal, int rows,
                         GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    __shared__ Factor near[PLACES];
    for (int s = 0; s < STRETCHES; ++s) {
        int4 stretch = stretches[blockIdx.x * STRETCHES + s];
        for (int t = threadIdx.x; t < stretch.y; t += BLOCK)
            near[stretch.z + t] = factors[stretch.x + t];
    }
    __syncthreads();
    int i = blockIdx.x * BLOCK + threadIdx.x, k = 0;
    if (i >= rows)
        return;
    int length = STREAMED(lengths + i);
    Sum sum = first_term(block_at(diagonal, rows, i), factors[i]);
    int64 at = i;
    for (; k + UNROLL <= length; k += UNROLL) {
        int column[UNROLL];
        float4 block[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u, at += rows) {
            column[u] = STREAMED(columns + at);
            block[u] = block_at(blocks, plane, at);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            sum = add_term(sum, block[u], column[u] < 0 ? near[-1 - column[u]] : factors[column[u]]);
    }
    for (; k < length; ++k, at += rows) {
        int column = STREAMED(columns + at);
        sum = add_term(sum, block_at(blocks, plane, at), column < 0 ? near[-1 - column] : factors[column]);
    }
    sums[i] = sum;
}
