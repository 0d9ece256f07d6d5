/* Bring positions into the order of the cells. One thread a particle, BLOCK threads a block.
   Reads are scattered, writes are not: a scattered write of a part of a memory sector costs more
   than a scattered read of one. */

__global__ void gather(GLOBAL const int *__restrict__ order, GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot < particles)
        sorted_positions[slot] = positions[order[slot]];
}
