/* Counting sort of particles by cell (Knuth, The Art of Computer Programming 3, Algorithm 5.2D), with atomics for the
   ranks. The plain version, one thread per particle; kernels/lessons has it, and the steps from there to here:

       histogram_with_rank:  rank[i] = counts[cell_of[i]]++
       scan (scan.cu):       start[c] = counts[0] + ... + counts[c - 1]
       scatter_by_rank:      order[start[cell_of[i]] + rank[i]] = i

   One thread per ITEMS particles, BLOCK threads per block, strided so that accesses coalesce. With REORDER the
   positions move in the same pass as the indices. With FROM_POSITIONS the histogram computes the cells,
   which are otherwise given.

   In CUDA a run of equal cells in adjacent lanes needs one addition and one rank, that of its first
   particle: atomics of nearly sorted input would otherwise serialise. The ranks of a warp's runs are
   stored contiguously, in order.

   What each step bought on an H100, of 2^20 particles, four per cell, in random order and in cell order (study
   `lessons`, commit b8a26c9): the rank kept from the histogram 7 and 4 % of the time, ITEMS per thread nothing and 1 %,
   runs of a warp nothing and 16 %. bucketed_sort.cu takes 34 % less again in random order, 48 % more in cell order. */
#include "common/grid.h"

#if FROM_POSITIONS
#define CELL_OF(i) (cell_of[i] = cell_of_position(grid, positions[i]))
#else
#define CELL_OF(i) cell_of[i]
#endif

#ifdef __CUDACC__
#define LANE (threadIdx.x % 32)
#define UP_TO_LANE (0xffffffffu >> (31 - LANE))
#define FIRST_OF_WARP(block) ((block) * (BLOCK * ITEMS) + threadIdx.x / 32 * (32 * ITEMS))

/* The lanes whose cell differs from that of the preceding lane: starts of runs. */
__device__ __forceinline__ unsigned beginnings(int cell)
{
    const int before = __shfl_up_sync(0xffffffffu, cell, 1);
    return __ballot_sync(0xffffffffu, LANE == 0 || before != cell);
}
#endif

/* Count the particles of each cell; the previous count is the particle's rank. */
__global__ void histogram_with_rank(GLOBAL const float4 *__restrict__ positions,
                                    GLOBAL const Grid *__restrict__ grid, GLOBAL int *__restrict__ cell_of,
                                    GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ rank,
                                    int particles)
{
#ifdef __CUDACC__
    const unsigned begin = FIRST_OF_WARP(blockIdx.x);
    int cells[ITEMS], before[ITEMS];
    unsigned runs[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        cells[k] = begin + k * 32 + LANE < particles ? CELL_OF(begin + k * 32 + LANE) : -1;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        runs[k] = beginnings(cells[k]);
        const unsigned later = runs[k] & ~UP_TO_LANE;
        const int length = (later ? __ffs(later) - 1 : 32) - (int)LANE;
        if (runs[k] >> LANE & 1 && cells[k] >= 0)
            before[k] = atomicAdd(&counts[cells[k]], length);
    }
    unsigned run = begin - 1;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        if (runs[k] >> LANE & 1 && cells[k] >= 0)
            rank[run + __popc(runs[k] & UP_TO_LANE)] = before[k];
        run += __popc(runs[k]);
    }
#else
    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k * BLOCK < particles)
            rank[begin + k * BLOCK] = atomicAdd(&counts[CELL_OF(begin + k * BLOCK)], 1);
#endif
}

/* Move each particle to its cell's start plus its rank. */
__global__ void scatter_by_rank(GLOBAL const int *__restrict__ cell_of,
                                GLOBAL const int *__restrict__ start,
                                GLOBAL const int *__restrict__ rank, GLOBAL int *__restrict__ order,
                                GLOBAL const float4 *__restrict__ positions,
                                GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
#ifdef __CUDACC__
    /* Last tiles first: their cells and ranks are still in the cache. */
    const unsigned begin = FIRST_OF_WARP(gridDim.x - 1 - blockIdx.x);
    if (begin >= particles)
        return;
    int cells[ITEMS], slots[ITEMS];
    float4 p[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        cells[k] = cell_of[min(begin + k * 32 + LANE, particles - 1)];
#pragma unroll
    for (int k = 0; k < ITEMS && REORDER; ++k)
        p[k] = __ldcs(&positions[min(begin + k * 32 + LANE, particles - 1)]);
    unsigned run = begin - 1;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned all = beginnings(cells[k]), runs = all & UP_TO_LANE;
        const unsigned own = min(run + __popc(runs), particles - 1); /* past the end, any */
        slots[k] = start[cells[k]] + rank[own] + (int)LANE - (31 - __clz(runs));
        run += __popc(all);
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k * 32 + LANE < particles) {
            order[slots[k]] = (int)(begin + k * 32 + LANE);
            if (REORDER)
                sorted_positions[slots[k]] = p[k];
        }
#else
    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned i = begin + k * BLOCK;
        if (i < particles) {
            const int slot = start[cell_of[i]] + rank[i];
            order[slot] = (int)i;
            if (REORDER)
                sorted_positions[slot] = positions[i];
        }
    }
#endif
}
