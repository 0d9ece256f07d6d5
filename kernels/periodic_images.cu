/* Neighbours in a cell that repeats along any vectors, found as those in an open box of particles and their images.

       for each pair of particles i, j and each sum S of whole multiples of the cell's vectors:
           if |x[j] - x[i] + S| < cutoff: image S of j is a neighbour of i

   The cell is reduced, and turned so that its vectors are the rows of a lower triangular matrix. Particles then have an
   image in a brick, whose edges are the diagonal; images within the cutoff of this brick are added to them. Positions
   and shifts are rounded to whole steps, of which the box has at most 2^24 along an axis: all differences are exact in
   float32, and so both rows of a pair agree.

   REAL is the type of the given positions (float or double), STRIDE the number of columns (3 or 4). */
#include "common/ways.h"

#include "common/grid.h"

/* The layout of FRAME_DTYPE in gpubench/neighbours/cell.py. Matrices are by rows. */
typedef struct Frame {
    double low[3];
    double bound[3];   /* last coordinates, less low, of open axes that are bounded; negative for the others */
    double turn[9];    /* columns are the axes of the frame */
    double lattice[9]; /* vectors of the reduced cell in the frame; 0 along open axes, which come last */
    double steps[9];   /* `lattice` in steps */
    double whole[9];   /* the reduced vectors, as multiples of the given ones */
    double start[3];   /* the corner of the box in the frame */
    double extent[3];  /* the edges of the box, in steps */
    double step;       /* a power of two */
    double per_step;   /* its reciprocal */
} Frame;

#define MOST_IMAGES 536870912.0 /* of which the difference still fits into an int */
#define MOST 1.7976931348623157e308
#define NOT_FINITE 0
#define OUTSIDE 1
#define IMAGES 3

/* Coordinates in the frame; 0 if the position is outside an axis that is bounded. */
__device__ __forceinline__ int turned(GLOBAL const REAL *given, GLOBAL const Frame *frame, double *y)
{
    int is_inside = 1;
    y[0] = y[1] = y[2] = 0.0;
    for (int axis = 0; axis < 3; ++axis) {
        double x = (double)given[axis] - frame->low[axis], bound = frame->bound[axis];
        is_inside &= bound < 0.0 || (x >= 0.0 && x <= bound);
        for (int to = 0; to < 3; ++to)
            y[to] += x * frame->turn[3 * axis + to];
    }
    return is_inside;
}

/* The lowest and highest coordinates along each axis of the frame, of every THREADS-th particle. */
__global__ void measure(GLOBAL const REAL *__restrict__ given, GLOBAL const Frame *__restrict__ frame, int particles,
                        GLOBAL double *__restrict__ ends)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    double low[3] = {MOST, MOST, MOST}, high[3] = {-MOST, -MOST, -MOST}, y[3];
    for (int64 i = thread; i < particles; i += THREADS) {
        turned(given + (size_t)i * STRIDE, frame, y);
        for (int axis = 0; axis < 3; ++axis) {
            low[axis] = y[axis] < low[axis] ? y[axis] : low[axis];
            high[axis] = y[axis] > high[axis] ? y[axis] : high[axis];
        }
    }
    for (int axis = 0; axis < 3; ++axis) {
        ends[6 * thread + axis] = low[axis];
        ends[6 * thread + 3 + axis] = high[axis];
    }
}

/* Wrap a position into the brick: steps from the corner, and the vectors of the reduced cell to subtract. Returns whether
   both are sound; otherwise, and outside of the box, it notes the particle, and the steps are 0. */
__device__ __forceinline__ int wrapped(GLOBAL const REAL *given, GLOBAL const Frame *frame, unsigned i, double *steps,
                                       double *images, GLOBAL int64 *status)
{
    double y[3];
    int is_inside = turned(given + (size_t)i * STRIDE, frame, y), is_sound = 1;
    for (int axis = 2; axis >= 0; --axis) {
        double edge = frame->lattice[4 * axis];
        images[axis] = edge > 0.0 ? floor(y[axis] / edge) : 0.0;
        for (int to = 0; to <= axis; ++to)
            y[to] -= images[axis] * frame->lattice[3 * axis + to];
        steps[axis] = rint((y[axis] - frame->start[axis]) * frame->per_step);
        is_sound &= fabs(images[axis]) <= MOST_IMAGES && steps[axis] - steps[axis] == 0.0;
        is_inside &= steps[axis] >= 0.0 && steps[axis] <= frame->extent[axis];
    }
    for (int axis = 0; axis < 3; ++axis) {
        double sum = images[0] * frame->whole[axis] + images[1] * frame->whole[3 + axis] +
                     images[2] * frame->whole[6 + axis];
        is_sound &= fabs(sum) <= MOST_IMAGES;
    }
    if (!is_sound)
        status[NOT_FINITE] = i + 1;
    else if (!is_inside)
        status[OUTSIDE] = i + 1;
    if (!(is_sound && is_inside))
        steps[0] = steps[1] = steps[2] = 0.0;
    return is_sound;
}

