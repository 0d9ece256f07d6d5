/* A fluid with density constraints (Bodin, Lacoursiere and Servin 2012).

   In the plain version, a step is as follows, with s_ij = m dW/dr / r < 0 and d_ij = x_i - x_j:

     g_i = rho_i - 1
     solve   r = (4 Y / h) g - Y G v + G v' - S x <= 0, x >= 0, r x = 0   for x = -lambda / m
     v'_i = walls(v_i + h a_i - sum_j (x_i + x_j) s_ij d_ij),  (G w)_i = sum_j s_ij d_ij . (w_i - w_j)
     x_i += h v'_i

   where x is the pressure times h, and `walls` clips velocities that lead through a wall. See
   gpubench/physics/constraint.py. Both products iterate over the neighbour list of `list`. A point is
   a position and, in w, the factor of a product. MATRIX: 0 if G is not stored, 1 if `blocks` stores
   the blocks -s_ij d_ij beside the list, each a float4 whose w is ignored (the slides' ELLPACK), 2 in
   three planes. The block of the diagonal is minus the sum of its row, so products use differences.

   No sum depends on the order of the particles, see common/exact_sums.h. A stage of a solve has a
   slot in `progress` (SLOT ints): maxima, and two dot products. A stage that finds its residual
   below the limit does nothing, which leaves the next slot 0, so that all later stages do nothing
   either. */
#include "common/box.h"
#include "common/exact_sums.h"

#define SLOT 16
enum { MAX_X, MAX_W, MAX_P, MAX_U, SQUARES, PRODUCTS = SQUARES + LIMBS };
/* What `statistics` hold: iterations of this step, and the slot of the last residuals; and over all
   steps since the last restore, iterations (two words), steps that did not converge, the first of
   them (two words), bits of the last and of the largest residual. */
enum { NOW, EVALUATED, TOTAL, TOTAL_HIGH, FAILED, FIRST, FIRST_HIGH, LAST, LARGEST };
#define FREE 8 /* in `held`, whose bits 1, 2 and 4 mark the walls that hold a particle */

typedef struct Liquid {
    float weight;
    float steepest;
    float viscosity;
    float gravity[3];
    float time_step;
    float wall_distance;
    float density_rounder;
    float viscous_rounder;
    float block_rounder;
    float correction;
    float kept;
    float softness;
    float relaxation;
    float warm_start;
    float sum_scale;
    float product_scale;
    float limit;
    float residual_scale;
} Liquid;

#if LIST_BY_PARTICLE
#define NOTE(i, k) ((int64)(i)*NEAR + (k))
#else
#define NOTE(i, k) ((int64)(k)*particles + (i))
#endif

/* A term of a dot product as an integer; sums over all particles fit in 64 bits. */
__device__ __forceinline__ int64 whole(float part, GLOBAL const Liquid *liquid)
{
    return (int64)rintf(fminf(fmaxf(part, -4.0f), 4.0f) * liquid->sum_scale);
}

/* Whether the residual of a stage is small, or NaN. */
__device__ __forceinline__ int is_done(GLOBAL const int *slot, GLOBAL const Liquid *liquid)
{
    return !(total(slot + SQUARES) > liquid->limit);
}

/* The contribution of a particle at a distance to a density, and -s_ij of a pair: the cubic spline,
   and its slope over the distance, 0 out of reach. */
__device__ __forceinline__ float part_of_density(float r, GLOBAL const Liquid *liquid)
{
    float gap = fmaxf(1.0f - r, 0.0f);
    float near = fmaf(6.0f * r * r, r - 1.0f, 1.0f), far = 2.0f * gap * gap * gap;
    return rounded(__fmul_rn(liquid->weight, r < 0.5f ? near : far), liquid->density_rounder);
}

__device__ __forceinline__ float pull(float4 d, GLOBAL const Liquid *liquid)
{
    float square = square_length(d), inverse = rsqrtf(fmaxf(square, 1e-20f));
    float r = square * inverse, gap = fmaxf(1.0f - r, 0.0f);
    return liquid->weight * (r < 0.5f ? fmaf(-18.0f, r, 12.0f) : 6.0f * gap * gap * inverse);
}

