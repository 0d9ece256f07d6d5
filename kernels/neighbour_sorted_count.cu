/* Count the neighbours of each particle within the cutoff: 27 cells, exact distance test, strictly
   nearer. After the near-field test of "Some GPU-based algorithms" (slides). The plain version, over particles
   sorted by cell:

       for each particle i, for each particle j of the 27 cells around its own:
           if |x[j] - x[i] + shift| < cutoff and j != i: ++counts[i]

   kernels/lessons has it, and the steps from there to here.

   One thread per particle; every pair is found from both sides, and both sides compute the same distance to
   the bit. The 27 cells are nine rows along x, and a row is one range of the sorted particles: its ends are
   clipped to the cutoff.

   PERIODIC is 0 for boxes that are open along every axis, which avoids the cost of images. The cutoff is at
   most the shortest cell edge (along x, REACH edges), and a periodic axis is at least three cutoffs long, so
   that no cell is visited twice. With HALF each pair is found once, in the row of the particle that comes
   first in cell order. BLOCK threads per block; STEP candidates are loaded at a time. */
#include "common/stretch.h"

/* With this many threads per SM, no registers are spilled in an open box. */
#if defined(__CUDACC__) && !PERIODIC
#define OCCUPANCY __launch_bounds__(BLOCK, 1536 / BLOCK)
#else
#define OCCUPANCY
#endif

/* The number of neighbours among particles from j to before `end`. */
__device__ __forceinline__ int near_in(GLOBAL const float4 *positions, float4 p, int j, int end, float shift_x,
                                       float shift_y, float shift_z, float cutoff2)
{
    int found = 0;
#pragma unroll 1
    for (; j < end; j += STEP) {
        float4 q[STEP];
        float over[STEP];
#pragma unroll
        for (int k = 0; k < STEP; ++k)
            if (k == 0 || j + k < end)
                q[k] = positions[j + k];
        excesses(p, q, shift_x, shift_y, shift_z, cutoff2, over);
#pragma unroll
        for (int k = 0; k < STEP; ++k)
            found += (unsigned)__float_as_int(k == 0 || j + k < end ? over[k] : 0.0f) >> 31;
    }
    return found;
}

__global__ void OCCUPANCY count(GLOBAL const float4 *__restrict__ positions,
                                GLOBAL const int *__restrict__ start, GLOBAL const int *__restrict__ order,
                                GLOBAL const Grid *__restrict__ grid, float cutoff2, float slack,
                                int particles, GLOBAL int *__restrict__ counts)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    float4 p = positions[slot];
    int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    float gap_y[3], before, behind, shift_z;
    gaps(grid, 1, cy, p.y, slack, &gap_y[0], &gap_y[2]);
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    gap_y[1] = 0.0f;
    Along along;
    set_along(&along, grid, p.x, slack);
    const int after = HALF ? (int)slot + 1 : 0;
    int found = 0;
#pragma unroll 1
    for (int dz = 0; dz < 3; ++dz) {
        float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
        int z = neighbour_cell(grid, 2, cz + dz - 1, &shift_z);
        if (z < 0)
            continue;
        /* The bounds of three rows first: their loads overlap. */
        Stretch row[3];
        float shift_y[3];
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            int y = neighbour_cell(grid, 1, cy + dy - 1, &shift_y[dy]);
            float gap2 = fmaf(gap_y[dy], gap_y[dy], gap_z * gap_z);
            set_stretch(&row[dy], grid, start, cell_number(grid, 0, max(y, 0), z), &along,
                        y < 0 ? 2.0f * cutoff2 : gap2, cutoff2);
        }
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            const Stretch s = row[dy];
            found += near_in(positions, p, max(s.begin, after), s.end, 0.0f, shift_y[dy], shift_z, cutoff2);
            if (PERIODIC && s.far_begin < s.far_end)
                found += near_in(positions, p, max(s.far_begin, after), s.far_end,
                                 s.far_begin < s.begin ? grid->size[0] : -grid->size[0], shift_y[dy], shift_z,
                                 cutoff2);
        }
    }
    /* Without the particle itself. */
    counts[order[slot]] = HALF ? found : found - 1;
}
