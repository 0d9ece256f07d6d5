/* Steps of dissipative particle dynamics (Rozen et al. 2008, section 4.1; Groot and Warren 1997).

   A particle is a place (x, y, z, id; see common/box.h), stored bit for bit as a float4, and a
   velocity (x, y, z, species). Both sides of a pair compute its force, from the same bits and
   with the same roundings, and round it to multiples of one power of two: such sums are exact,
   so they depend neither on the order of the neighbours nor on how these are found, and momentum
   is conserved by the forces to the bit. Nothing is left for a compiler to contract.

   TRAVERSAL says where the candidates of a particle come from, as `cells` and `items`:
     0  SortedCells: start, none; particles are in the order of their cells
     1  LinkedCells: head, next
     2  LimitedCells: count, slots (CAPACITY a cell)
     3  lists of neighbours: their numbers, and the lists (ROOM a particle)
   DEFER > 0: collect that many neighbours of a thread before their forces are computed, so that
   a warp computes forces of all its lanes together. AHEAD: the drag has a velocity of its own. */
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

/* A device's step counter: word 0 is read by the forces, word 1 by what follows them, so that
   one kernel can set what the other reads. Each is (step low, step high, seed low, seed high). */
typedef GLOBAL uint4 *Clock;

__device__ __forceinline__ uint4 next_step(uint4 clock)
{
    clock.x += 1;
    clock.y += clock.x == 0;
    return clock;
}

/* The cell of each particle. */
__global__ void cell_ids(GLOBAL const uint4 *__restrict__ places, GLOBAL int *__restrict__ cell_of,
                         GLOBAL const Box *__restrict__ box, int particles)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    uint4 p = places[i];
    cell_of[i] = cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), cell_at(box, 2, p.z));
}

/* Bring particles into the order of their cells; GATHER_PLACES where the sort has not. */
__global__ void gather(GLOBAL const int *__restrict__ order, GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ velocities,
                       GLOBAL const float4 *__restrict__ drags,
                       GLOBAL uint4 *__restrict__ sorted_places,
                       GLOBAL float4 *__restrict__ sorted_velocities,
                       GLOBAL float4 *__restrict__ sorted_drags, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int i = order[slot];
#if GATHER_PLACES
    sorted_places[slot] = places[i];
#endif
    sorted_velocities[slot] = velocities[i];
#if AHEAD
    sorted_drags[slot] = drags[i];
#endif
}

/* Add the force that a particle (p, u) feels from another (q, v). */
__device__ __forceinline__ void add_force(float4 *sum, uint4 p, float4 u, uint4 q, float4 v,
                                          GLOBAL const Box *box, GLOBAL const Fluid *fluid,
                                          uint4 clock)
{
    float4 d = displacement(box, p, q);
    float square = square_length(d);
    /* Particles in one place have no direction between them, and no force. */
    float inverse = rsqrtf(fmaxf(square, 1e-20f));
    float weight = fmaf(-square, inverse * fluid->inverse_cutoff, 1.0f);
    int pair = __float_as_int(u.w) + __float_as_int(v.w);
    float approach =
        fmaf(d.z, v.z - u.z, fmaf(d.y, v.y - u.y, d.x * (v.x - u.x))) * inverse;
    float force = fmaf(-fluid->friction[pair] * weight, approach, fluid->repulsion[pair]);
    force = fmaf(fluid->noise[pair], pair_noise(p.w, q.w, clock), force) * weight * inverse;
    sum->x += fmaf(-force, d.x, fluid->rounder) - fluid->rounder;
    sum->y += fmaf(-force, d.y, fluid->rounder) - fluid->rounder;
    sum->z += fmaf(-force, d.z, fluid->rounder) - fluid->rounder;
}

/* What is done with a neighbour j of particle i. LISTS: it is noted; the range is wider by the
   skin then. Else its force is added, now or DEFER at a time. */
