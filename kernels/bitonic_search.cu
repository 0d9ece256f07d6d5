/* Bitonic merge sort of (cell, particle) pairs (Batcher 1968), then a binary search for the first
   and last particle of each cell, as Purcell et al. 2003 built their photon grid.

   A pair is one 64-bit key, cell in the upper half. The merges past a tile are in
   bitonic_merge.cu. BLOCK threads a block. */
#include "common/bitonic_tile.h"

/* Make the keys and sort each tile. */
__global__ void sort_tiles(GLOBAL const int *__restrict__ cell_of, GLOBAL uint64 *__restrict__ keys,
                           int particles)
{
    __shared__ uint64 tile[TILE];
    unsigned begin = blockIdx.x * TILE;
    for (int k = threadIdx.x; k < TILE; k += BLOCK) {
        unsigned i = begin + k;
        tile[k] = i < particles ? ((uint64)cell_of[i] << 32) | i : INFINITE_KEY;
    }
    sort_tile(tile);
    __syncthreads();
    for (int k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < particles)
            keys[begin + k] = tile[k];
}

/* Search each cell's first place in the sorted keys; the one past the last cell gets the total. */
__global__ void search_starts(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ start,
                              int cells, int particles)
{
    unsigned cell = blockIdx.x * BLOCK + threadIdx.x;
    if (cell > cells)
        return;
    uint64 wanted = (uint64)cell << 32;
    unsigned low = 0, high = particles;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (keys[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    start[cell] = (int)low;
}

/* Take the particles out of the keys, and their positions along. */
__global__ void unpack(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ order,
                       GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int i = (int)(keys[slot] & 0xffffffffu);
    order[slot] = i;
    if (REORDER)
        sorted_positions[slot] = positions[i];
}
