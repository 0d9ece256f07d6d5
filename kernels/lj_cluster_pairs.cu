/* Forces between particles from a list of pairs of clusters (Pall and Hess 2013, Comput. Phys. Commun. 184, 2641,
   section 4; common/clusters.h describes the list). The plain version:

       for each cluster, for each of its tiles, for each bit (i, j) of the mask:
           if |x[j] - x[i] + shift| < cutoff: force[order[i]] += f(x[j] - x[i] + shift)

   One warp per cluster, one pair per thread: a tile's positions are read once, without gathers, and each thread keeps
   its particle and the sum of its forces. Pairs are listed from both sides, so nothing is added atomically. */
#include "common/clusters.h"
#include "common/lennard_jones.h"

#define AT_ONCE 4 /* divides 32: past the last tile of a chunk, masks are empty */

__global__ void forces_of_clusters(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ order,
                                   GLOBAL const Grid *__restrict__ grid, float cutoff, float sigma2, float least2,
                                   int particles, GLOBAL const int *__restrict__ heads,
                                   GLOBAL const int2 *__restrict__ tiles, GLOBAL const int4 *__restrict__ links,
                                   GLOBAL float4 *__restrict__ forces)
{
    __shared__ int2 staged[BLOCK];
    __shared__ float4 sums[BLOCK];
    LOCAL int2 *stage = staged + WARP * 32;
    LOCAL float4 *sum = sums + WARP * 32;
    const int base = OWN_CLUSTER * CLUSTER;
    if (base >= particles)
        return;
    const float4 p = positions[min(base + LANE % CLUSTER, particles - 1)];
    const float cutoff2 = cutoff * cutoff;
    float x = 0.0f, y = 0.0f, z = 0.0f;
    int chunk = heads[OWN_CLUSTER];
    int4 next = make_int4(-1, 0, NO_IMAGE, 0);
    int2 tile = make_int2(0, 0);
    if (chunk >= 0) {
        next = links[chunk];
        tile = tiles[(size_t)chunk * 32 + LANE];
    }
    while (chunk >= 0) {
        const int count = next.y;
        const float4 shift = shift_of(grid, next.z);
        SYNC_WARP();
        stage[LANE] = LANE < count ? tile : make_int2(0, 0);
        SYNC_WARP();
        chunk = next.x;
        if (chunk >= 0) { /* early, so that its load overlaps this chunk's work */
            next = links[chunk];
            tile = tiles[(size_t)chunk * 32 + LANE];
        }
        const float4 from = make_float4(p.x - shift.x, p.y - shift.y, p.z - shift.z, 0.0f);
        for (int first = 0; first < count; first += AT_ONCE) {
            int2 t[AT_ONCE];
            float4 q[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                t[k] = stage[first + k];
                q[k] = positions[min(t[k].x * PARTNERS + LANE / CLUSTER, particles - 1)];
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                const float dx = q[k].x - from.x, dy = q[k].y - from.y, dz = q[k].z - from.z;
                const float distance2 = fmaf(dz, dz, fmaf(dy, dy, dx * dx));
                int is = (unsigned)t[k].y >> LANE & 1;
                if (!EXACT)
                    is = is && distance2 < cutoff2;
                /* So far away that there is no force, and no branch. */
                const float f = pair_factor(is ? distance2 : 3e38f, sigma2, least2);
                x = fmaf(-f, dx, x);
                y = fmaf(-f, dy, y);
                z = fmaf(-f, dz, z);
            }
        }
    }
    sum[LANE] = make_float4(x, y, z, 0.0f);
    SYNC_WARP();
    if (LANE >= CLUSTER || base + LANE >= particles)
        return;
    for (int k = 1; k < PARTNERS; ++k) {
        const float4 other = sum[LANE + k * CLUSTER];
        x += other.x, y += other.y, z += other.z;
    }
    forces[order[base + LANE]] = make_float4(24.0f * x, 24.0f * y, 24.0f * z, 0.0f);
}
