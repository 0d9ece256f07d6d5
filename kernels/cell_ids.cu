/* Cell ids of particles (Rozen et al. 2008, section 2.3). One thread per particle. */
#include "common/grid.h"

__global__ void cell_ids(GLOBAL const float4 *__restrict__ positions, GLOBAL int *__restrict__ cell_of,
                         GLOBAL const Grid *__restrict__ grid, int particles)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < particles)
        cell_of[i] = cell_of_position(grid, positions[i]);
}
