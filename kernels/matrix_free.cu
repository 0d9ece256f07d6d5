/* Products with blocks that are computed from positions, over columns as in ellpack_blocks.cu. With D_i minus the sum
   of row i, in the plain version

     product:    y_i = sum over j of B_ij . (x_j - x_i)
     transpose:  u_i = - sum over j of B_ij (z_i + z_j) */
#include "ellpack_blocks.cu"

#if TRANSPOSED
__device__ __forceinline__ Factor paired(Factor own, Factor other)
{
    return own + other;
}
#else
__device__ __forceinline__ Factor paired(Factor own, Factor other)
{
    return make_float4(other.x - own.x, other.y - own.y, other.z - own.z, 0.0f);
}
#endif

/* One thread per row: its neighbours as columns. */
__global__ void note_columns(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                             int rows, int width, GLOBAL const int64 *__restrict__ start,
                             GLOBAL int *__restrict__ lengths, GLOBAL int *__restrict__ columns)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int64 from = offsets[i];
    int length = (int)(offsets[i + 1] - from);
    for (int k = 0; k < length; ++k)
        columns[place_of(i, k, rows, width, start)] = neighbours[from + k];
    lengths[i] = length;
}

/* Like add_blocks, for row i. */
__device__ __forceinline__ Sum add_pairs(Sum sum, GLOBAL const int *__restrict__ columns,
                                         GLOBAL const float4 *__restrict__ positions, float inverse_cutoff, int i,
                                         int64 at, int64 stride, int count,
                                         GLOBAL const Factor *__restrict__ factors)
{
    float4 place = positions[i];
    Factor own = factors[i];
#pragma unroll 1
    for (; count >= UNROLL; count -= UNROLL) {
        int column[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u, at += stride)
            column[u] = STREAMED(columns + at);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            sum = add_term(sum, pair_block(place, positions[column[u]], inverse_cutoff),
                           paired(own, factors[column[u]]));
    }
    for (; count > 0; --count, at += stride) {
        int column = STREAMED(columns + at);
        sum = add_term(sum, pair_block(place, positions[column], inverse_cutoff), paired(own, factors[column]));
    }
    return sum;
}

__global__ void multiply_free(GLOBAL const int *__restrict__ lengths, GLOBAL const int64 *__restrict__ start,
                              GLOBAL const int *__restrict__ columns, GLOBAL const float4 *__restrict__ positions,
                              float inverse_cutoff, int rows, int width, GLOBAL const Factor *__restrict__ factors,
                              GLOBAL Sum *__restrict__ sums)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows)
        return;
    int length = STREAMED(lengths + i);
#if TRANSPOSED
    Sum sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#else
    Sum sum = 0.0f;
#endif
    sum = add_pairs(sum, columns, positions, inverse_cutoff, i, i, rows, min(length, width), factors);
    if (length > width) {
        int64 rest = place_of(i, width, rows, width, start);
        sum = add_pairs(sum, columns, positions, inverse_cutoff, i, rest, 1, length - width, factors);
    }
    sums[i] = sum;
}
