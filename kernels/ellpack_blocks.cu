/* Block ELLPACK: one thread per row, column-major, the diagonal stored separately.

   The k-th block of row i is at k * rows + i, so that the threads of a warp read adjacent blocks, up to the
   width of the layout. The excess of each row follows all columns, row by row: that of row i begins at rows *
   width + start[i]. Nothing is truncated. */

__device__ __forceinline__ int64 place_of(int i, int k, int rows, int width, GLOBAL const int64 *start)
{
    return k < width ? (int64)k * rows + i : (int64)rows * width + start[i] + k - width;
}

#include "common/block_rows.h"

/* The number of blocks of each row beyond the width. */
__global__ void count_rest(GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ rest, int rows,
                           int width)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < rows)
        rest[i] = max((int)(offsets[i + 1] - offsets[i]) - width, 0);
}

__global__ void multiply(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                         GLOBAL const int *__restrict__ columns, GLOBAL const float *__restrict__ blocks,
                         int64 plane, GLOBAL const float *__restrict__ diagonal, int rows, int width,
                         GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int length = STREAMED(lengths + i);
    Sum sum = first_term(block_at(diagonal, rows, i), factors[i]);
    sum = add_blocks(sum, columns, blocks, plane, i, rows, min(length, width), factors);
    if (length > width) {
        int64 rest = place_of(i, width, rows, width, start);
        sum = add_blocks(sum, columns, blocks, plane, rest, 1, length - width, factors);
    }
    sums[i] = sum;
}
