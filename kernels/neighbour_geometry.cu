/* Conversion of users' positions for a search, and geometry of the pairs found.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). All arithmetic
   on them is in double precision. CELLS: whether to compute cells. WRITES: see `find_blocks`. TEAM: threads
   per row that write shifts. */
#include "common/grid.h"
#include "common/placed.h"

/* Of kernels with a loop over a row: vectors of rows, which Intel's compiler makes for a CPU, take twice as long. */
#ifdef __CUDACC__
#define BY_ROW
#else
#define BY_ROW __attribute__((vec_type_hint(float16)))
#endif

#define MOST_BLOCKS 1125899906842624.0 /* 2^50 from the origin, where float64 still places within them */

/* Wrap and shift positions, and with CELLS compute their cells. One thread per particle. */
__global__ void place(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box,
                      GLOBAL const Grid *__restrict__ grid, int particles,
                      GLOBAL float4 *__restrict__ positions, GLOBAL int *__restrict__ cell_of,
                      GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const float4 p = placed_at(given, i, box, status);
    positions[i] = p;
#if CELLS
    cell_of[i] = cell_of_position(grid, p);
#endif
}

/* Particles in blocks of a grid around the origin, of which those in use are listed by a hash; see
   gpubench/neighbours/packing.py. edge: of a block. Axes that repeat have no blocks. */
__device__ __forceinline__ double block_along(GLOBAL const REAL *given, int particle, GLOBAL const Box *box, int axis,
                                              double edge)
{
    double block = floor(given[(size_t)particle * STRIDE + axis] / edge);
    return box->periodic[axis] == 0.0 && fabs(block) <= MOST_BLOCKS ? block : 0.0;
}

__device__ __forceinline__ int64 block_key(GLOBAL const REAL *given, int particle, GLOBAL const Box *box, double edge)
{
    uint64 key = 0;
    for (int axis = 0; axis < 3; ++axis) {
        /* The finaliser of splitmix64. */
        key += (uint64)(int64)block_along(given, particle, box, axis, edge) + 0x9e3779b97f4a7c15u;
        key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
        key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
        key ^= key >> 31;
    }
    return (int64)(key >> 1);
}

/* One thread per particle, as all that follow. */
__global__ void block_keys(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box, int particles,
                           double edge, GLOBAL int64 *__restrict__ out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < particles)
        out[i] = block_key(given, i, box, edge);
}

/* Find the block of each particle in the list, sorted by keys. WRITES: also write which block it is; otherwise set the
   status if it is another one, or none. */
__global__ void find_blocks(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box, int particles,
                            double edge, GLOBAL const int64 *__restrict__ keys, int used,
                            GLOBAL int64 *__restrict__ block_at, GLOBAL int *__restrict__ block_of,
                            GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const int64 key = block_key(given, i, box, edge);
    int first = 0, last = used - 1;
    while (first < last) {
        int middle = first + (last - first) / 2;
        if (keys[middle] < key)
            first = middle + 1;
        else
            last = middle;
    }
    block_of[i] = first;
    for (int axis = 0; axis < 3; ++axis) {
        const REAL x = given[(size_t)i * STRIDE + axis];
#if WRITES
        block_at[3 * first + axis] = (int64)block_along(given, i, box, axis, edge);
#else
        if (block_at[3 * first + axis] != (int64)block_along(given, i, box, axis, edge))
            status[0] = 1;
#endif
        if (!(x - x == 0) || (box->periodic[axis] == 0.0 && fabs(floor(x / edge)) > MOST_BLOCKS))
            status[0] = 1;
    }
}

/* As `place`, for blocks that are moved to `moved` in the box, in blocks. bounds: of the positions; an axis without has
   the size 0. */
