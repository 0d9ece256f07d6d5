/* Linked cell lists in one pass: every particle exchanges itself with the head of its cell.
   The modern successor of the iterative bucket sort, made possible by atomics. One thread per
   particle; heads are initialised to -1. */

__global__ void push_front(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ head,
                           GLOBAL int *__restrict__ next, int particles)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < particles)
        next[i] = atomicExch(&head[cell_of[i]], (int)i);
}
