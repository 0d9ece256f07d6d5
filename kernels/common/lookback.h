/* Decoupled look-back (Merrill and Garland 2016): gives a single pass over tiles the sum of all
   preceding tiles. CUDA only; SUM is the type of the sums.

   A tile publishes its own sum, then adds those of its predecessors until it finds one whose
   inclusive prefix is known.

   status: uint64, shape (1 + tiles), zero before the first launch. [0] hands out the tiles, so
   that a tile's predecessors always run; [1 + t] is (value << 2) | (turn << 1) | flag of tile t.
   The turn, a bit, changes with every launch: words of the previous launch count as not yet
   written, so nothing needs clearing. */
#ifndef GPUBENCH_COMMON_LOOKBACK_H
#define GPUBENCH_COMMON_LOOKBACK_H

#define TILE_SUM 0ull
#define TILE_PREFIX 1ull

/* Words that a lane reads at once in look-back; each adds 32 tiles to the window. */
#define LOOKBACK_WINDOWS 4

typedef struct Tile {
    unsigned number;
    unsigned turn;
} Tile;

__device__ __forceinline__ uint64 load_status(const uint64 *address)
{
    uint64 value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_status(uint64 *address, uint64 value)
{
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

/* Take the next tile; called by one thread of a block. The block that takes the last one resets the
   count for the next launch. */
__device__ __forceinline__ Tile claim_tile(uint64 *status)
{
    uint64 ticket = atomicAdd(&status[0], 1ull);
    Tile tile = {(unsigned)ticket, !((ticket >> 32) & 1)};
    if (tile.number == gridDim.x - 1)
        atomicAdd(&status[0], (1ull << 32) - gridDim.x);
    return tile;
}

/* Publish a tile's own sum, which suffices for the first tile; called by one thread of a block. */
__device__ __forceinline__ void publish_sum(uint64 *status, Tile tile, SUM sum)
{
    uint64 flag = tile.number == 0 ? TILE_PREFIX : TILE_SUM;
    store_status(&status[1 + tile.number], ((uint64)sum << 2) | (tile.turn << 1) | flag);
}

/* Return the exclusive sum of preceding tiles, and publish the inclusive sum; called by one whole
   warp. */
__device__ __forceinline__ SUM look_back(uint64 *status, Tile tile, SUM sum)
{
    if (tile.number == 0)
        return 0;
    const unsigned lane = threadIdx.x % 32;

    /* Each lane adds up its share of the tiles; the sum before the first tile is zero. */
    const uint64 nothing = (tile.turn << 1) | TILE_PREFIX;
    SUM offset = 0;
    unsigned known = 0;
    for (int look = (int)tile.number - 1 - (int)lane; !known; look -= 32 * LOOKBACK_WINDOWS) {
        uint64 seen[LOOKBACK_WINDOWS];
#pragma unroll
        for (int w = 0; w < LOOKBACK_WINDOWS; ++w)
            seen[w] = look >= 32 * w ? load_status(&status[1 + look - 32 * w]) : nothing;
#pragma unroll
        for (int w = 0; w < LOOKBACK_WINDOWS; ++w) {
            if (known)
                break;
            /* Wait for the tiles up to and including the nearest known prefix. */
            unsigned needed;
            while (true) {
                bool written = ((seen[w] >> 1) & 1) == tile.turn;
                known = __ballot_sync(0xffffffffu, written && (seen[w] & 1));
                needed = known ? known ^ (known - 1) : 0xffffffffu;
                if ((__ballot_sync(0xffffffffu, written) & needed) == needed)
                    break;
                if (!written)
                    seen[w] = load_status(&status[1 + look - 32 * w]);
            }
            if ((needed >> lane) & 1)
                offset += (SUM)(seen[w] >> 2);
        }
    }
    for (int reach = 16; reach > 0; reach /= 2)
        offset += __shfl_xor_sync(0xffffffffu, offset, reach);
    if (lane == 0)
        store_status(&status[1 + tile.number],
                     ((uint64)(offset + sum) << 2) | (tile.turn << 1) | TILE_PREFIX);
    return offset;
}

#endif
