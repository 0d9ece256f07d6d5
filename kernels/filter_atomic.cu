/* Stream filtering with aggregated atomics: a block counts what it keeps, takes that many places
   of the output with one atomic addition, and writes. Blocks take their places in any order, and
   so do the warps of a block: the order of the records is lost.

   BLOCK threads a block, ITEMS records a thread, BLOCK apart. The count is zero beforehand. */
#include "common/records.h"

__global__ void filter_atomic(GLOBAL const Record *__restrict__ records,
                              GLOBAL const int *__restrict__ keep, GLOBAL Record *__restrict__ kept,
                              GLOBAL int *count, int n)
{
    __shared__ int kept_by_block, block_offset;
    if (threadIdx.x == 0)
        kept_by_block = 0;
    __syncthreads();

    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    Record mine[ITEMS];
    int is_kept[ITEMS], place[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = begin + k * BLOCK;
        is_kept[k] = 0;
        if (i < n) {
            mine[k] = records[i];
            is_kept[k] = !is_null(mine[k], keep, i);
        }
    }

    /* Places within the block: a warp, or a thread where there are no warps, adds what it keeps
       to the block's count at once. */
    int total = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
#ifdef __CUDACC__
        unsigned in_warp = __ballot_sync(0xffffffffu, is_kept[k]);
        place[k] = total + __popc(in_warp & ((1u << threadIdx.x % 32) - 1));
        total += __popc(in_warp);
#else
        place[k] = total;
        total += is_kept[k];
#endif
    }
#ifdef __CUDACC__
    int offset = 0;
    if (threadIdx.x % 32 == 0)
        offset = atomicAdd(&kept_by_block, total);
    offset = __shfl_sync(0xffffffffu, offset, 0);
#else
    int offset = atomicAdd(&kept_by_block, total);
#endif

    /* Places in the output. */
    __syncthreads();
    if (threadIdx.x == 0)
        block_offset = atomicAdd(count, kept_by_block);
    __syncthreads();
    offset += block_offset;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (is_kept[k])
            kept[offset + place[k]] = mine[k];
}
