/* The force between two particles of the Lennard-Jones fluid (Allen and Tildesley, Computer Simulation of Liquids,
   2nd edition (2017), section 1.3), cut off and not shifted. In units of its depth, 24 times this factor times the
   difference of positions, from the other particle to this one, is the force. Distances count as at least `least`, so
   that any positions have finite forces. */
#ifndef GPUBENCH_COMMON_LENNARD_JONES_H
#define GPUBENCH_COMMON_LENNARD_JONES_H

__device__ __forceinline__ float pair_factor(float distance2, float sigma2, float least2)
{
    const float inverse = rsqrt_of_normal(fmaxf(distance2, least2)), inverse2 = inverse * inverse;
    const float s2 = sigma2 * inverse2, s6 = s2 * s2 * s2;
    return s6 * fmaf(2.0f, s6, -1.0f) * inverse2;
}

#endif
