/* Exclusive prefix sums of int32 counts, in one pass or in three.

   SUM is the type of the sums (int or int64), BLOCK the threads per block, ITEMS the consecutive
   counts per thread; a tile is BLOCK * ITEMS counts. With CLEAR the counts are zeroed after
   reading, for the next histogram. */

#define TILE (BLOCK * ITEMS)

#ifdef __CUDACC__

#include "common/lookback.h"

#define PADDED (ITEMS + 1) /* so that the items of a warp's threads are in different banks */

/* Single-pass scan with decoupled look-back. */
__global__ void __launch_bounds__(BLOCK)
    scan_lookback(int *counts, SUM *sums, uint64 *status, int items)
{
    __shared__ Tile shared_tile;
    __shared__ SUM warp_sums[BLOCK / 32];
    __shared__ SUM tile_offset;
    __shared__ SUM staged[BLOCK * PADDED];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (threadIdx.x == 0)
        shared_tile = claim_tile(status);
    __syncthreads();
    const Tile tile = shared_tile;

    /* Load a thread's counts, as vectors if the tile is full. */
    const size_t begin = (size_t)tile.number * TILE + threadIdx.x * ITEMS;
    int values[ITEMS];
    const bool whole = ITEMS % 4 == 0 && begin + ITEMS <= items;
    if (whole) {
        for (int k = 0; k < ITEMS / 4; ++k) {
            int4 four = ((const int4 *)(counts + begin))[k];
            values[4 * k] = four.x, values[4 * k + 1] = four.y;
            values[4 * k + 2] = four.z, values[4 * k + 3] = four.w;
        }
        if (CLEAR)
            for (int k = 0; k < ITEMS / 4; ++k)
                ((int4 *)(counts + begin))[k] = make_int4(0, 0, 0, 0);
    } else {
        for (int k = 0; k < ITEMS; ++k) {
            values[k] = begin + k < items ? counts[begin + k] : 0;
            if (CLEAR && begin + k < items)
                counts[begin + k] = 0;
        }
    }

    /* Scan in the thread, over the warp, over the block. */
    SUM sum = 0;
    for (int k = 0; k < ITEMS; ++k)
        sum += values[k];
    SUM inclusive = sum;
    for (int reach = 1; reach < 32; reach *= 2) {
        SUM before = __shfl_up_sync(0xffffffffu, inclusive, reach);
        if (lane >= reach)
            inclusive += before;
    }
    if (lane == 31)
        warp_sums[warp] = inclusive;
    __syncthreads();
    SUM block_sum = 0, warp_offset = 0;
    for (int w = 0; w < BLOCK / 32; ++w) {
        if (w == warp)
            warp_offset = block_sum;
        block_sum += warp_sums[w];
    }

    if (threadIdx.x == 0)
        publish_sum(status, tile, block_sum);
    if (warp == 0) {
        SUM offset = look_back(status, tile, block_sum);
        if (lane == 0) {
            tile_offset = offset;
            if (tile.number == gridDim.x - 1)
                sums[items] = offset + block_sum;
        }
    }
    __syncthreads();

    /* Write a thread's exclusive sums. */
    SUM running = tile_offset + warp_offset + inclusive - sum;
    SUM out[ITEMS];
    for (int k = 0; k < ITEMS; ++k) {
        out[k] = running;
        running += values[k];
    }
    const size_t of_warp = (size_t)tile.number * TILE + warp * (32 * ITEMS);
    if (of_warp + 32 * ITEMS <= items) { /* through shared memory, for coalesced writes */
        SUM *const of_lanes = staged + warp * (32 * PADDED);
        for (int k = 0; k < ITEMS; ++k)
            of_lanes[lane * PADDED + k] = out[k];
        __syncwarp();
        for (int k = 0; k < ITEMS; ++k) {
            const unsigned i = k * 32 + lane;
            sums[of_warp + i] = of_lanes[i / ITEMS * PADDED + i % ITEMS];
        }
    } else {
        for (int k = 0; k < ITEMS; ++k)
            if (begin + k < items)
                sums[begin + k] = out[k];
    }
}

#else

/* Scan one sum per thread over the block (Hillis and Steele 1986); return the exclusive sum.
   `partial` then holds the inclusive sums. */
__device__ __forceinline__ SUM scan_block(LOCAL SUM *partial, SUM sum)
{
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int reach = 1; reach < BLOCK; reach *= 2) {
        SUM before = threadIdx.x >= reach ? partial[threadIdx.x - reach] : 0;
        __syncthreads();
        partial[threadIdx.x] += before;
        __syncthreads();
    }
    return partial[threadIdx.x] - sum;
}

/* Scan each tile separately and store its sum. */
__global__ void scan_tiles(GLOBAL int *counts, GLOBAL SUM *sums, GLOBAL SUM *tile_sums, int items)
{
    __shared__ SUM partial[BLOCK];
    unsigned begin = blockIdx.x * TILE + threadIdx.x * ITEMS;
    SUM values[ITEMS];
    SUM sum = 0;
    for (int k = 0; k < ITEMS; ++k) {
        values[k] = sum;
        if (begin + k < items) {
            sum += counts[begin + k];
            if (CLEAR)
                counts[begin + k] = 0;
        }
    }
    SUM offset = scan_block(partial, sum);
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k < items)
            sums[begin + k] = offset + values[k];
    if (threadIdx.x == BLOCK - 1)
        tile_sums[blockIdx.x] = partial[BLOCK - 1];
}

/* Turn the tile sums into tile offsets, and write the total after the last sum. One block loops
   over all tiles. */
__global__ void scan_tile_sums(GLOBAL SUM *tile_sums, GLOBAL SUM *sums, int items, int tiles)
{
    __shared__ SUM partial[BLOCK];
    SUM carry = 0;
    for (int base = 0; base < tiles; base += BLOCK) {
        int tile = base + threadIdx.x;
        SUM sum = tile < tiles ? tile_sums[tile] : 0;
        SUM before = scan_block(partial, sum);
        if (tile < tiles)
            tile_sums[tile] = carry + before;
        carry += partial[BLOCK - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[items] = carry;
}

/* Add the tile offsets. */
__global__ void add_tile_offsets(GLOBAL SUM *sums, GLOBAL const SUM *tile_sums, int items)
{
    unsigned begin = blockIdx.x * TILE + threadIdx.x;
    SUM offset = tile_sums[blockIdx.x];
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k * BLOCK < items)
            sums[begin + k * BLOCK] += offset;
}

#endif
