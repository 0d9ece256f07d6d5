/* Cells of an unbounded world, and their buckets in a hash table.
   After Teschner et al., "Optimized spatial hashing for collision detection of deformable
   objects", VMV 2003, and da Silva Junior et al. 2012, section 5, Algorithm 1.

   BUCKETS is the number of buckets if it is no power of two; else 0, and grid->mask is the number
   minus one, so that one program serves all powers. `corner` is the cell that is hashed as (0, 0,
   0): zeros in the original, the lowest cell of the world where its limits are part of the key.

   The neighbours of a particle are in the buckets of the 27 cells around it. Several of these cells
   may share a bucket, which must then be visited once: in a loop over the cells, skip those whose
   bit is set in `repeated_visits`. A bucket also holds particles of distant cells; only the
   distance test excludes them. */
#ifndef GPUBENCH_COMMON_HASH_H
#define GPUBENCH_COMMON_HASH_H

#define HASH_X 73856093u
#define HASH_Y 19349663u
#define HASH_Z 83492791u

/* Cell coordinates end here, in both directions: the last cell is infinite. */
#define CELL_REACH 4194304 /* 2^22 */

/* Laid out as UNBOUNDED_DTYPE in gpubench/core/grid.py. */
typedef struct UnboundedGrid {
    float cell[3];
    float inverse_cell[3];
    unsigned mask;
} UnboundedGrid;

/* Cell coordinate along one axis: floor(coordinate / cell), exactly, within the reach. The rounded
   quotient is off by less than one up to there, and a fused remainder has the right sign. So
   particles nearer than a cell's edge are in the same cell or in adjacent ones, wherever they are:
   far out the last cell only grows. */
__device__ __forceinline__ int unbounded_cell(GLOBAL const UnboundedGrid *grid, int axis,
                                              float coordinate)
{
    float edge = grid->cell[axis], reach = (float)CELL_REACH;
    float guess = fmaxf(-reach, fminf(reach, floorf(coordinate * grid->inverse_cell[axis])));
    int cell = (int)guess;
    cell -= fmaf(-guess, edge, coordinate) < 0.0f;
    cell += fmaf(-guess - 1.0f, edge, coordinate) >= 0.0f;
    return max(-CELL_REACH, min(CELL_REACH, cell));
}

/* The contributions of a position's cell coordinates to its hash; w: the mask of the buckets. */
__device__ __forceinline__ uint4 hash_products(GLOBAL const UnboundedGrid *grid,
                                               GLOBAL const int *corner, float4 position)
{
    return make_uint4((unsigned)(unbounded_cell(grid, 0, position.x) - corner[0]) * HASH_X,
                      (unsigned)(unbounded_cell(grid, 1, position.y) - corner[1]) * HASH_Y,
                      (unsigned)(unbounded_cell(grid, 2, position.z) - corner[2]) * HASH_Z,
                      grid->mask);
}

/* Bucket of the cell that lies (dx, dy, dz) cells from another, given the products of that. */
__device__ __forceinline__ int bucket_near(uint4 products, int dx, int dy, int dz)
{
    unsigned hash = (products.x + (unsigned)dx * HASH_X) ^ (products.y + (unsigned)dy * HASH_Y) ^
                    (products.z + (unsigned)dz * HASH_Z);
#if BUCKETS
    return (int)(hash % (unsigned)BUCKETS);
#else
    return (int)(hash & products.w);
#endif
}

/* Index of a cell among the 27, x fastest. */
__device__ __forceinline__ int visit_number(int dx, int dy, int dz)
{
    return (dz * 3 + dy) * 3 + dx + 13;
}

__device__ __forceinline__ int bucket_of_visit(uint4 products, int visit)
{
    return bucket_near(products, visit % 3 - 1, visit / 3 % 3 - 1, visit / 9 - 1);
}

#if !BUCKETS

/* Whether any two of the 27 cells share a bucket. If the number of buckets is a power of two, they
   do if the low bits of the XOR of their hashes are zero, which has one term per axis: zero, or one
   of three between two of the coordinates. So 63 tests suffice instead of 351, and further work is
   rare. */
__device__ __forceinline__ int any_repeated(uint4 products)
{
    unsigned px = products.x, py = products.y, pz = products.z;
    unsigned x[4] = {0u, px ^ (px - HASH_X), px ^ (px + HASH_X), (px - HASH_X) ^ (px + HASH_X)};
    unsigned y[4] = {0u, py ^ (py - HASH_Y), py ^ (py + HASH_Y), (py - HASH_Y) ^ (py + HASH_Y)};
    unsigned z[4] = {0u, pz ^ (pz - HASH_Z), pz ^ (pz + HASH_Z), (pz - HASH_Z) ^ (pz + HASH_Z)};
    int any = 0;
#pragma unroll
    for (int combination = 1; combination < 64; ++combination) {
        unsigned apart = x[combination % 4] ^ y[combination / 4 % 4] ^ z[combination / 16];
        any |= (apart & products.w) == 0u;
    }
    return any;
}

/* Which of the 27 cells share their bucket with an earlier one, a bit for each. */
__device__ __forceinline__ unsigned repeated_visits(uint4 products)
{
    unsigned repeated = 0;
    if (!any_repeated(products))
        return 0;
    for (int visit = 1; visit < 27; ++visit)
        for (int earlier = 0; earlier < visit; ++earlier)
            if (bucket_of_visit(products, earlier) == bucket_of_visit(products, visit))
                repeated |= 1u << visit;
    return repeated;
}

#else

/* Which of the 27 cells share their bucket with an earlier one, a bit for each. */
__device__ __forceinline__ unsigned repeated_visits(uint4 products)
{
    int buckets[27];
    unsigned repeated = 0;
#pragma unroll
    for (int visit = 0; visit < 27; ++visit) {
        int is_repeated = 0;
        buckets[visit] = bucket_of_visit(products, visit);
#pragma unroll
        for (int earlier = 0; earlier < visit; ++earlier)
            is_repeated |= buckets[earlier] == buckets[visit];
        repeated |= (unsigned)is_repeated << visit;
    }
    return repeated;
}

#endif

#endif
