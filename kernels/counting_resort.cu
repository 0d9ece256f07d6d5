/* Re-sort of a counting-sorted order: only movers need atomics on their new cells; particles that stay
   move with their cell. One thread per cell, over its current range of the order. */

/* Count the future particles of each cell: stayers all at once, movers one by one.
   counts: zeros. first: the offset of a cell's stayers within the cell. rank: by position in the current
   order, the offset of a mover within its new cell; -1 for stayers. */
__global__ void count_again(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ start,
                            GLOBAL const int *__restrict__ order, GLOBAL int *counts,
                            GLOBAL int *__restrict__ first, GLOBAL int *__restrict__ rank, int cells)
{
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    int stayers = 0;
    for (int place = start[cell]; place < start[cell + 1]; ++place) {
        int goes_to = cell_of[order[place]];
        if (goes_to == (int)cell) {
            rank[place] = -1;
            ++stayers;
        } else {
            rank[place] = atomicAdd(&counts[goes_to], 1);
        }
    }
    first[cell] = stayers > 0 ? atomicAdd(&counts[cell], stayers) : 0;
}

/* Write the new order from the current one. */
__global__ void place_again(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ start,
                            GLOBAL const int *__restrict__ order,
                            GLOBAL const int *__restrict__ new_start,
                            GLOBAL const int *__restrict__ first, GLOBAL const int *__restrict__ rank,
                            GLOBAL int *__restrict__ new_order, int cells)
{
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    int stayer = new_start[cell] + first[cell];
    for (int place = start[cell]; place < start[cell + 1]; ++place) {
        int i = order[place];
        if (rank[place] < 0)
            new_order[stayer++] = i;
        else
            new_order[new_start[cell_of[i]] + rank[place]] = i;
    }
}
