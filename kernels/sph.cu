/* Steps of smoothed particle hydrodynamics with rigid bodies (silva2012, sections 3 and 4).

   A particle is a position (x, y, z, id; see common/box.h) and a velocity. Lengths are in kernel
   radii, densities in rest densities, and k of the equation of state is 1. Terms of densities and
   of accelerations are rounded to multiples of a power of two before they are added, so that sums
   depend neither on the order of the neighbours nor on how these are found, and a pair's forces are
   opposite to the bit.

   Kernels over particles process those from `first` to `last`, so that some can be computed while
   the input of others is still in transfer. One thread per particle; see common/candidates.h for
   the other constants.

   `densities` records the neighbours for `forces`: their indices, or for sorted cells, the end of
   each range of 32 candidates and a bit for each. NEAR: capacity of a particle's notes; if they
   overflow, `forces` searches again. */
#include "common/box.h"
#include "common/sph.h"

#define MARKED (TRAVERSAL == 0)

/* The index of the k-th note of a particle. */
#if LIST_BY_PARTICLE
#define NOTE(i, k) ((int64)(i)*NEAR + (k))
#else
#define NOTE(i, k) ((int64)(k)*particles + (i))
#endif

/* Blocks per multiprocessor, by registers, if pairs are held in shared memory. Densities: twelve,
   with 40 registers; unbounded they take 41, for ten blocks; sixteen spill. Forces: eight, with up
   to 64; twelve spill, and their shared memory leaves less cache for neighbours. Measured:
   docs/decisions/deferred-forces.md. */
#define DENSITY_BLOCKS 12
#define FORCE_BLOCKS 8
#if MARKED && defined(__CUDACC__)
#define OCCUPANCY(blocks) __launch_bounds__(BLOCK, blocks)
#else
#define OCCUPANCY(blocks)
#endif

#if MARKED
#include "common/held.h"
#define STRETCH(begin, end) MARK_STRETCH(begin, end)

/* The input of the first test of candidates. */
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

/* Add a particle's contribution to a density (equation 8), 0 if out of range; return whether it is
   in range. law: the weight and the rounder. */
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

/* Density of each particle (equation 4), in the form `forces` reads: flow is the velocity and the
   inverse of the density. coarse: see `coarsen`. particles: capacity of the arrays. Particles
   outside the planes of cells from `low` to before `high` are skipped. */
__global__ void OCCUPANCY(DENSITY_BLOCKS)
    densities(GLOBAL const uint4 *__restrict__ places,
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
    /* Coincident particles have no direction between them, and exert no pressure on each other. */
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

/* Change of velocity along an axis in one step. */
__device__ __forceinline__ float kick(GLOBAL const Box *box, GLOBAL const Fluid *fluid, int axis,
                                      unsigned place, float speed, int steps)
{
    float at = (float)place * box->length[axis];
    float walls = by_walls(box, fluid, axis, at, speed);
    float acceleration = fmaf((float)steps, fluid->force_step, fluid->gravity[axis] + walls);
    return fluid->time_step * acceleration;
}

/* Move a particle of velocity `v` by a step, and return its new velocity: explicit Euler as in
   section 4.3, which moves by the old velocity, or SYMPLECTIC, which moves by the new one. force:
   in force steps. fault: see `moved`. */
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
#define TARGET(slot, shift) order[slot]
#else
#define TARGET(slot, shift) ((int)(slot) - (shift))
#endif

/* Acceleration of each particle by its neighbours, in force steps. MOVES: also integrates, if the
   new state has its own arrays; for sorted cells, also computes the cells of the new state. */
__global__ void OCCUPANCY(FORCE_BLOCKS)
    forces(GLOBAL const uint4 *__restrict__ places,
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
    int target = TARGET(i, 0);
    new_velocities[target] = carried(box, fluid, &p, u, force, clock[1], fault);
    new_places[target] = p;
#if MARKED
    new_cells[target] =
        cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), cell_at(box, 2, p.z));
#endif
#endif
}

/* Velocities and positions after a step, written `shift` rows before their input. order, since,
   stale: as in dpd.cu. */
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
    int target = TARGET(slot, shift);
    new_velocities[target] = carried(box, fluid, &p, flow[slot], force[slot], clock[1], fault);
    new_places[target] = p;
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}

