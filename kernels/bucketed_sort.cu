/* Two-level counting sort of particles by cell, for inputs larger than the cache. The plain version:

       for each tile of positions:  counting sort of its particles by bucket, with i
       for each bucket:             counting sort of its particles, of all tiles, by cell

   Both happen in shared memory. A scattered write of part of a memory sector costs as much as the whole sector. So a
   block of the first level writes its tile in place, with the start of each bucket in it; one of the second level
   gathers a bucket's runs from all tiles and writes the bucket in order. The fourth float, which is unused, carries i;
   it is 0 in the answer.

   A bucket is a range of cells: the bucket of a cell is the upper word of cell * scale. Buckets of more than BLOCK *
   ITEMS particles ("large") do not fit: they are counted and scattered through global memory.

   TILE_BLOCK, BLOCK: threads per block of the first and the second level, multiples of 32; TILE_ITEMS, ITEMS:
   particles per thread; TILE_BLOCKS, BLOCKS: blocks per multiprocessor. WIDTH: at least the cells of a bucket, a
   multiple of 4 BLOCK. A tile has fewer than 2^16 particles. GROUP: buckets whose runs in a tile are contiguous.
   SHARED_BYTES: for sort_tiles 16 TILE + 4 (buckets + 1), of sort_buckets 16 MOST + 4 (WIDTH + 32), of
   scatter_large 4 MOST. */
#include "common/block_sum.h"
#include "common/grid.h"

#define TILE (TILE_BLOCK * TILE_ITEMS)
#define MOST (BLOCK * ITEMS)
#define KEPT_RUNS (3 * MOST) /* in the space of a bucket's positions, next to one word per particle */
#define IN_THREAD (WIDTH / BLOCK) /* cells per thread in the scan */
/* Starts of the runs of a group in a tile, and the end of the last. */
#define RUNS(tile, group) (((group) * (size_t)tiles + (tile)) * (GROUP + 1))
#define PIECE (8 * MOST) /* approximate particles of a large bucket per block */
#define NOT_FIRST ((int)0x80000000) /* a slot whose run begins at or before it */

#ifdef __CUDACC__
#define OCCUPANCY(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define OCCUPANCY(threads, blocks)
#endif

/* A load that caches the whole 128-byte line: its neighbours are of the same run, or of the next bucket's. */
#ifdef __CUDACC__
__device__ __forceinline__ float4 load_line(const float4 *address)
{
#if __CUDA_ARCH__ >= 750
    float4 p;
    asm("ld.global.nc.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(p.x), "=f"(p.y), "=f"(p.z), "=f"(p.w)
        : "l"(address));
    return p;
#else
    return *address;
#endif
}
#else
#define load_line(address) (*(address))
#endif

__device__ __forceinline__ unsigned cell_at(GLOBAL const Grid *grid, float4 p)
{
    return cell_number(grid, cell_along(grid, 0, p.x), cell_along(grid, 1, p.y), cell_along(grid, 2, p.z));
}

/* The same for a grid passed by value in kernel arguments, which CUDA need not load for each particle. */
#define CELL_AT(p)                                                          \
    (unsigned)((cell_of_axis(low_z, inverse_z, cells_z, p.z) * cells_y +    \
                cell_of_axis(low_y, inverse_y, cells_y, p.y)) * cells_x +   \
               cell_of_axis(low_x, inverse_x, cells_x, p.x))

/* The first cell of a bucket: the smallest whose product with `scale` reaches it. */
__device__ __forceinline__ int first_cell_of(unsigned bucket, unsigned scale, int cells)
{
    const uint64 first = (((uint64)bucket << 32) + scale - 1) / scale;
    return first < (uint64)cells ? (int)first : cells;
}

/* The start of a run in its tile, with its length in the upper half. */
__device__ __forceinline__ unsigned run_of(GLOBAL const unsigned short *runs, int tile, int bucket, int tiles)
{
    GLOBAL const unsigned short *const own = runs + RUNS(tile, bucket / GROUP) + bucket % GROUP;
    const unsigned first = own[0];
    return (own[1] - first) << 16 | first;
}

