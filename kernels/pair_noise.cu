/* Noise of pairs of particles: one thread per pair, over STEPS successive steps.

   BLOCK threads per block; NOISE and PHILOX_ROUNDS as in common/noise.h. */
#include "common/noise.h"

/* start: the clock of the first step. noise: the pairs of a step are contiguous. */
__global__ void draw_noise(GLOBAL const unsigned *__restrict__ i,
                           GLOBAL const unsigned *__restrict__ j, GLOBAL const uint4 *start,
                           GLOBAL float *__restrict__ noise, unsigned pairs)
{
    unsigned pair = blockIdx.x * BLOCK + threadIdx.x;
    if (pair >= pairs)
        return;
    unsigned one = i[pair], other = j[pair];
    uint4 clock = *start;
    for (int step = 0; step < STEPS; ++step) {
        noise[(uint64)step * pairs + pair] = pair_noise(one, other, clock);
        clock.x += 1;
        clock.y += clock.x == 0;
    }
}

/* The draw of Rozen et al. 2008 that follows each of the fractions 0, spacing, 2 spacing etc., one
   thread per fraction. At most 2^24 of them, which float32 can represent. */
__global__ void follow_fractions(GLOBAL float *__restrict__ draws, float spacing,
                                 unsigned fractions)
{
    unsigned k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < fractions)
        draws[k] = rozen_next((float)k * spacing);
}
