/* Bitonic merge sort of (cell, particle) pairs (Batcher 1968), any number of them: indices past
   the last pair act as infinite keys and are skipped. This file sorts tiles of TILE keys; merges
   beyond a tile are in bitonic_merge.cu, cell starts in sorted_keys.cu. BLOCK threads per block. */

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