__global__ void place_packed(GLOBAL const REAL *__restrict__ given, GLOBAL const Box *__restrict__ box,
                             GLOBAL const Grid *__restrict__ grid, int particles, GLOBAL float4 *__restrict__ positions,
                             GLOBAL int *__restrict__ cell_of, GLOBAL int64 *__restrict__ status,
                             GLOBAL const Box *__restrict__ bounds, double edge, GLOBAL const int *__restrict__ block_of,
                             GLOBAL const double *__restrict__ moved)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    float at[3];
    for (int axis = 0; axis < 3; ++axis) {
        double x = given[(size_t)i * STRIDE + axis], size = bounds->size[axis];
        if (box->periodic[axis] != 0.0) {
            at[axis] = placed(x, box, axis, i, status);
            continue;
        }
        if (size > 0.0 && !(x - bounds->low[axis] >= 0.0 && x - bounds->low[axis] <= size))
            status[OUTSIDE] = i + 1;
        double inside = fma(-floor(x / edge), edge, x);
        x = rint((inside + moved[3 * (size_t)block_of[i] + axis] * edge) * box->per_step);
        at[axis] = (float)fmin(fmax(x, 0.0), box->steps[axis]);
    }
    positions[i] = make_float4(at[0], at[1], at[2], 0.0f);
#if CELLS
    cell_of[i] = cell_number(grid, cell_along(grid, 0, at[0]), cell_along(grid, 1, at[1]), cell_along(grid, 2, at[2]));
#endif
}

/* Store the number of pairs of a search, or with `keeps_most` the maximum over searches. One thread. */
__global__ void note_pairs(GLOBAL const int64 *offsets, int particles, int keeps_most, GLOBAL int64 *status)
{
    if (blockIdx.x == 0 && threadIdx.x == 0 && (!keeps_most || offsets[particles] > status[MOST_PAIRS]))
        status[MOST_PAIRS] = offsets[particles];
}

/* Set `status` if a particle has moved further than sqrt(reach2), beside the change of the box: a matrix by rows, and
   the corner, which stays. One thread per particle. */
__global__ void has_moved(GLOBAL const REAL *__restrict__ before, GLOBAL const REAL *__restrict__ now,
                          GLOBAL const Box *__restrict__ box, GLOBAL const double *__restrict__ change, int particles,
                          double reach2, GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    double sum = 0.0;
    GLOBAL const REAL *old = before + (size_t)i * STRIDE;
    for (int axis = 0; axis < 3; ++axis) {
        double d = (double)now[(size_t)i * STRIDE + axis] - change[9 + axis];
        for (int from = 0; from < 3; ++from)
            d -= ((double)old[from] - change[9 + from]) * change[3 * from + axis];
        d = nearest(d, box, axis);
        sum += d * d;
    }
    if (!(sum <= reach2))
        status[0] = 1;
}

/* For each of the first `most` pairs of a list: its two rows (pairs), and the vector from first to second, or its
   length (geometry). Row r is of particle ids[r]. One thread per row. */
BY_ROW
__global__ void write_pairs(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                            int64 most, int rows, GLOBAL int *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        out[2 * k] = (int)row;
        out[2 * k + 1] = neighbours[k];
    }
}

BY_ROW
__global__ void write_geometry(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                               GLOBAL const int *__restrict__ ids, GLOBAL const REAL *__restrict__ given,
                               GLOBAL const Box *__restrict__ box, int64 most, int rows, int wants_vectors,
                               GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        double sum = 0.0;
        for (int axis = 0; axis < 3; ++axis) {
            double way = way_to(given, ids[row], ids[neighbours[k]], box, axis);
            sum += way * way;
            if (wants_vectors)
                out[3 * k + axis] = (REAL)way;
        }
        if (!wants_vectors)
            out[k] = (REAL)sqrt(sum);
    }
}

/* Move the neighbours of each row that are nearer than sqrt(reach2) in double precision to its front, and count them:
   that of a row goes to counts[to[row]]. One thread per row. */
BY_ROW
__global__ void keep(GLOBAL const int64 *__restrict__ found_offsets, GLOBAL int *__restrict__ found,
                     GLOBAL const int *__restrict__ ids, GLOBAL const REAL *__restrict__ given,
                     GLOBAL const Box *__restrict__ box, int rows, double reach2, GLOBAL const int *__restrict__ to,
                     GLOBAL int *__restrict__ counts)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const size_t i = ids[row];
    int64 k = found_offsets[row];
    for (int64 at = k; at < found_offsets[row + 1]; ++at) {
        const int second = found[at];
        const size_t j = ids[second];
        double x = way_to(given, i, j, box, 0), y = way_to(given, i, j, box, 1), z = way_to(given, i, j, box, 2);
        found[k] = second;
        k += x * x + y * y + z * z < reach2;
    }
    counts[to[row]] = (int)(k - found_offsets[row]);
}