/* Wrap positions into the brick. moves: the multiples of the given vectors that lead from the position to the particle
   or image that is searched. One thread per particle. */
__global__ void wrap(GLOBAL const REAL *__restrict__ given, GLOBAL const Frame *__restrict__ frame, int particles,
                     GLOBAL float4 *__restrict__ placed, GLOBAL int *__restrict__ moves,
                     GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    double steps[3], images[3];
    const int is_sound = wrapped(given, frame, i, steps, images, status);
    for (int axis = 0; axis < 3; ++axis) {
        double sum = 0.0;
        for (int from = 0; from < 3; ++from)
            sum += images[from] * frame->whole[3 * from + axis];
        moves[3 * (size_t)i + axis] = is_sound ? -(int)sum : 0;
    }
    placed[i] = make_float4((float)(steps[0] * frame->step), (float)(steps[1] * frame->step),
                            (float)(steps[2] * frame->step), 0.0f);
}

/* The same for a search without images (common/tilted.h): in steps, from the low corner of the grid. With CELLS also
   compute cells. */
__global__ void wrap_cells(GLOBAL const REAL *__restrict__ given, GLOBAL const Frame *__restrict__ frame,
                           GLOBAL const Grid *__restrict__ grid, int particles, GLOBAL float4 *__restrict__ positions,
                           GLOBAL int *__restrict__ cell_of, GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    double steps[3], images[3];
    wrapped(given, frame, i, steps, images, status);
    positions[i] = make_float4((float)(steps[0] + grid->low[0]), (float)(steps[1] + grid->low[1]),
                               (float)(steps[2] + grid->low[2]), 0.0f);
#if CELLS
    cell_of[i] = cell_of_position(grid, positions[i]);
#endif
}

/* The length of a number of vectors, of which one is `vector` steps long: a whole number, the same in every kernel, and
   opposite for the opposite number. Doubles hold all these whole numbers. */
__device__ __forceinline__ double steps_of(double number, double vector)
{
    return rint(number * vector);
}

/* The least number of vectors that leads from a coordinate to one of at least 0. */
__device__ __forceinline__ double first_of(double at, double vector)
{
    if (vector == 0.0)
        return 0.0;
    double number = ceil(-at / vector);
    while (at + steps_of(number - 1.0, vector) >= 0.0)
        number -= 1.0;
    while (at + steps_of(number, vector) < 0.0)
        number += 1.0;
    return number;
}

__device__ __forceinline__ int is_within(double number, double at, double vector, double extent)
{
    return vector == 0.0 ? number == 0.0 : at + steps_of(number, vector) <= extent;
}

/* Whether neither the next nor the previous image along an axis is in the box. */
__device__ __forceinline__ int is_alone(double at, double vector, double extent)
{
    return vector == 0.0 || (at + rint(vector) > extent && at - rint(vector) < 0.0);
}

/* Count the images of each particle in the box, or with WRITES place them behind the particles, as far as there is
   room, and note their number; counts and offsets are of a particle, sources of an image. One thread per particle. */
__global__ void images(GLOBAL const Frame *__restrict__ frame, int particles, GLOBAL int *__restrict__ counts,
                       GLOBAL const int64 *__restrict__ offsets, int room, GLOBAL float4 *__restrict__ placed,
                       GLOBAL int *__restrict__ moves, GLOBAL int *__restrict__ sources,
                       GLOBAL int64 *__restrict__ status)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if WRITES
    if (i == 0)
        status[IMAGES] = offsets[particles];
#endif
    if (i >= particles)
        return;
#if WRITES
    if (offsets[i + 1] == offsets[i])
        return;
