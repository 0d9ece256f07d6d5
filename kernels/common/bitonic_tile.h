/* Bitonic merge sort (Batcher 1968) of a tile of 64-bit keys in shared memory.

   Every comparator of this form of the network puts the smaller key at the lower index, so
   indices past the last key act as infinite keys. BLOCK threads a block, a tile of 2 * BLOCK
   keys. */
#ifndef GPUBENCH_COMMON_BITONIC_TILE_H
#define GPUBENCH_COMMON_BITONIC_TILE_H

#define TILE (2 * BLOCK)
#define INFINITE_KEY (~(uint64)0)

__device__ __forceinline__ void order_pair(LOCAL uint64 *keys, int low, int high)
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

/* Halve the strides from `stride` on. */
__device__ __forceinline__ void merge_tile(LOCAL uint64 *tile, int stride)
{
    for (; stride > 0; stride /= 2) {
        int low = (int)lower_of(threadIdx.x, stride);
        __syncthreads();
        order_pair(tile, low, low + stride);
    }
}

/* Sort a tile; a barrier must follow before others' keys are read. */
__device__ __forceinline__ void sort_tile(LOCAL uint64 *tile)
{
    for (int size = 2; size <= TILE; size *= 2) {
        /* Merge two sorted halves: compare each key with its mirror image, then halve the strides. */
        int half_size = size / 2, t = threadIdx.x;
        int place = t % half_size, base = (t / half_size) * size;
        __syncthreads();
        order_pair(tile, base + place, base + size - 1 - place);
        merge_tile(tile, size / 4);
    }
}

#endif
