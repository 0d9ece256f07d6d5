/* A barrier of all blocks of a launch, for loops on the device. CUDA only. */
#ifndef GPUBENCH_COMMON_MEET_H
#define GPUBENCH_COMMON_MEET_H

/* Synchronise all blocks, which must all be resident, and return the sum of their warps' `left`.
   Stores of a block before the barrier are visible to all blocks after it.

   words: three, for passes modulo 3, each (arrivals << 32 | left) - 1: all bits set, like empty
   heads, is none; so for the first two passes.
   left_in_block: shared, three, likewise; [0] and [1] zero. */
__device__ __forceinline__ unsigned meet(uint64 *words, unsigned *left_in_block, unsigned pass,
                                         unsigned left_in_warp)
{
    __shared__ unsigned left_in_grid;
    if (threadIdx.x % 32 == 0 && left_in_warp > 0)
        atomicAdd(&left_in_block[pass % 3], left_in_warp);
    __syncthreads();
    if (threadIdx.x == 0) {
        /* The word of two passes ago is no longer read: reset it for the next pass. */
        left_in_block[(pass + 1) % 3] = 0;
        if (blockIdx.x == 0)
            words[(pass + 1) % 3] = ~(uint64)0;
        add_release(&words[pass % 3], (uint64)1 << 32 | left_in_block[pass % 3]);
        uint64 seen;
        do
            seen = load_acquire(&words[pass % 3]) + 1;
        while (seen >> 32 != gridDim.x);
        left_in_grid = (unsigned)seen;
    }
    __syncthreads();
    return left_in_grid;
}

#endif
