/* Stream filtering with aggregated atomics: a block counts the records it keeps, reserves that much
   of the output with one atomic addition, and writes. Blocks reserve in any order, and so do the
   warps of a block: the order of the records is lost.

   BLOCK threads per block, ITEMS records per thread, BLOCK apart. The counts are initially zero. */
#include "common/records.h"

__global__ void filter_atomic(GLOBAL const Record *__restrict__ records,
                              GLOBAL const int *__restrict__ keep, GLOBAL Record *kept,
                              GLOBAL int *count, GLOBAL Record *rest, GLOBAL int *rest_count,
                              GLOBAL const int *__restrict__ size, int most)
{
    __shared__ int by_block[2], block_offset[2];
    const unsigned n = length_of(size, most);
    if (blockIdx.x * (BLOCK * ITEMS) >= n)
        return;
    if (threadIdx.x < 2)
        by_block[threadIdx.x] = 0;
    __syncthreads();

    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    Record mine[ITEMS];
    int half_of[ITEMS], place[ITEMS]; /* half 0 is kept, 1 is the rest; 2 is past the last record */
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = begin + k * BLOCK;
        half_of[k] = 2;
        if (i < n) {
            mine[k] = records[i];
            half_of[k] = is_null(mine[k], keep, i);
        }
    }

#pragma unroll
    for (int part = 0; part <= BOTH; ++part) {
        /* Offsets within the block: a warp, or a thread if there are no warps, adds its number of
           kept records to the block's count at once. */
        int total = 0;
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            int is_mine = half_of[k] == part;
#ifdef __CUDACC__
            unsigned in_warp = __ballot_sync(0xffffffffu, is_mine);
            place[k] = total + __popc(in_warp & ((1u << threadIdx.x % 32) - 1));
            total += __popc(in_warp);
#else
            place[k] = total;
            total += is_mine;
#endif
        }
#ifdef __CUDACC__
        int offset = 0;
        if (threadIdx.x % 32 == 0)
            offset = atomicAdd(&by_block[part], total);
        offset = __shfl_sync(0xffffffffu, offset, 0);
#else
        int offset = atomicAdd(&by_block[part], total);
#endif

        /* Offsets in the output. */
        __syncthreads();
        if (threadIdx.x == 0)
            block_offset[part] = atomicAdd(part ? rest_count : count, by_block[part]);
        __syncthreads();
        offset += block_offset[part];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (half_of[k] == part)
                (part ? rest : kept)[offset + place[k]] = mine[k];
    }
}
