/* Sliced ELL (SELL-C-sigma: Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36, 2014, C = 32):
   in each window of SIGMA rows the longest come first, and 32 rows in that order form a slice, as wide as its
   longest. So the threads of a warp end together, and read full sectors. Row order[p] is at position p; the k-th
   block of that row is at start[p / 32] + 32 k + p % 32. Diagonal, lengths, factors and sums keep the order of
   the rows. */

#define SLICE 32
#define ROW_AT(p, order) (order[p])

__device__ __forceinline__ int64 place_of(int p, int k, int rows, int width, GLOBAL const int64 *start)
{
    return start[p / SLICE] + (int64)SLICE * k + p % SLICE;
}

#include "common/bitonic.h"
#include "common/block_rows.h"

__device__ __forceinline__ int length_of(GLOBAL const int64 *offsets, int i)
{
    return (int)(offsets[i + 1] - offsets[i]);
}

/* Sort each window of SIGMA rows by decreasing length, and compute the size of each slice. */
__global__ void order_rows(GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ order,
                           GLOBAL int *__restrict__ places, int rows)
{
    __shared__ uint64 tile[TILE_WORDS(SIGMA)];
    int begin = blockIdx.x * SIGMA;
    for (int k = threadIdx.x; k < SIGMA; k += BLOCK) {
        int i = begin + k;
        tile[AT(k)] = i < rows ? pair_key(0x7fffffff - length_of(offsets, i), i) : INFINITE;
    }
    sort_tile(tile, SIGMA);
    for (int k = threadIdx.x; k < SIGMA; k += BLOCK) {
        int p = begin + k;
        if (p >= rows)
            continue;
        int i = (int)(tile[AT(k)] & 0x7fffffffu);
        order[p] = i;
        if (p % SLICE == 0)
            places[p / SLICE] = length_of(offsets, i) * SLICE;
    }
}

__global__ void multiply(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                         GLOBAL const int *__restrict__ order, GLOBAL const int *__restrict__ columns,
                         GLOBAL const float *__restrict__ blocks, int64 plane,
                         GLOBAL const float *__restrict__ diagonal, int rows,
                         GLOBAL const Factor *__restrict__ factors, GLOBAL Sum *__restrict__ sums)
{
    int p = blockIdx.x * BLOCK + threadIdx.x;
    if (p >= rows)
        return;
    int i = order[p];
    Sum sum = first_term(block_at(diagonal, rows, i), factors[i]);
    sums[i] = add_blocks(sum, columns, blocks, plane, place_of(p, 0, rows, 0, start), SLICE, lengths[i], factors);
}
