/* Unlink the elements that have moved to another bucket from a bucket's list. */
#ifndef GPUBENCH_COMMON_UNLINK_H
#define GPUBENCH_COMMON_UNLINK_H

/* Traverse one list and unlink elements that are no longer in this bucket: any run of them, the
   head, the tail, or the whole list. Unchanged pointers are not written. No other thread may access
   this list meanwhile. Returns the number of unlinked elements. */
__device__ __forceinline__ int unlink_movers(GLOBAL int *head, GLOBAL int *next,
                                             GLOBAL const int *cell_of, int bucket)
{
    int kept = -1;    /* the last element that stays */
    int skipped = 0;  /* elements unlinked after it */
    int moved = 0;
    for (int i = head[bucket]; i >= 0; i = next[i]) {
        if (cell_of[i] != bucket) {
            ++skipped;
            ++moved;
            continue;
        }
        if (skipped > 0) {
            if (kept < 0)
                head[bucket] = i;
            else
                next[kept] = i;
        }
        kept = i;
        skipped = 0;
    }
    if (skipped > 0) {
        if (kept < 0)
            head[bucket] = -1;
        else
            next[kept] = -1;
    }
    return moved;
}

#endif
