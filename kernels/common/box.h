/* The box of a simulation, laid out as BOX_DTYPE in gpubench/physics/box.py, and positions in it: x, y, z in
   units of 2^-32 of a periodic edge, or 2^-31 of one between walls, and an id. */
#ifndef GPUBENCH_COMMON_BOX_H
#define GPUBENCH_COMMON_BOX_H

typedef struct Box {
    float length[3];
    float units[3];
    unsigned cells[3];
    int periodic[3];
    int walls[3];
    float edge[3];
    float reach;
    unsigned mask;
    unsigned coarse[3];
    int coarse_square;
} Box;

/* In `walls`, along an open axis: whether there is a wall at its lower and at its upper end. Without a wall,
   the world of the simulation ends there. */
#define LOW_WALL 1
#define HIGH_WALL 2

/* The vector between two positions, to the nearest image if periodic: unsigned differences wrap as the box
   does. Exact up to the rounding to float32, and antisymmetric to the bit. */
__device__ __forceinline__ float4 displacement_by(float4 length, uint4 from, uint4 to)
{
    return make_float4((float)(int)(to.x - from.x) * length.x, (float)(int)(to.y - from.y) * length.y,
                       (float)(int)(to.z - from.z) * length.z, 0.0f);
}

/* The lengths of the units of positions, loaded before a loop that would load them each time. */
__device__ __forceinline__ float4 lengths_of(GLOBAL const Box *box)
{
    return make_float4(box->length[0], box->length[1], box->length[2], 0.0f);
}

__device__ __forceinline__ float4 displacement(GLOBAL const Box *box, uint4 from, uint4 to)
{
    return displacement_by(lengths_of(box), from, to);
}

__device__ __forceinline__ float square_length(float4 d)
{
    return fmaf(d.z, d.z, fmaf(d.y, d.y, d.x * d.x));
}

/* Cell coordinate along an axis, in exact integer arithmetic. */
__device__ __forceinline__ int cell_at(GLOBAL const Box *box, int axis, unsigned place)
{
    return (int)__umulhi(box->periodic[axis] ? place : place << 1, box->cells[axis]);
}

/* The distance of a position from the low side of its cell, in cell edges. */
__device__ __forceinline__ float inside_cell(GLOBAL const Box *box, int axis, unsigned place)
{
    unsigned low = (box->periodic[axis] ? place : place << 1) * box->cells[axis];
    return (float)low * 2.3283064365386963e-10f; /* 2^-32 */
}

/* Coordinate of a neighbouring cell: wrapped if periodic, -1 behind a wall. */
__device__ __forceinline__ int neighbour_at(GLOBAL const Box *box, int axis, int cell)
{
    int last = (int)box->cells[axis] - 1;
    if (cell >= 0 && cell <= last)
        return cell;
    if (!box->periodic[axis])
        return -1;
    return cell < 0 ? last : 0;
}

__device__ __forceinline__ int cell_index(GLOBAL const Box *box, int x, int y, int z)
{
    return (z * (int)box->cells[1] + y) * (int)box->cells[0] + x;
}

/* Move along an axis and return the new coordinate. A wall reflects, and `turn` becomes -1. A step out of the
   world is not taken: `turn` becomes 0. */
__device__ __forceinline__ unsigned moved_along(GLOBAL const Box *box, int axis, unsigned place,
                                                float distance, float *turn)
{
    int step = (int)rintf(distance * box->units[axis]);
    *turn = 1.0f;
    if (box->periodic[axis])
        return place + (unsigned)step;
    int64 last = 0x7FFFFFFF, to = (int64)place + step;
    if (to < 0 || to > last) {
        if (!(box->walls[axis] & (to < 0 ? LOW_WALL : HIGH_WALL))) {
            *turn = 0.0f;
            return place;
        }
        to = to < 0 ? -1 - to : 2 * last + 1 - to;
        *turn = -1.0f;
    }
    return (unsigned)to;
}

/* A device's step counter: word 0 is read by the first kernel of a step, word 1 by later ones, so that each
   can set the word that the other reads. Each is (step low, step high, seed low, seed high). */
typedef GLOBAL uint4 *Clock;

__device__ __forceinline__ uint4 next_step(uint4 clock)
{
    clock.x += 1;
    clock.y += clock.x == 0;
    return clock;
}

/* Record the first faulty particle: fault becomes (1, step low, step high, id), with ~id for one that would
   leave the world. */
__device__ __forceinline__ void note_fault(GLOBAL int *fault, uint4 now, int id)
{
    if (atomicExch(&fault[0], 1) == 0) {
        fault[1] = (int)now.x;
        fault[2] = (int)now.y;
        fault[3] = id;
    }
}

/* Move a position by a step, and return -1 along each axis where a wall reflected it, else 1. A particle that
   would move further than a cell, to NaN, or out of the world stays, and is a fault. */
__device__ __forceinline__ float4 moved(GLOBAL const Box *box, uint4 *place, float4 step, uint4 now,
                                        GLOBAL int *fault)
{
    float x = 1.0f, y = 1.0f, z = 1.0f;
    /* Written so that NaN also fails. */
    if (fabsf(step.x) < box->reach && fabsf(step.y) < box->reach && fabsf(step.z) < box->reach) {
        place->x = moved_along(box, 0, place->x, step.x, &x);
        place->y = moved_along(box, 1, place->y, step.y, &y);
        place->z = moved_along(box, 2, place->z, step.z, &z);
        if (x * y * z == 0.0f)
            note_fault(fault, now, ~(int)place->w);
    } else {
        note_fault(fault, now, (int)place->w);
    }
    return make_float4(x, y, z, 0.0f);
}

#if TRAVERSAL == 4
#include "common/hash.h"

/* Whether a cell is at a periodic boundary, so that one of the 27 around it is at the other end. */
__device__ __forceinline__ int is_at_seam(GLOBAL const Box *box, int axis, int cell)
{
    return box->periodic[axis] && (cell == 0 || cell == (int)box->cells[axis] - 1);
}

/* The contributions of a cell's coordinates to its hash; see hash_products in common/hash.h. */
__device__ __forceinline__ uint4 cell_products(GLOBAL const Box *box, GLOBAL const int *corner,
                                               int x, int y, int z)
{
    return make_uint4((unsigned)(x - corner[0]) * HASH_X, (unsigned)(y - corner[1]) * HASH_Y,
                      (unsigned)(z - corner[2]) * HASH_Z, box->mask);
}

__device__ __forceinline__ int is_in_cell(GLOBAL const Box *box, uint4 p, int x, int y, int z)
{
    return cell_at(box, 0, p.x) == x && cell_at(box, 1, p.y) == y && cell_at(box, 2, p.z) == z;
}
#endif

/* Where a list of neighbours keeps its k-th: on a GPU, neighbouring threads should read neighbouring words. */
#if LIST_BY_PARTICLE
#define LIST_ITEM(i, k) ((int64)(i)*ROOM + (k))
#else
#define LIST_ITEM(i, k) ((int64)(k)*particles + (i))
#endif

#endif
