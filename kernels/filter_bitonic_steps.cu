/* Stream filtering by bitonic sort as on the GPUs of 2004: one launch for each step of the network,
   in which every record moves from one buffer to the other (Buck and Purcell 2004; Horn 2005,
   section 36.1). BLOCK threads per block, one thread per record.

   A step compares records i and i ^ mask in each of their threads: the record that is not null goes
   to the lower index. The first step of a stage mirrors halves (mask 2^k - 1) and the others have
   one bit, so all compare in the same direction, and indices past the last record behave as nulls
   that never move. Records with equal flags may swap: their order is lost. With PREDICATE the flags
   move with the records. */
#include "common/records.h"

__global__ void compare_step(GLOBAL const Record *__restrict__ records,
                             GLOBAL const int *__restrict__ keep, GLOBAL Record *__restrict__ moved,
                             GLOBAL int *__restrict__ moved_keep, int mask,
                        GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    unsigned other = i ^ (unsigned)mask, from = i;
    if (other < n) {
        unsigned low = min(i, other), high = max(i, other);
        if (is_null(records[low], keep, low) && !is_null(records[high], keep, high))
            from = other;
    }
    moved[i] = records[from];
#if PREDICATE
    moved_keep[i] = keep[from];
#endif
}

/* The number of records is the index of the first null. */
__global__ void count_records(GLOBAL const Record *__restrict__ records,
                              GLOBAL const int *__restrict__ keep, GLOBAL int *__restrict__ count,
                              GLOBAL const int *__restrict__ size, int most)
{
    int n = length_of(size, most);
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i == 0 && (n == 0 || is_null(records[0], keep, 0)))
        count[0] = 0;
    if (i < n && !is_null(records[i], keep, i)
        && (i + 1 == n || is_null(records[i + 1], keep, i + 1)))
        count[0] = (int)i + 1;
}

#if BOTH
/* The nulls begin at the end of the records. */
__global__ void copy_rest(GLOBAL const Record *__restrict__ kept, GLOBAL const int *__restrict__ count,
                          GLOBAL Record *__restrict__ rest, GLOBAL int *__restrict__ rest_count,
                          GLOBAL const int *__restrict__ size, int most)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int places = length_of(size, most) - count[0];
    if (i == 0)
        rest_count[0] = places;
    if (i < places)
        rest[i] = kept[count[0] + i];
}
#endif
