/* Forces between particles from a list of neighbours in compressed rows: a Verlet list (Allen and Tildesley, Computer
   Simulation of Liquids, 2nd edition (2017), section 5.3.1). The plain version:

       for each particle i, for each place k of its row: force[i] += f(x[neighbours[k]] - x[i], nearest image)

   LANES threads per particle, 1 without warps: they read a row together, and add up their sums. A periodic axis is
   longer than two cutoffs. */
#include "common/grid.h"
#include "common/lennard_jones.h"

__device__ __forceinline__ float to_nearest(float d, GLOBAL const Grid *grid, int axis)
{
#if PERIODIC
    const float edge = grid->periodic[axis] ? grid->size[axis] : 0.0f;
    return d > 0.5f * edge ? d - edge : d < -0.5f * edge ? d + edge : d;
#else
    return d;
#endif
}

__global__ void forces_of_rows(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid,
                               float sigma2, float least2, int particles, GLOBAL const int64 *__restrict__ offsets,
                               GLOBAL const int *__restrict__ neighbours, GLOBAL float4 *__restrict__ forces)
{
    const unsigned thread = blockIdx.x * BLOCK + threadIdx.x, i = thread / LANES;
    float x = 0.0f, y = 0.0f, z = 0.0f;
    if (i < particles) {
        const float4 p = positions[i];
        const int64 end = offsets[i + 1];
#ifdef __CUDACC__
#pragma unroll 4
#endif
        for (int64 k = offsets[i] + thread % LANES; k < end; k += LANES) {
            const float4 q = positions[neighbours[k]];
            const float dx = to_nearest(q.x - p.x, grid, 0), dy = to_nearest(q.y - p.y, grid, 1);
            const float dz = to_nearest(q.z - p.z, grid, 2);
            const float f = pair_factor(fmaf(dz, dz, fmaf(dy, dy, dx * dx)), sigma2, least2);
            x = fmaf(-f, dx, x);
            y = fmaf(-f, dy, y);
            z = fmaf(-f, dz, z);
        }
    }
#ifdef __CUDACC__
    for (int reach = LANES / 2; reach > 0; reach /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, reach);
        y += __shfl_xor_sync(0xffffffffu, y, reach);
        z += __shfl_xor_sync(0xffffffffu, z, reach);
    }
#endif
    if (i < particles && thread % LANES == 0)
        forces[i] = make_float4(24.0f * x, 24.0f * y, 24.0f * z, 0.0f);
}
