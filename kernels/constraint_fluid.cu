/* A fluid whose density is held by constraints (Bodin, Lacoursiere and Servin 2012), matrix-free.

   In the plain version a step is, with s_ij = m dW/dr / r < 0 and d_ij = x_i - x_j:

     g_i = rho_i - 1
     solve   r = (4 Y / h) g - Y G v + G v' - S x <= 0, x >= 0, r x = 0   for x = -lambda / m
     v'_i = walls(v_i + h a_i - sum_j (x_i + x_j) s_ij d_ij),  (G w)_i = sum_j s_ij d_ij . (w_i - w_j)
     x_i += h v'_i

   where x is the pressure times h, and `walls` cuts velocities that lead through a wall. See
   gpubench/physics/constraint.py. Nothing of G is stored: both products go through the neighbours
   that `list` notes. A point is a place and, in w, the number that a product takes.

   No sum depends on the order of the particles, see common/exact_sums.h. A stage of a solve has a
   slot of numbers in `progress` (SLOT ints): maxima, and two dot products. A stage that finds its
   residual below the limit does nothing, which leaves the next slot 0, so that all later ones do
   nothing either. */
#include "common/box.h"
#include "common/exact_sums.h"

#define SLOT 16
enum { MAX_X, MAX_W, MAX_P, MAX_U, SQUARES, PRODUCTS = SQUARES + LIMBS };
/* What `statistics` hold: iterations of this step, and the slot of the last residuals; and over all
   steps since the last restore, iterations (two words), steps that did not converge, the first of
   them (two words), bits of the last and of the largest residual. */
enum { NOW, EVALUATED, TOTAL, TOTAL_HIGH, FAILED, FIRST, FIRST_HIGH, LAST, LARGEST };
#define FREE 8 /* of `held`, whose bits 1, 2 and 4 say at which walls a particle is held */

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

/* A part of a dot product as a whole number; sums of all particles fit into 64 bits. */
__device__ __forceinline__ int64 whole(float part, GLOBAL const Liquid *liquid)
{
    return (int64)rintf(fminf(fmaxf(part, -4.0f), 4.0f) * liquid->sum_scale);
}

/* Whether the residual of a stage is small, or no number. */
__device__ __forceinline__ int is_done(GLOBAL const int *slot, GLOBAL const Liquid *liquid)
{
    return !(total(slot + SQUARES) > liquid->limit);
}

/* Part of a density by a particle at a distance, and s_ij of a pair times -1: the cubic spline
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

/* Note the neighbours of each particle. */
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (square_length(displacement(box, p, places[near])) < 1.0f && near != (int)i) {          \
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
#include "common/candidates.h"
    noted[i] = met;
}

/* What a step begins with: start is the velocity after viscosity and gravity, with g in w; diagonal
   that of the matrix; x the pressures of the last step, which velocities have in w. */
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
                       GLOBAL float *__restrict__ x)
{
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (i >= particles)
        return;
    uint4 p = places[i];
    float4 old = velocities[i];
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f), own = v;
    float density = part_of_density(0.0f, liquid);
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

/* Cut pressures below 0; before that, a step of Jacobi's method if `relaxes` and the stage before
   was not done. */
__global__ void project(GLOBAL const float *__restrict__ r, GLOBAL const float *__restrict__ diagonal,
                        GLOBAL const Liquid *__restrict__ liquid, int particles, int slot,
                        int relaxes, GLOBAL uint4 *__restrict__ points,
                        GLOBAL float *__restrict__ x, GLOBAL int *__restrict__ progress)
{
    __shared__ float shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    float value = 0.0f;
    if (i < particles) {
        value = x[i];
        if (relaxes && !is_done(progress + (slot - 1) * SLOT, liquid) && diagonal[i] > 0.0f)
            value = fmaf(liquid->relaxation, r[i] / diagonal[i], value);
        value = fmaxf(value, 0.0f);
        x[i] = value;
        points[i].w = (unsigned)__float_as_int(value);
    }
    note_largest(&progress[slot * SLOT + MAX_X], shared, value);
}

/* Add up what pressures, or the numbers in their place, do to a velocity. */
#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        uint4 q = points[j];                                                                       \
        float4 d = displacement(box, p, q);                                                        \
        float s = pull(d, liquid) * (own + __int_as_float((int)q.w));                              \
        sum.x += rounded(__fmul_rn(s, d.x), rounder);                                              \
        sum.y += rounded(__fmul_rn(s, d.y), rounder);                                              \
        sum.z += rounded(__fmul_rn(s, d.z), rounder);                                              \
    }

/* A velocity along an axis that leads through no wall; what penetrates one is put right as a
   density is, over some steps. bit: set in `held` where a wall holds the particle. */