#if LISTS
#define MEET(j)                                                                                    \
    if (met < ROOM)                                                                                \
        lists[LIST_ITEM(i, met)] = (j);                                                            \
    ++met
#elif DEFER > 0
#define MEET(j)                                                                                    \
    deferred[met++ * BLOCK + threadIdx.x] = (j);                                                   \
    if (met == DEFER) {                                                                            \
        for (int k = 0; k < DEFER; ++k) {                                                          \
            int other = deferred[k * BLOCK + threadIdx.x];                                         \
            add_force(&sum, p, u, places[other], drags[other], box, fluid, now);                   \
        }                                                                                          \
        met = 0;                                                                                   \
    }
#else
#define MEET(j) add_force(&sum, p, u, places[j], drags[j], box, fluid, now)
#endif

#define IS_NEAR(j) (square_length(displacement(box, p, places[j])) < square_range && (j) != (int)i)

#if LIST_BY_PARTICLE
#define LIST_ITEM(i, k) ((int64)(i)*ROOM + (k))
#else
#define LIST_ITEM(i, k) ((int64)(k)*particles + (i))
#endif

/* Force on each particle, or with LISTS its neighbours within `range`; one thread a particle.
   drags: velocities that the drag sees. */
#if LISTS
__global__ void list_neighbours(GLOBAL const uint4 *__restrict__ places,
                                GLOBAL const int *__restrict__ cells,
                                GLOBAL const int *__restrict__ items,
                                GLOBAL const Box *__restrict__ box, float range, int particles,
                                GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ lists)
#else
__global__ void forces(GLOBAL const uint4 *__restrict__ places,
                       GLOBAL const float4 *__restrict__ drags, GLOBAL const int *__restrict__ cells,
                       GLOBAL const int *__restrict__ items, GLOBAL const Box *__restrict__ box,
                       GLOBAL const Fluid *__restrict__ fluid, Clock clock, float range,
                       int particles, GLOBAL float4 *__restrict__ result)
#endif
{
#if !LISTS && DEFER > 0
    __shared__ int deferred[DEFER * BLOCK];
#endif
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float square_range = range * range;
    uint4 p = places[i];
#if LISTS || DEFER > 0
    int met = 0; /* neighbours noted */
#endif
#if !LISTS
    uint4 now = clock[0];
    float4 u = drags[i];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i == 0)
        clock[1] = now;
#endif
#if TRAVERSAL == 3
    int listed = cells[i];
    for (int k = 0; k < listed; ++k) {
        int j = items[LIST_ITEM((int)i, k)];
        if (IS_NEAR(j)) {
            MEET(j);
        }
    }
#else
    int cx = cell_at(box, 0, p.x), cy = cell_at(box, 1, p.y), cz = cell_at(box, 2, p.z);
#if TRAVERSAL == 0
    /* Cells that follow each other along x are one stretch of particles. So they may be short,
       REACH of them to the range, which leaves fewer particles out of reach. Past the end of a
       periodic row the stretch goes on at the row's other end. */
    int last = (int)box->cells[0] - 1;
    int first_x = max(cx - REACH, 0), last_x = min(cx + REACH, last);
    int wraps = box->periodic[0] && (cx < REACH || cx > last - REACH);
    int first_far = cx < REACH ? last + 1 + cx - REACH : 0;
    int last_far = cx < REACH ? last : cx + REACH - last - 1;
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_at(box, 2, cz + dz);
        if (z < 0)
            continue;
        /* The bounds of three rows first: their loads overlap. */
        int row[3], begin[3], end[3];
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int y = neighbour_at(box, 1, cy + r - 1);
            row[r] = y < 0 ? -1 : cell_index(box, 0, y, z);
            begin[r] = y < 0 ? 0 : cells[row[r] + first_x];
            end[r] = y < 0 ? 0 : cells[row[r] + last_x + 1];
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int j = begin[r], stop = end[r];
            for (int piece = 0; piece <= wraps; ++piece) {
                if (piece) {
                    if (row[r] < 0)
                        break;
                    j = cells[row[r] + first_far];
                    stop = cells[row[r] + last_far + 1];
                }
                for (; j < stop; ++j) {
                    if (IS_NEAR(j)) {
                        MEET(j);
                    }
                }
            }
        }
    }
