/* Clusters of particles, and lists of pairs of clusters (Pall and Hess 2013, Comput. Phys. Commun. 184, 2641,
   section 3).

   Cluster c holds the CLUSTER slots of the sorted particles from c * CLUSTER on. A tile pairs it with a group of
   PARTNERS = 32 / CLUSTER slots, so that the threads of a warp have one pair each: bit `lane` of its mask stands for
   particle lane % CLUSTER of the cluster and particle lane / CLUSTER of the group. A tile is int2 (group, mask).

   A cluster's tiles lie in a chain of chunks of up to 32, all of one periodic image: links[chunk] is int4 (next chunk
   or -1, number of tiles, image, 0), heads[cluster] the first chunk or -1. Chains need neither a count nor a capacity
   per cluster before they are written.

   Compressed lists (Thaler and Keller 2026, arXiv 2602.19873: below 4 bytes a particle at 200 neighbours) would save
   memory, but hardly time. At 201 neighbours tiles take 131 bytes a particle, 164 if not EXACT, 183 with clusters of
   16; CSR takes 804. At the H100's 3.0 TB/s, to write and read tiles takes 0.023, 0.028, 0.031 ms of the 0.77, 0.62,
   0.54 ms to list pairs and add up forces (pair-forces, ec77b46): 3 to 6 %, the most that lists of no bytes would
   save, before they are coded and decoded. At 402 neighbours it is 3 to 7 %.

   CUDA runs BLOCK / 32 warps a block. Elsewhere a block of 32 threads stands for a warp, and barriers for its votes. */
#ifndef GPUBENCH_COMMON_CLUSTERS_H
#define GPUBENCH_COMMON_CLUSTERS_H

#include "common/shifts.h"

#define PARTNERS (32 / CLUSTER)
#define LANE ((int)threadIdx.x % 32)
#define WARP ((int)threadIdx.x / 32)
#define OWN_CLUSTER ((int)(blockIdx.x * (BLOCK / 32) + threadIdx.x / 32))

#ifdef __CUDACC__
#define SYNC_WARP() __syncwarp()
#else
#define SYNC_WARP() __syncthreads()
#endif

/* The lanes of a warp for which `is` holds. word: scratch of the warp. */
__device__ __forceinline__ unsigned vote(LOCAL int *word, int is)
{
#ifdef __CUDACC__
    return __ballot_sync(0xffffffffu, is);
#else
    if (LANE == 0)
        *word = 0;
    __syncthreads();
    if (is)
        atomicAdd(word, (int)(1u << LANE));
    __syncthreads();
    const unsigned lanes = (unsigned)*word;
    __syncthreads();
    return lanes;
#endif
}

/* The value of the first lane. */
__device__ __forceinline__ int of_first(LOCAL int *word, int value)
{
#ifdef __CUDACC__
    return __shfl_sync(0xffffffffu, value, 0);
#else
    if (LANE == 0)
        *word = value;
    __syncthreads();
    const int first = *word;
    __syncthreads();
    return first;
#endif
}

#endif
