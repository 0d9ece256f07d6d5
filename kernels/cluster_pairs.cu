/* Lists of pairs of clusters, and their conversion to neighbours of particles (Pall and Hess 2013, Comput. Phys.
   Commun. 184, 2641, sections 3 and 4; common/clusters.h describes the product). The plain version, over particles
   sorted along a curve through cells:

       for each cluster c, for each image, for each row of cells near the box around c:
           for each group of particles of the row with a particle near that box:
               mask = the pairs of c and the group that are strictly nearer than the cutoff
               if (mask) append (group, mask) to the tiles of c

   With EXACT 0, masks only exclude a particle's pair with itself and particles of other rows: a kernel that reads the
   list tests distances, and every box that is near counts. Pairs are found from both sides. PERIODIC is 0 for boxes
   open along every axis; a periodic axis is at least three cutoffs long. */
#include "common/clusters.h"

#ifdef __CUDACC__
#define OCCUPANCY __launch_bounds__(BLOCK, 768 / BLOCK)
#define AT_ONCE 4 /* groups loaded at once */
#else
#define OCCUPANCY
#define AT_ONCE 1 /* as votes are many barriers */
#endif

/* Rows of cells along x are numbered back and forth along y, and cells back and forth along x, so that successive
   cells are adjacent. */
__device__ __forceinline__ int row_of(GLOBAL const Grid *grid, int y, int z)
{
    return z * grid->cells[1] + (z & 1 ? grid->cells[1] - 1 - y : y);
}

__device__ __forceinline__ int on_curve(GLOBAL const Grid *grid, int row, int x)
{
    return row * grid->cells[0] + (row & 1 ? grid->cells[0] - 1 - x : x);
}

/* The cell of each particle along the curve. One thread per particle. */
__global__ void cells_on_curve(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid,
                               int particles, GLOBAL int *__restrict__ cell_of)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const float4 p = positions[i];
    const int row = row_of(grid, cell_along(grid, 1, p.y), cell_along(grid, 2, p.z));
    cell_of[i] = on_curve(grid, row, cell_along(grid, 0, p.x));
}

/* How far a coordinate lies outside a range. */
__device__ __forceinline__ float outside(float at, float from, float to)
{
    return fmaxf(fmaxf(from - at, at - to), 0.0f);
}

/* The cells along an axis that a range may touch: the last is before the first if there are none. */
__device__ __forceinline__ int2 cells_between(GLOBAL const Grid *grid, int axis, float from, float to)
{
    const float first = floorf((from - grid->low[axis]) * grid->inverse_cell[axis]);
    const float last = floorf((to - grid->low[axis]) * grid->inverse_cell[axis]);
    const float most = (float)(grid->cells[axis] - 1);
    if (last < 0.0f || first > most)
        return make_int2(0, -1);
    return make_int2((int)fmaxf(first, 0.0f), (int)fminf(last, most));
}

/* The slots of a row of cells that may be within the cutoff of a box. */
__device__ __forceinline__ int2 slots_near(GLOBAL const Grid *grid, GLOBAL const int *start, int y, int z, float4 low,
                                           float4 high, float cutoff2, float slack)
{
    const float edge_y = grid->size[1] / grid->cells[1], edge_z = grid->size[2] / grid->cells[2];
    const float at_y = fmaf((float)y, edge_y, grid->low[1]), at_z = fmaf((float)z, edge_z, grid->low[2]);
    const float gap_y = fmaxf(fmaxf(low.y - at_y - edge_y, at_y - high.y) - slack, 0.0f);
    const float gap_z = fmaxf(fmaxf(low.z - at_z - edge_z, at_z - high.z) - slack, 0.0f);
    const float left = fmaf(cutoff2, 1.000001f, -fmaf(gap_y, gap_y, gap_z * gap_z));
    const float half_width = fmaf(sqrt_about(left), 1.000001f, slack);
    const int2 x = cells_between(grid, 0, low.x - half_width, high.x + half_width);
    if (left < 0.0f || x.x > x.y)
        return make_int2(0, 0);
    const int row = row_of(grid, y, z), one = on_curve(grid, row, x.x), other = on_curve(grid, row, x.y);
    return make_int2(start[min(one, other)], start[max(one, other) + 1]);
}

