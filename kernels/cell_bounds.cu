/* Cell starts in a sorted list of cell ids, and the positions in that order.
   After "Some GPU-based algorithms" (slides, ReorderParticlesAndFindCellBoundaries): one thread per
   particle, which reads the preceding key from shared memory. BLOCK threads per block. */

#define LONG_GAP 32
#define MAX_LONG_GAPS 64

__global__ void cell_bounds(GLOBAL const int *__restrict__ sorted_cells,
                            GLOBAL const int *__restrict__ order, GLOBAL int *__restrict__ start,
                            GLOBAL const float4 *__restrict__ positions,
                            GLOBAL float4 *__restrict__ sorted_positions, int cells, int particles)
{
    __shared__ int keys[BLOCK + 1];
    __shared__ int gaps;
    __shared__ int gap_from[MAX_LONG_GAPS], gap_to[MAX_LONG_GAPS], gap_value[MAX_LONG_GAPS];
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;

    /* The thread after the last particle ends the list: its key is the number of cells. */
    int key = slot < particles ? sorted_cells[slot] : cells;
    keys[threadIdx.x + 1] = key;
    if (threadIdx.x == 0) {
        keys[0] = slot > 0 ? sorted_cells[slot - 1] : -1;
        gaps = 0;
    }
    __syncthreads();

    /* Cells after the preceding key, up to and including this key, start here. Usually these are
       few; a long range of empty cells is left to the whole block. */
    if (slot <= particles) {
        int from = keys[threadIdx.x] + 1;
        int gap = MAX_LONG_GAPS;
        if (key - from >= LONG_GAP)
            gap = atomicAdd(&gaps, 1);
        if (gap < MAX_LONG_GAPS) {
            gap_from[gap] = from;
            gap_to[gap] = key;
            gap_value[gap] = (int)slot;
        } else {
            for (int c = from; c <= key; ++c)
                start[c] = (int)slot;
        }
    }
    if (REORDER && slot < particles)
        sorted_positions[slot] = positions[order[slot]];
    __syncthreads();
    int listed = min(gaps, MAX_LONG_GAPS);
    for (int g = 0; g < listed; ++g)
        for (int c = gap_from[g] + (int)threadIdx.x; c <= gap_to[g]; c += BLOCK)
            start[c] = gap_value[g];
}
