/* Steps of smoothed particle hydrodynamics with rigid bodies (silva2012, sections 3 and 4).

   A particle is a place (x, y, z, id; see common/box.h) and a velocity. Lengths are in kernel
   radii, densities in rest densities, and k of the equation of state is 1. Parts of densities and
   of accelerations are rounded to multiples of a power of two before they are added, so that sums
   depend neither on the order of the neighbours nor on how these are found, and a pair's forces
   are opposite to the bit.

   Kernels that go over particles do so from `first` to `last`, so that a part of them can be
   computed while what the others need is still on its way. One thread a particle; see
   common/candidates.h for the other constants.

   `densities` notes for `forces` which candidates are neighbours: their numbers, or of sorted cells,
   the end of each stretch of 32 candidates and a bit for each. NEAR: room for the notes of a
   particle; where they take more, `forces` searches again. */
#include "common/box.h"

#define MARKED (TRAVERSAL == 0)
#if MARKED
#include "common/coarse.h"
#endif

typedef struct Fluid {
    float weight;
    float floor;
    float pressure;
    float viscosity;
    float gravity[3];
    float time_step;
    float wall_stiffness;
    float wall_damping;
    float wall_distance;
    float wall_epsilon;
    float contact_stiffness;
    float contact_damping;
    float contact_distance;
    float density_rounder;
    float rounder;
    float force_step;
    float inverse_force_step;
} Fluid;

#ifdef __CUDACC__
#ifndef OCC_D
#define OCC_D 1
#endif
#ifndef OCC_F
#define OCC_F 1
#endif
#define OCCUPANCY_D __launch_bounds__(BLOCK, OCC_D)
#define OCCUPANCY_F __launch_bounds__(BLOCK, OCC_F)
#else
#define OCCUPANCY_D
#define OCCUPANCY_F
#endif

/* Where the k-th note of a particle is. */
#if LIST_BY_PARTICLE
#define NOTE(i, k) ((int64)(i)*NEAR + (k))
#else
#define NOTE(i, k) ((int64)(k)*particles + (i))
#endif

#if MARKED
/* The k-th pair of words of a particle, up to PAIRS, and where HELD of them are at hand. */
#define PAIRS (NEAR / 2)
#if LIST_BY_PARTICLE
#define PAIR(i, k) ((GLOBAL int2 *)notes)[(int64)(i)*PAIRS + (k)]
#define PAIR_STEP 1
#define HELD PAIRS
#define HELD_STEP 1
#define HELD_SPACE GLOBAL
#define HELD_SHARED 0
#define HOLD_PAIRS
#define HOLD_OWN_PAIRS GLOBAL int2 *held = &PAIR(i, 0);
#else
#define PAIR(i, k) ((GLOBAL int2 *)notes)[NOTE(i, k)]
#define PAIR_STEP particles
#ifndef HELD
#define HELD 10
#endif
#define HELD_STEP BLOCK
#define HELD_SPACE LOCAL
#define HELD_SHARED 1
#define HOLD_PAIRS __shared__ int2 pairs[HELD * BLOCK];
#define HOLD_OWN_PAIRS LOCAL int2 *held = pairs + threadIdx.x;
#endif

#define STRETCH(begin, end) MARK_STRETCH(begin, end)

/* What the first test of candidates reads. */
__global__ void coarsen(GLOBAL const uint4 *__restrict__ places, GLOBAL const Box *__restrict__ box,
                        int first, int last, GLOBAL unsigned *__restrict__ coarse)
{
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i < last)
        coarse[i] = coarse_of(box, places[i]);
}
#else
#define HOLD_PAIRS
#endif

/* Add the part of a density by a particle (equation 8), 0 if it is out of range; whether it is not.
   law: the weight and the rounder. */
__device__ __forceinline__ int add_density(float *sum, uint4 p, uint4 q, float4 length, float4 law)
{
    float beyond = square_length(displacement_by(length, p, q)) - 1.0f;
    float gap = __saturatef(-beyond);
    *sum += fmaf(gap * gap, gap * law.x, law.y) - law.y;
    return beyond < 0.0f;
}

#define IN_RANGE(j) add_density(&sum, p, places[j], length, law)

#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (near != (int)i && IN_RANGE(near)) {                                                    \
            if (!MARKED && met < NEAR)                                                             \
                notes[NOTE(i, met)] = near;                                                        \
            ++met;                                                                                 \
        }                                                                                          \
    }