#if MATRIX
__device__ __forceinline__ float4 block_of(float4 d, GLOBAL const Liquid *liquid)
{
    float s = pull(d, liquid);
    return make_float4(__fmul_rn(s, d.x), __fmul_rn(s, d.y), __fmul_rn(s, d.z), 0.0f);
}

/* Blocks are read once a product: on CUDA they are evicted from the caches first. */
#ifdef __CUDACC__
#define STREAMED(address) __ldcs(address)
#else
#define STREAMED(address) (*(address))
#endif

__device__ __forceinline__ float4 block_at(GLOBAL const float *matrix, int64 at, int particles)
{
#if MATRIX == 1
    return STREAMED((GLOBAL const float4 *)matrix + at);
#else
    int64 plane = (int64)NEAR * particles;
    return make_float4(STREAMED(matrix + at), STREAMED(matrix + plane + at),
                       STREAMED(matrix + 2 * plane + at), 0.0f);
#endif
}

__device__ __forceinline__ void store_block(GLOBAL float *matrix, int64 at, int particles, float4 b)
{
#if MATRIX == 1
    ((GLOBAL float4 *)matrix)[at] = b;
#else
    int64 plane = (int64)NEAR * particles;
    matrix[at] = b.x;
    matrix[plane + at] = b.y;
    matrix[2 * plane + at] = b.z;
#endif
}
#endif

/* List the neighbours of each particle. */
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (square_length(displacement(box, p, places[near])) < square_range && near != (int)i) {  \
            if (met < NEAR)                                                                        \
                notes[NOTE(i, met)] = near;                                                        \
            ++met;                                                                                 \
        }                                                                                          \
    }

__global__ void note_neighbours(GLOBAL const uint4 *__restrict__ places,
                                GLOBAL const int *__restrict__ cells,
                                GLOBAL const int *__restrict__ items,
                                GLOBAL const Box *__restrict__ box, Clock clock, int particles,
                                int words, GLOBAL int *__restrict__ noted,
                                GLOBAL int *__restrict__ notes, GLOBAL int *__restrict__ progress,
                                GLOBAL int *__restrict__ statistics)
{
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (i == 0) {
        clock[1] = clock[0];
        statistics[NOW] = 0;
    }
    if (i >= particles)
        return;
    for (int k = i; k < words; k += particles)
        progress[k] = 0;
    uint4 p = places[i];
    int met = 0;
    float square_range = 1.0f;
#include "common/candidates.h"
    noted[i] = met;
}

/* The initial values of a step: start is the velocity after viscosity and gravity, with g in w;
   diagonal that of the matrix; x the pressures of the last step, which velocities have in w. Where
   the matrix is stored, this assembles it. */
#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 d = displacement(box, p, places[near]);                                             \
        float square = square_length(d), r = sqrtf(square);                                        \
        if (near != (int)i && square < 1.0f) {                                                     \
            density += part_of_density(r, liquid);                                                 \
            float s = pull(d, liquid), rounder = liquid->block_rounder;                            \
            own.x += rounded(__fmul_rn(s, d.x), rounder);                                          \
            own.y += rounded(__fmul_rn(s, d.y), rounder);                                          \
            own.z += rounded(__fmul_rn(s, d.z), rounder);                                          \
            own.w += rounded(__fmul_rn(s * s, square), rounder);                                   \
            float4 u = velocities[near];                                                           \
            float drag = liquid->viscosity * (1.0f - r);                                           \
            rounder = liquid->viscous_rounder;                                                     \
            v.x += rounded(__fmul_rn(drag, u.x - old.x), rounder);                               \
            v.y += rounded(__fmul_rn(drag, u.y - old.y), rounder);                               \
            v.z += rounded(__fmul_rn(drag, u.z - old.z), rounder);                               \
        }                                                                                          \
    }

__global__ void blocks(GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ velocities,
                       GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ items,
                       GLOBAL const int *__restrict__ noted, GLOBAL const int *__restrict__ notes,
                       GLOBAL const Box *__restrict__ box, GLOBAL const Liquid *__restrict__ liquid,
                       int particles, GLOBAL uint4 *__restrict__ points,
                       GLOBAL float4 *__restrict__ start, GLOBAL float *__restrict__ diagonal,
                       GLOBAL float *__restrict__ x, GLOBAL float *__restrict__ matrix)
{
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (i >= particles)
        return;
    uint4 p = places[i];
    float4 old = velocities[i];
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f), own = v;
    float density = part_of_density(0.0f, liquid);
