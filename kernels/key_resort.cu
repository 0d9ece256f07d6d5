/* Re-sort keys most of which are unchanged since they were sorted: extract those that changed, sort
   them alone, and merge both. One thread per key; VALUES is 0 or 1.

       for each key: if it changed: moved.append(it), else kept.append(it)
       sort(moved)
       merge(kept, moved) */
#include "common/sort_keys.h"

/* Flag the keys that changed. */
__global__ void mark(GLOBAL const Key *__restrict__ keys, GLOBAL const Key *__restrict__ before,
                     GLOBAL int *__restrict__ changed, int size)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < size)
        changed[i] = keys[i] != before[i];
}

/* ranks: exclusive sums of `changed`, with their total. */
__global__ void split(GLOBAL const Key *__restrict__ keys, GLOBAL const int *__restrict__ values,
                      GLOBAL const int *__restrict__ ranks, GLOBAL Key *__restrict__ kept,
                      GLOBAL int *__restrict__ kept_values, GLOBAL Key *__restrict__ moved,
                      GLOBAL int *__restrict__ moved_values, int size)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= size)
        return;
    unsigned rank = ranks[i];
    if (ranks[i + 1] != rank) {
        moved[rank] = to_ordered(keys[i]);
        if (VALUES)
            moved_values[rank] = values[i];
    } else {
        kept[i - rank] = to_ordered(keys[i]);
        if (VALUES)
            kept_values[i - rank] = values[i];
    }
}

/* Return the number of sorted keys before a key; with `equal` including equal ones. */
__device__ __forceinline__ unsigned count_before(GLOBAL const Key *keys, unsigned size, Key key,
                                                 bool equal)
{
    unsigned low = 0;
    while (low < size) {
        unsigned middle = low + (size - low) / 2;
        if (keys[middle] < key || (equal && keys[middle] == key))
            low = middle + 1;
        else
            size = middle;
    }
    return low;
}

/* Each key finds its index by binary search in the other run. */
__global__ void merge_runs(GLOBAL const Key *__restrict__ kept,
                           GLOBAL const int *__restrict__ kept_values,
                           GLOBAL const Key *__restrict__ moved,
                           GLOBAL const int *__restrict__ moved_values,
                           GLOBAL Key *__restrict__ sorted_keys,
                           GLOBAL int *__restrict__ sorted_values, int moves, int size)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x, rest = size - moves;
    if (i >= size)
        return;
    bool is_kept = i < rest;
    unsigned k = is_kept ? i : i - rest;
    Key key = is_kept ? kept[k] : moved[k];
    unsigned place = is_kept ? count_before(moved, moves, key, false)
                             : count_before(kept, rest, key, true);
    sorted_keys[place + k] = from_ordered(key);
    if (VALUES)
        sorted_values[place + k] = is_kept ? kept_values[k] : moved_values[k];
}
