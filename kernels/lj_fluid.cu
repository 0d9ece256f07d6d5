/* Steps of a Lennard-Jones fluid (Allen and Tildesley 2017, sections 1.3, 3.2 and 5.3; bench/in.lj of LAMMPS), cut off
   and not shifted, masses 1. The plain version:

       for each particle i: force = sum over j nearer than the cutoff of f(x[j] - x[i])
                            v[i] += dt * force;  x[i] += dt * v[i]

   Particles and exact sums of forces are as in dpd.cu. With a skin (KEEP), lists hold the neighbours within cutoff plus
   skin, GROUP at a time, so that a thread reads four with one load, and threads of a warp read adjacent loads; particles
   lie in the order of their cells. A row is filled up with the particle itself, which feels no force of itself.

   KEEP: once a particle has moved half the skin, `stale` is set, and steps do nothing but count themselves as missed
   until lists are made anew, so steps may be queued without a look at `stale`. Words of the clock: step (low, high),
   whether this step is missed, missed steps. LANES: threads per particle in `forces`, 1 without warps or lists. */
#include "common/box.h"
#include "common/lennard_jones.h"

#define GROUP 4
#define LEAST2 0.25f /* distances count as at least half of sigma */

/* Where a row has its k-th group: on a GPU, neighbouring threads should read neighbouring groups. */
#if LIST_BY_PARTICLE
#define ROW_ITEM(i, k) ((size_t)(i) * (ROOM / GROUP) + (k))
#else
#define ROW_ITEM(i, k) ((size_t)(k) * particles + (i))
#endif

/* A load of what no other thread reads, which should leave the cache to positions. */
#ifdef __CUDACC__
#define LOAD_ONCE(address) __ldcs(address)
#else
#define LOAD_ONCE(address) (*(address))
#endif

/* Add the force of the particle at q to the sum, a whole number of force steps. */
#define ADD_FORCE(q)                                                                                                   \
    {                                                                                                                  \
        float4 apart = displacement_by(length, p, (q));                                                                \
        float square = square_length(apart);                                                                           \
        float force = square < square_range ? 24.0f * pair_factor(square, 1.0f, LEAST2) : 0.0f;                        \
        sum.x += fmaf(-force, apart.x, rounder) - rounder;                                                             \
        sum.y += fmaf(-force, apart.y, rounder) - rounder;                                                             \
        sum.z += fmaf(-force, apart.z, rounder) - rounder;                                                             \
    }
#define VISIT(j) ADD_FORCE(places[j])
#define IN_BALL

/* Forces on all particles. rounder: 1.5 * 2^23 force steps. */
__global__ void forces(GLOBAL const uint4 *__restrict__ places, GLOBAL const int *__restrict__ cells,
                       GLOBAL const int *__restrict__ items, GLOBAL const Box *__restrict__ box, Clock clock,
                       float range, float rounder, int particles, GLOBAL const int *__restrict__ stale,
                       GLOBAL float4 *__restrict__ result)
{
    unsigned thread = blockIdx.x * BLOCK + threadIdx.x, i = thread / LANES;
    if (thread == 0) {
        uint4 now = clock[0];
#if KEEP
        now.z = (unsigned)*stale;
#endif
        clock[1] = now;
    }
#if KEEP
    if (*stale)
        return;
#endif
    float square_range = range * range;
    float4 length = lengths_of(box), sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i < particles) {
        uint4 p = places[i];
#if KEEP
        GLOBAL const int4 *rows = (GLOBAL const int4 *)items;
        int end = (min(cells[i], ROOM) + GROUP - 1) / GROUP;
        int k = (int)(thread % LANES);
        int4 next = make_int4(0, 0, 0, 0);
        if (k < end)
            next = LOAD_ONCE(&rows[ROW_ITEM(i, k)]);
        while (k < end) {
            int4 near = next;
            k += LANES;
            if (k < end) /* early, so that its load overlaps this group's work */
                next = LOAD_ONCE(&rows[ROW_ITEM(i, k)]);
            uint4 first = places[near.x], second = places[near.y], third = places[near.z], fourth = places[near.w];
            ADD_FORCE(first);
            ADD_FORCE(second);
            ADD_FORCE(third);
            ADD_FORCE(fourth);
        }
#else
#include "common/candidates.h"
#endif
    }
#if LANES > 1
    for (int reach = LANES / 2; reach > 0; reach /= 2) {
        sum.x += __shfl_xor_sync(0xffffffffu, sum.x, reach);
        sum.y += __shfl_xor_sync(0xffffffffu, sum.y, reach);
        sum.z += __shfl_xor_sync(0xffffffffu, sum.z, reach);
    }
#endif
    if (i < particles && thread % LANES == 0)
        result[i] = sum;
}

/* Leap-frog: velocity from the previous half step to the next, then the position. For order, since and fault, see
   `integrate` in dpd.cu. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *velocities,
                          GLOBAL const float4 *__restrict__ force, GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box, float time_step,
                          Clock clock, int particles, float square_half_skin, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL int *stale, GLOBAL int *fault)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    uint4 now = clock[1];
    unsigned is_missed = KEEP ? now.z : 0u;
    if (slot == 0) {
        uint4 then = next_step(now);
        if (is_missed) {
            then = now;
            then.w += 1;
        }
        clock[0] = then;
    }
    if (slot >= particles || is_missed)
        return;
    uint4 p = places[slot];
    float4 v = velocities[slot], f = force[slot];
    v.x = fmaf(time_step, f.x, v.x);
    v.y = fmaf(time_step, f.y, v.y);
    v.z = fmaf(time_step, f.z, v.z);
    moved(box, &p, make_float4(v.x * time_step, v.y * time_step, v.z * time_step, 0.0f), now, fault);
#if SCATTER
    int target = order[slot];
#else
    int target = (int)slot;
#endif
    new_places[target] = p;
    new_velocities[target] = v;
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}

/* List the particles within `range` of each, up to ROOM; counts are the full numbers. */
#undef VISIT
#define VISIT(j)                                                                                                       \
    {                                                                                                                  \
        int near = (j);                                                                                                \
        if (square_length(displacement_by(length, p, places[near])) < square_range && near != (int)i) {                \
            ADD_TO_ROW(near)                                                                                           \
            ++met;                                                                                                     \
        }                                                                                                              \
    }
/* Shift the group along, and write it when it is full. */
#define ADD_TO_ROW(j)                                                                                                  \
    group = make_int4(group.y, group.z, group.w, j);                                                                   \
    if (met % GROUP == GROUP - 1 && met < ROOM)                                                                        \
        rows[ROW_ITEM(i, met / GROUP)] = group;

__global__ void list_rows(GLOBAL const uint4 *__restrict__ places, GLOBAL const int *__restrict__ cells,
                          GLOBAL const int *__restrict__ items, GLOBAL const Box *__restrict__ box, float range,
                          int particles, GLOBAL int *__restrict__ counts, GLOBAL int4 *__restrict__ rows)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float square_range = range * range;
    float4 length = lengths_of(box);
    uint4 p = places[i];
    int4 group = make_int4(0, 0, 0, 0);
    int met = 0;
#include "common/candidates.h"
    counts[i] = met;
    for (; met % GROUP; ++met) {
        ADD_TO_ROW((int)i)
    }
}
