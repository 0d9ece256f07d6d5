/* Particles in the order of the buckets of a hash table over an unbounded world (da Silva
   Junior et al. 2012, section 5, Figure 4; Teschner et al. 2003). The radix sort between the keys
   and the bounds is CUB's. BLOCK threads per block; one thread per particle unless noted. */
#include "common/hash.h"

/* The lowest cell coordinate along each axis, into `corner`, which is initialised with larger
   numbers. Any number of blocks (grid-stride loop). */
__global__ void find_corner(GLOBAL const float4 *__restrict__ positions,
                            GLOBAL const UnboundedGrid *__restrict__ grid,
                            GLOBAL int *__restrict__ corner, int particles)
{
    __shared__ float4 lowest[BLOCK];
    float most = 3.402823466e+38f;
    float4 low = make_float4(most, most, most, 0.0f);
    for (unsigned i = blockIdx.x * BLOCK + threadIdx.x; i < particles; i += gridDim.x * BLOCK) {
        float4 p = positions[i];
        low = make_float4(fminf(low.x, p.x), fminf(low.y, p.y), fminf(low.z, p.z), 0.0f);
    }
    lowest[threadIdx.x] = low;
    __syncthreads();
    for (unsigned width = BLOCK / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            float4 a = lowest[threadIdx.x], b = lowest[threadIdx.x + width];
            lowest[threadIdx.x] =
                make_float4(fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z), 0.0f);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicMin(&corner[0], unbounded_cell(grid, 0, lowest[0].x));
        atomicMin(&corner[1], unbounded_cell(grid, 1, lowest[0].y));
        atomicMin(&corner[2], unbounded_cell(grid, 2, lowest[0].z));
    }
}

/* The bucket of each particle. */
__global__ void hash_particles(GLOBAL const float4 *__restrict__ positions,
                               GLOBAL const UnboundedGrid *__restrict__ grid,
                               GLOBAL const int *__restrict__ corner,
                               GLOBAL int *__restrict__ bucket_of, int particles)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    bucket_of[i] = bucket_near(hash_products(grid, corner, positions[i]), 0, 0, 0);
}

/* The bounds of each bucket among the sorted particles, and their positions in that order. Empty
   buckets keep the flag that `bounds` is initialised with. */
__global__ void bound_buckets(GLOBAL const int *__restrict__ sorted_buckets,
                              GLOBAL const int *__restrict__ order,
                              GLOBAL const float4 *__restrict__ positions,
                              GLOBAL int2 *__restrict__ bounds,
                              GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int bucket = sorted_buckets[slot];
    if (slot == 0 || sorted_buckets[slot - 1] != bucket)
        bounds[bucket].x = (int)slot;
    if (slot == particles - 1 || sorted_buckets[slot + 1] != bucket)
        bounds[bucket].y = (int)slot + 1;
    sorted_positions[slot] = positions[order[slot]];
}