/* Density of each particle (equation 4), as what `forces` takes: flow is the velocity and the
   inverse of the density. coarse: see `coarsen`. particles: room in the arrays. Particles that are
   not in the planes of cells from `low` to before `high` are left out. */
__global__ void OCCUPANCY_D densities(GLOBAL const uint4 *__restrict__ places,
                          GLOBAL const unsigned *__restrict__ coarse,
                          GLOBAL const float4 *__restrict__ velocities,
                          GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ items,
                          GLOBAL const Box *__restrict__ box, GLOBAL const Fluid *__restrict__ fluid,
                          Clock clock, int particles, int first, int last, int low, int high,
                          GLOBAL float4 *__restrict__ flow, GLOBAL int *__restrict__ noted,
                          GLOBAL int *__restrict__ notes)
{
    HOLD_PAIRS
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i == first)
        clock[1] = clock[0];
    if (i >= last)
        return;
    uint4 p = places[i];
    int plane = cell_at(box, 2, p.z);
    if (plane < low || plane >= high)
        return;
    float4 length = lengths_of(box);
    float4 law = make_float4(fluid->weight, fluid->density_rounder, 0.0f, 0.0f);
    float sum = fmaf(1.0f, law.x, law.y) - law.y;
    int met = 0;
#if MARKED
    HOLD_OWN_PAIRS
    unsigned own = coarse[i];
    int least = -box->coarse_square;
#endif
#include "common/candidates.h"
#if MARKED
#undef STRETCH
    if (met <= PAIRS) {
#include "common/marked.h"
    } else {
#include "common/candidates.h"
        met = NEAR + 1;
    }
#endif
    float4 v = velocities[i];
    noted[i] = met;
    flow[i] = make_float4(v.x, v.y, v.z, 1.0f / fmaxf(sum, fluid->floor));
}

/* Add the acceleration of a particle (p, u) by a neighbour (q, v): pressure with the slope of the
   spiky kernel, and viscosity with its Laplacian. With s = 1 / rho and k = rho0 = 1, the pressures
   over both densities, (p_i + p_j) / (rho_i rho_j), are s_i + s_j - 2 s_i s_j. law: constants of
   pressure and viscosity, and the rounder. */
__device__ __forceinline__ void add_acceleration(float4 *sum, uint4 p, float4 u, uint4 q, float4 v,
                                                 float4 length, float4 law)
{
    float4 d = displacement_by(length, p, q);
    float square = square_length(d);
    /* Particles in one place have no direction between them, and no pressure on each other. */
    float inverse = rsqrt_of_normal(fmaxf(square, 1e-20f));
    float gap = fmaf(-square, inverse, 1.0f);
    float both = u.w * v.w;
    float push = law.x * fmaf(-2.0f, both, u.w + v.w) * gap * gap * inverse;
    float drag = law.y * both * gap;
    sum->x += fmaf(-push, d.x, fmaf(drag, v.x - u.x, law.z)) - law.z;
    sum->y += fmaf(-push, d.y, fmaf(drag, v.y - u.y, law.z)) - law.z;
    sum->z += fmaf(-push, d.z, fmaf(drag, v.z - u.z, law.z)) - law.z;
}

#define NEIGHBOUR(j) add_acceleration(&sum, p, u, places[j], flow[j], length, law)
#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (near != (int)i &&                                                                      \
            square_length(displacement_by(length, p, places[near])) < square_range)                \
            NEIGHBOUR(near);                                                                       \
    }
#undef IN_RANGE

/* A sum of steps as a whole number of them; what is no number, or too much, as much too much. */
__device__ __forceinline__ int in_steps(float sum, GLOBAL const Fluid *fluid)
{
    return (int)fminf(fmaxf(sum * fluid->inverse_force_step, -2e9f), 2e9f);
}

/* Acceleration away from a wall (equation 13): `inside` is how far the wall's range holds the
   particle, `away` its speed away from the wall. */
__device__ __forceinline__ float repulsion(GLOBAL const Fluid *fluid, float inside, float away)
{
    return inside > fluid->wall_epsilon ? fmaf(fluid->wall_stiffness, inside, -(fluid->wall_damping * away)) : 0.0f;
}

