/* Map keys to unsigned integers in the same order: KEY_BYTES is 4 or 8, KEY_KIND one of
   UNSIGNED, SIGNED and FLOAT. Floats have the order of their bits (IEEE 754, totalOrder):
   negative NaN, -infinity, ..., -0.0, 0.0, ..., infinity, positive NaN. */
#ifndef GPUBENCH_COMMON_SORT_KEYS_H
#define GPUBENCH_COMMON_SORT_KEYS_H

#define UNSIGNED 0
#define SIGNED 1
#define FLOAT 2

#if KEY_BYTES == 8
typedef uint64 Key;
#else
typedef unsigned Key;
#endif

#define SIGN_BIT ((Key)1 << (8 * KEY_BYTES - 1))

__device__ __forceinline__ Key to_ordered(Key key)
{
#if KEY_KIND == FLOAT
    return key & SIGN_BIT ? ~key : key ^ SIGN_BIT;
#elif KEY_KIND == SIGNED
    return key ^ SIGN_BIT;
#else
    return key;
#endif
}

__device__ __forceinline__ Key from_ordered(Key key)
{
#if KEY_KIND == FLOAT
    return key & SIGN_BIT ? key ^ SIGN_BIT : ~key;
#elif KEY_KIND == SIGNED
    return key ^ SIGN_BIT;
#else
    return key;
#endif
}

#endif
