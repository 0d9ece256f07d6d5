/* Neighbours in a tilted cell that repeats along three vectors, on a CPU: as neighbour_query_simd.cl, whose candidates
   and test these are. A cell's particles share their rows, which are those of common/tilted.h. PERIODIC is 0, as
   candidates are moved when they are copied. FILL, SLOTS, TARGETS, HALF, REACH: see there. */
#define query query_in_boxes /* Its functions are used here, not its kernel. */
#include "neighbour_query_simd.cl"
#undef query
#include "common/tilted.h"

/* More than the rounding of a length in cells. */
#define ABOUT 0.001f

/* Append the sorted particles begin .. end - 1, moved by whole steps. */
inline void append_moved(Candidates *c, Targets *t, int begin, int end, int x, int y, int z)
{
    if (!(x | y | z)) {
        append(c, t, begin, end);
        return;
    }
    for (int j = begin; j < end; j += WIDTH) {
        if (c->filled > ROOM - WIDTH)
            test(c, t); /* now, as `append` would before they are moved */
        const int k = c->filled;
        append(c, t, j, min(j + WIDTH, end));
        vstore16(convert_float16(convert_int16(vload16(0, c->x + k)) + x), 0, c->x + k);
        vstore16(convert_float16(convert_int16(vload16(0, c->y + k)) + y), 0, c->y + k);
        vstore16(convert_float16(convert_int16(vload16(0, c->z + k)) + z), 0, c->z + k);
    }
}

/* The cells first .. last within `reach` cells of one that is moved by some steps; they may lie beyond the brick. */
inline void cells_around(GLOBAL const Grid *grid, int axis, int cell, int steps, int reach, int *first, int *last)
{
    const float by = steps * grid->inverse_cell[axis];
    *first = cell - reach + (steps ? (int)floor(by - ABOUT) : 0);
    *last = cell + reach + (steps ? (int)ceil(by + ABOUT) : 0);
}

/* Test the candidates around a cell, whose particles are moved to each row. */
inline void look_along(Candidates *c, Targets *t, GLOBAL const Grid *grid, GLOBAL const Tilt *tilt,
                       GLOBAL const int *start, int cx, int cy, int cz)
{
    const int nx = grid->cells[0], ny = grid->cells[1];
    for (int dz = -1; dz <= 1; ++dz) {
        const int turns = turns_of(cz + dz, grid->cells[2]), z = cz + dz + turns * grid->cells[2];
        int y0, y1, x0, x1;
        cells_around(grid, 1, cy, turns * tilt->c[1], 1, &y0, &y1);
        for (int row = y0; row <= y1; ++row) {
            int y = row, by_x = turns * tilt->c[0], by_y = turns * tilt->c[1];
            for (int back = turns_of(y, ny); back; back = turns_of(y, ny)) {
                y += back * ny;
                by_x += back * tilt->b[0];
                by_y += back * tilt->b[1];
            }
            cells_around(grid, 0, cx, by_x, REACH, &x0, &x1);
            GLOBAL const int *begin = start + cell_number(grid, 0, y, z);
            for (int x = x0; x <= x1;) {
                const int rings = x < 0 ? -((nx - 1 - x) / nx) : x / nx, last = min(x1, rings * nx + nx - 1);
                append_moved(c, t, begin[x - rings * nx], begin[last - rings * nx + 1], rings * tilt->a - by_x, -by_y,
                             -turns * tilt->c[2]);
                x = last + 1;
            }
        }
    }
    if (c->filled)
        test(c, t);
}

/* As `query` of neighbour_query_simd.cl. */
__attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float16))) __kernel void
query(GLOBAL const float *restrict positions, GLOBAL const int *restrict start, GLOBAL const int *restrict order,
      GLOBAL const Grid *restrict grid, GLOBAL const Tilt *restrict tilt, float cutoff2, int particles, int pitch,
      GLOBAL int *restrict counts, GLOBAL const int64 *restrict offsets, GLOBAL int *restrict neighbours,
      int64 capacity)
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
        look_along(&c, &t, grid, tilt, start, cx, cy, cz);
#if !FILL
        for (int n = 0; n < t.number; ++n)
            counts[order[slot + n]] = t.found[n] - !HALF; /* without itself */
#endif
    }
}