/* Acceleration along an axis by the walls at its ends, if there are any. at: distance from the
   first. */
__device__ __forceinline__ float by_walls(GLOBAL const Box *box, GLOBAL const Fluid *fluid,
                                          int axis, float at, float speed)
{
    int walls = box->walls[axis];
    float edge = 2147483648.0f * box->length[axis], push = 0.0f;
    if (walls & LOW_WALL)
        push = repulsion(fluid, fluid->wall_distance - at, speed);
    if (walls & HIGH_WALL)
        push -= repulsion(fluid, fluid->wall_distance - (edge - at), -speed);
    return push;
}

/* Change of velocity along an axis in a step. */
__device__ __forceinline__ float kick(GLOBAL const Box *box, GLOBAL const Fluid *fluid, int axis,
                                      unsigned place, float speed, int steps)
{
    float at = (float)place * box->length[axis];
    float walls = by_walls(box, fluid, axis, at, speed);
    float acceleration = fmaf((float)steps, fluid->force_step, fluid->gravity[axis] + walls);
    return fluid->time_step * acceleration;
}

/* Move a particle of velocity `v` by a step, and return its new velocity: explicit Euler as in section
   4.3, which moves by the velocity of before, or SYMPLECTIC, which moves by the new one. force: in
   force steps. fault: see `moved`. */
__device__ __forceinline__ float4 carried(GLOBAL const Box *box, GLOBAL const Fluid *fluid, uint4 *p,
                                          float4 v, int4 force, uint4 now, GLOBAL int *fault)
{
    float x = v.x, y = v.y, z = v.z, dt = fluid->time_step;
    v.x += kick(box, fluid, 0, p->x, x, force.x);
    v.y += kick(box, fluid, 1, p->y, y, force.y);
    v.z += kick(box, fluid, 2, p->z, z, force.z);
#if SYMPLECTIC
    x = v.x;
    y = v.y;
    z = v.z;
#endif
    float4 turn = moved(box, p, make_float4(x * dt, y * dt, z * dt, 0.0f), now, fault);
    return make_float4(turn.x * v.x, turn.y * v.y, turn.z * v.z, 0.0f);
}

#if SCATTER
#define TARGET(slot) order[slot]
#else
#define TARGET(slot) ((int)(slot)-shift)
#endif

/* Acceleration of each particle by its neighbours, in force steps. MOVES: and what `integrate` does,
   where the new state has arrays of its own; of sorted cells, those of the new state as well. */
__global__ void OCCUPANCY_F forces(GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ flow, GLOBAL const int *__restrict__ cells,
                       GLOBAL const int *__restrict__ items, GLOBAL const int *__restrict__ noted,
                       GLOBAL const int *__restrict__ notes, GLOBAL const Box *__restrict__ box,
                       GLOBAL const Fluid *__restrict__ fluid, int particles, int first, int last,
#if MOVES
                       GLOBAL const int *__restrict__ order, Clock clock,
                       GLOBAL uint4 *__restrict__ new_places,
                       GLOBAL float4 *__restrict__ new_velocities,
                       GLOBAL int *__restrict__ new_cells, GLOBAL int *fault,
#endif
                       GLOBAL int4 *__restrict__ result)
{
    HOLD_PAIRS
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
#if MOVES
    if (i == first)
        clock[0] = next_step(clock[1]);
#endif
    if (i >= last)
        return;
    uint4 p = places[i];
    float4 u = flow[i], length = lengths_of(box);
    float4 law = make_float4(fluid->pressure, fluid->viscosity, fluid->rounder, 0.0f);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float square_range = 1.0f;
#if MARKED
    HOLD_OWN_PAIRS
#endif
#include "common/noted.h"
    int4 force =
        make_int4(in_steps(sum.x, fluid), in_steps(sum.y, fluid), in_steps(sum.z, fluid), 0);
    result[i] = force;
#if MOVES
    int shift = 0, target = TARGET(i);
    new_velocities[target] = carried(box, fluid, &p, u, force, clock[1], fault);
    new_places[target] = p;
#if MARKED
    new_cells[target] =
        cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), cell_at(box, 2, p.z));
#endif
#endif
}

