/* Counting sort of particles by cell in two levels, for more of them than the cache holds. Plainly:

       for each particle i:  move positions[i], with i, to the bucket of its cell
       for each bucket:      counting sort of its particles in shared memory

   A scattered write of a part of a memory sector costs as much as the sector. So a block of the first level
   sorts a tile of particles by bucket and writes runs of them, and one of the second level writes a whole
   bucket in order. Positions are not staged: both read them through a permutation in shared memory, from
   the cache. The fourth float, which means nothing, carries i; it is 0 in the answer.

   A bucket is a range of cells: that of a cell is the upper word of cell * scale. Buckets of more than
   BLOCK * ITEMS particles ("large") do not fit: they are counted and scattered through global memory, but
   by then their particles lie together.

   BLOCK threads a block; TILE_ITEMS, ITEMS particles a thread of the first and second level; BUCKETS, at most
   so many; WIDTH, a multiple of 8 BLOCK, no fewer than the cells of a bucket. */
#include "common/grid.h"

#define TILE (BLOCK * TILE_ITEMS)
#define MOST (BLOCK * ITEMS)
#define IN_THREAD (WIDTH / BLOCK) /* cells that a thread sums up */

#ifdef __CUDACC__
#define OCCUPANCY(blocks) __launch_bounds__(BLOCK, blocks)
#else
#define OCCUPANCY(blocks)
#endif

__device__ __forceinline__ unsigned cell_at(GLOBAL const Grid *grid, float4 p)
{
    return cell_number(grid, cell_along(grid, 0, p.x), cell_along(grid, 1, p.y), cell_along(grid, 2, p.z));
}

__device__ __forceinline__ unsigned bucket_at(GLOBAL const Grid *grid, float4 p, unsigned scale)
{
    return __umulhi(cell_at(grid, p), scale);
}

/* The first cell of a bucket: the least whose product with `scale` reaches it. */
__device__ __forceinline__ int first_cell_of(unsigned bucket, unsigned scale, int cells)
{
    const uint64 first = (((uint64)bucket << 32) + scale - 1) / scale;
    return first < (uint64)cells ? (int)first : cells;
}

/* The sum of the values of all threads before this one; sums[BLOCK - 1] becomes that of all. */
__device__ __forceinline__ int sum_before(int value, LOCAL int *sums)
{
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int reach = 1; reach < BLOCK; reach *= 2) {
        const int before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    return sums[threadIdx.x] - value;
}

/* Into how many pieces a bucket is cut that is too large to be sorted by a block. */
__device__ __forceinline__ int pieces_of(int size)
{
    return size > MOST ? (size + BLOCK - 1) / BLOCK : 0;
}

/* The place of the thread's particle in a piece, or -1 past its bucket's end. */
__device__ __forceinline__ int in_piece(GLOBAL const int *begin, GLOBAL const int *pieces, int buckets, int piece)
{
    int bucket = 0; /* the last that no more pieces lie before than this one; those have pieces */
    for (int above = buckets; above - bucket > 1;) {
        const int middle = (bucket + above) / 2;
        if (pieces[middle] <= piece)
            bucket = middle;
        else
            above = middle;
    }
    const int i = begin[bucket] + (piece - pieces[bucket]) * BLOCK + threadIdx.x;
    return i < begin[bucket + 1] ? i : -1;
}

/* sizes[b] += the particles of bucket b. */
__global__ void OCCUPANCY(2)
    count_buckets(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid,
                  unsigned scale, GLOBAL int *__restrict__ sizes, int particles, int buckets)
{
    __shared__ int count[BUCKETS];
    for (int b = threadIdx.x; b < buckets; b += BLOCK)
        count[b] = 0;
    __syncthreads();
    const size_t stride = (size_t)gridDim.x * BLOCK;
    size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x;
    for (; i + 3 * stride < particles; i += 4 * stride) {
        float4 p[4]; /* first, so that their loads overlap */
#pragma unroll
        for (int k = 0; k < 4; ++k)
            p[k] = positions[i + k * stride];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            atomicAdd(&count[bucket_at(grid, p[k], scale)], 1);
    }
    for (; i < particles; i += stride)
        atomicAdd(&count[bucket_at(grid, positions[i], scale)], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < buckets; b += BLOCK)
        if (count[b])
            atomicAdd(&sizes[b], count[b]);
}

/* Where each bucket begins, twice, and how many pieces of BLOCK particles the large ones before it have. One
   block. Leaves zeros in `sizes` for the next launch. */
