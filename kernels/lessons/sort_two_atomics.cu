/* Lesson 1 of counting sort: two atomic additions a particle. One thread per particle.

       count:  ++counts[cell_of[i]]                                each cell's number of particles
       scan:   start[c] = counts[0] + ... + counts[c - 1]          scan.cu
       place:  order[start[c] + --counts[c]] = i                   counts are zero again
       gather: sorted_positions[slot] = positions[order[slot]]     gather.cu */

__global__ void count(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ counts, int particles)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < particles)
        atomicAdd(&counts[cell_of[i]], 1);
}

__global__ void place(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ start,
                      GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ order, int particles)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    const int cell = cell_of[i];
    order[start[cell] + atomicAdd(&counts[cell], -1) - 1] = (int)i;
}
