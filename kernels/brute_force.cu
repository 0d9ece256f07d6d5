/* Neighbours of each particle by testing all others, in tiles shared by a block (Nyland,
   Harris and Prins, Fast N-body simulation with CUDA, GPU Gems 3 (2007), chapter 31). One thread per
   particle, BLOCK threads per block and particles per tile. PERIODIC is 0 for boxes that are open along
   every axis. Only the nearest image counts: a periodic axis is at least three cutoffs long. */
#include "common/grid.h"

__global__ void count_all(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid,
                          float cutoff2, int particles, GLOBAL int *__restrict__ counts)
{
    __shared__ float4 tile[BLOCK];
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    float4 p = positions[min((int)i, particles - 1)];
    int found = 0;
    for (unsigned begin = 0; begin < particles; begin += BLOCK) {
        if (begin + threadIdx.x < particles)
            tile[threadIdx.x] = positions[begin + threadIdx.x];
        __syncthreads();
        int inside = min(BLOCK, particles - (int)begin);
        for (int k = 0; k < inside; ++k) {
            float dx = tile[k].x - p.x, dy = tile[k].y - p.y, dz = tile[k].z - p.z;
#if PERIODIC
            /* The nearest image; the shift has the same magnitude from either side. */
            if (grid->periodic[0] && fabsf(dx) > 0.5f * grid->size[0])
                dx += dx < 0.0f ? grid->size[0] : -grid->size[0];
            if (grid->periodic[1] && fabsf(dy) > 0.5f * grid->size[1])
                dy += dy < 0.0f ? grid->size[1] : -grid->size[1];
            if (grid->periodic[2] && fabsf(dz) > 0.5f * grid->size[2])
                dz += dz < 0.0f ? grid->size[2] : -grid->size[2];
#endif
            found += dx * dx + dy * dy + dz * dz < cutoff2;
        }
        __syncthreads();
    }
    /* Without the particle itself. */
    if (i < particles)
        counts[i] = found - 1;
}
