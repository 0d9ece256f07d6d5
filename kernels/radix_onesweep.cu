/* Least-significant-digit radix sort with one sweep per digit (Adinolfi and Merrill, Onesweep,
   2022). CUDA only.

   The plain version of a sweep, which is stable:

       for (i = 0; i < n; ++i)
           sorted[place[digit(keys[i])]++] = keys[i];

   where `place` is initially the number of keys with a smaller digit. Here a block takes a tile of
   BLOCK * ITEMS keys: it counts its digits, finds the target of each digit by decoupled look-back
   (a chain per digit), ranks its keys, and reorders them in shared memory, so that the keys of a
   digit are written contiguously. */
#include "common/sort_keys.h"

#define SUM int
#include "common/lookback.h"

#define RADIX (1 << DIGIT_BITS)
#define WARPS (BLOCK / 32)
#define TILE (BLOCK * ITEMS)
#define ALL_LANES 0xffffffffu
#define LOOKS 4 /* tiles that a thread reads at once */

/* 16-bit and 8-bit numbers packed in registers, which would otherwise not suffice. */
#define RANK(k) ((ranks[(k) / 2] >> (16 * ((k) % 2))) & 0xffffu)
#define DIGIT(k) ((digits[(k) / 4] >> (8 * ((k) % 4))) & 0xffu)

__device__ __forceinline__ unsigned digit_of(Key key, int shift)
{
    return (unsigned)(key >> shift) & (RADIX - 1);
}

/* Return a number opaque to the compiler, so that it recomputes digits instead of keeping them in
   registers. */
__device__ __forceinline__ int afresh(int number)
{
    asm volatile("" : "+r"(number));
    return number;
}

/* Add the digits of all keys to bins[PASSES][RADIX], which were zero. */
__global__ void __launch_bounds__(COUNT_BLOCK)
    count_digits(const Key *__restrict__ keys, unsigned *bins, int size)
{
    __shared__ unsigned counts[PASSES * RADIX];
    for (unsigned bin = threadIdx.x; bin < PASSES * RADIX; bin += COUNT_BLOCK)
        counts[bin] = 0;
    __syncthreads();
    const unsigned n = size;
    for (unsigned begin = blockIdx.x * COUNT_BLOCK * COUNT_ITEMS; begin < n;
         begin += gridDim.x * COUNT_BLOCK * COUNT_ITEMS) {
        Key mine[COUNT_ITEMS];
#pragma unroll
        for (int k = 0; k < COUNT_ITEMS; ++k) {
            unsigned i = begin + k * COUNT_BLOCK + threadIdx.x;
            mine[k] = i < n ? to_ordered(keys[i]) : 0;
        }
#pragma unroll
        for (int k = 0; k < COUNT_ITEMS; ++k)
            if (begin + k * COUNT_BLOCK + threadIdx.x < n)
#pragma unroll
                for (int pass = 0; pass < PASSES; ++pass)
                    atomicAdd(&counts[pass * RADIX + digit_of(mine[k], pass * DIGIT_BITS)], 1u);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < PASSES * RADIX; bin += COUNT_BLOCK)
        if (counts[bin])
            atomicAdd(&bins[bin], counts[bin]);
}

/* Return the sum of the counts of preceding threads, for the first RADIX threads; the others of the
   block only participate. sums: RADIX / 32 words. */
__device__ __forceinline__ unsigned scan_digits(unsigned count, unsigned *sums)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned inclusive = count;
#pragma unroll
    for (int reach = 1; reach < 32; reach *= 2) {
        unsigned before = __shfl_up_sync(ALL_LANES, inclusive, reach);
        if (lane >= reach)
            inclusive += before;
    }
    if (lane == 31 && warp < RADIX / 32)
        sums[warp] = inclusive;
    __syncthreads();
    unsigned before = 0;
#pragma unroll
    for (int w = 0; w < RADIX / 32; ++w)
        before += w < warp ? sums[w] : 0;
    return before + inclusive - count;
}

/* The lanes of the warp that have the same digit as this one. */
__device__ __forceinline__ unsigned lanes_with(unsigned digit)
{
    unsigned same = ALL_LANES;
#pragma unroll
    for (int bit = 0; bit < DIGIT_BITS; ++bit) {
        bool is_set = (digit >> bit) & 1;
        unsigned lanes = __ballot_sync(ALL_LANES, is_set);
        same &= is_set ? lanes : ~lanes;
    }
    return same;
}

/* A word of a chain is (sum << 2) | (turn << 1) | flag, as in common/lookback.h, in 32 bits. */
__device__ __forceinline__ unsigned load_word(const unsigned *address)
{
    unsigned word;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
    return word;
}

__device__ __forceinline__ void store_word(unsigned *address, unsigned sum, Tile tile, uint64 flag)
{
    unsigned word = (sum << 2) | (tile.turn << 1) | (unsigned)flag;
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(address), "r"(word) : "memory");
}

/* Return where this tile's keys of a digit begin; chain: the digit's word of tile 0. */
__device__ __forceinline__ unsigned look_back_along(const unsigned *chain, Tile tile)
{
    unsigned sum = 0;
    for (int look = (int)tile.number - 1;; look -= LOOKS) {
        unsigned seen[LOOKS];
#pragma unroll
        for (int w = 0; w < LOOKS; ++w)
            seen[w] = load_word(&chain[max(look - w, 0) * RADIX]);
#pragma unroll
        for (int w = 0; w < LOOKS; ++w) {
            while (((seen[w] >> 1) & 1) != tile.turn)
                seen[w] = load_word(&chain[max(look - w, 0) * RADIX]);
            sum += seen[w] >> 2;
            if (seen[w] & TILE_PREFIX) /* as tile 0 always has */
                return sum;
        }
    }
}

