/* Rigid bodies in the fluid of sph.cu (silva2012, sections 3.3 and 4): sets of particles pushed by
   fluid, walls and other bodies. Terms of accelerations are rounded as those of the fluid. See
   common/candidates.h for the constants. */
#include "common/box.h"
#include "common/sph.h"

/* The constants of a rigid body. Masses and moments are in masses of a fluid particle, in the
   body's principal axes. share: the mass fraction of each of its particles `first` to `last`.
   radius: of the ball around its centre that contains them. */
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

/* A vector rotated by a unit quaternion (x, y, z, w). */
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

/* A position displaced by a vector, clamped to the walls. */
__device__ __forceinline__ unsigned place_at(GLOBAL const Box *box, int axis, unsigned place,
                                             float distance)
{
    int step = (int)rintf(distance * box->units[axis]);
    if (box->periodic[axis])
        return place + (unsigned)step;
    int64 to = (int64)place + step;
    return (unsigned)(to < 0 ? 0 : to > 0x7FFFFFFF ? 0x7FFFFFFF : to);
}

/* Positions of the particles of bodies, with the index of the body in w, their velocities, and arms
   from the body's centre. offsets: in the body's frame, with its index. before: a copy of the
   centres, for `move_bodies`. */
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
   added to those on the fluid. Fluid far from all bodies is never visited. Cells are the broad
   phase: far from the fluid, they are empty. low, high: the planes of cells between and next to
   which there is fluid. One thread per particle of a body. */
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
   the walls (equation 13), and by the particles of other bodies. Bodies with disjoint balls are
   skipped. */
__device__ __forceinline__ float4 force_on(int k, int number, float4 push, int body_count,
                                           GLOBAL const Body *bodies, GLOBAL const uint4 *centres,
                                           GLOBAL const uint4 *body_places,
                                           GLOBAL const float4 *speeds, GLOBAL const float4 *arms,
                                           GLOBAL const Box *box, GLOBAL const Fluid *fluid)
{
    uint4 p = body_places[k], c = centres[number];
    float4 u = speeds[k], arm = arms[k];
    float share = bodies[number].share, range = fluid->contact_distance;
    /* Not from the position, which is clamped to the wall. */
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

/* Add up forces and torques and move the bodies, symplectically. One that would move further than a
   cell, or to NaN, stays, and is reported as particle `particles` + index. One block per body. */
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
        /* q + dt/2 (w, 0) q, normalised. */
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
