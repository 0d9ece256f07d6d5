/* Least-significant-digit radix sort in three kernels per digit (Zagha and Blelloch 1991; Satish,
   Harris and Garland 2009): count the digits of each tile, scan the counts, scatter. Per digit:

       for each tile: for each key: ++counts[digit(key)][tile]
       starts = exclusive sums of counts
       for each tile: for each key: sorted[starts[digit(key)][tile]++] = key

   A tile is BLOCK threads with ITEMS successive keys each, and each thread has its own counters, so
   that equal digits keep their order. The scan is scan.cu. */
#include "common/sort_keys.h"

#define RADIX (1 << DIGIT_BITS)

__device__ __forceinline__ unsigned digit_of(Key key, int shift)
{
    return (unsigned)(to_ordered(key) >> shift) & (RADIX - 1);
}

/* Count the digits of this thread's keys in its column of counters[RADIX][BLOCK]. */
__device__ __forceinline__ void count_mine(GLOBAL const Key *keys, LOCAL unsigned *counters,
                                           unsigned begin, unsigned end, int shift)
{
    for (unsigned digit = 0; digit < RADIX; ++digit)
        counters[digit * BLOCK + threadIdx.x] = 0;
    for (unsigned i = begin; i < end; ++i)
        ++counters[digit_of(keys[i], shift) * BLOCK + threadIdx.x];
    __syncthreads();
}

/* counts: int32, shape (RADIX, tiles). */
__global__ void count_tiles(GLOBAL const Key *__restrict__ keys, GLOBAL int *__restrict__ counts,
                            int shift, int size)
{
    __shared__ unsigned counters[RADIX * BLOCK];
    unsigned begin = (blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
    count_mine(keys, counters, begin, min(begin + ITEMS, (unsigned)size), shift);
    for (unsigned digit = threadIdx.x; digit < RADIX; digit += BLOCK) {
        unsigned count = 0;
        for (unsigned t = 0; t < BLOCK; ++t)
            count += counters[digit * BLOCK + t];
        counts[digit * gridDim.x + blockIdx.x] = count;
    }
}

/* starts: the sums of counts. makes_index: whether values are not read but are 0, 1, 2, ... */
__global__ void scatter_tiles(GLOBAL const Key *__restrict__ keys,
                              GLOBAL const int *__restrict__ values,
                              GLOBAL Key *__restrict__ sorted_keys,
                              GLOBAL int *__restrict__ sorted_values,
                              GLOBAL const int *__restrict__ starts, int shift, int makes_index,
                              int size)
{
    __shared__ unsigned counters[RADIX * BLOCK];
    unsigned begin = (blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
    unsigned end = min(begin + ITEMS, (unsigned)size);
    count_mine(keys, counters, begin, end, shift);
    for (unsigned digit = threadIdx.x; digit < RADIX; digit += BLOCK) {
        unsigned place = starts[digit * gridDim.x + blockIdx.x];
        for (unsigned t = 0; t < BLOCK; ++t) {
            unsigned count = counters[digit * BLOCK + t];
            counters[digit * BLOCK + t] = place;
            place += count;
        }
    }
    __syncthreads();
    for (unsigned i = begin; i < end; ++i) {
        Key key = keys[i];
        unsigned place = counters[digit_of(key, shift) * BLOCK + threadIdx.x]++;
        sorted_keys[place] = key;
        if (VALUES)
            sorted_values[place] = makes_index ? (int)i : values[i];
    }
}
