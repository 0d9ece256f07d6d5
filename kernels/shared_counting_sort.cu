/* Counting sort of particles by cell, if the counts of all cells fit in shared memory: one launch, as launches dominate
   the time for few particles. The plain version:

       each block:  counts the particles of all cells, and scans the counts
                    writes its share of the cells, and the particles in them

   All blocks count the same particles, which is faster than waiting for each other. Ranks within a cell may differ
   between blocks, but one block writes the whole cell: the one whose share of the slots contains its start.

   BLOCK threads per block, a multiple of 32; ITEMS particles per thread; IN_THREAD cells per thread in the scan, a
   multiple of 4. SHARED_BYTES: 4 * BLOCK * IN_THREAD. Cells and particles are at most 2^16. */
#include "common/block_sum.h"
#include "common/grid.h"

#ifdef __CUDACC__
#define OCCUPANCY __launch_bounds__(BLOCK)
#else
#define OCCUPANCY
#endif

__global__ void OCCUPANCY sort_shares(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid,
                                      GLOBAL int *__restrict__ start, GLOBAL int *__restrict__ order,
                                      GLOBAL float4 *__restrict__ sorted_positions, int particles, int cells)
{
    SHARED_VECTORS(shared);
    __shared__ int sums[BLOCK];
    LOCAL int *const counts = (LOCAL int *)shared;

    /* Count; the previous count is the particle's rank. */
    float4 p[ITEMS];
    unsigned ranks[ITEMS]; /* the cell, with the rank in the lower bits */
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        p[k] = k * BLOCK + threadIdx.x < particles ? positions[k * BLOCK + threadIdx.x] : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < IN_THREAD / 4; ++k)
        shared[k * BLOCK + threadIdx.x] = make_int4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        ranks[k] = (unsigned)cell_of_position(grid, p[k]) << 16;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (k * BLOCK + threadIdx.x < particles)
            ranks[k] |= (unsigned)atomicAdd(&counts[ranks[k] >> 16], 1);
    __syncthreads();

    /* Scan the counts in place. */
    LOCAL int4 *const own = shared + threadIdx.x * (IN_THREAD / 4);
    int sum = 0;
#pragma unroll
    for (int c = 0; c < IN_THREAD / 4; ++c)
        sum += own[c].x + own[c].y + own[c].z + own[c].w;
    int slot = sum_before(sum, sums, BLOCK);
#pragma unroll
    for (int c = 0; c < IN_THREAD / 4; ++c) {
        const int4 size = own[c];
        const int y = slot + size.x, z = y + size.y, w = z + size.z;
        own[c] = make_int4(slot, y, z, w);
        slot = w + size.w;
    }
    __syncthreads();

    /* Write the cells that begin in the block's share of the slots; the last includes trailing empty cells. */
    const int share = (particles + (int)gridDim.x - 1) / (int)gridDim.x, first = (int)blockIdx.x * share;
    const int last = blockIdx.x + 1 < gridDim.x ? first + share : particles + 1;
#pragma unroll
    for (int k = 0; k < IN_THREAD; ++k) {
        const int c = k * BLOCK + (int)threadIdx.x, begin = counts[c];
        if (c < cells && begin >= first && begin < last)
            start[c] = begin;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        start[cells] = particles;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * BLOCK + (int)threadIdx.x;
        if (i >= particles)
            continue;
        const int begin = counts[ranks[k] >> 16], at = begin + (int)(ranks[k] & 0xffff);
        if (begin >= first && begin < last) {
            order[at] = i;
            sorted_positions[at] = p[k];
        }
    }
}
