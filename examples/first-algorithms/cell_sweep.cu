/* Linked cell lists without atomics: one thread per cell reads every particle. Quadratic. */

__global__ void sweep(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ head,
                      GLOBAL int *__restrict__ next, int cells, int particles)
{
    int cell = blockIdx.x * BLOCK + threadIdx.x;
    if (cell >= cells)
        return;
    int last = -1;
    for (int i = 0; i < particles; ++i) {
        if (cell_of[i] == cell) {
            next[i] = last;
            last = i;
        }
    }
    head[cell] = last;
}
