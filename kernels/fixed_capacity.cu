/* Limited buckets: a fixed number of slots for each cell, as Harada, Koshizuka and Kawaguchi 2007
   keep them (four, as Rozen et al. 2008 read it). One pass, one thread per particle: the previous
   count of its cell is its slot. A particle without a slot is lost, and counted. BLOCK threads per
   block, CAPACITY slots per cell; counts and `lost` are initially zero. */

__global__ void fill_slots(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ counts,
                           GLOBAL int *__restrict__ slots, GLOBAL int *__restrict__ lost,
                           int particles)
{
    __shared__ int lost_here;
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (threadIdx.x == 0)
        lost_here = 0;
    __syncthreads();
    if (i < particles) {
        int cell = cell_of[i];
        int rank = atomicAdd(&counts[cell], 1);
        if (rank < CAPACITY)
            slots[(uint64)cell * CAPACITY + rank] = (int)i;
        else
            atomicAdd(&lost_here, 1);
    }
    /* One addition per block to the word that all blocks share. */
    __syncthreads();
    if (threadIdx.x == 0 && lost_here > 0)
        atomicAdd(lost, lost_here);
}