/* The number of pieces of a bucket that is too large for a block: the same number for each BLOCK tiles. */
__device__ __forceinline__ int pieces_of(int size, int groups)
{
    return size > MOST ? groups * (size / groups / PIECE + 1) : 0;
}

/* Compute the start of each bucket, and the number of pieces of the large ones before it. One block. Zeroes `sizes`
   for the next launch; after the buckets' sizes it holds the count of finished blocks in CUDA. */
__device__ __forceinline__ void place(GLOBAL int *sizes, GLOBAL int *begin, GLOBAL int *pieces, int particles,
                                      int buckets, int tiles, LOCAL int *sums, int threads)
{
    const int each = (buckets + threads - 1) / threads, from = threadIdx.x * each, to = min(from + each, buckets);
    const int groups = (tiles + BLOCK - 1) / BLOCK;
    int sum = 0, sum_of_pieces = 0;
    for (int b = from; b < to; ++b) {
        sum += sizes[b];
        sum_of_pieces += pieces_of(sizes[b], groups);
    }
    int at = sum_before(sum, sums, threads);
    __syncthreads();
    int piece = sum_before(sum_of_pieces, sums, threads);
    for (int b = from; b < to; ++b) {
        const int size = sizes[b];
        sizes[b] = 0;
        begin[b] = at;
        pieces[b] = piece;
        at += size;
        piece += pieces_of(size, groups);
    }
    if ((int)threadIdx.x == threads - 1) {
        begin[buckets] = particles;
        pieces[buckets] = piece;
        sizes[buckets] = 0;
    }
}

/* Turn the counts of a tile's buckets, and of slots past its end, into their starts in the tile. */
__device__ __forceinline__ void sum_counts(LOCAL int *count, int buckets, LOCAL int *sums)
{
    const int each = buckets / TILE_BLOCK + 1, lowest = threadIdx.x * each;
    const int highest = min(lowest + each, buckets + 1);
    int sum = 0;
    for (int b = lowest; b < highest; ++b)
        sum += count[b];
    int slot = sum_before(sum, sums, TILE_BLOCK);
    for (int b = lowest; b < highest; ++b) {
        const int size = count[b];
        count[b] = slot;
        slot += size;
    }
}

/* Store the start of each bucket in this tile; sizes[b] += its particles of bucket b. */
__device__ __forceinline__ void keep_runs(LOCAL const int *first, GLOBAL int *sizes, GLOBAL unsigned short *runs,
                                          int buckets, int tiles)
{
    for (int b = threadIdx.x; b < buckets; b += TILE_BLOCK) {
        const int size = first[b + 1] - first[b];
        if (size)
            atomicAdd(&sizes[b], size);
    }
    const int entries = (buckets + GROUP - 1) / GROUP * (GROUP + 1);
    for (int e = threadIdx.x; e < entries; e += TILE_BLOCK) {
        const int group = e / (GROUP + 1), in_group = e % (GROUP + 1);
        runs[RUNS(blockIdx.x, group) + in_group] = (unsigned short)first[min(group * GROUP + in_group, buckets)];
    }
}

#ifdef __CUDACC__
/* Whether all other blocks have added to `sizes`. Called by one thread after its own block has. */
__device__ __forceinline__ int comes_last(int *sizes, int buckets, int tiles)
{
    __threadfence();
    return atomicAdd(&sizes[buckets], 1) == tiles - 1;
}
#endif