/* Velocities and places after a step, `shift` rows before what they are of. order, since, stale: as in
   dpd.cu. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *flow,
                          GLOBAL const int4 *__restrict__ force,
                          GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Fluid *__restrict__ fluid, Clock clock, int first, int last,
                          int shift, float square_half_skin, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL int *stale, GLOBAL int *fault)
{
    unsigned slot = first + blockIdx.x * BLOCK + threadIdx.x;
    if (slot == first)
        clock[0] = next_step(clock[1]);
    if (slot >= last)
        return;
    uint4 p = places[slot];
    int target = TARGET(slot);
    new_velocities[target] = carried(box, fluid, &p, flow[slot], force[slot], clock[1], fault);
    new_places[target] = p;
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}

/* A rigid body: what does not change of it. Masses and moments are in masses of a particle of the
   fluid, the axes of the body are its principal ones. share: of its mass, of each of its
   particles `first` to `last`. radius: of the ball about its centre that holds them. */
typedef struct Body {
    float inverse_mass;
    float inverse_inertia[3];
    float share;
    float radius;
    int first;
    int last;
} Body;

__device__ __forceinline__ float4 cross_product(float4 a, float4 b)
{
    return make_float4(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x, 0.0f);
}

/* A vector turned by a unit quaternion (x, y, z, w). */
__device__ __forceinline__ float4 turned(float4 q, float4 v)
{
    float4 t = cross_product(q, v);
    t = cross_product(q, make_float4(fmaf(q.w, v.x, t.x), fmaf(q.w, v.y, t.y),
                                     fmaf(q.w, v.z, t.z), 0.0f));
    return make_float4(fmaf(2.0f, t.x, v.x), fmaf(2.0f, t.y, v.y), fmaf(2.0f, t.z, v.z), 0.0f);
}

/* Angular velocity of a body from its angular momentum. */
__device__ __forceinline__ float4 angular_velocity(GLOBAL const Body *body, float4 turn, float4 spin)
{
    float4 back = make_float4(-turn.x, -turn.y, -turn.z, turn.w);
    float4 own = turned(back, spin);
    own = make_float4(own.x * body->inverse_inertia[0], own.y * body->inverse_inertia[1],
                      own.z * body->inverse_inertia[2], 0.0f);
    return turned(turn, own);
}

/* A place at a distance from another; behind a wall it is at the wall. */
__device__ __forceinline__ unsigned place_at(GLOBAL const Box *box, int axis, unsigned place,
                                             float distance)
{
    int step = (int)rintf(distance * box->units[axis]);
    if (box->periodic[axis])
        return place + (unsigned)step;
    int64 to = (int64)place + step;
    return (unsigned)(to < 0 ? 0 : to > 0x7FFFFFFF ? 0x7FFFFFFF : to);
}

/* Where the particles of bodies are and how fast: places with the number of the body in w,
   velocities, and arms from the body's centre. offsets: in the body's frame, with its number.
   before: a copy of the centres, for `move_bodies`. */
__global__ void place_bodies(GLOBAL const Body *__restrict__ bodies,
                             GLOBAL const uint4 *__restrict__ centres,
                             GLOBAL const float4 *__restrict__ turns,
                             GLOBAL const float4 *__restrict__ body_velocities,
                             GLOBAL const float4 *__restrict__ spins,
                             GLOBAL const float4 *__restrict__ offsets,
                             GLOBAL const Box *__restrict__ box, int count,
                             GLOBAL uint4 *__restrict__ before,
                             GLOBAL uint4 *__restrict__ body_places,
                             GLOBAL float4 *__restrict__ speeds, GLOBAL float4 *__restrict__ arms)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k >= count)
        return;
    float4 offset = offsets[k];
    int number = __float_as_int(offset.w);
    float4 arm = turned(turns[number], offset);
    float4 turning = angular_velocity(&bodies[number], turns[number], spins[number]);
    float4 swing = cross_product(turning, arm), v = body_velocities[number];
    uint4 c = centres[number];
    if (k == bodies[number].first)
        before[number] = c;
    body_places[k] = make_uint4(place_at(box, 0, c.x, arm.x), place_at(box, 1, c.y, arm.y),
                                place_at(box, 2, c.z, arm.z), (unsigned)number);
    speeds[k] = make_float4(v.x + swing.x, v.y + swing.y, v.z + swing.z, 0.0f);
    arms[k] = arm;
}

/* Acceleration of a particle (q, v) of the fluid by one of a body (p, u): spring and damper
   (equations 11 and 12), in whole force steps. */
