/* Stream filtering by scan and search (Horn 2005, section 36.1).

   A scan of the null flags gives the distance that each record moves to the left; each output index
   then searches for the record that moves there, since the chapter's hardware could gather but not
   scatter. One thread per record, BLOCK threads per block; counts and guesses are integers, where
   the chapter had floats.

   StartScan, Scan, GatherSearch and RelGather of the chapter are start_scan, scan_step,
   search_step and gather; search_loop is the GatherSearch of Listing 36-2, which also gathers. */
#include "common/records.h"

/* Count the nulls among each record and the one to its left. */
__global__ void start_scan(GLOBAL const Record *__restrict__ records,
                           GLOBAL const int *__restrict__ keep, GLOBAL int *__restrict__ nulls,
                           GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned here = blockIdx.x * BLOCK + threadIdx.x;
    if (here >= n)
        return;
    int count = is_null(records[here], keep, here);
    if (here >= 1)
        count += is_null(records[here - 1], keep, here - 1);
    nulls[here] = count;
}

/* Add the count `reach` records to the left. The chapter has `here > twotoi`, which omits the first
   record's count: it must be >=, as in its StartScan. */
__global__ void scan_step(GLOBAL const int *__restrict__ before, GLOBAL int *__restrict__ after,
                          int reach, GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned here = blockIdx.x * BLOCK + threadIdx.x;
    if (here >= n)
        return;
    int count = before[here];
    if (here >= reach)
        count += before[here - reach];
    after[here] = count;
}

/* One step of the binary search: update the guess of the distance to the record that moves to
   `here`. That record has as many nulls to its left as its distance, and is not null itself. Past
   the end every guess is too high. */
__device__ __forceinline__ int next_guess(GLOBAL const Record *records, GLOBAL const int *keep,
                                          GLOBAL const int *nulls, unsigned here, int guess,
                                          int step, int n)
{
    unsigned candidate = here + guess;
    if (candidate >= n)
        return guess - step;
    int count = nulls[candidate];
    if (count > guess)
        return guess + step; /* too low */
    if (count == guess && !is_null(records[candidate], keep, candidate))
        return guess; /* correct */
    return guess - step; /* too high */
}

/* Write the record at distance `guess`. No sum of steps gives a guess of zero: records with no null
   to their left stay, as in the last lines of Listing 36-2. */
__device__ __forceinline__ void gather_from(GLOBAL const Record *records, GLOBAL const int *nulls,
                                            GLOBAL Record *kept, unsigned here, int guess)
{
    kept[here] = records[nulls[here] == 0 ? here : here + guess];
}

/* Listing 36-1: a launch for each step, from half the first guess down to 1. The first guess is the
   largest power of two that does not exceed the maximum of n. */
__global__ void search_step(GLOBAL const Record *__restrict__ records,
                            GLOBAL const int *__restrict__ keep,
                            GLOBAL const int *__restrict__ nulls, GLOBAL int *guesses, int step,
                            int is_first, GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned here = blockIdx.x * BLOCK + threadIdx.x;
    if (here >= n || here >= n - nulls[n - 1])
        return;
    int guess = is_first ? 2 * step : guesses[here];
    guesses[here] = next_guess(records, keep, nulls, here, guess, step, n);
}

/* The second kernel of Listing 36-1; the first thread counts the kept records. */
__global__ void gather(GLOBAL const Record *__restrict__ records,
                       GLOBAL const int *__restrict__ nulls, GLOBAL const int *__restrict__ guesses,
                       GLOBAL Record *__restrict__ kept, GLOBAL int *__restrict__ count,
                        GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned here = blockIdx.x * BLOCK + threadIdx.x;
    int places = n > 0 ? n - nulls[n - 1] : 0;
    if (here == 0)
        count[0] = places;
    if (here < places)
        gather_from(records, nulls, kept, here, guesses[here]);
}

/* Listing 36-2: the whole search and the gather in one kernel. The first guess follows the
   number of nulls, halfN in the listing, here a power of two, so that halving stays exact. */
__global__ void search_loop(GLOBAL const Record *__restrict__ records,
                            GLOBAL const int *__restrict__ keep,
                            GLOBAL const int *__restrict__ nulls, GLOBAL Record *__restrict__ kept,
                            GLOBAL int *__restrict__ count,
                        GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned here = blockIdx.x * BLOCK + threadIdx.x;
    int all_nulls = n > 0 ? nulls[n - 1] : 0;
    int places = n - all_nulls;
    if (here == 0)
        count[0] = places;
    if (here >= places)
        return;
    int guess = 1;
    while (guess <= all_nulls / 2)
        guess *= 2;
    for (int step = guess / 2; step > 0; step /= 2)
        guess = next_guess(records, keep, nulls, here, guess, step, n);
    gather_from(records, nulls, kept, here, guess);
}

#if BOTH
/* Each index k of the rest gathers the first record whose inclusive count of nulls exceeds k. */
__global__ void gather_rest(GLOBAL const Record *__restrict__ records,
                            GLOBAL const int *__restrict__ nulls, GLOBAL Record *__restrict__ rest,
                            GLOBAL int *__restrict__ count,
                        GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    int here = blockIdx.x * BLOCK + threadIdx.x;
    int places = n > 0 ? nulls[n - 1] : 0;
    if (here == 0)
        count[0] = places;
    if (here >= places)
        return;
    int low = here, high = n - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (nulls[middle] > here)
            high = middle;
        else
            low = middle + 1;
    }
    rest[here] = records[low];
}
#endif
