/* From sorted (cell, particle) keys to sorted cells: the first key of each cell by binary search,
   as Purcell et al. 2003 built their photon grid, and the particles extracted from the keys. One
   thread per cell or per key; BLOCK threads per block. */

/* Search each cell's first index in the sorted keys; the entry past the last cell is the total. */
__global__ void search_starts(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ start,
                              int cells, int particles)
{
    unsigned cell = blockIdx.x * BLOCK + threadIdx.x;
    if (cell > cells)
        return;
    uint64 wanted = (uint64)cell << 32;
    unsigned low = 0, high = particles;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (keys[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    start[cell] = (int)low;
}

/* Extract the particles from the keys, and gather their positions. */
__global__ void unpack(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ order,
                       GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int i = (int)(keys[slot] & 0xffffffffu);
    order[slot] = i;
    if (REORDER)
        sorted_positions[slot] = positions[i];
}