__device__ __forceinline__ float4 contact(float4 d, float square, float4 u, float4 v,
                                          GLOBAL const Fluid *fluid)
{
    float inverse = rsqrtf(fmaxf(square, 1e-20f));
    float push = fluid->contact_stiffness * fmaf(fluid->contact_distance, inverse, -1.0f);
    float damping = fluid->contact_damping;
    return make_float4(
        fmaf(push, d.x, fmaf(damping, u.x - v.x, fluid->rounder)) - fluid->rounder,
        fmaf(push, d.y, fmaf(damping, u.y - v.y, fluid->rounder)) - fluid->rounder,
        fmaf(push, d.z, fmaf(damping, u.z - v.z, fluid->rounder)) - fluid->rounder, 0.0f);
}

#undef VISIT
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        float4 d = displacement(box, p, places[near]);                                             \
        float square = square_length(d);                                                           \
        if (square < square_range && near >= from && near < to) {                               \
            float4 a = contact(d, square, u, flow[near], fluid);                                   \
            atomicAdd(&force[4 * (int64)near], in_steps(a.x, fluid));                              \
            atomicAdd(&force[4 * (int64)near + 1], in_steps(a.y, fluid));                          \
            atomicAdd(&force[4 * (int64)near + 2], in_steps(a.z, fluid));                          \
            sum.x -= a.x;                                                                          \
            sum.y -= a.y;                                                                          \
            sum.z -= a.z;                                                                          \
        }                                                                                          \
    }

/* Forces between bodies and the fluid between `from` and `to`: on each particle of a body, and
   added to those on the fluid. Whatever has no body near it is not looked at. Cells are the broad
   phase: of what is far from the fluid, they are empty. low, high: between which planes of cells,
   and next to which, there is fluid. One thread a particle of a body. */
__global__ void couple(GLOBAL const uint4 *__restrict__ body_places,
                       GLOBAL const float4 *__restrict__ speeds, int count,
                       GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ flow, GLOBAL const int *__restrict__ cells,
                       GLOBAL const int *__restrict__ items, GLOBAL const Box *__restrict__ box,
                       GLOBAL const Fluid *__restrict__ fluid, int particles, int from, int to,
                       int low, int high, GLOBAL int *force, GLOBAL float4 *__restrict__ pushes)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    uint4 p = body_places[i];
    float4 u = speeds[i];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float square_range = fluid->contact_distance * fluid->contact_distance;
    int plane = cell_at(box, 2, p.z);
    if (plane >= low - 1 && plane <= high) {
#include "common/candidates.h"
    }
    pushes[i] = sum;
}

/* Force on a particle of a body, in masses of a particle of the fluid: by the fluid (push), by
   the walls (equation 13), and by the particles of other bodies. Bodies whose balls are apart are
   not looked at. */
__device__ __forceinline__ float4 force_on(int k, int number, float4 push, int body_count,
                                           GLOBAL const Body *bodies, GLOBAL const uint4 *centres,
                                           GLOBAL const uint4 *body_places,
                                           GLOBAL const float4 *speeds, GLOBAL const float4 *arms,
                                           GLOBAL const Box *box, GLOBAL const Fluid *fluid)
{
    uint4 p = body_places[k], c = centres[number];
    float4 u = speeds[k], arm = arms[k];
    float share = bodies[number].share, range = fluid->contact_distance;
    /* Not from the place, which ends at the wall. */
    push.x += share * by_walls(box, fluid, 0, fmaf((float)c.x, box->length[0], arm.x), u.x);
    push.y += share * by_walls(box, fluid, 1, fmaf((float)c.y, box->length[1], arm.y), u.y);
    push.z += share * by_walls(box, fluid, 2, fmaf((float)c.z, box->length[2], arm.z), u.z);
    for (int other = 0; other < body_count; ++other) {
        float apart = bodies[number].radius + bodies[other].radius + range;
        if (other == number || square_length(displacement(box, c, centres[other])) > apart * apart)
            continue;
        for (int j = bodies[other].first; j < bodies[other].last; ++j) {
            float4 d = displacement(box, body_places[j], p);
            float square = square_length(d);
            if (square < range * range) {
                float4 a = contact(d, square, speeds[j], u, fluid);
                push.x += a.x;
                push.y += a.y;
                push.z += a.z;
            }
        }
    }
    return push;
}

