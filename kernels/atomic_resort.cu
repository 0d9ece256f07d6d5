/* Re-sort of linked lists with atomics: find the movers, unlink them from their old lists, and push
   them to the front of their new lists. The modern counterpart of Rozen et al. 2008, section 2.2. */
#include "common/unlink.h"

/* List the movers, and their old lists once each. BLOCK threads per block, ITEMS particles per
   thread; a block reserves its space in both arrays at once.

   listed_in: the cell whose list holds each particle.
   is_touched: zeros, shape (cells). counts: zeros; on return the lengths of movers and touched. */
__global__ void find_movers(GLOBAL const int *__restrict__ cell_of,
                            GLOBAL const int *__restrict__ listed_in,
                            GLOBAL int *is_touched, GLOBAL int *counts, GLOBAL int *__restrict__ movers,
                            GLOBAL int *__restrict__ touched, int particles)
{
    __shared__ int in_block[2];
    __shared__ int first_place[2];
    unsigned begin = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
    int mover_rank[ITEMS], touched_rank[ITEMS], was[ITEMS];

    if (threadIdx.x < 2)
        in_block[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = begin + k * BLOCK;
        mover_rank[k] = touched_rank[k] = -1;
        if (i >= particles)
            continue;
        was[k] = listed_in[i];
        if (cell_of[i] != was[k]) {
            mover_rank[k] = atomicAdd(&in_block[0], 1);
            if (atomicExch(&is_touched[was[k]], 1) == 0)
                touched_rank[k] = atomicAdd(&in_block[1], 1);
        }
    }
    __syncthreads();
    if (threadIdx.x < 2 && in_block[threadIdx.x] > 0)
        first_place[threadIdx.x] = atomicAdd(&counts[threadIdx.x], in_block[threadIdx.x]);
    __syncthreads();
    for (int k = 0; k < ITEMS; ++k) {
        if (mover_rank[k] >= 0)
            movers[first_place[0] + mover_rank[k]] = (int)(begin + k * BLOCK);
        if (touched_rank[k] >= 0)
            touched[first_place[1] + touched_rank[k]] = was[k];
    }
}

/* Unlink the movers from their old lists. Any number of blocks. */
__global__ void mend_lists(GLOBAL const int *__restrict__ cell_of, GLOBAL int *head, GLOBAL int *next,
                           GLOBAL int *is_touched, GLOBAL const int *counts,
                           GLOBAL const int *__restrict__ touched)
{
    int lists = counts[1];
    for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < lists; k += gridDim.x * blockDim.x) {
        unlink_movers(head, next, cell_of, touched[k]);
        is_touched[touched[k]] = 0;
    }
}

/* Push the movers to the front of their new lists. Any number of blocks. */
__global__ void push_movers(GLOBAL const int *__restrict__ cell_of, GLOBAL int *head, GLOBAL int *next,
                            GLOBAL const int *counts, GLOBAL const int *__restrict__ movers)
{
    int moved = counts[0];
    for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < moved; k += gridDim.x * blockDim.x)
        next[movers[k]] = atomicExch(&head[cell_of[movers[k]]], movers[k]);
}
