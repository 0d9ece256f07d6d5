/* Merges of sorted tiles of 64-bit keys into one sorted sequence: the part of a bitonic merge sort
   (Batcher 1968) whose strides are too long for shared memory, for any number of keys.
   One thread per comparator, BLOCK threads per block, tiles of TILE keys. */
#include "common/bitonic.h"

/* First step of merging two sorted halves of `size` keys: compare mirror images. */
__global__ void merge_mirrored(GLOBAL uint64 *keys, int log2_size, int items)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned half_size = 1u << (log2_size - 1);
    unsigned place = t & (half_size - 1);
    uint64 base = (uint64)(t >> (log2_size - 1)) << log2_size;
    uint64 low = base + place, high = base + 2 * (uint64)half_size - 1 - place;
    if (high < items) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* One step with a stride longer than a tile. */
__global__ void merge_strided(GLOBAL uint64 *keys, int log2_stride, int items)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned stride = 1u << log2_stride;
    uint64 low = 2 * (uint64)t - (t & (stride - 1)), high = low + stride;
    if (high < items) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* All steps whose strides fit in a tile. */
__global__ void merge_tiles(GLOBAL uint64 *keys, int items)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        tile[AT(k)] = begin + k < items ? keys[begin + k] : INFINITE;
    merge_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < items)
            keys[begin + k] = tile[AT(k)];
}