/* Sort each tile by bucket; add up the buckets, and in CUDA place them. */
__global__ void OCCUPANCY(TILE_BLOCK, TILE_BLOCKS)
    sort_tiles(GLOBAL const float4 *__restrict__ positions, float low_x, float low_y, float low_z, float inverse_x,
               float inverse_y, float inverse_z, int cells_x, int cells_y, int cells_z, unsigned scale,
               GLOBAL int *__restrict__ sizes, GLOBAL unsigned short *__restrict__ runs,
               GLOBAL int *__restrict__ begin, GLOBAL int *__restrict__ pieces,
               GLOBAL float4 *__restrict__ partitioned, int particles, int buckets, int tiles)
{
    SHARED_VECTORS(vectors);
    __shared__ int sums[TILE_BLOCK];
    LOCAL float4 *const staged = (LOCAL float4 *)vectors;
    LOCAL int *const count = (LOCAL int *)(vectors + TILE); /* number of particles of a bucket, then its first slot */
    const size_t first = blockIdx.x * (size_t)TILE;
    const int in_tile = (int)min((size_t)TILE, (size_t)particles - first);

    for (int b = threadIdx.x; b <= buckets; b += TILE_BLOCK)
        count[b] = 0;
    __syncthreads();
    unsigned ranks[TILE_ITEMS]; /* bucket and rank in it; past the end, of an extra bucket */
    float4 p[TILE_ITEMS]; /* first, so that their loads overlap */
    if (in_tile) {
#pragma unroll
        for (int k = 0; k < TILE_ITEMS; ++k)
            p[k] = positions[first + min(k * TILE_BLOCK + (int)threadIdx.x, in_tile - 1)];
#pragma unroll
        for (int k = 0; k < TILE_ITEMS; ++k) {
            const int is_in = k * TILE_BLOCK + (int)threadIdx.x < in_tile;
            const unsigned b = max(__umulhi(CELL_AT(p[k]), scale), (unsigned)(is_in ? 0 : buckets));
            ranks[k] = b << 16 | (unsigned)atomicAdd(&count[b], 1);
        }
    }
    __syncthreads();
    sum_counts(count, buckets, sums);
    __syncthreads();
    keep_runs(count, sizes, runs, buckets, tiles);
#pragma unroll
    for (int k = 0; k < TILE_ITEMS; ++k) {
        const int i = k * TILE_BLOCK + (int)threadIdx.x;
        if (i < in_tile) {
            p[k].w = __int_as_float((int)first + i);
            staged[count[ranks[k] >> 16] + (ranks[k] & 0xffff)] = p[k];
        }
    }
    __syncthreads();
#ifdef __CUDACC__
    __shared__ int is_last; /* known while this block writes */
    if (threadIdx.x == 0)
        is_last = comes_last(sizes, buckets, tiles);
#endif
#pragma unroll 4
    for (int s = threadIdx.x; s < in_tile; s += TILE_BLOCK)
        partitioned[first + s] = staged[s];
#ifdef __CUDACC__
    __syncthreads();
    if (is_last) {
        __threadfence();
        place(sizes, begin, pieces, particles, buckets, tiles, sums, TILE_BLOCK);
    }
#endif
}

/* Place the buckets if the blocks of sort_tiles cannot tell which of them is the last. */
__global__ void OCCUPANCY(BLOCK, 1)
    place_buckets(GLOBAL int *__restrict__ sizes, GLOBAL int *__restrict__ begin, GLOBAL int *__restrict__ pieces,
                  int particles, int buckets, int tiles)
{
    __shared__ int sums[BLOCK];
    place(sizes, begin, pieces, particles, buckets, tiles, sums, BLOCK);
}

/* Count the particles of large buckets by cell, and store the previous count, a particle's rank; -1 for others. */
__global__ void rank_large(GLOBAL const float4 *__restrict__ partitioned, GLOBAL const Grid *__restrict__ grid,
                           unsigned scale, GLOBAL const int *__restrict__ begin,
                           GLOBAL const int *__restrict__ pieces, GLOBAL int *__restrict__ counts,
                           GLOBAL int *__restrict__ rank, int particles, int buckets)
{
    if (!pieces[buckets])
        return;
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t piece = blockIdx.x * (size_t)BLOCK; piece < particles; piece += stride) {
        const size_t i = piece + threadIdx.x;
        int cell = i < particles ? (int)cell_at(grid, partitioned[i]) : -1;
        if (cell >= 0) {
            const unsigned bucket = __umulhi((unsigned)cell, scale);
            if (begin[bucket + 1] - begin[bucket] <= MOST)
                cell = -1;
        }
        int before = -1;
#ifdef __CUDACC__
        /* One addition for all lanes with the same cell: atomics on few cells would serialise. */
        const unsigned same = __match_any_sync(0xffffffffu, cell), lane = threadIdx.x % 32;
        const int leader = __ffs(same) - 1;
        if (lane == leader && cell >= 0)
            before = atomicAdd(&counts[cell], __popc(same));
        before = __shfl_sync(0xffffffffu, before, leader);
        if (cell >= 0)
            before += __popc(same & ((1u << lane) - 1));
#else
        if (cell >= 0)
            before = atomicAdd(&counts[cell], 1);
#endif
        if (i < particles)
            rank[i] = before;
    }
}

