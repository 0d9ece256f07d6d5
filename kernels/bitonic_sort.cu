/* Bitonic merge sort of 32-bit keys (Batcher 1968). A key carries its index in the lower half of
   a 64-bit word, which makes the sort stable. Merges beyond a tile are in bitonic_merge.cu. */

#include "common/bitonic.h"
#include "common/sort_keys.h"

/* VALUES: words per value, 0, 1 or 4. */
#if VALUES == 4
typedef uint4 Value;
#else
typedef int Value;
#endif

/* Make the words and sort each tile of TILE. */
__global__ void sort_tiles(GLOBAL const Key *__restrict__ keys, GLOBAL uint64 *__restrict__ words,
                           int size)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = blockIdx.x * TILE;
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        tile[AT(k)] = begin + k < size ? pair_key((int)to_ordered(keys[begin + k]), begin + k)
                                       : INFINITE;
    sort_tile(tile, TILE);
    for (unsigned k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < size)
            words[begin + k] = tile[AT(k)];
}

/* Write the keys, and their values if there are any. */
__global__ void unpack(GLOBAL const uint64 *__restrict__ words, GLOBAL const Value *__restrict__ values,
                       GLOBAL Key *__restrict__ sorted_keys,
                       GLOBAL Value *__restrict__ sorted_values, int size)
{
    int slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= size)
        return;
    sorted_keys[slot] = from_ordered((Key)(words[slot] >> 32));
    if (VALUES)
        sorted_values[slot] = values[(unsigned)words[slot]];
}

/* Many small sorts: a block sorts a segment, from starts[segment] to starts[segment + 1], of at most TILE keys. */
__global__ void sort_segments(GLOBAL const int *__restrict__ starts,
                              GLOBAL const Key *__restrict__ keys,
                              GLOBAL const Value *__restrict__ values,
                              GLOBAL Key *__restrict__ sorted_keys,
                              GLOBAL Value *__restrict__ sorted_values)
{
    __shared__ uint64 tile[TILE_WORDS(TILE)];
    unsigned begin = starts[blockIdx.x], length = starts[blockIdx.x + 1] - begin, size = 1;
    while (size < length)
        size *= 2;
    for (unsigned k = threadIdx.x; k < size; k += BLOCK)
        tile[AT(k)] = k < length ? pair_key((int)to_ordered(keys[begin + k]), begin + k) : INFINITE;
    sort_tile(tile, size);
    for (unsigned k = threadIdx.x; k < length; k += BLOCK) {
        sorted_keys[begin + k] = from_ordered((Key)(tile[AT(k)] >> 32));
        if (VALUES)
            sorted_values[begin + k] = values[(unsigned)tile[AT(k)]];
    }
}
