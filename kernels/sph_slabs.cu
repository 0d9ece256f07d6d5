/* The kernels of sph.cu for ranks that share a box by planes, over rows that are numbered on the device
   (common/part.h), so that a CUDA graph can hold steps whose number of rows changes.

   One thread per particle. Kernels of sph.cu become functions here: their text, and so the machine
   code of a single GPU, stays as it is. */
#pragma push_macro("__global__")
#pragma push_macro("__launch_bounds__")
#undef __global__
#undef __launch_bounds__
#define __global__ __device__ __forceinline__
#define __launch_bounds__(...)
#include "sph.cu"
#undef __global__
#undef __launch_bounds__
#pragma pop_macro("__global__")
#pragma pop_macro("__launch_bounds__")
#include "common/part.h"

/* The rows of this block's side, such that row `first` is the one of the first thread of all. */
#define EDGE_ROWS                                                                                  \
    int side = blockIdx.x >= per_side;                                                                 \
    int first = side ? part[PART_LAST] - per_side * BLOCK : part[PART_BEGIN];                          \
    int last = part[side ? PART_END : PART_INNER];

/* Densities of the rows from part[from] to before part[to]. */
__global__ void OCCUPANCY(DENSITY_BLOCKS)
    densities_of(GLOBAL const uint4 *__restrict__ places, GLOBAL const unsigned *__restrict__ coarse,
                 GLOBAL const float4 *__restrict__ velocities, GLOBAL const int *__restrict__ cells,
                 GLOBAL const Box *__restrict__ box, GLOBAL const Fluid *__restrict__ fluid,
                 Clock clock, int particles, GLOBAL const int *__restrict__ part, int from, int to,
                 GLOBAL float4 *__restrict__ flow, GLOBAL int *__restrict__ noted,
                 GLOBAL int *__restrict__ notes)
{
    densities(places, coarse, velocities, cells, cells, box, fluid, clock, particles, part[from],
              part[to], 0, 0x7fffffff, flow, noted, notes);
}

/* Densities of the edge planes. */
__global__ void OCCUPANCY(DENSITY_BLOCKS)
    densities_of_edges(GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const unsigned *__restrict__ coarse,
                       GLOBAL const float4 *__restrict__ velocities,
                       GLOBAL const int *__restrict__ cells, GLOBAL const Box *__restrict__ box,
                       GLOBAL const Fluid *__restrict__ fluid, Clock clock, int particles,
                       GLOBAL const int *__restrict__ part, int per_side,
                       GLOBAL float4 *__restrict__ flow, GLOBAL int *__restrict__ noted,
                       GLOBAL int *__restrict__ notes)
{
    EDGE_ROWS
    densities(places, coarse, velocities, cells, cells, box, fluid, clock, particles, first, last,
              0, 0x7fffffff, flow, noted, notes);
}

/* Accelerations of the rows from part[from] to before part[to]. */
__global__ void OCCUPANCY(FORCE_BLOCKS)
    forces_of(GLOBAL const uint4 *__restrict__ places, GLOBAL const float4 *__restrict__ flow,
              GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ noted,
              GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
              GLOBAL const Fluid *__restrict__ fluid, int particles,
              GLOBAL const int *__restrict__ part, int from, int to,
              GLOBAL int4 *__restrict__ result)
{
    forces(places, flow, cells, cells, noted, notes, box, fluid, particles, part[from], part[to],
           result);
}

/* Accelerations of the edge planes. */
__global__ void OCCUPANCY(FORCE_BLOCKS)
    forces_of_edges(GLOBAL const uint4 *__restrict__ places, GLOBAL const float4 *__restrict__ flow,
                    GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ noted,
                    GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
                    GLOBAL const Fluid *__restrict__ fluid, int particles,
                    GLOBAL const int *__restrict__ part, int per_side,
                    GLOBAL int4 *__restrict__ result)
{
    EDGE_ROWS
    forces(places, flow, cells, cells, noted, notes, box, fluid, particles, first, last, result);
}

/* Move the inner planes. */
__global__ void move_inner(GLOBAL const uint4 *places, GLOBAL const float4 *flow,
                           GLOBAL const int4 *__restrict__ force, GLOBAL const Box *__restrict__ box,
                           GLOBAL const Fluid *__restrict__ fluid, Clock clock,
                           GLOBAL const int *__restrict__ part, GLOBAL uint4 *new_places,
                           GLOBAL float4 *new_velocities, GLOBAL int *fault)
{
    integrate(places, flow, force, 0, 0, box, fluid, clock, part[PART_INNER], part[PART_LAST],
              part[PART_BEGIN], 0.0f, new_places, new_velocities, 0, fault);
}

/* Move the edge planes, and write migrants, which left the planes from `low` to before `high`, into
   the neighbours' memory, up to `room` of them. */
__global__ void move_edges(GLOBAL const uint4 *places, GLOBAL const float4 *flow,
                           GLOBAL const int4 *__restrict__ force, GLOBAL const Box *__restrict__ box,
                           GLOBAL const Fluid *__restrict__ fluid, Clock clock,
                           GLOBAL const int *__restrict__ part, int per_side, int low, int high,
                           int room, GLOBAL int *leaving, GLOBAL uint4 *low_places,
                           GLOBAL float4 *low_velocities, GLOBAL uint4 *high_places,
                           GLOBAL float4 *high_velocities, GLOBAL uint4 *new_places,
                           GLOBAL float4 *new_velocities, GLOBAL int *fault)
{
    EDGE_ROWS
    int shift = part[PART_BEGIN];
    integrate(places, flow, force, 0, 0, box, fluid, clock, first, last, shift, 0.0f, new_places,
              new_velocities, 0, fault);
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i >= last)
        return;
    uint4 p = new_places[i - shift];
    int z = cell_at(box, 2, p.z);
    if (z >= low && z < high)
        return;
    int k = atomicAdd(&leaving[z >= high], 1);
    if (k < room) {
        (z >= high ? high_places : low_places)[k] = p;
        (z >= high ? high_velocities : low_velocities)[k] = new_velocities[i - shift];
    }
}