/* The numbers of vectors that lead to the only image of j that may be near i, in a cell that holds the cutoff in all
   directions. cell: by rows, the vectors; the matrix that turns a position into fractions of the reduced ones; these,
   as multiples of the given. */
__device__ __forceinline__ void numbers_to(GLOBAL const REAL *given, size_t i, size_t j, GLOBAL const double *cell,
                                           int *numbers)
{
    double reduced[3];
    for (int axis = 0; axis < 3; ++axis) {
        double sum = 0.0;
        for (int from = 0; from < 3; ++from)
            sum += ((double)given[j * STRIDE + from] - given[i * STRIDE + from]) * cell[9 + 3 * from + axis];
        reduced[axis] = -rint(sum);
    }
    for (int axis = 0; axis < 3; ++axis)
        numbers[axis] = (int)(reduced[0] * cell[18 + axis] + reduced[1] * cell[21 + axis] + reduced[2] * cell[24 + axis]);
}

__device__ __forceinline__ void way_in_cell(GLOBAL const REAL *given, size_t i, size_t j, GLOBAL const double *cell,
                                            double *way)
{
    int numbers[3];
    numbers_to(given, i, j, cell, numbers);
    for (int axis = 0; axis < 3; ++axis)
        way[axis] = way_by(given, i, j, numbers[0], numbers[1], numbers[2], cell, axis);
}

/* The same in a cell as `numbers_to` has it. Row r is particle r. */
BY_ROW
__global__ void keep_in_cell(GLOBAL const int64 *__restrict__ found_offsets, GLOBAL int *__restrict__ found,
                             GLOBAL const REAL *__restrict__ given, GLOBAL const double *__restrict__ cell, int rows,
                             double reach2, GLOBAL int *__restrict__ counts)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 k = found_offsets[row];
    for (int64 at = k; at < found_offsets[row + 1]; ++at) {
        const int j = found[at];
        double way[3];
        way_in_cell(given, row, j, cell, way);
        found[k] = j;
        k += way[0] * way[0] + way[1] * way[1] + way[2] * way[2] < reach2;
    }
    counts[row] = (int)(k - found_offsets[row]);
}

/* Visit the numbers of the shifts of a row: PAIR, of those of the row, and AXIS, by TEAM threads in turn. */
#if TEAM == 1
#define FOR_SHIFTS(pairs)                                                                                              \
    for (int pair = 0; pair < (pairs); ++pair)                                                                         \
        for (int axis = 0; axis < 3; ++axis)
#else
#define FOR_SHIFTS(pairs)                                                                                              \
    for (int item = threadIdx.x % TEAM, pair = item / 3, axis = item % 3; item < 3 * (pairs);                          \
         item += TEAM, pair = item / 3, axis = item % 3)
#endif

/* Which image of its second particle a pair has: the number of edges that lead to the one nearest to the first. TEAM
   threads per row. */
BY_ROW
__global__ void write_shifts(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                             GLOBAL const int *__restrict__ ids, GLOBAL const REAL *__restrict__ given,
                             GLOBAL const Box *__restrict__ box, int64 most, int rows, GLOBAL int *__restrict__ out)
{
    const unsigned row = (unsigned)(((size_t)blockIdx.x * blockDim.x + threadIdx.x) / TEAM);
    if (row >= rows)
        return;
    const size_t i = (size_t)ids[row] * STRIDE;
    const int64 first = offsets[row];
    FOR_SHIFTS((int)(min(offsets[row + 1], most) - first))
    {
        const size_t j = (size_t)ids[neighbours[first + pair]] * STRIDE;
        /* Within a third of a whole number, as the box holds three cutoffs. */
        const double edges = ((double)given[j + axis] - given[i + axis]) * box->per_size[axis];
        out[3 * (first + pair) + axis] = -(int)rint(edges);
    }
}

