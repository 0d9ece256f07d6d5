/* Batcher's bitonic network (1968) over a tile of 64-bit keys in shared memory. A key is a
   (cell, particle) pair, cell in the upper half: no two are equal, and their order is stable.
   Infinite keys pad a tile. `size` is a power of two; BLOCK threads per block.

   Key k of a tile is at AT(k), and a tile takes TILE_WORDS(size) words: one word in 17 is padding,
   so that threads with 8 successive keys each have no bank conflicts. */
#ifndef GPUBENCH_COMMON_BITONIC_H
#define GPUBENCH_COMMON_BITONIC_H

#define INFINITE (~(uint64)0)

__device__ __forceinline__ uint64 pair_key(int cell, unsigned particle)
{
    return ((uint64)cell << 32) | particle;
}

#define AT(k) ((k) + (k) / 16)
#define TILE_WORDS(size) (AT((size) - 1) + 1)

/* Put two keys in order; the larger one first if `falls`. */
#define ORDER(a, b, falls)          \
    if ((a > b) != (falls)) {       \
        uint64 larger = a;          \
        a = b;                      \
        b = larger;                 \
    }

/* One step of the network, over pairs `stride` apart. Of each 2 * `run` keys the first half becomes
   rising, the second falling; all rise if run = size. */
__device__ __forceinline__ void step_tile(LOCAL uint64 *tile, unsigned size, unsigned run,
                                          unsigned stride)
{
    __syncthreads();
    for (unsigned t = threadIdx.x; t < size / 2; t += BLOCK) {
        unsigned low = 2 * t - (t & (stride - 1)), high = low + stride;
        uint64 a = tile[AT(low)], b = tile[AT(high)];
        ORDER(a, b, (low & run) != 0);
        tile[AT(low)] = a;
        tile[AT(high)] = b;
    }
}

/* Three steps in registers: pairs 4 * `stride`, 2 * `stride` and `stride` apart. */
__device__ __forceinline__ void three_steps_tile(LOCAL uint64 *tile, unsigned size, unsigned run,
                                                 unsigned stride)
{
    __syncthreads();
    for (unsigned t = threadIdx.x; t < size / 8; t += BLOCK) {
        unsigned low = 8 * t - 7 * (t & (stride - 1));
        bool falls = (low & run) != 0;
        uint64 a = tile[AT(low)], b = tile[AT(low + stride)];
        uint64 c = tile[AT(low + 2 * stride)], d = tile[AT(low + 3 * stride)];
        uint64 e = tile[AT(low + 4 * stride)], f = tile[AT(low + 5 * stride)];
        uint64 g = tile[AT(low + 6 * stride)], h = tile[AT(low + 7 * stride)];
        ORDER(a, e, falls) ORDER(b, f, falls) ORDER(c, g, falls) ORDER(d, h, falls)
        ORDER(a, c, falls) ORDER(b, d, falls) ORDER(e, g, falls) ORDER(f, h, falls)
        ORDER(a, b, falls) ORDER(c, d, falls) ORDER(e, f, falls) ORDER(g, h, falls)
        tile[AT(low)] = a;
        tile[AT(low + stride)] = b;
        tile[AT(low + 2 * stride)] = c;
        tile[AT(low + 3 * stride)] = d;
        tile[AT(low + 4 * stride)] = e;
        tile[AT(low + 5 * stride)] = f;
        tile[AT(low + 6 * stride)] = g;
        tile[AT(low + 7 * stride)] = h;
    }
}

/* Sort each run of a tile whose runs are bitonic. */
__device__ __forceinline__ void merge_runs(LOCAL uint64 *tile, unsigned size, unsigned run)
{
    unsigned stride = run / 2;
    /* Single steps until those left are a multiple of three: from 4, 32, 256, 2048, ... down. */
    for (; stride > 0 && !(stride & 0x24924924u); stride /= 2)
        step_tile(tile, size, run, stride);
    for (; stride > 0; stride /= 8)
        three_steps_tile(tile, size, run, stride / 4);
}

/* Sort a bitonic tile. */
__device__ __forceinline__ void merge_tile(LOCAL uint64 *tile, unsigned size)
{
    merge_runs(tile, size, size);
    __syncthreads();
}

/* Sort a tile. */
__device__ __forceinline__ void sort_tile(LOCAL uint64 *tile, unsigned size)
{
    for (unsigned run = 2; run <= size; run *= 2)
        merge_runs(tile, size, run);
    __syncthreads();
}

#endif