/* Sort keys, and with VALUES their values, by one digit.

   number: index of the digit, from the lowest.
   bins: the number of keys with each digit; the first tile zeroes it for the next launch.
   ticket, chains: uint64 (1,) and 32-bit (tiles, RADIX), zero before the first launch.
   makes_index: whether values are not read but are 0, 1, 2, ... */
__global__ void __launch_bounds__(BLOCK, BLOCKS)
    sort_digit(const Key *__restrict__ keys, const int *__restrict__ values, Key *sorted_keys,
               int *sorted_values, unsigned *bins, uint64 *ticket, unsigned *chains, int number,
               int makes_index, int size)
{
    /* First the counts of each warp, then sorted keys, then values. */
    __shared__ Key staged[TILE];
    __shared__ unsigned place[RADIX]; /* target of a digit's keys, minus their index in the tile */
    __shared__ unsigned sums[2][RADIX / 32];
    __shared__ Tile shared_tile;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = size;
    unsigned *const counts = (unsigned *)staged + warp * RADIX;
    unsigned *const digit_counts = (unsigned *)staged + threadIdx.x;
    const bool has_digit = threadIdx.x < RADIX;
    unsigned *const bin = bins + number * RADIX + threadIdx.x;
    int shift = number * DIGIT_BITS;

    if (threadIdx.x == 0)
        shared_tile = claim_tile(ticket);
#pragma unroll
    for (int digit = 0; digit < RADIX; digit += 32)
        counts[digit + lane] = 0;
    __syncthreads();
    const Tile tile = shared_tile;
    const unsigned begin = tile.number * TILE, warp_begin = begin + warp * 32 * ITEMS + lane;
    const unsigned in_tile = min(n - begin, (unsigned)TILE);

    /* Past the last key, infinite keys stay behind all others. */
    Key key[ITEMS];
    if (in_tile == TILE) {
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            key[k] = to_ordered(keys[warp_begin + 32 * k]);
    } else {
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            key[k] = warp_begin + 32 * k < n ? to_ordered(keys[warp_begin + 32 * k]) : ~(Key)0;
    }

    /* Count by warp, and publish the counts of the tile before anything else. */
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        atomicAdd(&counts[digit_of(key[k], shift)], 1u);
    __syncthreads();
    unsigned count = 0;
    if (has_digit) {
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            unsigned of_warp = digit_counts[w * RADIX];
            digit_counts[w * RADIX] = count;
            count += of_warp;
        }
        if (tile.number > 0)
            store_word(&chains[tile.number * RADIX + threadIdx.x], count, tile, TILE_SUM);
    }
    unsigned before = 0; /* keys of this digit in preceding tiles, and all of smaller digits */
    if (tile.number == 0) {
        before = scan_digits(has_digit ? *bin : 0, sums[1]);
        if (has_digit) {
            *bin = 0;
            store_word(&chains[threadIdx.x], before + count, tile, TILE_PREFIX);
        }
    }
    const unsigned start = scan_digits(count, sums[0]);
    if (has_digit) {
#pragma unroll
        for (int w = 0; w < WARPS; ++w)
            digit_counts[w * RADIX] += start;
    }
    __syncthreads();

    /* Rank the keys: those of a warp in order, after those of preceding warps. */
    shift = afresh(shift);
    unsigned ranks[(ITEMS + 1) / 2];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned digit = digit_of(key[k], shift), same = lanes_with(digit);
        unsigned last = 31 - __clz(same), first_rank = 0;
        unsigned up_to = __popc(same & (ALL_LANES >> (31 - lane)));
        if (lane == last)
            first_rank = atomicAdd(&counts[digit], up_to);
        unsigned rank = __shfl_sync(ALL_LANES, first_rank, last) + up_to - 1;
        ranks[k / 2] = k % 2 ? ranks[k / 2] | (rank << 16) : rank;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        staged[RANK(k)] = key[k];

#if VALUES
    int value[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = warp_begin + 32 * k;
        value[k] = makes_index ? i : in_tile == TILE || i < n ? values[i] : 0;
    }
#endif

    if (has_digit) {
        if (tile.number > 0) {
            unsigned *chain = chains + threadIdx.x;
            before = look_back_along(chain, tile);
            store_word(&chain[tile.number * RADIX], before + count, tile, TILE_PREFIX);
        }
        place[threadIdx.x] = before - start;
    }
    __syncthreads();

    unsigned digits[(ITEMS + 3) / 4];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = threadIdx.x + k * BLOCK;
        Key sorted = staged[i];
        unsigned digit = digit_of(sorted, shift);
        digits[k / 4] = k % 4 ? digits[k / 4] | (digit << (8 * (k % 4))) : digit;
        if (in_tile == TILE || i < in_tile)
            sorted_keys[place[digit] + i] = from_ordered(sorted);
    }
#if VALUES
    int *const staged_values = (int *)staged;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        staged_values[RANK(k)] = value[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        unsigned i = threadIdx.x + k * BLOCK;
        if (in_tile == TILE || i < in_tile)
            sorted_values[place[DIGIT(k)] + i] = staged_values[i];
    }
#endif
}