/* As write_shifts, in such a cell. TEAM threads per row. */
BY_ROW
__global__ void write_cell_shifts(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                                  GLOBAL const REAL *__restrict__ given, GLOBAL const double *__restrict__ cell,
                                  int64 most, int rows, GLOBAL int *__restrict__ out)
{
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (unsigned)(thread / TEAM);
    if (row >= rows)
        return;
    const int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row] + thread % TEAM; k < end; k += TEAM) {
        int numbers[3];
        numbers_to(given, row, neighbours[k], cell, numbers);
        for (int axis = 0; axis < 3; ++axis)
            out[3 * k + axis] = numbers[axis];
    }
}

/* As write_geometry, in such a cell. */
BY_ROW
__global__ void write_cell_geometry(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                                    GLOBAL const REAL *__restrict__ given, GLOBAL const double *__restrict__ cell,
                                    int64 most, int rows, int wants_vectors, GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        double way[3];
        way_in_cell(given, row, neighbours[k], cell, way);
        for (int axis = 0; axis < 3 && wants_vectors; ++axis)
            out[3 * k + axis] = (REAL)way[axis];
        if (!wants_vectors)
            out[k] = (REAL)sqrt(way[0] * way[0] + way[1] * way[1] + way[2] * way[2]);
    }
}

/* The same for pairs of images: image k is moved from its particle by moves[k] vectors of the cell. */
BY_ROW
__global__ void write_image_shifts(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ images,
                                   GLOBAL const int *__restrict__ moves, int64 most, int rows,
                                   GLOBAL int *__restrict__ out)
{
    const unsigned row = (unsigned)(((size_t)blockIdx.x * blockDim.x + threadIdx.x) / TEAM);
    if (row >= rows)
        return;
    const int64 first = offsets[row];
    FOR_SHIFTS((int)(min(offsets[row + 1], most) - first))
    {
        const size_t image = images[first + pair];
        out[3 * (first + pair) + axis] = moves[3 * image + axis] - moves[3 * (size_t)row + axis];
    }
}

/* As write_geometry, for pairs of images. cell: vectors as rows. */
BY_ROW
__global__ void write_image_geometry(GLOBAL const int64 *__restrict__ offsets,
                                     GLOBAL const int *__restrict__ neighbours, GLOBAL const int *__restrict__ images,
                                     GLOBAL const int *__restrict__ moves, GLOBAL const REAL *__restrict__ given,
                                     GLOBAL const double *__restrict__ cell, int64 most, int rows,
                                     int wants_vectors, GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 end = min(offsets[row + 1], most);
    for (int64 k = offsets[row]; k < end; ++k) {
        double sum = 0.0;
        for (int axis = 0; axis < 3; ++axis) {
            double way = way_to_image(given, row, neighbours[k], moves + 3 * (size_t)row,
                                      moves + 3 * (size_t)images[k], cell, axis);
            sum += way * way;
            if (wants_vectors)
                out[3 * k + axis] = (REAL)way;
        }
        if (!wants_vectors)
            out[k] = (REAL)sqrt(sum);
    }
}

/* As write_geometry, for pairs in systems with a cell each, given their shifts. cells: vectors as rows. */
BY_ROW
__global__ void write_shifted_geometry(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                               GLOBAL const int *__restrict__ shifts, GLOBAL const REAL *__restrict__ given,
                               GLOBAL const double *__restrict__ cells, GLOBAL const int *__restrict__ system_of,
                               int rows, int wants_vectors, GLOBAL REAL *__restrict__ out)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    GLOBAL const double *cell = cells + 9 * (size_t)system_of[row];
    for (int64 k = offsets[row]; k < offsets[row + 1]; ++k) {
        double sum = 0.0;
        for (int axis = 0; axis < 3; ++axis) {
            double way = way_by(given, row, neighbours[k], shifts[3 * k], shifts[3 * k + 1], shifts[3 * k + 2], cell,
                                axis);
            sum += way * way;
            if (wants_vectors)
                out[3 * k + axis] = (REAL)way;
        }
        if (!wants_vectors)
            out[k] = (REAL)sqrt(sum);
    }
}