#endif
    GLOBAL const double *v = frame->steps;
    const double ex = frame->extent[0], ey = frame->extent[1], ez = frame->extent[2];
    const float4 p = placed[i];
    const double x = p.x * frame->per_step, y = p.y * frame->per_step, z = p.z * frame->per_step;
    int found = 0;
    const int is_only = is_alone(x, v[0], ex) && is_alone(y, v[4], ey) && is_alone(z, v[8], ez);
    for (double c = is_only ? 0.0 : first_of(z, v[8]); !is_only && is_within(c, z, v[8], ez); c += 1.0) {
        const double yc = y + steps_of(c, v[7]), xc = x + steps_of(c, v[6]);
        for (double b = first_of(yc, v[4]); is_within(b, yc, v[4], ey); b += 1.0) {
            const double xb = xc + steps_of(b, v[3]);
            for (double a = first_of(xb, v[0]); is_within(a, xb, v[0], ex); a += 1.0) {
                if (a == 0.0 && b == 0.0 && c == 0.0)
                    continue;
#if WRITES
                const int64 k = offsets[i] + found;
                if (k < room) {
                    const size_t entry = (size_t)particles + k;
                    for (int axis = 0; axis < 3; ++axis)
                        moves[3 * entry + axis] =
                            moves[3 * (size_t)i + axis] +
                            (int)(a * frame->whole[axis] + b * frame->whole[3 + axis] + c * frame->whole[6 + axis]);
                    sources[k] = i;
                    placed[entry] = make_float4((float)((xb + steps_of(a, v[0])) * frame->step),
                                                (float)((yc + steps_of(b, v[4])) * frame->step),
                                                (float)((z + steps_of(c, v[8])) * frame->step), 0.0f);
                }
#endif
                ++found;
            }
        }
    }
#if !WRITES
    counts[i] = found;
#endif
}

/* Fill the rest of the room with points in a part of the box that is further than the cutoff from particles and
   images: `along` and `across` of them in x and y, `apart` apart. One thread per point. */
__global__ void fill_rest(GLOBAL const int64 *__restrict__ offsets, int particles, int room, int along, int across,
                          float apart, float beyond, GLOBAL float4 *__restrict__ placed)
{
    int64 k = offsets[particles] + (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= room)
        return;
    int64 spare = room - 1 - k;
    float x = (float)(spare % along), y = (float)(spare / along % across), z = (float)(spare / along / across);
    placed[particles + k] = make_float4((x + 0.5f) * apart, (y + 0.5f) * apart, beyond + (z + 0.5f) * apart, 0.0f);
}

#if HALF || EXACT

/* Count the pairs of each row that are listed, or with WRITES list their particles and images. found: neighbours among
   particles and images. With EXACT they are nearer than sqrt(reach2) in double precision; cell: vectors as rows. One
   thread per row. */
__global__ void pairs(GLOBAL const int64 *__restrict__ found_offsets, GLOBAL const int *__restrict__ found,
                      GLOBAL const int *__restrict__ moves, GLOBAL const int *__restrict__ sources,
                      GLOBAL const REAL *__restrict__ given, GLOBAL const double *__restrict__ cell, int rows,
                      double reach2, GLOBAL int *__restrict__ counts, GLOBAL const int64 *__restrict__ offsets,
                      GLOBAL int *__restrict__ images, GLOBAL int *__restrict__ neighbours)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 k = WRITES ? offsets[row] : 0;
    for (int64 at = found_offsets[row]; at < found_offsets[row + 1]; ++at) {
        int image = found[at], j = image < rows ? image : sources[image - rows];
#if HALF
        GLOBAL const int *from = moves + 3 * (size_t)row, *to = moves + 3 * (size_t)image;
        if (!is_first(row, j, to[0] - from[0], to[1] - from[1], to[2] - from[2]))
            continue;
#endif
#if EXACT
        double sum = 0.0;
        for (int axis = 0; axis < 3; ++axis) {
            double way = way_to_image(given, row, j, moves + 3 * (size_t)row, moves + 3 * (size_t)image, cell, axis);
            sum += way * way;
        }
        if (!(sum < reach2))
            continue;
#endif
#if WRITES
        neighbours[k] = j;
        images[k] = image;
#endif
        ++k;
    }
#if !WRITES
    counts[row] = (int)k;
#endif
}

#else

/* The first rows of a list, with the particle of each image. TEAM threads per row, and for the end of the last. */
__global__ void take_rows(GLOBAL const int64 *__restrict__ found_offsets, GLOBAL const int *__restrict__ found,
                          GLOBAL const int *__restrict__ sources, int rows, GLOBAL int *__restrict__ counts,
                          GLOBAL int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours)
{
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (unsigned)(thread / TEAM), lane = (unsigned)(thread % TEAM);
    if (row > rows)
        return;
    const int64 begin = found_offsets[row], end = row < rows ? found_offsets[row + 1] : begin;
    if (lane == 0)
        offsets[row] = begin;
    if (lane == 0 && row < rows)
        counts[row] = (int)(end - begin);
    for (int64 k = begin + lane; k < end; k += TEAM)
        neighbours[k] = found[k] < rows ? found[k] : sources[found[k] - rows];
}

#endif

/* The first counts of many. One thread per row. */
__global__ void write_counts(GLOBAL const int *__restrict__ found, int rows, GLOBAL int *__restrict__ counts)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        counts[row] = found[row];
}