/* The index of a bucket's particle, from the starts of runs and every 32nd slot. In CUDA, called by whole warps. */
__device__ __forceinline__ int place_of(LOCAL const int *beyond, int slot)
{
#ifdef __CUDACC__
    const int own = beyond[slot];
    const unsigned known = __ballot_sync(0xffffffffu, own != NOT_FIRST) & (0xffffffffu >> (31 - threadIdx.x % 32));
    return slot + __shfl_sync(0xffffffffu, own, 31 - __clz(known));
#else
    int first = slot;
    while (beyond[first] == NOT_FIRST && first > 0)
        --first;
    return slot + beyond[first];
#endif
}

/* The bucket of a piece: the last bucket with at most `piece` pieces before it. */
__device__ __forceinline__ int bucket_of_piece(GLOBAL const int *pieces, int buckets, int piece)
{
    int bucket = 0;
    for (int above = buckets; above - bucket > 1;) {
        const int middle = (bucket + above) / 2;
        if (pieces[middle] <= piece)
            bucket = middle;
        else
            above = middle;
    }
    return bucket;
}

/* Sort a bucket by cell; for a large one, only compute its cell starts. Zeroes `counts`. */
__global__ void OCCUPANCY(BLOCK, BLOCKS)
    sort_buckets(GLOBAL const float4 *__restrict__ partitioned, float low_x, float low_y, float low_z, float inverse_x,
                 float inverse_y, float inverse_z, int cells_x, int cells_y, int cells_z, unsigned scale,
                 GLOBAL const unsigned short *__restrict__ runs, GLOBAL const int *__restrict__ begin,
                 GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ start, GLOBAL int *__restrict__ order,
                 GLOBAL float4 *__restrict__ sorted_positions, int cells, int buckets, int tiles)
{
    SHARED_VECTORS(vectors);
    __shared__ int sums[BLOCK];
    LOCAL float4 *const staged = (LOCAL float4 *)vectors;
    LOCAL int *const beyond = (LOCAL int *)vectors; /* before: index minus slot at the start of a run */
    LOCAL unsigned *const own_runs = (LOCAL unsigned *)(beyond + MOST);
    LOCAL int4 *const quads = vectors + MOST;
    LOCAL int *const count = (LOCAL int *)quads; /* counts by cell, then starts; the last ones are of no cell */
    const int bucket = blockIdx.x, first = begin[bucket], size = begin[bucket + 1] - first;
    const int cell = first_cell_of(bucket, scale, cells), width = first_cell_of(bucket + 1, scale, cells) - cell;
    const int is_large = size > MOST, here = is_large ? 0 : size; /* particles that are sorted here */

    for (int c = threadIdx.x; c < WIDTH + 32; c += BLOCK)
        count[c] = 0;
    for (int s = threadIdx.x; s < here; s += BLOCK)
        beyond[s] = NOT_FIRST;
    int sum = 0;
#pragma unroll 4
    for (int t = threadIdx.x; t < (here ? tiles : 0); t += BLOCK) {
        const unsigned run = run_of(runs, t, bucket, tiles);
        if (t < KEPT_RUNS)
            own_runs[t] = run;
        sum += run >> 16;
    }
    int at = sum_before(sum, sums, BLOCK); /* past a barrier */
    for (int t = threadIdx.x; t < (here ? tiles : 0); t += BLOCK) {
        const unsigned run = t < KEPT_RUNS ? own_runs[t] : run_of(runs, t, bucket, tiles);
        const int next = at + (int)(run >> 16), distance = t * TILE + (int)(run & 0xffff) - at;
        for (; at < next; at = min((at | 31) + 1, next))
            beyond[at] = distance;
    }
    __syncthreads();

    float4 p[ITEMS];
    int slots[ITEMS]; /* cell and rank in it */
    if (here) {
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const int s = k * BLOCK + threadIdx.x, place = place_of(beyond, s);
            p[k] = load_line(&partitioned[s < here ? place : 0]);
        }
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const int is_in = k * BLOCK + (int)threadIdx.x < here;
            const int c = max(min((int)CELL_AT(p[k]) - cell, WIDTH), is_in ? 0 : WIDTH + (int)threadIdx.x % 32);
            slots[k] = c << 16 | atomicAdd(&count[c], 1);
        }
    }
    for (int c = threadIdx.x; c < width && is_large; c += BLOCK) {
        count[c] = counts[cell + c];
        counts[cell + c] = 0;
    }
    __syncthreads();

    LOCAL int4 *const own = quads + threadIdx.x * (IN_THREAD / 4);
    sum = 0;
