/* Linked cell lists with one atomic exchange for each run of equal cells in a block, where
   atomic_list.cu has one for each particle. Particles that are nearly in order of their cells
   make long runs; in random order a run is one particle, and the two do the same.
   BLOCK threads a block, one thread a particle; heads are -1 beforehand. */

__global__ void push_runs(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ head,
                          GLOBAL int *__restrict__ next, int particles)
{
    __shared__ int cells[BLOCK];
    int thread = threadIdx.x;
    int i = blockIdx.x * BLOCK + thread;
    int cell = i < particles ? cell_of[i] : -1;
    cells[thread] = cell;
    __syncthreads();
    if (cell < 0)
        return;

    /* Within a run, link each particle to the one after it. */
    if (thread + 1 < BLOCK && cells[thread + 1] == cell) {
        next[i] = i + 1;
        return;
    }

    /* The last of a run looks for its first, and puts the run in front of the cell's list. */
    int first = thread;
    while (first > 0 && cells[first - 1] == cell)
        --first;
    next[i] = atomicExch(&head[cell], i - (thread - first));
}
