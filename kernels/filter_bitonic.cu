/* Stream filtering by bitonic sort on the null flag (Buck and Purcell 2004, the method that Horn
   2005, section 36.1 compares itself with).

   A record's key has its null flag in the upper half and its index in the lower, so that the
   sort is stable; records are gathered once the keys are in order. The merges past a tile are
   in bitonic_merge.cu. BLOCK threads a block, tiles of TILE keys. */
#include "common/bitonic.h"
#include "common/records.h"

/* Make the keys and sort each tile. */
__global__ void sort_tiles(GLOBAL const Record *__restrict__ records,
                           GLOBAL const int *__restrict__ keep, GLOBAL uint64 *__restrict__ keys,
                           int n)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK) {
        unsigned i = begin + k;
        tile[AT(k)] = i < n ? pair_key(is_null(records[i], keep, i), i) : INFINITE;
    }
    sort_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < n)
            keys[begin + k] = tile[AT(k)];
}

/* Gather the records whose keys come before those of the nulls. Their number is where the nulls
   begin: known to the last record, or to the first null where there is no record. */
__global__ void gather(GLOBAL const Record *__restrict__ records,
                       GLOBAL const uint64 *__restrict__ keys, GLOBAL Record *__restrict__ kept,
                       GLOBAL int *__restrict__ count, int n)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot == 0 && (n == 0 || keys[0] >> 32))
        count[0] = 0;
    if (slot >= n || keys[slot] >> 32)
        return;
    kept[slot] = records[keys[slot] & 0xffffffffu];
    if (slot + 1 == n || keys[slot + 1] >> 32)
        count[0] = (int)slot + 1;
}