#pragma unroll
    for (int k = 0; k < IN_THREAD / 4; ++k)
        sum += own[k].x + own[k].y + own[k].z + own[k].w;
    at = sum_before(sum, sums, BLOCK);
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
        if (k * BLOCK + (int)threadIdx.x < here)
            staged[count[slots[k] >> 16] + (slots[k] & 0xffff)] = p[k];
    __syncthreads();
#pragma unroll 4
    for (int s = threadIdx.x; s < here; s += BLOCK) {
        float4 q = staged[s];
        order[first + s] = __float_as_int(q.w);
        q.w = 0.0f;
        sorted_positions[first + s] = q;
    }
}

/* Move each particle of a large bucket to its cell's start plus its rank. A block takes a part of a bucket's runs in
   BLOCK tiles, so that concurrent blocks write to nearby addresses. */
__global__ void OCCUPANCY(BLOCK, 2 * BLOCKS)
    scatter_large(GLOBAL const float4 *__restrict__ partitioned, GLOBAL const Grid *__restrict__ grid,
                  GLOBAL const unsigned short *__restrict__ runs, GLOBAL const int *__restrict__ pieces,
                  GLOBAL const int *__restrict__ start, GLOBAL const int *__restrict__ rank,
                  GLOBAL int *__restrict__ order, GLOBAL float4 *__restrict__ sorted_positions, int buckets, int tiles)
{
    SHARED_VECTORS(vectors);
    __shared__ int sums[BLOCK];
    __shared__ int total;
    LOCAL int *const beyond = (LOCAL int *)vectors;
    const int groups = (tiles + BLOCK - 1) / BLOCK;
    for (int piece = blockIdx.x; piece < pieces[buckets]; piece += gridDim.x) {
        const int bucket = bucket_of_piece(pieces, buckets, piece), number = piece - pieces[bucket];
        const int parts = (pieces[bucket + 1] - pieces[bucket]) / groups;
        const int t = number / parts * BLOCK + threadIdx.x;
        const unsigned run = t < tiles ? run_of(runs, t, bucket, tiles) : 0;
        const int size = (int)(run >> 16), at = sum_before(size, sums, BLOCK);
        if (threadIdx.x == BLOCK - 1)
            total = at + size;
        __syncthreads();
        const int of_group = total;
        for (int begin = number % parts * MOST; begin < of_group; begin += parts * MOST) {
            const int here = min(of_group - begin, MOST), end = min(at + size - begin, here);
            for (int s = threadIdx.x; s < here; s += BLOCK)
                beyond[s] = NOT_FIRST;
            __syncthreads();
            for (int s = max(at - begin, 0); s < end; s = min((s | 31) + 1, end))
                beyond[s] = t * TILE + (int)(run & 0xffff) - at + begin;
            __syncthreads();
            for (int first = 0; first < here; first += BLOCK) {
                const int s = first + threadIdx.x, place = place_of(beyond, s);
                if (s < here) {
                    float4 p = partitioned[place];
                    const int slot = start[cell_at(grid, p)] + rank[place];
                    order[slot] = __float_as_int(p.w);
                    p.w = 0.0f;
                    sorted_positions[slot] = p;
                }
            }
            __syncthreads();
        }
        __syncthreads();
    }
}
