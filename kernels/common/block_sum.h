/* Exclusive sums over the threads of a block. */
#ifndef GPUBENCH_COMMON_BLOCK_SUM_H
#define GPUBENCH_COMMON_BLOCK_SUM_H

/* The sum of the values of all preceding threads. sums: scratch, one per thread. */
__device__ __forceinline__ int sum_before(int value, LOCAL int *sums, int threads)
{
#ifdef __CUDACC__
    const unsigned all = 0xffffffffu, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = value;
    for (int reach = 1; reach < 32; reach *= 2) {
        const int before = __shfl_up_sync(all, sum, reach);
        sum += lane >= reach ? before : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    int of_warps = lane < warp ? sums[lane] : 0;
    for (int reach = 16; reach > 0; reach /= 2)
        of_warps += __shfl_xor_sync(all, of_warps, reach);
    return of_warps + sum - value;
#else
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int reach = 1; reach < threads; reach *= 2) {
        const int before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    return sums[threadIdx.x] - value;
#endif
}

#endif