__device__ __forceinline__ float within(GLOBAL const Box *box, GLOBAL const Liquid *liquid, int axis,
                                        unsigned place, float speed, int *held)
{
    if (box->periodic[axis])
        return speed;
    float at = __fmul_rn((float)place, box->length[axis]);
    float edge = 2147483648.0f * box->length[axis], h = liquid->time_step;
    float low = (liquid->wall_distance - at) / h;
    float high = ((edge - at) - liquid->wall_distance) / h;
    float ease = liquid->correction * h;
    low = low > 0.0f ? low * ease : low;
    high = high < 0.0f ? high * ease : high;
    if (speed < low || speed > high)
        *held |= 1 << axis;
    return speed < low ? low : speed > high ? high : speed;
}

/* Velocities after a step under the present pressures, and `sway`, of which `residuals` takes the
   product: v' - Y v. Nothing where the stage `before` is done; -1 for always. */
__global__ void velocities_after(
    GLOBAL const uint4 *__restrict__ points, GLOBAL const int *__restrict__ cells,
    GLOBAL const int *__restrict__ items, GLOBAL const int *__restrict__ noted,
    GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
    GLOBAL const Liquid *__restrict__ liquid, GLOBAL const float4 *__restrict__ velocities,
    GLOBAL const float4 *__restrict__ start, int particles, int slot, int before,
    GLOBAL float4 *__restrict__ after, GLOBAL float4 *__restrict__ sway,
    GLOBAL int *__restrict__ held, GLOBAL int *__restrict__ progress)
{
    __shared__ float shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (before >= 0 && is_done(progress + before * SLOT, liquid))
        return;
    float square = 0.0f;
    if (i < particles) {
        uint4 p = points[i];
        float own = __int_as_float((int)p.w);
        float maximum = largest(&progress[slot * SLOT + MAX_X]);
        float rounder = rounder_for(2.0f * maximum * liquid->steepest);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f), v = start[i];
#include "common/noted.h"
        int walls = 0;
        v.x = within(box, liquid, 0, p.x, v.x - sum.x, &walls);
        v.y = within(box, liquid, 1, p.y, v.y - sum.y, &walls);
        v.z = within(box, liquid, 2, p.z, v.z - sum.z, &walls);
        float4 begin = velocities[i];
        float kept = -liquid->kept;
        after[i] = v;
        v = make_float4(fmaf(kept, begin.x, v.x), fmaf(kept, begin.y, v.y),
                        fmaf(kept, begin.z, v.z), 0.0f);
        sway[i] = v;
        held[i] = walls;
        square = square_length(v);
    }
    note_largest(&progress[slot * SLOT + MAX_W], shared, square);
}

/* The same product of numbers p in the place of pressures, without what walls hold. */
__global__ void spread(GLOBAL const uint4 *__restrict__ points, GLOBAL const int *__restrict__ cells,
                       GLOBAL const int *__restrict__ items, GLOBAL const int *__restrict__ noted,
                       GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
                       GLOBAL const Liquid *__restrict__ liquid, GLOBAL const int *__restrict__ held,
                       int particles, int slot, GLOBAL float4 *__restrict__ sway,
                       GLOBAL int *__restrict__ progress)
{
    __shared__ float shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (is_done(progress + slot * SLOT, liquid))
        return;
    float square = 0.0f;
    if (i < particles) {
        uint4 p = points[i];
        float own = __int_as_float((int)p.w);
        float maximum = largest(&progress[slot * SLOT + MAX_P]);
        float rounder = rounder_for(2.0f * maximum * liquid->steepest);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#include "common/noted.h"
        int walls = held[i];
        sum = make_float4(walls & 1 ? 0.0f : sum.x, walls & 2 ? 0.0f : sum.y,
                          walls & 4 ? 0.0f : sum.z, 0.0f);
        sway[i] = sum;
        square = square_length(sum);
    }
    note_largest(&progress[slot * SLOT + MAX_U], shared, square);
}

/* Add up by how much velocities raise a density. */
#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 d = displacement(box, p, points[near]), u = sway[near];                             \
        float along = fmaf(d.z, w.z - u.z, fmaf(d.y, w.y - u.y, __fmul_rn(d.x, w.x - u.x)));       \
        sum += rounded(__fmul_rn(pull(d, liquid), along), rounder);                                \
    }

/* Residuals of the stage, 0 where pressure is 0 and would have to be below; which particles are
   FREE to have another pressure; and the sum of the squares. */
