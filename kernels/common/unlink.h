/* Take the elements that have moved to another bucket out of a bucket's list. */
#ifndef GPUBENCH_COMMON_UNLINK_H
#define GPUBENCH_COMMON_UNLINK_H

/* Walk one list and repair the pointers around elements whose bucket is no longer this one: any
   number of neighbours in the list, its head, its tail, all of it. Pointers that stay right are
   not written. No other thread touches this list meanwhile. Returns how many were taken out. */
__device__ __forceinline__ int unlink_movers(GLOBAL int *head, GLOBAL int *next,
                                             GLOBAL const int *cell_of, int bucket)
{
    int kept = -1;    /* the last element that stays */
    int skipped = 0;  /* elements taken out behind it */
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
