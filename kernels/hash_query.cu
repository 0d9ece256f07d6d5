/* Neighbours of each particle within the cutoff, over the buckets of kernels/hash_grid.cu: exact
   distance test, strictly nearer. One thread per particle, in bucket order; every pair
   is found from both sides, and both sides compute the same distance to the bit.

   The cutoff is at most the shortest cell edge. WORK selects the operation: 0 counts each particle's
   neighbours, 1 writes them at offsets made from those counts, 2 counts the particles tested,
   without the particle itself. BLOCK threads per block. */
#include "common/hash.h"

__global__ void query(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ order,
                      GLOBAL const int2 *__restrict__ bounds,
                      GLOBAL const UnboundedGrid *__restrict__ grid,
                      GLOBAL const int *__restrict__ corner, float cutoff2, int particles,
                      GLOBAL int *__restrict__ counts, GLOBAL const int64 *__restrict__ offsets,
                      GLOBAL int *__restrict__ neighbours, int64 capacity)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    float4 p = positions[slot];
    int i = order[slot];
    uint4 products = hash_products(grid, corner, p);
    unsigned repeated = repeated_visits(products);
    int found = 0;
#if WORK == 1
    int64 place = offsets[i];
#endif
    for (int dz = -1; dz <= 1; ++dz) {
        for (int dy = -1; dy <= 1; ++dy) {
            /* The bounds of three buckets first: their loads overlap. */
            int2 bucket[3];
#pragma unroll
            for (int dx = -1; dx <= 1; ++dx) {
                bucket[dx + 1] = bounds[bucket_near(products, dx, dy, dz)];
                if (repeated >> visit_number(dx, dy, dz) & 1u)
                    bucket[dx + 1] = make_int2(0, 0);
            }
#pragma unroll
            for (int b = 0; b < 3; ++b) {
#if WORK == 2
                found += bucket[b].y - bucket[b].x;
#else
#pragma unroll 2
                for (int j = bucket[b].x; j < bucket[b].y; ++j) {
                    float4 q = positions[j];
                    float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
                    if (x * x + y * y + z * z < cutoff2 && j != (int)slot) {
#if WORK == 1
                        if (place + found < capacity)
                            neighbours[place + found] = order[j];
#endif
                        ++found;
                    }
                }
#endif
            }
        }
    }
#if WORK == 2
    --found; /* without the particle itself */
#endif
#if WORK != 1
    counts[i] = found;
#endif
}
