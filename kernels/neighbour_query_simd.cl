/* Neighbours of each particle within the cutoff, on a CPU: the particles of a cell share their candidates, which
   are tested WIDTH at a time with the vector types of OpenCL C. The plain version, over sorted cells:

       for each particle i, for each particle j of the 27 cells around its own:
           if |x[j] - x[i] + shift| < cutoff and j != i: j is a neighbour of i

   FILL is 1 to list, 0 to count; the distance test, its rounding, HALF, PERIODIC and REACH are those of
   neighbour_sorted_count.cu. A work-item takes SLOTS sorted particles, TARGETS of one cell at a time. Rows of cells are
   short, and vectors over each would be mostly empty: candidates are copied into one buffer, which stays in the
   L1 cache. */
#include "common/grid.h"

#define WIDTH 16
#define ROOM 256
#define LINE __attribute__((aligned(64)))

typedef struct Candidates {
    float x[ROOM + 3 * WIDTH] LINE, y[ROOM + 3 * WIDTH] LINE, z[ROOM + 3 * WIDTH] LINE;
    int slot[ROOM + 3 * WIDTH] LINE, id[ROOM + 3 * WIDTH] LINE;
    int filled;
    float shift_x, shift_y, shift_z; /* to the image in which these particles are candidates */
} Candidates;

/* The particles slot .. slot + number - 1 of one cell, and where their neighbours go. */
typedef struct Targets {
    GLOBAL const float *x, *y, *z;
    GLOBAL const int *order;
    GLOBAL int *neighbours;
    int64 capacity;
    float cutoff2;
    int slot, number, particles;
    int found[TARGETS];
    int64 place[TARGETS];
} Targets;

/* Which of the candidates from k on are neighbours of a target: -1 or 0 for each. */
inline int16 near_at(const Candidates *c, int k, const Targets *t, int slot)
{
    float16 dx = vload16(0, c->x + k) - t->x[slot], dy = vload16(0, c->y + k) - t->y[slot];
    float16 dz = vload16(0, c->z + k) - t->z[slot];
#if PERIODIC
    dx += c->shift_x;
    dy += c->shift_y;
    dz += c->shift_z;
#endif
    int16 near = fma(dz, dz, fma(dy, dy, dx * dx)) < t->cutoff2;
#if HALF
    near &= vload16(0, c->slot + k) > slot;
#elif FILL
    near &= vload16(0, c->slot + k) != slot;
#endif
    return near;
}

inline int sum_of(int16 v)
{
    int8 a = v.lo + v.hi;
    int4 b = a.lo + a.hi;
    int2 c = b.lo + b.hi;
    return c.x + c.y;
}

/* 32 numbers, each -1 or 0, as the bits of a word. */
inline unsigned bits_of(int16 low, int16 high)
{
    const int16 bit = (int16)(1) << (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int16 v = (low & bit) | (high & (bit << 16));
    int8 a = v.lo | v.hi;
    int4 b = a.lo | a.hi;
    int2 c = b.lo | b.hi;
    return c.x | c.y;
}

/* Test all candidates against each target, and empty the buffer. */
inline void test(Candidates *c, Targets *t)
{
    const int filled = c->filled;
    c->filled = 0;
    /* The padding of the last vectors is far from everything. */
    vstore16((float16)(INFINITY), 0, c->x + filled);
    vstore16((float16)(INFINITY), 1, c->x + filled);
    for (int n = 0; n < t->number; ++n) {
        const int slot = t->slot + n;
#if FILL
        int64 place = t->place[n];
        for (int k = 0; k < filled; k += 2 * WIDTH) {
            unsigned bits = bits_of(near_at(c, k, t, slot), near_at(c, k + WIDTH, t, slot));
            for (; bits; bits &= bits - 1) {
                if (place < t->capacity)
                    t->neighbours[place] = c->id[k + 31 - clz((int)(bits & -bits))];
                ++place;
            }
        }
        t->place[n] = place;
#else
        int16 near = 0;
        for (int k = 0; k < filled; k += WIDTH)
            near += near_at(c, k, t, slot);
        t->found[n] -= sum_of(near);
#endif
    }
}

/* Append the sorted particles begin .. end - 1. */
inline void append(Candidates *c, Targets *t, int begin, int end)
{
    const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int j = begin; j < end; j += WIDTH) {
        const int k = c->filled;
        vstore16(vload16(0, t->x + j), 0, c->x + k);
        vstore16(vload16(0, t->y + j), 0, c->y + k);
        vstore16(vload16(0, t->z + j), 0, c->z + k);
#if FILL || HALF
        vstore16(j + lanes, 0, c->slot + k);
#endif
#if FILL
        if (j + WIDTH <= t->particles)
            vstore16(vload16(0, t->order + j), 0, c->id + k);
        else
            for (int lane = 0; j + lane < end; ++lane)
                c->id[k + lane] = t->order[j + lane];
#endif
        c->filled = k + min(end - j, WIDTH);
        if (c->filled > ROOM)
            test(c, t);
    }
}