#if MATRIX
#define NEIGHBOUR(j)                                                                               \
    {                                                                                              \
        VISIT(j);                                                                                  \
        float4 b = block_of(displacement(box, p, places[j]), liquid);                              \
        store_block(matrix, NOTE(i, k), particles, b);                                             \
    }
#endif
#include "common/noted.h"
    points[i] = p;
    float h = liquid->time_step;
    start[i] = make_float4(old.x + fmaf(h, liquid->gravity[0], v.x),
                           old.y + fmaf(h, liquid->gravity[1], v.y),
                           old.z + fmaf(h, liquid->gravity[2], v.z), density - 1.0f);
    diagonal[i] = fmaf(own.z, own.z, fmaf(own.y, own.y, fmaf(own.x, own.x, own.w))) +
                  liquid->softness;
    x[i] = liquid->warm_start * old.w;
}

#include "common/constraint_stages.h"

/* The stages as launches. before: if that stage converged, this one does nothing; -1 for none. */
__global__ void cut_pressures(SOLVE, int slot, int relaxes)
{
    __shared__ float shared[BLOCK];
    int i = OWN;
    float value = i < particles ? cut(i, SOLVED, slot, relaxes) : 0.0f;
    note_largest(&progress[slot * SLOT + MAX_X], shared, value);
}

__global__ void push_all(SOLVE, int slot, int before)
{
    __shared__ float shared[BLOCK];
    int i = OWN;
    if (before >= 0 && is_done(progress + before * SLOT, liquid))
        return;
    float square = i < particles ? push(i, SOLVED, slot) : 0.0f;
    note_largest(&progress[slot * SLOT + MAX_W], shared, square);
}

__global__ void residuals(SOLVE, int slot, int before, int counts)
{
    __shared__ int64 shared[BLOCK];
    int i = OWN;
    if (before >= 0 && is_done(progress + before * SLOT, liquid))
        return;
    int64 part = i < particles ? residual(i, SOLVED, slot, counts) : 0;
    add_to(&progress[slot * SLOT + SQUARES], shared, part);
}

__global__ void directions(SOLVE, int slot, int is_first)
{
    __shared__ float shared[BLOCK];
    int i = OWN;
    if (is_done(progress + slot * SLOT, liquid))
        return;
    float size = i < particles ? direct(i, SOLVED, slot, is_first) : 0.0f;
    note_largest(&progress[slot * SLOT + MAX_P], shared, size);
}

__global__ void push_all_along(SOLVE, int slot)
{
    __shared__ float shared[BLOCK];
    int i = OWN;
    if (is_done(progress + slot * SLOT, liquid))
        return;
    float square = i < particles ? push_along(i, SOLVED, slot) : 0.0f;
    note_largest(&progress[slot * SLOT + MAX_U], shared, square);
}

__global__ void images(SOLVE, int slot)
{
    __shared__ int64 shared[BLOCK];
    int i = OWN;
    if (is_done(progress + slot * SLOT, liquid))
        return;
    int64 part = i < particles ? gather(i, SOLVED, slot) : 0;
    add_to(&progress[slot * SLOT + PRODUCTS], shared, part);
}

__global__ void follow_all(SOLVE, int slot)
{
    __shared__ int64 shared[BLOCK];
    int i = OWN;
    GLOBAL int *here = progress + slot * SLOT;
    float length = length_along(here, liquid);
    if (is_done(here, liquid) || !(length == length))
        return;
    int64 part = i < particles ? follow(i, SOLVED, length) : 0;
    add_to(here + SLOT + SQUARES, shared, part);
}

#ifdef RESIDENT_BLOCKS /* CUDA only */
#include "common/meet.h"

#define FOR_OWN for (int i = OWN; i < particles; i += (int)gridDim.x * BLOCK)
#define MEET meet(meetings, left_in_block, pass++, 0)

/* All of conjugate gradients in one launch, with all blocks resident: as many stages as the solve
   needs, with a grid barrier after each instead of a launch. meetings: see meet.h. */
