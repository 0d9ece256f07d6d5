/* Cell ids of particles (Rozen et al. 2008, section 2.3). One thread a particle. */
#include "common/grid.h"

__global__ void cell_ids(GLOBAL const float4 *__restrict__ positions, GLOBAL int *__restrict__ cell_of,
                         GLOBAL const Grid *__restrict__ grid, int particles)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    float4 p = positions[i];
    cell_of[i] = cell_number(grid, cell_along(grid, 0, p.x), cell_along(grid, 1, p.y),
                             cell_along(grid, 2, p.z));
}