/* Add up forces and torques and move the bodies, symplectically. A body that would move further
   than a cell, or nowhere, stays, and is told as particle `particles` + number. One block a body. */
__global__ void move_bodies(GLOBAL const Body *__restrict__ bodies,
                            GLOBAL const uint4 *__restrict__ before,
                            GLOBAL const uint4 *__restrict__ body_places,
                            GLOBAL const float4 *__restrict__ speeds,
                            GLOBAL const float4 *__restrict__ arms,
                            GLOBAL const float4 *__restrict__ pushes,
                            GLOBAL const Box *__restrict__ box,
                            GLOBAL const Fluid *__restrict__ fluid, Clock clock, int body_count,
                            int particles, GLOBAL uint4 *__restrict__ centres,
                            GLOBAL float4 *__restrict__ turns,
                            GLOBAL float4 *__restrict__ body_velocities,
                            GLOBAL float4 *__restrict__ spins, GLOBAL int *fault)
{
    __shared__ float sums[6][BLOCK];
    int number = (int)blockIdx.x, thread = (int)threadIdx.x;
    GLOBAL const Body *body = &bodies[number];
    float4 force = make_float4(0.0f, 0.0f, 0.0f, 0.0f), torque = force;
    for (int k = body->first + thread; k < body->last; k += BLOCK) {
        float4 f = force_on(k, number, pushes[k], body_count, bodies, before, body_places, speeds,
                            arms, box, fluid);
        float4 t = cross_product(arms[k], f);
        force = make_float4(force.x + f.x, force.y + f.y, force.z + f.z, 0.0f);
        torque = make_float4(torque.x + t.x, torque.y + t.y, torque.z + t.z, 0.0f);
    }
    sums[0][thread] = force.x;
    sums[1][thread] = force.y;
    sums[2][thread] = force.z;
    sums[3][thread] = torque.x;
    sums[4][thread] = torque.y;
    sums[5][thread] = torque.z;
    __syncthreads();
    for (int other = BLOCK / 2; other > 0; other /= 2) {
        if (thread < other)
            for (int part = 0; part < 6; ++part)
                sums[part][thread] += sums[part][thread + other];
        __syncthreads();
    }
    if (thread != 0)
        return;
    float dt = fluid->time_step, kick = dt * body->inverse_mass;
    uint4 c = before[number];
    float4 q = turns[number], v = body_velocities[number], spin = spins[number];
    v.x += fmaf(kick, sums[0][0], dt * fluid->gravity[0]);
    v.y += fmaf(kick, sums[1][0], dt * fluid->gravity[1]);
    v.z += fmaf(kick, sums[2][0], dt * fluid->gravity[2]);
    spin.x += dt * sums[3][0];
    spin.y += dt * sums[4][0];
    spin.z += dt * sums[5][0];
    float4 w = angular_velocity(body, q, spin);
    float fastest = sqrtf(square_length(v)) + sqrtf(square_length(w)) * body->radius;
    if (fastest * dt < box->reach) {
        float turn_x, turn_y, turn_z, share = 0.5f * dt;
        c.x = moved_along(box, 0, c.x, v.x * dt, &turn_x);
        c.y = moved_along(box, 1, c.y, v.y * dt, &turn_y);
        c.z = moved_along(box, 2, c.z, v.z * dt, &turn_z);
        v = make_float4(v.x * turn_x, v.y * turn_y, v.z * turn_z, 0.0f);
        /* q + dt/2 (w, 0) q, made a unit again. */
        float4 wq = cross_product(w, q);
        float4 next = make_float4(fmaf(share, fmaf(w.x, q.w, wq.x), q.x),
                                  fmaf(share, fmaf(w.y, q.w, wq.y), q.y),
                                  fmaf(share, fmaf(w.z, q.w, wq.z), q.z),
                                  fmaf(-share, w.x * q.x + w.y * q.y + w.z * q.z, q.w));
        float norm = rsqrtf(fmaf(next.w, next.w, square_length(next)));
        q = make_float4(next.x * norm, next.y * norm, next.z * norm, next.w * norm);
    } else {
        note_fault(fault, clock[1], particles + number);
    }
    centres[number] = c;
    turns[number] = q;
    body_velocities[number] = v;
    spins[number] = spin;
}