__global__ void OCCUPANCY(1)
    place_buckets(GLOBAL int *__restrict__ sizes, GLOBAL int *__restrict__ begin, GLOBAL int *__restrict__ cursor,
                  GLOBAL int *__restrict__ pieces, int particles, int buckets)
{
    __shared__ int sums[BLOCK];
    const int each = (buckets + BLOCK - 1) / BLOCK, from = threadIdx.x * each, to = min(from + each, buckets);
    int sum = 0, sum_of_pieces = 0;
    for (int b = from; b < to; ++b) {
        sum += sizes[b];
        sum_of_pieces += pieces_of(sizes[b]);
    }
    int at = sum_before(sum, sums);
    __syncthreads();
    int piece = sum_before(sum_of_pieces, sums);
    for (int b = from; b < to; ++b) {
        const int size = sizes[b];
        sizes[b] = 0;
        begin[b] = at;
        cursor[b] = at;
        pieces[b] = piece;
        at += size;
        piece += pieces_of(size);
    }
    if (threadIdx.x == BLOCK - 1) {
        begin[buckets] = particles;
        pieces[buckets] = piece;
    }
}

/* Move each particle to the next place of its bucket, a tile at a time. */
__global__ void OCCUPANCY(1)
    partition(GLOBAL const float4 *__restrict__ positions, GLOBAL const Grid *__restrict__ grid, unsigned scale,
              GLOBAL int *__restrict__ cursor, GLOBAL float4 *__restrict__ partitioned, int particles, int buckets)
{
    __shared__ int tile[TILE / 2];             /* partial sums, then two particles a word, by slot */
    __shared__ int place[BUCKETS];             /* of a bucket's particles, less their slot in the tile */
    __shared__ unsigned short first[BUCKETS];  /* slot of a bucket */
    LOCAL unsigned short *const from = (LOCAL unsigned short *)tile;
    const size_t begin = blockIdx.x * (size_t)TILE;
    const int in_tile = (int)min((size_t)TILE, (size_t)particles - begin);

    for (int b = threadIdx.x; b < buckets; b += BLOCK)
        place[b] = 0;
    __syncthreads();
    float4 p[TILE_ITEMS];
    unsigned ranks[TILE_ITEMS]; /* bucket and rank in it */
#pragma unroll
    for (int k = 0; k < TILE_ITEMS; ++k)
        if (k * BLOCK + threadIdx.x < in_tile)
            p[k] = positions[begin + k * BLOCK + threadIdx.x];
#pragma unroll
    for (int k = 0; k < TILE_ITEMS; ++k)
        if (k * BLOCK + threadIdx.x < in_tile) {
            const unsigned b = bucket_at(grid, p[k], scale);
            ranks[k] = b << 16 | (unsigned)atomicAdd(&place[b], 1);
        }
    __syncthreads();

    const int each = (buckets + BLOCK - 1) / BLOCK, lowest = threadIdx.x * each;
    int sum = 0;
    for (int b = lowest; b < min(lowest + each, buckets); ++b)
        sum += place[b];
    int slot = sum_before(sum, tile);
    for (int b = lowest; b < min(lowest + each, buckets); ++b) {
        const int size = place[b];
        first[b] = (unsigned short)slot;
        place[b] = (size ? atomicAdd(&cursor[b], size) : 0) - slot;
        slot += size;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_ITEMS; ++k) {
        const int i = k * BLOCK + threadIdx.x;
        if (i < in_tile)
            from[first[ranks[k] >> 16] + (ranks[k] & 0xffff)] = (unsigned short)i;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_ITEMS; ++k) {
        const int s = k * BLOCK + threadIdx.x;
        if (s < in_tile) {
            const int i = (int)begin + from[s];
            float4 q = positions[i];
            q.w = __int_as_float(i);
            partitioned[place[bucket_at(grid, q, scale)] + s] = q;
        }
    }
}

/* Count the particles of large buckets by cell, and keep the count before each: its rank. */
__global__ void rank_large(GLOBAL const float4 *__restrict__ partitioned, GLOBAL const Grid *__restrict__ grid,
                           GLOBAL const int *__restrict__ begin, GLOBAL const int *__restrict__ pieces,
                           GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ rank, int buckets)
{
    for (int piece = blockIdx.x; piece < pieces[buckets]; piece += gridDim.x) {
        const int i = in_piece(begin, pieces, buckets, piece);
        const int cell = i >= 0 ? (int)cell_at(grid, partitioned[i]) : -1;
#ifdef __CUDACC__
        /* One addition for the lanes of a cell: many particles of few cells would queue up. */
        const unsigned same = __match_any_sync(0xffffffffu, cell), lane = threadIdx.x % 32;
        const int leader = __ffs(same) - 1;
        int before = 0;
        if (lane == leader && cell >= 0)
            before = atomicAdd(&counts[cell], __popc(same));
        before = __shfl_sync(0xffffffffu, before, leader) + __popc(same & ((1u << lane) - 1));
        if (cell >= 0)
            rank[i] = before;
#else
        if (cell >= 0)
            rank[i] = atomicAdd(&counts[cell], 1);
#endif
    }
}

