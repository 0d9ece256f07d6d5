/* Symmetric, stateless random numbers of pairs of particles.

   NOISE chooses the generator: 0 is Philox4x32 with PHILOX_ROUNDS rounds (Salmon et al.,
   "Parallel random numbers: as easy as 1, 2, 3", SC 2011), 1 the generator of Rozen et al. 2008,
   section 4.2, whose period in float32 is short. */
#ifndef GPUBENCH_COMMON_NOISE_H
#define GPUBENCH_COMMON_NOISE_H

#ifndef PHILOX_ROUNDS
#define PHILOX_ROUNDS 10
#endif

/* First word of Philox4x32 for a counter of four words under a key of two. */
__device__ __forceinline__ unsigned philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3,
                                           unsigned k0, unsigned k1)
{
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0;
}

/* One draw of the generator of Rozen et al. 2008 from the draw before it, both in [0, 1). Every
   operation is rounded to float32 separately: the period depends on each bit, and the product in
   the difference must not be contracted with it. */
__device__ __forceinline__ float rozen_next(float r)
{
    float root = r + 1.7320508f; /* sqrt(3) */
    float square = root * root;
    float x = __fmul_rn(1.000005f, square * square * root);
    return x - floorf(x);
}

/* A number uniform from -1 to 1, the same for (i, j) and (j, i).
   clock: step (low and high word), seed (low and high word). */
__device__ __forceinline__ float pair_noise(unsigned i, unsigned j, uint4 clock)
{
    unsigned first = min(i, j), second = max(i, j);
#if NOISE == 0
    /* The odd multiples of 2^-24 within (-1, 1), which float32 holds and whose mean is 0. */
    unsigned word = philox(first, second, clock.x, clock.y, clock.z, clock.w);
    return (float)((int)word >> 7 | 1) * 5.9604644775390625e-8f; /* 2^-24 */
#else
    /* The paper does not specify a pair's first value: a multiplicative hash chooses one of 2^24
       fractions, and the fourth draw is used. */
    unsigned now = clock.x * 0xC2B2AE3Du + clock.y * 0x27D4EB2Fu + clock.z * 0x165667B1u +
                   clock.w * 0x2C1B3C6Du;
    unsigned word = (first * 0x9E3779B1u ^ second * 0x85EBCA77u) + now;
    float r = (float)(word >> 8) * 5.9604644775390625e-8f; /* 2^-24 */
    for (int draw = 0; draw < 4; ++draw)
        r = rozen_next(r);
    return 2.0f * r - 1.0f;
#endif
}

#endif
