/* Stream filtering in a single pass: count the kept records of a tile, find the total of the
   preceding tiles by decoupled look-back (Merrill and Garland 2016), and write the records in
   order. CUDA only.

   BLOCK threads per block; a thread does LOADS loads of VECTOR consecutive records; a warp reads
   consecutive records in each load. A tile is the input of a block. Kept records are first
   compacted in shared memory, so that a warp writes consecutive addresses; with BOTH the nulls
   follow them. Tiles past the last record only publish their status. */
#include "common/records.h"

#define SUM int
#include "common/lookback.h"

#define TILE (BLOCK * LOADS * VECTOR)
#define WARPS (BLOCK / 32)
#define ALL_LANES 0xffffffffu

typedef struct __align__(ALIGN) RecordVector {
    Record at[VECTOR];
} RecordVector;

typedef struct __align__(VECTOR * 4) KeepVector {
    int at[VECTOR];
} KeepVector;

__global__ void __launch_bounds__(BLOCK)
    filter_lookback(const Record *__restrict__ records, const int *__restrict__ keep,
                    Record *kept, int *count, Record *rest, int *rest_count, uint64 *status,
                    const int *__restrict__ size, int most)
{
    const unsigned n = length_of(size, most);
    __shared__ Record by_tile[TILE];
    __shared__ int kept_by_warp[WARPS];
    __shared__ int tile_offset;
    __shared__ Tile shared_tile;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (threadIdx.x == 0)
        shared_tile = claim_tile(status);
    __syncthreads();
    const Tile tile = shared_tile;
    if (tile.number > 0 && tile.number * TILE >= n) {
        if (threadIdx.x == 0)
            publish_sum(status, tile, 0);
        return;
    }
    const unsigned in_stream = min(n - tile.number * TILE, (unsigned)TILE);

    /* Load records, and set a bit of `is_kept` for each to keep. */
    const unsigned warp_begin = tile.number * TILE + warp * (TILE / WARPS);
    RecordVector mine[LOADS];
    unsigned is_kept = 0;
    if (warp_begin + TILE / WARPS <= n) {
        const unsigned first = warp_begin / VECTOR + lane;
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            mine[k] = ((const RecordVector *)records)[first + 32 * k];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
#if PREDICATE
            KeepVector chosen = ((const KeepVector *)keep)[first + 32 * k];
#endif
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
#if PREDICATE
                bool null = chosen.at[v] == 0;
#else
                bool null = is_null(mine[k].at[v], keep, 0);
#endif
                is_kept |= (unsigned)!null << (k * VECTOR + v);
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                unsigned i = warp_begin + (32 * k + lane) * VECTOR + v;
                if (i < n) {
                    mine[k].at[v] = records[i];
                    is_kept |= (unsigned)!is_null(records[i], keep, i) << (k * VECTOR + v);
                }
            }
    }

    /* Count them over the warp, over the block. */
    int in_warp = __popc(is_kept);
    for (int reach = 16; reach > 0; reach /= 2)
        in_warp += __shfl_xor_sync(ALL_LANES, in_warp, reach);
    if (lane == 0)
        kept_by_warp[warp] = in_warp;
    __syncthreads();
    int in_tile = 0, place = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        if (w == warp)
            place = in_tile;
        in_tile += kept_by_warp[w];
    }

    if (threadIdx.x == 0)
        publish_sum(status, tile, in_tile);

    /* Compact the kept records. */
    const unsigned lanes_below = (1u << lane) - 1;
#pragma unroll
    for (int k = 0; k < LOADS; ++k) {
        int own = place;
#if BOTH
        /* The index of a record in its tile is the number of kept records and nulls before it. */
        const unsigned index = warp * (TILE / WARPS) + (32 * k + lane) * VECTOR;
#endif
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            unsigned lanes = __ballot_sync(ALL_LANES, (is_kept >> (k * VECTOR + v)) & 1);
            own += __popc(lanes & lanes_below);
            place += __popc(lanes);
        }
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            if ((is_kept >> (k * VECTOR + v)) & 1)
                by_tile[own++] = mine[k].at[v];
#if BOTH
            else if (index + v < in_stream)
                by_tile[in_tile + index + v - own] = mine[k].at[v];
#endif
        }
    }

    /* Look back, and write. */
    if (warp == 0) {
        int offset = look_back(status, tile, in_tile);
        if (lane == 0) {
            tile_offset = offset;
            if (tile.number * TILE + in_stream == n) {
                count[0] = offset + in_tile;
#if BOTH
                rest_count[0] = n - (offset + in_tile);
#endif
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < in_tile; i += BLOCK)
        kept[tile_offset + i] = by_tile[i];
#if BOTH
    Record *rest_of_tile = rest + (tile.number * TILE - tile_offset);
    for (int i = threadIdx.x; i < (int)in_stream - in_tile; i += BLOCK)
        rest_of_tile[i] = by_tile[in_tile + i];
#endif
}
