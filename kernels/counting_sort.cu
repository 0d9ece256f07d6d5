/* Counting sort of particles by cell: histogram with rank, scan (scan.cu), scatter.
   BLOCK threads a block, ITEMS particles a thread, BLOCK apart so that accesses coalesce.
   With REORDER the positions travel in the same pass as the indices. With FROM_POSITIONS the
   histogram computes the cells, which are given otherwise. */
#include "common/grid.h"

#if FROM_POSITIONS
#define CELLS GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid, GLOBAL int *
#define CELL_OF(i) (cell_of[i] = cell_of_position(grid, positions[i]))
#else
#define CELLS GLOBAL const int *
#define CELL_OF(i) cell_of[i]
#endif

/* Count the particles of each cell; the count before an addition is the particle's rank. */
__global__ void histogram_with_rank(CELLS __restrict__ cell_of, GLOBAL int *__restrict__ counts,
                                    GLOBAL int *__restrict__ rank, int particles)
{
    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
#ifdef __CUDACC__
    /* One addition for each run of equal cells among neighbouring lanes: input that is nearly
       in order would otherwise queue up at one address. */
    const unsigned lane = threadIdx.x % 32;
    int cells[ITEMS], base[ITEMS], first[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        cells[k] = begin + k * BLOCK < particles ? CELL_OF(begin + k * BLOCK) : -1;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        int before = __shfl_up_sync(0xffffffffu, cells[k], 1);
        bool leads = lane == 0 || before != cells[k];
        unsigned leaders = __ballot_sync(0xffffffffu, leads);
        first[k] = 31 - __clz(leaders & (0xffffffffu >> (31 - lane)));
        unsigned later = leaders & ~(0xffffffffu >> (31 - lane));
        int length = (later ? __ffs(later) - 1 : 32) - (int)lane;
        base[k] = leads && cells[k] >= 0 ? atomicAdd(&counts[cells[k]], length) : 0;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        int rank_of_first = __shfl_sync(0xffffffffu, base[k], first[k]);
        if (cells[k] >= 0)
            rank[begin + k * BLOCK] = rank_of_first + (int)lane - first[k];
    }
#else
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k * BLOCK < particles)
            rank[begin + k * BLOCK] = atomicAdd(&counts[CELL_OF(begin + k * BLOCK)], 1);
#endif
}

/* Send each particle to its cell's start plus its rank. */
__global__ void scatter_by_rank(GLOBAL const int *__restrict__ cell_of,
                                GLOBAL const int *__restrict__ start,
                                GLOBAL const int *__restrict__ rank, GLOBAL int *__restrict__ order,
                                GLOBAL const float4 *__restrict__ positions,
                                GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    int slot[ITEMS];
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = begin + k * BLOCK;
        if (i < particles)
            slot[k] = start[cell_of[i]] + rank[i];
    }
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = begin + k * BLOCK;
        if (i < particles) {
            order[slot[k]] = (int)i;
            if (REORDER)
                sorted_positions[slot[k]] = positions[i];
        }
    }
}
