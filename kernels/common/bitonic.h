/* Batcher's bitonic network (1968) over a tile of 64-bit keys in shared memory. A key is a
   (cell, particle) pair, cell in the upper half: no two are equal, and their order is stable.
   Every comparator puts the smaller key at the lower index, so that infinite keys which fill up
   a tile stay behind the others. `size` is a power of two; BLOCK threads a block. */
#ifndef GPUBENCH_COMMON_BITONIC_H
#define GPUBENCH_COMMON_BITONIC_H

#define INFINITE (~(uint64)0)

__device__ __forceinline__ uint64 pair_key(int cell, unsigned particle)
{
    return ((uint64)cell << 32) | particle;
}

__device__ __forceinline__ void order_pair(LOCAL uint64 *keys, unsigned low, unsigned high)
{
    uint64 a = keys[low], b = keys[high];
    if (a > b) {
        keys[low] = b;
        keys[high] = a;
    }
}

/* Index of the lower key of comparator t where partners are `stride` apart. */
__device__ __forceinline__ unsigned lower_of(unsigned t, unsigned stride)
{
    return 2 * t - (t & (stride - 1));
}

/* The steps of these strides: `stride`, half of it, down to 1. With stride = size / 2 they sort
   a bitonic tile. */
__device__ __forceinline__ void merge_tile(LOCAL uint64 *tile, unsigned size, unsigned stride)
{
    for (; stride > 0; stride /= 2) {
        __syncthreads();
        for (unsigned t = threadIdx.x; t < size / 2; t += BLOCK) {
            unsigned low = lower_of(t, stride);
            order_pair(tile, low, low + stride);
        }
    }
    __syncthreads();
}

/* Sort a tile. */
__device__ __forceinline__ void sort_tile(LOCAL uint64 *tile, unsigned size)
{
    for (unsigned sorted = 2; sorted <= size; sorted *= 2) {
        /* Merge two sorted halves: compare each key with its mirror image, then halve strides. */
        __syncthreads();
        for (unsigned t = threadIdx.x; t < size / 2; t += BLOCK) {
            unsigned place = t & (sorted / 2 - 1), base = (t - place) * 2;
            order_pair(tile, base + place, base + sorted - 1 - place);
        }
        merge_tile(tile, size, sorted / 4);
    }
}

#endif
