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
   lanes of a warp compute forces together. MARKED, with ONCE on CUDA: the lanes of a warp share its
   pairs, and add the forces on its own particles in shared memory, as whole steps (common/pooled.h).
   At 2^22 particles on an H100 a step takes 14 % less time than with DEFER.

   AHEAD: the drag has its own velocities. One thread per particle; see common/candidates.h for the
   other constants. */
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

/* The number of a pair, by the species of its particles. */
__device__ __forceinline__ int kind_of(float4 u, float4 v)
{
    return __float_as_int(u.w) + __float_as_int(v.w);
}

/* The force that a particle (p, u) feels from another (q, v), rounded. d: the vector between them. law: repulsion,
   friction and noise of the pair. */
__device__ __forceinline__ float4 force_between(float4 d, uint4 p, float4 u, uint4 q, float4 v, float4 law,
                                                float inverse_cutoff, float rounder, uint4 clock)
{
    float square = square_length(d);
    /* Coincident particles have no direction between them, and no force. */
    float inverse = rsqrtf(fmaxf(square, 1e-20f));
    float weight = fmaf(-square, inverse * inverse_cutoff, 1.0f);
    float approach =
        fmaf(d.z, v.z - u.z, fmaf(d.y, v.y - u.y, d.x * (v.x - u.x))) * inverse;
    float force = fmaf(-law.y * weight, approach, law.x);
    force = fmaf(law.z, pair_noise(p.w, q.w, clock), force) * weight * inverse;
    return make_float4(fmaf(-force, d.x, rounder) - rounder, fmaf(-force, d.y, rounder) - rounder,
                       fmaf(-force, d.z, rounder) - rounder, 0.0f);
}

__device__ __forceinline__ float4 law_of(GLOBAL const Fluid *fluid, int kind)
{
    return make_float4(fluid->repulsion[kind], fluid->friction[kind], fluid->noise[kind], 0.0f);
}

/* Add the force that a particle (p, u) feels from another (q, v), whose sum `partner` is. */
__device__ __forceinline__ void add_force(float4 *sum, uint4 p, float4 u, uint4 q, float4 v,
                                          GLOBAL const Box *box, GLOBAL const Fluid *fluid,
                                          uint4 clock, GLOBAL float4 *partner)
{
    float4 f = force_between(displacement(box, p, q), p, u, q, v, law_of(fluid, kind_of(u, v)),
                             fluid->inverse_cutoff, fluid->rounder, clock);
    sum->x += f.x;
    sum->y += f.y;
    sum->z += f.z;
#if ONCE
    add_exact(partner, -f.x, -f.y, -f.z);
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

/* Blocks per multiprocessor: one more than registers allow otherwise, for some local memory outside the loops.
   MARKED: with nine, 56 registers; on an H100 eight and ten take as long, seven 6 % longer. */
#ifdef __CUDACC__
#define OCCUPANCY __launch_bounds__(BLOCK, MARKED ? 9 : 8)
#else
#define OCCUPANCY
#endif

#if MARKED && defined(__CUDACC__)
#include "common/coarse.h"

#define ALL 0xffffffffu

/* The power of two that rounded forces are multiples of; see `force_step` in gpubench/physics/fluid.py. */
__device__ __forceinline__ float step_of(float rounder)
{
    return __int_as_float((__float_as_int(rounder) & 0x7F800000) - (23 << 23));
}

/* Add the force that a particle (p, u) feels from another (q, v) to its own sum, in steps, and subtract it from
   the other's, `partner`. scale: lengths of the units of positions, and the inverse cutoff. laws: by kind. */
__device__ __forceinline__ void add_pair(int *sum, uint4 p, float4 u, uint4 q, float4 v, const float4 *scale,
                                         const float4 *laws, float rounder, uint4 clock,
                                         float square_range, float per_step, float4 *partner)
{
    const float4 by = *scale, d = displacement_by(by, p, q);
    if (square_length(d) >= square_range)
        return;
    const float4 f = force_between(d, p, u, q, v, laws[kind_of(u, v)], by.w, rounder, clock);
    atomicAdd(&sum[0], __float2int_rn(f.x * per_step));
    atomicAdd(&sum[BLOCK], __float2int_rn(f.y * per_step));
    atomicAdd(&sum[2 * BLOCK], __float2int_rn(f.z * per_step));
    add_exact(partner, -f.x, -f.y, -f.z);
}
#endif

/* Force on the particles from `first` to before `last`. drags: velocities for the drag. */
__global__ void OCCUPANCY
    forces(GLOBAL const uint4 *__restrict__ places, GLOBAL const unsigned *__restrict__ coarse,
           GLOBAL const float4 *__restrict__ drags, GLOBAL const int *__restrict__ cells,
           GLOBAL const int *__restrict__ items, GLOBAL const Box *__restrict__ box,
           GLOBAL const Fluid *__restrict__ fluid, Clock clock, float range, int particles,
           int first, int last, GLOBAL float4 *__restrict__ result)
{
#if MARKED && defined(__CUDACC__)
    __shared__ int sums[3 * BLOCK];
    __shared__ float4 scale, laws[3];
    const int thread = (int)threadIdx.x, begin = first + (int)(blockIdx.x * BLOCK);
    const int from = begin + thread / 32 * 32; /* of the warp */
    const int has = begin + thread < last, i = min(begin + thread, last - 1);
    const uint4 now = clock[0];
    const float square_range = range * range, rounder = fluid->rounder;
    const float step = step_of(rounder), per_step = 1.0f / step;
    if (begin == first && thread == 0)
        clock[1] = now;
    if (begin >= last)
        return;
    for (int axis = 0; axis < 3; ++axis)
        sums[axis * BLOCK + thread] = 0;
    if (thread < 3)
        laws[thread] = law_of(fluid, thread);
    if (thread == 0)
        scale = make_float4(box->length[0], box->length[1], box->length[2], fluid->inverse_cutoff);
    __syncthreads();
    const uint4 p = places[i];
#define PAIR(lane, j)                                                                              \
    add_pair(&sums[thread / 32 * 32 + (lane)], places[from + (lane)], drags[from + (lane)],        \
             places[j], drags[j], &scale, laws, rounder, now, square_range, per_step, &result[j]);
#include "common/pooled.h"
    if (has)
        add_exact(&result[i], step * (float)sums[thread], step * (float)sums[BLOCK + thread],
                  step * (float)sums[2 * BLOCK + thread]);
#else
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
#endif
}

/* Leap-frog: velocity from the previous half step to the next, then the position, of the particles
   from `first` to before `last`, written `shift` rows before their input.

   order: index of each particle's state, for states that stay in their order (SCATTER). since:
   positions when the lists were made; `stale` is set once a particle has moved by more than half
   the skin (KEEP). new_cells: those of the new positions (FINDS_CELLS). fault: see `moved`. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *velocities,
                          GLOBAL const float4 *__restrict__ force,
                          GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Fluid *__restrict__ fluid, Clock clock, int first, int last,
                          int shift, float square_half_skin, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL float4 *new_drags,
                          GLOBAL int *new_cells, GLOBAL int *stale, GLOBAL int *fault)
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
#if FINDS_CELLS
    new_cells[target] =
        cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), cell_at(box, 2, p.z));
#endif
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}
