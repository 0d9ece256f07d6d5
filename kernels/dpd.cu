/* Steps of dissipative particle dynamics (Rozen et al. 2008, section 4.1; Groot and Warren 1997).

   A particle is a position (x, y, z, id; see common/box.h), stored bit for bit as a float4, and a
   velocity (x, y, z, species). Both sides of a pair compute its force, from the same bits and
   with the same roundings, and round it to multiples of one power of two: such sums are exact,
   so they depend neither on the order of the neighbours nor on how these are found, and forces
   conserve momentum to the bit. There is no operation that a compiler could contract.

   ONCE: the first of a pair in the order of SortedCells computes the force, and subtracts it from
   that of the other: its negative to the bit, up to eight times the strongest force expected, as
   the rounder is an even number of steps in the middle of a binade. `result` must be 0 initially.

   DEFER > 0: collect that many neighbours per thread before computing their forces, so that all
   lanes of a warp compute forces together. AHEAD: the drag has its own velocities. One thread per
   particle; see common/candidates.h for the other constants. */
#include "common/box.h"
#include "common/noise.h"

typedef struct Fluid {
    float repulsion[3];
    float friction[3];
    float noise[3];
    float inverse_mass[2];
    float gravity[3];
    float time_step;
    float ahead;
    float inverse_cutoff;
    float rounder;
} Fluid;

/* Add the force that a particle (p, u) feels from another (q, v), whose sum `partner` is. */
__device__ __forceinline__ void add_force(float4 *sum, uint4 p, float4 u, uint4 q, float4 v,
                                          GLOBAL const Box *box, GLOBAL const Fluid *fluid,
                                          uint4 clock, GLOBAL float4 *partner)
{
    float4 d = displacement(box, p, q);
    float square = square_length(d);
    /* Coincident particles have no direction between them, and no force. */
    float inverse = rsqrtf(fmaxf(square, 1e-20f));
    float weight = fmaf(-square, inverse * fluid->inverse_cutoff, 1.0f);
    int pair = __float_as_int(u.w) + __float_as_int(v.w);
    float approach =
        fmaf(d.z, v.z - u.z, fmaf(d.y, v.y - u.y, d.x * (v.x - u.x))) * inverse;
    float force = fmaf(-fluid->friction[pair] * weight, approach, fluid->repulsion[pair]);
    force = fmaf(fluid->noise[pair], pair_noise(p.w, q.w, clock), force) * weight * inverse;
    float x = fmaf(-force, d.x, fluid->rounder) - fluid->rounder;
    float y = fmaf(-force, d.y, fluid->rounder) - fluid->rounder;
    float z = fmaf(-force, d.z, fluid->rounder) - fluid->rounder;
    sum->x += x;
    sum->y += y;
    sum->z += z;
#if ONCE
    add_exact(partner, -x, -y, -z);
#endif
}

/* Compute the forces of the collected neighbours. */
#define ADD_DEFERRED                                                                               \
    for (LOCAL int *d = own; d != free; d += BLOCK) {                                              \
        int other = *d;                                                                            \
        add_force(&sum, p, u, places[other], drags[other], box, fluid, now, &result[other]);       \
    }

/* Add the force of a candidate if it is a neighbour, immediately or DEFER at a time. */
#if DEFER > 0
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        if (square_length(displacement(box, p, places[near])) < square_range && near != (int)i) {  \
            *free = near;                                                                          \
            free += BLOCK;                                                                         \
        }                                                                                          \
        if (free == full) {                                                                        \
            ADD_DEFERRED                                                                           \
            free = own;                                                                            \
        }                                                                                          \
    }
#else
#define VISIT(j)                                                                                   \
    {                                                                                              \
        int near = (j);                                                                            \
        uint4 q = places[near];                                                                    \
        if (square_length(displacement(box, p, q)) < square_range && near != (int)i)               \
            add_force(&sum, p, u, q, drags[near], box, fluid, now, &result[near]);                 \
    }
#endif

#define IN_BALL
#if ONCE
#define AFTER ((int)i)
#endif

/* One more block per multiprocessor, for some local memory outside the loops. */
#ifdef __CUDACC__
#define OCCUPANCY __launch_bounds__(BLOCK, 8)
#else
#define OCCUPANCY
#endif

/* Force on the particles from `first` to before `last`. drags: velocities for the drag. */
__global__ void OCCUPANCY
    forces(GLOBAL const uint4 *__restrict__ places, GLOBAL const float4 *__restrict__ drags,
           GLOBAL const int *__restrict__ cells, GLOBAL const int *__restrict__ items,
           GLOBAL const Box *__restrict__ box, GLOBAL const Fluid *__restrict__ fluid, Clock clock,
           float range, int particles, int first, int last, GLOBAL float4 *__restrict__ result)
{
#if DEFER > 0
    __shared__ int deferred[DEFER * BLOCK];
    LOCAL int *own = deferred + threadIdx.x, *free = own, *full = own + DEFER * BLOCK;
#endif
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    uint4 now = clock[0];
    if (i == first)
        clock[1] = now;
    if (i >= last)
        return;
    float square_range = range * range;
    uint4 p = places[i];
    float4 u = drags[i];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#include "common/candidates.h"
#if DEFER > 0
    ADD_DEFERRED
#endif
#if ONCE
    add_exact(&result[i], sum.x, sum.y, sum.z);
#else
    result[i] = sum;
#endif
}

/* Leap-frog: velocity from the previous half step to the next, then the position, of the particles
   from `first` to before `last`, written `shift` rows before their input.

   order: index of each particle's state, for states that stay in their order (SCATTER). since:
   positions when the lists were made; `stale` is set once a particle has moved by more than half
   the skin (KEEP). fault: see `moved`. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *velocities,
                          GLOBAL const float4 *__restrict__ force,
                          GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Fluid *__restrict__ fluid, Clock clock, int first, int last,
                          int shift, float square_half_skin, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL float4 *new_drags,
                          GLOBAL int *stale, GLOBAL int *fault)
{
    unsigned slot = first + blockIdx.x * BLOCK + threadIdx.x;
    if (slot == first)
        clock[0] = next_step(clock[1]);
    if (slot >= last)
        return;
    uint4 p = places[slot];
    float4 v = velocities[slot], f = force[slot];
    float dt = fluid->time_step, kick = dt * fluid->inverse_mass[__float_as_int(v.w)];
    float ax = fmaf(kick, f.x, dt * fluid->gravity[0]);
    float ay = fmaf(kick, f.y, dt * fluid->gravity[1]);
    float az = fmaf(kick, f.z, dt * fluid->gravity[2]);
    v.x += ax;
    v.y += ay;
    v.z += az;
    float4 turn = moved(box, &p, make_float4(v.x * dt, v.y * dt, v.z * dt, 0.0f), clock[1], fault);
#if SCATTER
    int target = order[slot];
#else
    int target = (int)slot - shift;
#endif
    new_places[target] = p;
    new_velocities[target] = make_float4(turn.x * v.x, turn.y * v.y, turn.z * v.z, v.w);
#if AHEAD
    float ahead = fluid->ahead;
    new_drags[target] = make_float4(turn.x * fmaf(ahead, ax, v.x), turn.y * fmaf(ahead, ay, v.y),
                                    turn.z * fmaf(ahead, az, v.z), v.w);
#endif
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}