#else
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_at(box, 2, cz + dz);
        for (int dy = -1; dy <= 1; ++dy) {
            int y = neighbour_at(box, 1, cy + dy);
            for (int dx = -1; dx <= 1; ++dx) {
                int x = neighbour_at(box, 0, cx + dx);
                if (x < 0 || y < 0 || z < 0)
                    continue;
                int cell = cell_index(box, x, y, z);
#if TRAVERSAL == 1
                for (int j = cells[cell]; j >= 0; j = items[j]) {
#else
                int inside = min(cells[cell], CAPACITY);
                for (int k = 0; k < inside; ++k) {
                    int j = items[cell * CAPACITY + k];
#endif
                    if (IS_NEAR(j)) {
                        MEET(j);
                    }
                }
            }
        }
    }
#endif
#endif
#if LISTS
    counts[i] = met;
#else
#if DEFER > 0
    for (int k = 0; k < met; ++k) {
        int other = deferred[k * BLOCK + threadIdx.x];
        add_force(&sum, p, u, places[other], drags[other], box, fluid, now);
    }
#endif
    result[i] = sum;
#endif
}

/* Leap-frog: velocity from the half step before to the half step after, then the place.

   order: where each particle's state is kept, for states that stay in their order (SCATTER).
   since: places when the lists were made, and `stale` is set once one is further from there than
   half the skin (KEEP). fault: set to (1, step, id) for a particle that would move further than a
   cell, or nowhere; it stays where it is. */
__global__ void integrate(GLOBAL const uint4 *places, GLOBAL const float4 *velocities,
                          GLOBAL const float4 *__restrict__ force,
                          GLOBAL const int *__restrict__ order,
                          GLOBAL const uint4 *__restrict__ since, GLOBAL const Box *__restrict__ box,
                          GLOBAL const Fluid *__restrict__ fluid, Clock clock, int particles,
                          float square_half_skin, GLOBAL uint4 *new_places,
                          GLOBAL float4 *new_velocities, GLOBAL float4 *new_drags,
                          GLOBAL int *stale, GLOBAL int *fault)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot == 0)
        clock[0] = next_step(clock[1]);
    if (slot >= particles)
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
    float sx = v.x * dt, sy = v.y * dt, sz = v.z * dt;
    float turn_x = 1.0f, turn_y = 1.0f, turn_z = 1.0f;
    /* Written so that what is not a number fails too. */
    if (fabsf(sx) < box->reach && fabsf(sy) < box->reach && fabsf(sz) < box->reach) {
        p.x = moved_along(box, 0, p.x, sx, &turn_x);
        p.y = moved_along(box, 1, p.y, sy, &turn_y);
        p.z = moved_along(box, 2, p.z, sz, &turn_z);
    } else if (atomicExch(&fault[0], 1) == 0) {
        fault[1] = (int)clock[1].x;
        fault[2] = (int)clock[1].y;
        fault[3] = (int)p.w;
    }
#if SCATTER
    int target = order[slot];
#else
    int target = (int)slot;
#endif
    new_places[target] = p;
    new_velocities[target] = make_float4(turn_x * v.x, turn_y * v.y, turn_z * v.z, v.w);
#if AHEAD
    float ahead = fluid->ahead;
    new_drags[target] = make_float4(turn_x * fmaf(ahead, ax, v.x), turn_y * fmaf(ahead, ay, v.y),
                                    turn_z * fmaf(ahead, az, v.z), v.w);
#endif
#if KEEP
    if (!(square_length(displacement(box, since[slot], p)) <= square_half_skin))
        store_relaxed(stale, 1);
#endif
}
