/* The blocks of a launch over a rank's part of a box, and the copies of adjacent planes (halo) that they take
   from what neighbours wrote; see common/part.h. */
#ifndef GPUBENCH_COMMON_HALO_H
#define GPUBENCH_COMMON_HALO_H
#include "common/part.h"

/* Blocks of a launch by what they do: `takers`, in halves for both sides, and those that compute the
   edge planes, `per_side` for each from block `edges` on. Others compute inner planes. */
#define ROLES int skip, int takers, int edges, int per_side

#define ROLE                                                                                       \
    int block = (int)blockIdx.x + skip, is_edge = block >= edges && block < edges + 2 * per_side;      \
    int side = is_edge && block >= edges + per_side;

/* The rows of a block of an edge plane. */
#define EDGE_ROWS                                                                                  \
    first = FIRST(part[side ? PART_LAST : PART_BEGIN], edges + side * per_side);                       \
    last = part[side ? PART_END : PART_INNER];

/* For takers and senders, from block `from` on: the side, the first item, and the items of all. */
#define SIDE_OF_HALF(from)                                                                         \
    int each = takers / 2, side = block - (from) >= each, stride = each * BLOCK;                       \
    int k = (block - (from)-side * each) * BLOCK + (int)threadIdx.x;

/* Blocks of the edge planes that have rows wait for the takers. */
#define AWAIT_TAKERS(kind)                                                                         \
    if (first + (int)blockIdx.x * BLOCK < last) {                                                      \
        int waited = wait_for_takers(&part[PART_TAKEN + (kind)], takers);                              \
        if (block == edges + (HAS_SIDE(0) ? 0 : per_side) && threadIdx.x == 0)                         \
            part[PART_WAITED + (kind)] += waited;                                                      \
    }

/* The row of the first thread of all, of blocks that begin with block `from` and row `row`. */
#define FIRST(row, from) ((row) + (skip - (from)) * BLOCK)

/* Once the edge planes have been moved, the last of their blocks tells the neighbours how many migrants are in
   their memory, which has `room` for them. */
#define TELL_MOVERS                                                                                \
    if (is_edge && is_last(&part[PART_SENT + MOVERS], 2 * per_side)) {                                 \
        int below = atomicAdd(&part[PART_LEFT], 0), above = atomicAdd(&part[PART_LEFT + 1], 0);        \
        if (max(below, above) > room)                                                                  \
            atomicOr(&part[PART_FAULT], PART_CROWDED);                                                 \
        if (HAS_SIDE(0))                                                                               \
            low_count[0] = min(below, room);                                                           \
        if (HAS_SIDE(1))                                                                               \
            high_count[0] = min(above, room);                                                          \
        TELL(MOVERS)                                                                                   \
    }

/* Takers copy the rows of an edge plane that a neighbour wrote here to the halo, before the rows of the part or
   behind them. A plane beyond the periodic end of the box (`wraps`) is at the far end of all rows, so that rows
   are in the order of planes: beyond the `nearer` rows of the other side's. With `cells`, rows are places, and
   their cells, and what common/coarse.h makes of them, are laid too; empty cells with `no_pairs`, where these
   particles have none among themselves.

   Not inlined: of the registers of SPH's `densities`, none is left. */
#ifdef __CUDACC__
#define APART __noinline__
#else
#define APART inline
#endif
__device__ APART void take_edge(GLOBAL const uint4 *rows, GLOBAL const int *starts,
                                GLOBAL const Box *box, int side, int wraps, int nearer, int edge,
                                int first, int stride, GLOBAL int *part, GLOBAL uint4 *halo,
                                GLOBAL unsigned *coarse, GLOBAL int *cells, int no_pairs)
{
    int plane = (int)(box->cells[0] * box->cells[1]), room = edge - nearer;
    int count = min(starts[plane], room);
    int begin = side != wraps ? part[PART_END] + nearer : room - count;
    if (first == 0 && starts[plane] > room)
        atomicOr(&part[PART_FAULT], PART_CROWDED);
    for (int k = first; k < count; k += stride) {
        uint4 row = rows[k];
        halo[begin + k] = row;
#ifdef GPUBENCH_COMMON_COARSE_H
        if (cells)
            coarse[begin + k] = coarse_of(box, row);
#endif
    }
    if (!cells)
        return;
    int beside = side ? part[PART_HIGH] : part[PART_LOW] - 1;
    if (wraps)
        beside = side ? 0 : (int)box->cells[2] - 1;
    /* The end of the plane below is the start of this rank's cells, which is already set. */
    int base = beside * plane;
    for (int k = first; k < plane + (side | wraps); k += stride)
        cells[base + k] = no_pairs ? part[PART_BEGIN] : begin + min(starts[k], count);
}

#endif