/* The cells first .. last that are less than `reach` + 1 from one along an axis: in the box, or past its end. Returns
   the shift to their image; first > last if there are none. */
inline float cells_near(GLOBAL const Grid *grid, int axis, int cell, int reach, int is_past, int *first, int *last)
{
    const int cells = grid->cells[axis];
    *first = max(cell - reach, 0);
    *last = min(cell + reach, cells - 1);
    if (!is_past)
        return 0.0f;
    const int before = min(cell - reach, 0), behind = max(cell + reach - (cells - 1), 0);
    *first = before ? cells + before : 0;
    *last = before ? cells - 1 : behind - 1;
    return before ? -grid->size[axis] : grid->size[axis];
}

/* Test the candidates in the 27 cells around one, image by image. */
inline void look_around(Candidates *c, Targets *t, GLOBAL const Grid *grid, GLOBAL const int *start, int cx, int cy,
                        int cz)
{
    for (int image = 0; image < (PERIODIC ? 8 : 1); ++image) {
        int x0, x1, y0, y1, z0, z1;
        if (((image & 1) && !grid->periodic[0]) || ((image & 2) && !grid->periodic[1]) ||
            ((image & 4) && !grid->periodic[2]))
            continue;
        c->shift_x = cells_near(grid, 0, cx, REACH, image & 1, &x0, &x1);
        c->shift_y = cells_near(grid, 1, cy, 1, image & 2, &y0, &y1);
        c->shift_z = cells_near(grid, 2, cz, 1, image & 4, &z0, &z1);
        if (x0 > x1)
            continue;
        for (int z = z0; z <= z1; ++z)
            for (int y = y0; y <= y1; ++y) {
                GLOBAL const int *row = start + cell_number(grid, 0, y, z);
                append(c, t, row[x0], row[x1 + 1]);
            }
        if (c->filled)
            test(c, t);
    }
}

/* The hint keeps the compiler from vectorising across work-items, as vectors are over candidates here. */
__attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float16))) __kernel void
query(GLOBAL const float *restrict positions, GLOBAL const int *restrict start, GLOBAL const int *restrict order,
      GLOBAL const Grid *restrict grid, float cutoff2, int particles, int pitch, GLOBAL int *restrict counts,
      GLOBAL const int64 *restrict offsets, GLOBAL int *restrict neighbours, int64 capacity)
{
    Candidates c;
    Targets t;
    t.x = positions;
    t.y = positions + pitch;
    t.z = positions + 2 * (size_t)pitch;
    t.order = order;
    t.neighbours = neighbours;
    t.capacity = capacity;
    t.cutoff2 = cutoff2;
    t.particles = particles;
    c.filled = 0;
    const int begin = (int)get_global_id(0) * SLOTS, end = min(begin + SLOTS, particles);
    for (int slot = begin; slot < end; slot += t.number) {
        const int cx = cell_along(grid, 0, t.x[slot]), cy = cell_along(grid, 1, t.y[slot]);
        const int cz = cell_along(grid, 2, t.z[slot]);
        t.slot = slot;
        /* At least one, so that cells overwritten by a check cannot make this loop endless. */
        t.number = max(1, min(min(end, start[cell_number(grid, cx, cy, cz) + 1]) - slot, TARGETS));
        for (int n = 0; n < t.number; ++n) {
            t.found[n] = 0;
            t.place[n] = FILL ? offsets[order[slot + n]] : 0;
        }
        look_around(&c, &t, grid, start, cx, cy, cz);
#if !FILL
        for (int n = 0; n < t.number; ++n)
            counts[order[slot + n]] = t.found[n] - !HALF; /* without itself */
#endif
    }
}

/* Gather positions in cell order: all x, then all y, then all z, `pitch` apart. */
__kernel void gather(GLOBAL const int *restrict order, GLOBAL const float4 *restrict positions,
                     GLOBAL float *restrict sorted, int particles, int pitch)
{
    const int slot = get_global_id(0);
    if (slot >= pitch)
        return;
    const float4 p = slot < particles ? positions[order[slot]] : (float4)(0.0f);
    sorted[slot] = p.x;
    sorted[pitch + slot] = p.y;
    sorted[2 * (size_t)pitch + slot] = p.z;
}
