/* The fluid of sph.cu, and its forces by walls; see there. */
#ifndef GPUBENCH_COMMON_SPH_H
#define GPUBENCH_COMMON_SPH_H

/* Laid out as FLUID_DTYPE in gpubench/physics/sph.py. */
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

/* A sum in steps as an integer; NaN and overflow become a value far too large. */
__device__ __forceinline__ int in_steps(float sum, GLOBAL const Fluid *fluid)
{
    return (int)fminf(fmaxf(sum * fluid->inverse_force_step, -2e9f), 2e9f);
}

/* Acceleration away from a wall (equation 13): `inside` is the particle's depth in the wall's range, `away` its
   speed away from the wall. */
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

#endif
