/* Lesson 2 of counting sort: one atomic addition a particle. The count before the addition is the particle's rank in
   its cell. count keeps it in rank[i], so place only adds: a coalesced load replaces an atomic at a random address. The
   scan clears counts after reading them. One thread per particle. */

__global__ void count(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ counts,
                      GLOBAL int *__restrict__ rank, int particles)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < particles)
        rank[i] = atomicAdd(&counts[cell_of[i]], 1);
}

__global__ void place(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ rank, GLOBAL int *__restrict__ order, int particles)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < particles)
        order[start[cell_of[i]] + rank[i]] = (int)i;
}
