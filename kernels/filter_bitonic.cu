/* Stream filtering by bitonic sort on the null flag (Buck and Purcell 2004, the baseline of Horn
   2005, section 36.1).

   A record's key has its null flag in the upper half and its index in the lower, so that the
   sort is stable; records are gathered once the keys are in order. Merges beyond a tile are in
   bitonic_merge.cu. BLOCK threads per block, tiles of TILE keys. Of `places` keys, those past the
   last record come last. */
#include "common/bitonic.h"
#include "common/records.h"

/* Make the keys and sort each tile. */
__global__ void sort_tiles(GLOBAL const Record *__restrict__ records,
                           GLOBAL const int *__restrict__ keep, GLOBAL uint64 *__restrict__ keys,
                           GLOBAL const int *__restrict__ size, int places)
{
    const unsigned n = length_of(size, places);
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK) {
        unsigned i = begin + k;
        int group = i < n ? is_null(records[i], keep, i) : 2;
        tile[AT(k)] = i < places ? pair_key(group, i) : INFINITE;
    }
    sort_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < places)
            keys[begin + k] = tile[AT(k)];
}

/* Gather the records, whose keys precede those of the nulls. Their number is the index of the first
   null, found by the last record, or by the first null if there is no record. */
__global__ void gather(GLOBAL const Record *__restrict__ records,
                       GLOBAL const uint64 *__restrict__ keys, GLOBAL Record *__restrict__ kept,
                       GLOBAL int *__restrict__ count, int places)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot == 0 && (places == 0 || keys[0] >> 32))
        count[0] = 0;
    if (slot >= places || keys[slot] >> 32)
        return;
    kept[slot] = records[keys[slot] & 0xffffffffu];
    if (slot + 1 == places || keys[slot + 1] >> 32)
        count[0] = (int)slot + 1;
}

#if BOTH
/* Gather the nulls, whose keys come next. */
__global__ void gather_rest(GLOBAL const Record *__restrict__ records,
                            GLOBAL const uint64 *__restrict__ keys,
                            GLOBAL const int *__restrict__ count, GLOBAL Record *__restrict__ rest,
                            GLOBAL int *__restrict__ rest_count,
                            GLOBAL const int *__restrict__ size, int most)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    int places = length_of(size, most) - count[0];
    if (i == 0)
        rest_count[0] = places;
    if ((int)i < places)
        rest[i] = records[keys[count[0] + i] & 0xffffffffu];
}
#endif
