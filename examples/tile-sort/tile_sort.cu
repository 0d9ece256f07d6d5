/* Counting sort of particles by cell, with runs formed in shared memory.

   The plain version is one atomic addition per particle:

       rank[i] = atomicAdd(&counts[cell_of[i]], 1);             histogram
       order[start[cell_of[i]] + rank[i]] = i;                  scatter, after the scan of counts

   Here a block first sorts its tile of TILE particles by cell in shared memory. Equal cells are
   then runs of the tile: a run takes its ranks by one addition, and is written to adjacent places.
   BLOCK threads a block; TILE is a power of two. Counts are zero beforehand. */

#include "common/bitonic.h"

/* The first key of a sorted tile that is not below `key`. */
__device__ __forceinline__ unsigned lower_bound(LOCAL const uint64 *tile, uint64 key)
{
    unsigned low = 0, high = TILE;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (tile[AT(middle)] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sort each tile; write its particles in the order of their cells, and their ranks in the cells. */
__global__ void rank_tiles(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ counts,
                           GLOBAL int *__restrict__ tile_order, GLOBAL int *__restrict__ rank,
                           int particles)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    __shared__ int base[TILE];
    const unsigned begin = blockIdx.x * TILE;

    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        tile[AT(k)] = begin + k < particles ? pair_key(cell_of[begin + k], begin + k) : INFINITE;
    sort_tile(tile, TILE);

    /* The first of each run reserves places for all of it. */
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK) {
        uint64 key = tile[AT(k)];
        int cell = (int)(key >> 32);
        if (key != INFINITE && (k == 0 || (int)(tile[AT(k - 1)] >> 32) != cell)) {
            unsigned end = lower_bound(tile, pair_key(cell + 1, 0));
            base[k] = atomicAdd(&counts[cell], (int)(end - k));
        }
    }
    __syncthreads();

    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK) {
        uint64 key = tile[AT(k)];
        if (key == INFINITE)
            continue;
        unsigned first = lower_bound(tile, pair_key((int)(key >> 32), 0));
        tile_order[begin + k] = (int)(unsigned)key;
        rank[begin + k] = base[first] + (int)(k - first);
    }
}

/* Send each particle to its cell's start plus its rank: neighbours in a run go to neighbours. */
__global__ void scatter_tiles(GLOBAL const int *__restrict__ cell_of,
                              GLOBAL const int *__restrict__ start,
                              GLOBAL const int *__restrict__ tile_order,
                              GLOBAL const int *__restrict__ rank, GLOBAL int *__restrict__ order,
                              int particles)
{
    int k = blockIdx.x * BLOCK + threadIdx.x;
    if (k >= particles)
        return;
    int particle = tile_order[k];
    order[start[cell_of[particle]] + rank[k]] = particle;
}
