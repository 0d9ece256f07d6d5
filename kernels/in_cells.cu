/* Kernels shared by all workloads over cells: cells of positions, particles in cell order,
   neighbour lists. One thread per particle; see common/candidates.h for the constants. */
#include "common/box.h"

/* The cell of each particle. */
__global__ void cell_ids(GLOBAL const uint4 *__restrict__ places, GLOBAL int *__restrict__ cell_of,
                         GLOBAL const Box *__restrict__ box, int particles)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    uint4 p = places[i];
    cell_of[i] = cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), cell_at(box, 2, p.z));
}

#if TRAVERSAL == 4
/* The lowest cell coordinate along each axis, into `corner`, which is initialised with larger
   numbers. Any number of blocks (grid-stride loop). */
__global__ void lowest_cells(GLOBAL const uint4 *__restrict__ places,
                             GLOBAL const Box *__restrict__ box, GLOBAL int *__restrict__ corner,
                             int particles)
{
    __shared__ int lowest[3];
    int x = 0x7FFFFFFF, y = x, z = x;
    if (threadIdx.x < 3)
        lowest[threadIdx.x] = x;
    __syncthreads();
    for (unsigned i = blockIdx.x * BLOCK + threadIdx.x; i < particles; i += gridDim.x * BLOCK) {
        uint4 p = places[i];
        x = min(x, cell_at(box, 0, p.x));
        y = min(y, cell_at(box, 1, p.y));
        z = min(z, cell_at(box, 2, p.z));
    }
    atomicMin(&lowest[0], x);
    atomicMin(&lowest[1], y);
    atomicMin(&lowest[2], z);
    __syncthreads();
    if (threadIdx.x < 3)
        atomicMin(&corner[threadIdx.x], lowest[threadIdx.x]);
}

/* The bucket of each particle. */
__global__ void bucket_ids(GLOBAL const uint4 *__restrict__ places,
                           GLOBAL int *__restrict__ bucket_of, GLOBAL const Box *__restrict__ box,
                           GLOBAL const int *__restrict__ corner, int particles)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    uint4 p = places[i];
    uint4 products = cell_products(box, corner, cell_at(box, 0, p.x), cell_at(box, 1, p.y),
                                   cell_at(box, 2, p.z));
    bucket_of[i] = bucket_near(products, 0, 0, 0);
}
#endif

#if COARSE
#include "common/coarse.h"
#endif

/* Gather particles with their one or two columns in cell order, from row `begin` on; GATHER_PLACES
   if the sort has not moved positions. COARSE: also the input of common/coarse.h. */
__global__ void gather(GLOBAL const int *__restrict__ order, GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ first,
                       GLOBAL const float4 *__restrict__ second,
                       GLOBAL uint4 *__restrict__ sorted_places,
                       GLOBAL float4 *__restrict__ sorted_first,
                       GLOBAL float4 *__restrict__ sorted_second, int particles, int begin
#if COARSE
                       ,
                       GLOBAL const Box *__restrict__ box, GLOBAL unsigned *__restrict__ coarse
#endif
)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int i = order[slot];
    slot += begin;
#if GATHER_PLACES
    uint4 p = places[i];
    sorted_places[slot] = p;
#elif COARSE
    uint4 p = sorted_places[slot];
#endif
#if COARSE
    coarse[slot] = coarse_of(box, p);
#endif
    sorted_first[slot] = first[i];
#if COLUMNS > 1
    sorted_second[slot] = second[i];
#endif
}

/* List the particles within `range` of each, up to ROOM; counts are the full numbers. */
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (square_length(displacement(box, p, places[near])) < square_range && near != (int)i) {  \
            if (met < ROOM)                                                                        \
                lists[LIST_ITEM(i, met)] = near;                                                   \
            ++met;                                                                                 \
        }                                                                                          \
    }

__global__ void list_neighbours(GLOBAL const uint4 *__restrict__ places,
                                GLOBAL const int *__restrict__ cells,
                                GLOBAL const int *__restrict__ items,
                                GLOBAL const Box *__restrict__ box, float range, int particles,
                                GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ lists)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float square_range = range * range;
    uint4 p = places[i];
    int met = 0;
#include "common/candidates.h"
    counts[i] = met;
}