/* Sort a bucket by cell; of a large one, where its cells start. Leaves zeros in `counts`. */
__global__ void OCCUPANCY(2)
    sort_buckets(GLOBAL const float4 *__restrict__ partitioned, GLOBAL const Grid *__restrict__ grid, unsigned scale,
                 GLOBAL const int *__restrict__ begin, GLOBAL int *__restrict__ counts,
                 GLOBAL int *__restrict__ start, GLOBAL int *__restrict__ order,
                 GLOBAL float4 *__restrict__ sorted_positions, int cells)
{
    __shared__ int4 vectors[WIDTH / 4]; /* counts, then starts by cell; then particles by slot */
    __shared__ int sums[BLOCK];
    LOCAL int *const count = (LOCAL int *)vectors;
    const int bucket = blockIdx.x, first = begin[bucket], size = begin[bucket + 1] - first;
    const int cell = first_cell_of(bucket, scale, cells), width = first_cell_of(bucket + 1, scale, cells) - cell;
    const int is_large = size > MOST, here = is_large ? 0 : size; /* particles that are sorted here */

    for (int c = threadIdx.x; c < WIDTH; c += BLOCK)
        count[c] = 0;
    __syncthreads();
    int slots[ITEMS]; /* cell and rank in it, then the slot */
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * BLOCK + threadIdx.x;
        if (i < here) {
            const int c = (int)cell_at(grid, partitioned[first + i]) - cell;
            slots[k] = c << 16 | atomicAdd(&count[c], 1);
        }
    }
    for (int c = threadIdx.x; c < width && is_large; c += BLOCK) {
        count[c] = counts[cell + c];
        counts[cell + c] = 0;
    }
    __syncthreads();

    LOCAL int4 *const own = vectors + threadIdx.x * (IN_THREAD / 4);
    int sum = 0;
#pragma unroll
    for (int k = 0; k < IN_THREAD / 4; ++k)
        sum += own[k].x + own[k].y + own[k].z + own[k].w;
    int at = sum_before(sum, sums);
#pragma unroll
    for (int k = 0; k < IN_THREAD / 4; ++k) {
        const int4 four = own[k];
        own[k] = make_int4(at, at + four.x, at + four.x + four.y, at + four.x + four.y + four.z);
        at += four.x + four.y + four.z + four.w;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += BLOCK)
        start[cell + c] = first + count[c];
    if (threadIdx.x == 0 && width > 0 && cell + width == cells)
        start[cells] = first + size;

#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (k * BLOCK + threadIdx.x < here)
            slots[k] = count[slots[k] >> 16] + (slots[k] & 0xffff);
    __syncthreads();
    LOCAL unsigned short *const from = (LOCAL unsigned short *)vectors;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (k * BLOCK + threadIdx.x < here)
            from[slots[k]] = (unsigned short)(k * BLOCK + threadIdx.x);
    __syncthreads();
#pragma unroll 4
    for (int s = threadIdx.x; s < here; s += BLOCK) {
        float4 p = partitioned[first + from[s]];
        order[first + s] = __float_as_int(p.w);
        p.w = 0.0f;
        sorted_positions[first + s] = p;
    }
}

/* Send each particle of a large bucket to its cell's start plus its rank. */
__global__ void scatter_large(GLOBAL const float4 *__restrict__ partitioned, GLOBAL const Grid *__restrict__ grid,
                              GLOBAL const int *__restrict__ begin, GLOBAL const int *__restrict__ pieces,
                              GLOBAL const int *__restrict__ start, GLOBAL const int *__restrict__ rank,
                              GLOBAL int *__restrict__ order, GLOBAL float4 *__restrict__ sorted_positions,
                              int buckets)
{
    for (int piece = blockIdx.x; piece < pieces[buckets]; piece += gridDim.x) {
        const int i = in_piece(begin, pieces, buckets, piece);
        if (i < 0)
            continue;
        float4 p = partitioned[i];
        const int slot = start[cell_at(grid, p)] + rank[i];
        order[slot] = __float_as_int(p.w);
        p.w = 0.0f;
        sorted_positions[slot] = p;
    }
}
