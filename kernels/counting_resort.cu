/* Re-sort of a counting-sorted order: only the movers pay for atomics on their new cells; what
   stays in a cell is moved along with it. One thread a cell, over its present stretch of the
   order. */

/* Count what each cell will hold: its stayers at once, movers one by one.
   counts: zeros. first: where a cell's stayers begin within the cell. rank: by place in the
   present order, where a mover comes within its new cell; -1 for stayers. */
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

/* Write the new order from the present one. */
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
