/* Lesson 3 of counting sort: ITEMS particles a thread. A thread loads all its items of cell_of, then adds to all their
   counts, so that it waits for ITEMS answers at once. Items are BLOCK apart, so that accesses coalesce. */

#define ITEM(k) (blockIdx.x * (BLOCK * ITEMS) + (k)*BLOCK + threadIdx.x)

__global__ void count(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ counts,
                      GLOBAL int *__restrict__ rank, int particles)
{
    int cells[ITEMS], before[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        cells[k] = ITEM(k) < particles ? cell_of[ITEM(k)] : 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        before[k] = ITEM(k) < particles ? atomicAdd(&counts[cells[k]], 1) : 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (ITEM(k) < particles)
            rank[ITEM(k)] = before[k];
}

__global__ void place(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ rank, GLOBAL int *__restrict__ order, int particles)
{
    int cells[ITEMS], slots[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        cells[k] = ITEM(k) < particles ? cell_of[ITEM(k)] : 0;
        slots[k] = ITEM(k) < particles ? rank[ITEM(k)] : 0;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        slots[k] += start[cells[k]];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (ITEM(k) < particles)
            order[slots[k]] = (int)ITEM(k);
}