/* The pairs of a cluster with the group from slot `first` on that are in a row: bits of a tile's mask. present: the
   bits of the cluster's particles. */
__device__ __forceinline__ unsigned pairs_with(int first, int2 row, int base, unsigned present, int image)
{
    unsigned mask = 0;
    for (int m = 0; m < PARTNERS; ++m) {
        const int j = first + m, own = j - base;
        unsigned bits = present;
        if (image == NO_IMAGE && own >= 0 && own < CLUSTER)
            bits &= ~(1u << own);
        mask |= j >= row.x && j < row.y ? bits << m * CLUSTER : 0u;
    }
    return mask;
}

/* Keep the pairs of up to 32 tiles that are within the cutoff; tile k is returned to lane k. */
__device__ __forceinline__ int2 pruned(LOCAL int *word, LOCAL const int2 *queue, int count, float4 p,
                                       GLOBAL const float4 *positions, int particles, float4 shift, float cutoff2)
{
    int2 tile = make_int2(0, 0);
    for (int first = 0; first < count; first += AT_ONCE) {
        int2 t[AT_ONCE];
        float4 q[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            t[k] = queue[min(first + k, count - 1)];
            q[k] = positions[min(t[k].x * PARTNERS + LANE / CLUSTER, particles - 1)];
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const unsigned near = vote(word, is_near(p, q[k], shift.x, shift.y, shift.z, cutoff2));
            if (LANE == first + k && LANE < count)
                tile = make_int2(t[k].x, (int)(near & (unsigned)t[k].y));
        }
    }
    return tile;
}

/* Append tiles, at most one per lane, to a chain, and return its head. */
__device__ __forceinline__ int append(LOCAL int *word, int head, int2 tile, int image, GLOBAL int2 *tiles,
                                      GLOBAL int4 *links, GLOBAL int *used, int room)
{
    const unsigned kept = vote(word, tile.y != 0);
    if (!kept)
        return head;
    const int chunk = of_first(word, LANE == 0 ? atomicAdd(used, 1) : 0);
    if (chunk >= room)
        return head;
    if (tile.y != 0)
        tiles[(size_t)chunk * 32 + __popc(kept & ((1u << LANE) - 1u))] = tile;
    if (LANE == 0)
        links[chunk] = make_int4(head, __popc(kept), image, 0);
    return chunk;
}

/* List the pairs of each cluster: one warp per cluster. Each lane tests a candidate against the cluster's box; groups
   near it queue up, up to 63, and are pruned and stored by 32. used: initially zero; the chunks needed, which may
   exceed `room`. */
