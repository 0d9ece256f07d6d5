/* Stages of the solve of constraint_fluid.cu, one particle at a time. */
#ifndef GPUBENCH_COMMON_CONSTRAINT_STAGES_H
#define GPUBENCH_COMMON_CONSTRAINT_STAGES_H

/* The arguments of all stages of a solve. */
#define SOLVE                                                                                      \
    GLOBAL uint4 *points, GLOBAL const int *cells, GLOBAL const int *items,                        \
        GLOBAL const int *noted, GLOBAL const int *notes, GLOBAL const Box *box,                   \
        GLOBAL const Liquid *liquid, GLOBAL const float4 *velocities, GLOBAL const float4 *start,  \
        GLOBAL const float *diagonal, GLOBAL const float *matrix, GLOBAL float *x,                 \
        GLOBAL float *r, GLOBAL float *image,                                                      \
        GLOBAL float4 *after, GLOBAL float4 *sway, GLOBAL int *held, GLOBAL int *progress,         \
        GLOBAL int *statistics, int particles
#define SOLVED                                                                                     \
    points, cells, items, noted, notes, box, liquid, velocities, start, diagonal, matrix, x, r,    \
        image, after, sway, held, progress, statistics, particles
#undef PLACES
#define PLACES points
#define OWN (int)(blockIdx.x * BLOCK + threadIdx.x)

/* Clip a pressure at 0, after a step of Jacobi's method if `relaxes` and the previous stage had not
   converged. Return it. */
__device__ __forceinline__ float cut(int i, SOLVE, int slot, int relaxes)
{
    float value = x[i];
    if (relaxes && !is_done(progress + (slot - 1) * SLOT, liquid) && diagonal[i] > 0.0f)
        value = fmaf(liquid->relaxation, r[i] / diagonal[i], value);
    value = fmaxf(value, 0.0f);
    x[i] = value;
    points[i].w = (unsigned)__float_as_int(value);
    return value;
}

/* Sum the effect of pressures, or of other factors, on a velocity. */
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
#if MATRIX /* the same with the stored block of a recorded neighbour, to the bit */
#undef VISIT
#undef NEIGHBOUR
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 b = block_of(displacement(box, p, points[near]), liquid);                           \
        ADD_BLOCK                                                                                  \
    }
#define NEIGHBOUR(j)                                                                               \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 b = block_at(matrix, NOTE(i, k), particles);                                        \
        ADD_BLOCK                                                                                  \
    }
#define ADD_BLOCK                                                                                  \
    float s = own + __int_as_float((int)points[near].w);                                           \
    sum.x += rounded(__fmul_rn(s, b.x), rounder);                                                  \
    sum.y += rounded(__fmul_rn(s, b.y), rounder);                                                  \
    sum.z += rounded(__fmul_rn(s, b.z), rounder);
#endif

/* Clip a velocity along an axis at walls; penetration is corrected like a density, over some steps.
   bit: set in `held` if a wall holds the particle. */
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

/* The velocity after a step with the current pressures, and `sway`, which `residual` multiplies: v'
   - Y v. Return its squared length. */
__device__ __forceinline__ float push(int i, SOLVE, int slot)
{
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
    v = make_float4(fmaf(kept, begin.x, v.x), fmaf(kept, begin.y, v.y), fmaf(kept, begin.z, v.z),
                    0.0f);
    sway[i] = v;
    held[i] = walls;
    return square_length(v);
}

/* The same product for factors p instead of pressures, without wall terms. */
__device__ __forceinline__ float push_along(int i, SOLVE, int slot)
{
    uint4 p = points[i];
    float own = __int_as_float((int)p.w);
    float maximum = largest(&progress[slot * SLOT + MAX_P]);
    float rounder = rounder_for(2.0f * maximum * liquid->steepest);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#include "common/noted.h"
    int walls = held[i];
    sum = make_float4(walls & 1 ? 0.0f : sum.x, walls & 2 ? 0.0f : sum.y, walls & 4 ? 0.0f : sum.z,
                      0.0f);
    sway[i] = sum;
    return square_length(sum);
}

/* Sum the increase of a density by velocities. */
#if MATRIX
#undef ADD_BLOCK
#define ADD_BLOCK                                                                                  \
    float4 u = sway[near];                                                                         \
    float along = fmaf(b.z, w.z - u.z, fmaf(b.y, w.y - u.y, __fmul_rn(b.x, w.x - u.x)));           \
    sum += rounded(along, rounder);
#else
#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 d = displacement(box, p, points[near]), u = sway[near];                             \
        float along = fmaf(d.z, w.z - u.z, fmaf(d.y, w.y - u.y, __fmul_rn(d.x, w.x - u.x)));       \
        sum += rounded(__fmul_rn(pull(d, liquid), along), rounder);                                \
    }
#endif

/* The residual of a particle, 0 if its pressure is 0 and would become negative; and whether its
   pressure is FREE to change. Return the square for the dot product. */
__device__ __forceinline__ int64 residual(int i, SOLVE, int slot, int counts)
{
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
    if (i == 0) {
        statistics[EVALUATED] = slot;
        statistics[NOW] += counts;
    }
    float error = found * liquid->time_step;
    return whole(error * error, liquid);
}

/* The product A p. Return its term in the dot product with p. */
__device__ __forceinline__ int64 gather(int i, SOLVE, int slot)
{
    uint4 p = points[i];
    float4 w = sway[i];
    float speed = sqrtf(largest(&progress[slot * SLOT + MAX_U]));
    float rounder = rounder_for(2.0f * speed * liquid->steepest);
    float sum = 0.0f, own = __int_as_float((int)p.w), h = liquid->time_step;
#include "common/noted.h"
    sum = fmaf(liquid->softness, own, sum);
    image[i] = sum;
    if (i == 0)
        statistics[NOW] += 1;
    return whole((own * h) * (sum * h) * liquid->product_scale, liquid);
}

/* A step along p by a length. Return the square of the residual after it. */
__device__ __forceinline__ int64 follow(int i, SOLVE, float length)
{
    if (!(held[i] & FREE))
        return 0;
    x[i] = fmaf(length, __int_as_float((int)points[i].w), x[i]);
    float left = fmaf(-length, image[i], r[i]);
    r[i] = left;
    float error = left * liquid->time_step;
    return whole(error * error, liquid);
}

/* The step length along p; NaN if p is 0. */
__device__ __forceinline__ float length_along(GLOBAL const int *slot, GLOBAL const Liquid *liquid)
{
    float product = total(slot + PRODUCTS);
    return product > 0.0f ? total(slot + SQUARES) / product * liquid->product_scale : NAN;
}

/* The next direction p, which is the residual itself in the first stage. Return its size. */
__device__ __forceinline__ float direct(int i, SOLVE, int slot, int is_first)
{
    GLOBAL const int *here = progress + slot * SLOT;
    float value = r[i];
    if (!is_first) {
        float share = total(here + SQUARES) / total(here - SLOT + SQUARES);
        value = fmaf(share, __int_as_float((int)points[i].w), value);
    }
    points[i].w = (unsigned)__float_as_int(value);
    return fabsf(value);
}

#endif