__global__ void __launch_bounds__(BLOCK, RESIDENT_BLOCKS)
    solve_resident(SOLVE, uint64 *meetings, int iterations, int restart)
{
    __shared__ float maxima[BLOCK];
    __shared__ int64 sums[BLOCK];
    __shared__ unsigned left_in_block[3];
    if (threadIdx.x < 3)
        left_in_block[threadIdx.x] = 0;
    __syncthreads();
    unsigned pass = 0;
    for (int slot = 0, left = iterations;; left -= restart, ++slot) {
        float top = 0.0f;
        int64 part = 0;
        FOR_OWN top = fmaxf(top, cut(i, SOLVED, slot, 0));
        note_largest(&progress[slot * SLOT + MAX_X], maxima, top);
        MEET;
        top = 0.0f;
        FOR_OWN top = fmaxf(top, push(i, SOLVED, slot));
        note_largest(&progress[slot * SLOT + MAX_W], maxima, top);
        MEET;
        FOR_OWN part += residual(i, SOLVED, slot, 0);
        add_to(&progress[slot * SLOT + SQUARES], sums, part);
        MEET;
        if (left <= 0 || is_done(progress + slot * SLOT, liquid))
            return;
        int last = slot + min(left, restart);
        for (int first = slot; slot < last; ++slot) {
            int *here = progress + slot * SLOT;
            if (is_done(here, liquid))
                continue;
            top = 0.0f;
            FOR_OWN top = fmaxf(top, direct(i, SOLVED, slot, slot == first));
            note_largest(&here[MAX_P], maxima, top);
            MEET;
            top = 0.0f;
            FOR_OWN top = fmaxf(top, push_along(i, SOLVED, slot));
            note_largest(&here[MAX_U], maxima, top);
            MEET;
            part = 0;
            FOR_OWN part += gather(i, SOLVED, slot);
            add_to(&here[PRODUCTS], sums, part);
            MEET;
            float length = length_along(here, liquid);
            part = 0;
            if (length == length) {
                FOR_OWN part += follow(i, SOLVED, length);
                add_to(here + SLOT + SQUARES, sums, part);
            }
            MEET;
        }
    }
}
#endif

/* Record the result of the solve. */
__device__ __forceinline__ void conclude(GLOBAL const int *slot, GLOBAL const Liquid *liquid,
                                         uint4 now, GLOBAL int *statistics)
{
    float squares = total(slot + SQUARES);
    int residual = __float_as_int(sqrtf(squares * liquid->residual_scale));
    unsigned before = (unsigned)statistics[TOTAL];
    unsigned after = before + (unsigned)statistics[NOW];
    statistics[TOTAL] = (int)after;
    statistics[TOTAL_HIGH] += after < before;
    /* The stages aim at half the tolerance. */
    if (!(squares <= 4.0f * liquid->limit)) {
        if (statistics[FAILED] == 0) {
            statistics[FIRST] = (int)now.x;
            statistics[FIRST_HIGH] = (int)now.y;
        }
        statistics[FAILED] += 1;
    }
    statistics[LAST] = residual;
    statistics[LARGEST] = max(statistics[LARGEST], residual);
}

/* Move by the new velocities, which keep the pressures in w. order, since, stale, fault: as in
   dpd.cu. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *__restrict__ after,
                          GLOBAL const float *__restrict__ x, GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Liquid *__restrict__ liquid, Clock clock, int particles,
                          float square_half_skin, GLOBAL const int *__restrict__ progress,
                          GLOBAL int *__restrict__ statistics, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL int *stale, GLOBAL int *fault)
{
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (i == 0) {
        clock[0] = next_step(clock[1]);
        conclude(progress + statistics[EVALUATED] * SLOT, liquid, clock[1], statistics);
    }
    if (i >= particles)
        return;
    uint4 p = places[i];
    float4 v = after[i];
    float h = liquid->time_step;
    float4 turn = moved(box, &p, make_float4(v.x * h, v.y * h, v.z * h, 0.0f), clock[1], fault);
#if SCATTER
    int target = order[i];
#else
    int target = i;
#endif
    new_places[target] = p;
    new_velocities[target] = make_float4(turn.x * v.x, turn.y * v.y, turn.z * v.z, x[i]);
#if KEEP
    if (!(square_length(displacement(box, since[i], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}
