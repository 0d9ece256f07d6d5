/* Sums and maxima that do not depend on the order of their terms. In a sum over neighbours
   each part is rounded to a multiple of one power of two; a dot product is a sum of integers, kept
   in LIMBS words of 13 bits, which up to 2^19 blocks can add to. Maxima of non-negative numbers are
   kept as the negative of their bits. */
#ifndef GPUBENCH_COMMON_EXACT_SUMS_H
#define GPUBENCH_COMMON_EXACT_SUMS_H

#define LIMBS 5

/* 1.5 * 2^23 steps; a step is 2^-20 of the next power of two above the rounded terms, so that sums
   up to 16 times as large are exact. */
__device__ __forceinline__ float rounder_for(float bound)
{
    int power = (__float_as_int(fmaxf(bound, 1e-25f)) & 0x7F800000) + 0x00800000;
    return __int_as_float(power) * (1.5f * 8.0f);
}

__device__ __forceinline__ float rounded(float value, float rounder)
{
    return (value + rounder) - rounder;
}

__device__ __forceinline__ float largest(GLOBAL const int *maximum)
{
    return __int_as_float(-*maximum);
}

/* Update a maximum with a block's values, which are not negative; called by all threads. */
__device__ __forceinline__ void note_largest(GLOBAL int *maximum, LOCAL float *shared, float value)
{
    int thread = (int)threadIdx.x;
    shared[thread] = value;
    __syncthreads();
    if (thread < 8) {
        for (int k = thread + 8; k < BLOCK; k += 8)
            value = fmaxf(value, shared[k]);
        shared[thread] = value;
    }
    __syncthreads();
    if (thread == 0) {
        for (int k = 1; k < 8; ++k)
            value = fmaxf(value, shared[k]);
        atomicMin(maximum, -__float_as_int(value));
    }
}

/* Add the values of a block to a sum; called by all threads. */
__device__ __forceinline__ void add_to(GLOBAL int *sum, LOCAL int64 *shared, int64 value)
{
    int thread = (int)threadIdx.x;
    shared[thread] = value;
    __syncthreads();
    if (thread < 8) {
        for (int k = thread + 8; k < BLOCK; k += 8)
            value += shared[k];
        shared[thread] = value;
    }
    __syncthreads();
    if (thread == 0) {
        for (int k = 1; k < 8; ++k)
            value += shared[k];
        uint64 rest = (uint64)value;
        for (int limb = 0; limb < LIMBS; ++limb) {
            atomicAdd(&sum[limb], (int)(rest & 8191));
            rest >>= 13;
        }
    }
}

__device__ __forceinline__ float total(GLOBAL const int *sum)
{
    uint64 value = 0;
    for (int limb = LIMBS - 1; limb >= 0; --limb)
        value = (value << 13) + (uint64)(unsigned)sum[limb];
    return (float)(int64)value;
}

#endif
