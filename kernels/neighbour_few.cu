/* A search of few particles given by a user, in fewer launches: sort_placed is `place` of neighbour_geometry.cu and the
   sort of shared_counting_sort.cu in one, sum_rows is the scan of the counts and `note_pairs` in one. The plain version:

       each block:  places all particles, counts those of each cell, scans the counts
                    writes its share of the cells, and the particles in them
       one block:   offsets[i] = counts[0] + ... + counts[i - 1]; status = their sum

   All blocks do the same, which is faster than waiting for each other. Of the particles in a cell, which may be in
   another order in each block, one block writes all: the one whose share of the slots contains the cell's start.

   BLOCK threads per block, a multiple of 32; ITEMS particles per thread; IN_THREAD cells per thread, a
   multiple of 4. SHARED_BYTES: 4 * BLOCK * IN_THREAD. Cells and particles are at most 2^16. REAL, STRIDE: see common/ways.h. */
#include "common/block_sum.h"
#include "common/grid.h"
#include "common/placed.h"

#ifdef __CUDACC__
#define OCCUPANCY __launch_bounds__(BLOCK)
#else
#define OCCUPANCY
#endif

__global__ void OCCUPANCY sort_placed(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box,
                                      GLOBAL const Grid *__restrict__ grid, GLOBAL int *__restrict__ start,
                                      GLOBAL int *__restrict__ order, GLOBAL float4 *__restrict__ sorted_positions,
                                      GLOBAL int64 *__restrict__ status, int particles, int cells)
{
    SHARED_VECTORS(shared);
    __shared__ int sums[BLOCK];
    LOCAL int *const counts = (LOCAL int *)shared;

    /* Count; the previous count is the particle's rank. */
    float4 p[ITEMS];
    unsigned ranks[ITEMS]; /* the cell, with the rank in the lower bits */
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * BLOCK + (int)threadIdx.x;
        p[k] = i < particles ? placed_at(given, i, box, status) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < IN_THREAD / 4; ++k)
        shared[k * BLOCK + threadIdx.x] = make_int4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        ranks[k] = (unsigned)cell_of_position(grid, p[k]) << 16;
        if (k * BLOCK + (int)threadIdx.x < particles)
            ranks[k] |= (unsigned)atomicAdd(&counts[ranks[k] >> 16], 1);
    }
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
    for (int c = threadIdx.x; c < cells; c += BLOCK)
        if (counts[c] >= first && counts[c] < last)
            start[c] = counts[c];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        start[cells] = particles;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * BLOCK + (int)threadIdx.x;
        const int begin = counts[ranks[k] >> 16], at = begin + (int)(ranks[k] & 0xffff);
        if (i < particles && begin >= first && begin < last) {
            order[at] = i;
            sorted_positions[at] = p[k];
        }
    }
}

/* One block, ITEMS rows per thread; see `note_pairs`. */
__global__ void OCCUPANCY sum_rows(GLOBAL const int *__restrict__ counts, int particles, int listed, int keeps_most,
                                   GLOBAL int64 *__restrict__ offsets, GLOBAL int64 *__restrict__ status)
{
    __shared__ int sums[BLOCK];
    const int first = (int)threadIdx.x * ITEMS, end = min(first + ITEMS, particles);
    int sum = 0;
    for (int i = first; i < end; ++i)
        sum += counts[i];
    int at = sum_before(sum, sums, BLOCK);
    for (int i = first; i < end; ++i) {
        offsets[i] = at;
        at += counts[i];
        if (i + 1 == particles)
            offsets[particles] = at;
        if (i + 1 == listed && (!keeps_most || at > status[MOST_PAIRS]))
            status[MOST_PAIRS] = at;
    }
    if (threadIdx.x == 0 && particles == 0)
        offsets[0] = 0;
    if (threadIdx.x == 0 && listed == 0 && !keeps_most)
        status[MOST_PAIRS] = 0;
}