__global__ void OCCUPANCY list_pairs(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                           GLOBAL const Grid *__restrict__ grid, float cutoff, float slack, int particles,
                           GLOBAL int *__restrict__ heads, GLOBAL int2 *__restrict__ tiles,
                           GLOBAL int4 *__restrict__ links, GLOBAL int *used, int room)
{
    __shared__ int2 near_rows[BLOCK];
    __shared__ int2 queued[2 * BLOCK];
    __shared__ int words[BLOCK / 32];
    LOCAL int2 *rows = near_rows + WARP * 32, *queue = queued + WARP * 64;
    LOCAL int *word = words + WARP;
    const int base = OWN_CLUSTER * CLUSTER;
    if (base >= particles)
        return;
    const unsigned present = 0xffffffffu >> (32 - min(CLUSTER, particles - base));
    const float cutoff2 = cutoff * cutoff, reach = cutoff + slack;
    const float4 p = positions[min(base + LANE % CLUSTER, particles - 1)];
    float4 box_low = p, box_high = p;
    for (int k = 0; k < CLUSTER; ++k) {
        const float4 q = positions[min(base + k, particles - 1)];
        box_low = make_float4(fminf(box_low.x, q.x), fminf(box_low.y, q.y), fminf(box_low.z, q.z), 0.0f);
        box_high = make_float4(fmaxf(box_high.x, q.x), fmaxf(box_high.y, q.y), fmaxf(box_high.z, q.z), 0.0f);
    }

    int head = -1;
    for (int image = FIRST_IMAGE; image <= LAST_IMAGE; ++image) {
        int count = 0;
        const float4 shift = shift_of(grid, image);
        const float4 low = make_float4(box_low.x - shift.x, box_low.y - shift.y, box_low.z - shift.z, 0.0f);
        const float4 high = make_float4(box_high.x - shift.x, box_high.y - shift.y, box_high.z - shift.z, 0.0f);
        const int2 x = cells_between(grid, 0, low.x - reach, high.x + reach);
        const int2 y = cells_between(grid, 1, low.y - reach, high.y + reach);
        const int2 z = cells_between(grid, 2, low.z - reach, high.z + reach);
        if (!is_image(grid, image) || x.x > x.y || y.x > y.y || z.x > z.y)
            continue;
        const int wide = y.y - y.x + 1, around = wide * (z.y - z.x + 1);
        for (int first_row = 0; first_row < around; first_row += 32) {
            const int number = min(first_row + LANE, around - 1);
            const int2 found =
                slots_near(grid, start, y.x + number % wide, z.x + number / wide, low, high, cutoff2, slack);
            SYNC_WARP();
            rows[LANE] = found;
            SYNC_WARP();
            const int looked_up = min(32, around - first_row);
            for (int r = 0; r < looked_up; ++r) {
                const int2 row = rows[r];
                for (int first = row.x / PARTNERS * PARTNERS; first < row.y; first += 32) {
                    const int candidate = first + LANE, is_one = candidate >= row.x && candidate < row.y;
                    const float4 c = positions[is_one ? candidate : row.x];
                    const float dx = outside(c.x, low.x, high.x), dy = outside(c.y, low.y, high.y);
                    const float dz = outside(c.z, low.z, high.z);
                    unsigned near = vote(word, is_one && fmaf(dz, dz, fmaf(dy, dy, dx * dx)) < reach * reach);
                    int leads = (near >> LANE & 0xffffffffu >> (32 - PARTNERS)) != 0;
                    if (PARTNERS > 1) {
                        leads = leads && LANE % PARTNERS == 0;
                        near = vote(word, leads);
                    }
                    if (leads)
                        queue[count + __popc(near & ((1u << LANE) - 1u))] =
                            make_int2(candidate / PARTNERS, (int)pairs_with(candidate, row, base, present, image));
                    count += __popc(near);
                    SYNC_WARP();
                    if (count < 32)
                        continue;
                    int2 tile = queue[LANE];
                    const int2 later = queue[32 + LANE];
                    if (EXACT)
                        tile = pruned(word, queue, 32, p, positions, particles, shift, cutoff2);
                    head = append(word, head, tile, image, tiles, links, used, room);
                    SYNC_WARP();
                    queue[LANE] = later;
                    count -= 32;
                    SYNC_WARP();
                }
            }
        }
        int2 tile = LANE < count ? queue[LANE] : make_int2(0, 0);
        if (EXACT)
            tile = pruned(word, queue, count, p, positions, particles, shift, cutoff2);
        head = append(word, head, tile, image, tiles, links, used, room);
        SYNC_WARP();
    }
    if (LANE == 0)
        heads[OWN_CLUSTER] = head;
}

/* Count the neighbours of each particle or, if `fills`, list them at the offsets from the counts. One thread per
   particle. */
__global__ void convert(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ order,
                        GLOBAL const Grid *__restrict__ grid, float cutoff, int particles,
                        GLOBAL const int *__restrict__ heads, GLOBAL const int2 *__restrict__ tiles,
                        GLOBAL const int4 *__restrict__ links, GLOBAL int *__restrict__ counts,
                        GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity,
                        int fills)
{
    const unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    int64 place = fills ? offsets[order[slot]] : 0;
    int found = 0;
    for (int chunk = heads[slot / CLUSTER]; chunk >= 0; chunk = links[chunk].x) {
        const float4 shift = shift_of(grid, links[chunk].z);
        for (int k = 0; k < links[chunk].y; ++k) {
            const int2 tile = tiles[(size_t)chunk * 32 + k];
            for (int m = 0; m < PARTNERS; ++m) {
                const int j = tile.x * PARTNERS + m;
                if (!((unsigned)tile.y >> (m * CLUSTER + slot % CLUSTER) & 1))
                    continue;
                if (!EXACT && !is_near(p, positions[j], shift.x, shift.y, shift.z, cutoff * cutoff))
                    continue;
                if (fills && place + found < capacity)
                    neighbours[place + found] = order[j];
                ++found;
            }
        }
    }
    if (!fills)
        counts[order[slot]] = found;
}