__global__ void residuals(GLOBAL const uint4 *__restrict__ points, GLOBAL const int *__restrict__ cells,
                          GLOBAL const int *__restrict__ items, GLOBAL const int *__restrict__ noted,
                          GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Liquid *__restrict__ liquid,
                          GLOBAL const float4 *__restrict__ start,
                          GLOBAL const float4 *__restrict__ sway, GLOBAL const float *__restrict__ x,
                          int particles, int slot, int before, int counts,
                          GLOBAL float *__restrict__ r, GLOBAL int *__restrict__ held,
                          GLOBAL int *__restrict__ progress, GLOBAL int *__restrict__ statistics)
{
    __shared__ int64 shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (before >= 0 && is_done(progress + before * SLOT, liquid))
        return;
    int64 part = 0;
    if (i < particles) {
        uint4 p = points[i];
        float4 w = sway[i];
        float speed = sqrtf(largest(&progress[slot * SLOT + MAX_W]));
        float rounder = rounder_for(2.0f * speed * liquid->steepest);
        float sum = 0.0f;
#include "common/noted.h"
        float found = fmaf(-liquid->softness, x[i], fmaf(liquid->correction, start[i].w, sum));
        int is_free = x[i] > 0.0f || found > 0.0f;
        found = is_free ? found : 0.0f;
        r[i] = found;
        if (is_free)
            held[i] |= FREE;
        float error = found * liquid->time_step;
        part = whole(error * error, liquid);
        if (i == 0) {
            statistics[EVALUATED] = slot;
            statistics[NOW] += counts;
        }
    }
    add_to(&progress[slot * SLOT + SQUARES], shared, part);
}

/* q = A p, and the product of both. */
__global__ void gathered(GLOBAL const uint4 *__restrict__ points, GLOBAL const int *__restrict__ cells,
                         GLOBAL const int *__restrict__ items, GLOBAL const int *__restrict__ noted,
                         GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
                         GLOBAL const Liquid *__restrict__ liquid,
                         GLOBAL const float4 *__restrict__ sway, int particles, int slot,
                         GLOBAL float *__restrict__ q, GLOBAL int *__restrict__ progress,
                         GLOBAL int *__restrict__ statistics)
{
    __shared__ int64 shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (is_done(progress + slot * SLOT, liquid))
        return;
    int64 part = 0;
    if (i < particles) {
        uint4 p = points[i];
        float4 w = sway[i];
        float speed = sqrtf(largest(&progress[slot * SLOT + MAX_U]));
        float rounder = rounder_for(2.0f * speed * liquid->steepest);
        float sum = 0.0f, own = __int_as_float((int)p.w), h = liquid->time_step;
#include "common/noted.h"
        sum = fmaf(liquid->softness, own, sum);
        q[i] = sum;
        part = whole((own * h) * (sum * h) * liquid->product_scale, liquid);
        if (i == 0)
            statistics[NOW] += 1;
    }
    add_to(&progress[slot * SLOT + PRODUCTS], shared, part);
}

/* A step along p; the next slot gets the squares of the residuals after it. */
__global__ void step_along(GLOBAL const uint4 *__restrict__ points,
                           GLOBAL const float *__restrict__ q, GLOBAL const int *__restrict__ held,
                           GLOBAL const Liquid *__restrict__ liquid, int particles, int slot,
                           GLOBAL float *__restrict__ x, GLOBAL float *__restrict__ r,
                           GLOBAL int *__restrict__ progress)
{
    __shared__ int64 shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    int64 part = 0;
    GLOBAL int *here = progress + slot * SLOT;
    float product = total(here + PRODUCTS);
    if (is_done(here, liquid) || !(product > 0.0f))
        return;
    if (i < particles && (held[i] & FREE)) {
        float length = total(here + SQUARES) / product * liquid->product_scale;
        x[i] = fmaf(length, __int_as_float((int)points[i].w), x[i]);
        float left = fmaf(-length, q[i], r[i]);
        r[i] = left;
        float error = left * liquid->time_step;
        part = whole(error * error, liquid);
    }
    add_to(here + SLOT + SQUARES, shared, part);
}

/* The next direction p, which is the residual itself in the first stage. */
__global__ void direct(GLOBAL const float *__restrict__ r, GLOBAL const Liquid *__restrict__ liquid,
                       int particles, int slot, int is_first, GLOBAL uint4 *__restrict__ points,
                       GLOBAL int *__restrict__ progress)
{
    __shared__ float shared[BLOCK];
    int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    float value = 0.0f;
    GLOBAL int *here = progress + slot * SLOT;
    if (is_done(here, liquid))
        return;
    if (i < particles) {
        value = r[i];
        if (!is_first) {
            float share = total(here + SQUARES) / total(here - SLOT + SQUARES);
            value = fmaf(share, __int_as_float((int)points[i].w), value);
        }
        points[i].w = (unsigned)__float_as_int(value);
    }
    note_largest(&here[MAX_P], shared, fabsf(value));
}

/* Note what the solve came to. */
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
