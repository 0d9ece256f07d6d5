/* Bitonic merge sort of (cell, particle) pairs (Batcher 1968), any number of them: indices past
   the last pair act as infinite keys and are skipped. Strides that fit in a tile of TILE keys run
   in shared memory, the others one a launch. BLOCK threads a block. */

#include "common/bitonic.h"

/* Make the keys and sort each tile. */
__global__ void sort_tiles(GLOBAL const int *__restrict__ cell_of, GLOBAL uint64 *__restrict__ keys,
                           int particles)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        tile[AT(k)] = begin + k < particles ? pair_key(cell_of[begin + k], begin + k) : INFINITE;
    sort_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < particles)
            keys[begin + k] = tile[AT(k)];
}

/* First step of merging two sorted halves of `size` keys: compare mirror images. */
__global__ void merge_mirrored(GLOBAL uint64 *keys, int log2_size, int particles)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned half_size = 1u << (log2_size - 1);
    unsigned place = t & (half_size - 1);
    uint64 base = (uint64)(t >> (log2_size - 1)) << log2_size;
    uint64 low = base + place, high = base + 2 * (uint64)half_size - 1 - place;
    if (high < particles) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* One step with a stride longer than a tile. */
__global__ void merge_strided(GLOBAL uint64 *keys, int log2_stride, int particles)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned stride = 1u << log2_stride;
    uint64 low = 2 * (uint64)t - (t & (stride - 1)), high = low + stride;
    if (high < particles) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* All steps whose strides fit in a tile. */
__global__ void merge_tiles(GLOBAL uint64 *keys, int particles)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        tile[AT(k)] = begin + k < particles ? keys[begin + k] : INFINITE;
    merge_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < particles)
            keys[begin + k] = tile[AT(k)];
}
