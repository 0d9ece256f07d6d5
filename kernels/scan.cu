/* Exclusive prefix sums of int32 counts, in one pass or in three.

   SUM is the type of the sums (int or int64), BLOCK the threads of a block, ITEMS the
   consecutive counts a thread sums up; a tile is BLOCK * ITEMS counts. With CLEAR the counts
   are zeroed after they were read, ready for the next histogram. */

#define TILE (BLOCK * ITEMS)

/* Scan the tiles on their own (Hillis and Steele 1986 within the block) and note their sums. */
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
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int reach = 1; reach < BLOCK; reach *= 2) {
        SUM before = threadIdx.x >= reach ? partial[threadIdx.x - reach] : 0;
        __syncthreads();
        partial[threadIdx.x] += before;
        __syncthreads();
    }
    SUM offset = partial[threadIdx.x] - sum;
    for (int k = 0; k < ITEMS; ++k)
        if (begin + k < items)
            sums[begin + k] = offset + values[k];
    if (threadIdx.x == BLOCK - 1)
        tile_sums[blockIdx.x] = partial[BLOCK - 1];
}

/* Turn the tile sums into tile offsets, and put the total behind the last sum. One block walks
   over all tiles. */
__global__ void scan_tile_sums(GLOBAL SUM *tile_sums, GLOBAL SUM *sums, int items, int tiles)
{
    __shared__ SUM partial[BLOCK];
    SUM carry = 0;
    for (int base = 0; base < tiles; base += BLOCK) {
        int tile = base + threadIdx.x;
        SUM sum = tile < tiles ? tile_sums[tile] : 0;
        partial[threadIdx.x] = sum;
        __syncthreads();
        for (int reach = 1; reach < BLOCK; reach *= 2) {
            SUM before = threadIdx.x >= reach ? partial[threadIdx.x - reach] : 0;
            __syncthreads();
            partial[threadIdx.x] += before;
            __syncthreads();
        }
        if (tile < tiles)
            tile_sums[tile] = carry + partial[threadIdx.x] - sum;
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

#ifdef __CUDACC__

/* Single-pass scan with decoupled look-back (Merrill and Garland 2016). A tile publishes its own
   sum, then adds up its predecessors' until it meets one whose inclusive prefix is known.

   status: zeros; [0] counts tiles handed out, so that a tile's predecessors always run;
   [1 + t] is (value << 2) | flag of tile t. */
#define TILE_SUM 1ull
#define TILE_PREFIX 2ull

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

__global__ void __launch_bounds__(BLOCK)
    scan_lookback(int *counts, SUM *sums, uint64 *status, int items)
{
    __shared__ unsigned shared_tile;
    __shared__ SUM warp_sums[BLOCK / 32];
    __shared__ SUM tile_offset;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (threadIdx.x == 0)
        shared_tile = (unsigned)atomicAdd(&status[0], 1ull);
    __syncthreads();
    const unsigned tile = shared_tile;
    const unsigned tiles = gridDim.x;
    status += 1;

    /* Load a thread's counts as vectors where the tile is whole. */
    const size_t begin = (size_t)tile * TILE + threadIdx.x * ITEMS;
    int values[ITEMS];
    const bool whole = ITEMS % 4 == 0 && begin + ITEMS <= items;
    if (whole) {
        for (int k = 0; k < ITEMS / 4; ++k) {
            int4 four = ((const int4 *)(counts + begin))[k];
            values[4 * k] = four.x, values[4 * k + 1] = four.y;
            values[4 * k + 2] = four.z, values[4 * k + 3] = four.w;
            if (CLEAR)
                ((int4 *)(counts + begin))[k] = make_int4(0, 0, 0, 0);
        }
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

    /* Publish, then look back 32 tiles at a time. */
    if (warp == 0) {
        if (lane == 0)
            store_status(&status[tile], ((uint64)block_sum << 2) | (tile ? TILE_SUM : TILE_PREFIX));
        SUM offset = 0;
        int look = (int)tile - 1 - (int)lane;
        while (tile > 0) {
            uint64 seen = TILE_PREFIX;
            do {
                if (look >= 0)
                    seen = load_status(&status[look]);
            } while (__any_sync(0xffffffffu, (seen & 3) == 0));
            unsigned known = __ballot_sync(0xffffffffu, (seen & 3) == TILE_PREFIX);
            /* Add the sums up to and with the nearest known prefix. */
            unsigned nearest = known ? __ffs(known) - 1 : 31;
            SUM add = lane <= nearest ? (SUM)(seen >> 2) : 0;
            for (int reach = 16; reach > 0; reach /= 2)
                add += __shfl_down_sync(0xffffffffu, add, reach);
            offset += __shfl_sync(0xffffffffu, add, 0);
            if (known)
                break;
            look -= 32;
        }
        if (lane == 0) {
            if (tile > 0)
                store_status(&status[tile], ((uint64)(offset + block_sum) << 2) | TILE_PREFIX);
            tile_offset = offset;
            if (tile == tiles - 1)
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
    if (whole && sizeof(SUM) == 4) {
        for (int k = 0; k < ITEMS / 4; ++k)
            ((int4 *)(sums + begin))[k] =
                make_int4(out[4 * k], out[4 * k + 1], out[4 * k + 2], out[4 * k + 3]);
    } else {
        for (int k = 0; k < ITEMS; ++k)
            if (begin + k < items)
                sums[begin + k] = out[k];
    }
}

#endif
