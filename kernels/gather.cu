/* Gather positions in cell order. One thread per particle, BLOCK threads per block. Reads are scattered,
   writes are not: a scattered write of part of a memory sector costs more than a scattered read. */

__global__ void gather(GLOBAL const int *__restrict__ order, GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot < particles)
        sorted_positions[slot] = positions[order[slot]];
}
