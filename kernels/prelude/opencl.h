/* Translates the kernels' dialect, which follows CUDA, to OpenCL C 1.2. */
#ifndef GPUBENCH_PRELUDE_OPENCL_H
#define GPUBENCH_PRELUDE_OPENCL_H

#define __global__ __kernel
#define __device__
#define __forceinline__ inline
#define __restrict__ restrict
#define __shared__ __local
#define GLOBAL __global
#define LOCAL __local
#define SHARED_VECTORS(name) __local int4 name[(SHARED_BYTES + 15) / 16]

#define threadIdx ((uint3)(get_local_id(0), get_local_id(1), get_local_id(2)))
#define blockIdx ((uint3)(get_group_id(0), get_group_id(1), get_group_id(2)))
#define blockDim ((uint3)(get_local_size(0), get_local_size(1), get_local_size(2)))
#define gridDim ((uint3)(get_num_groups(0), get_num_groups(1), get_num_groups(2)))

/* As in CUDA, the barrier orders the block's accesses to global memory too. */
#define __syncthreads() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define atomicAdd(address, value) atomic_add(address, value)
#define atomicMin(address, value) atomic_min(address, value)
#define atomicExch(address, value) atomic_xchg(address, value)
#define store_relaxed(address, value) ((void)atomic_xchg(address, value))

#define __clz(x) clz(x)
#define __popc(x) popcount(x)
#define __umulhi(a, b) mul_hi(a, b)
#define floorf floor
#define fmaf fma
/* Not rsqrt, which Intel's compiler estimates in some kernels, so that the same pair has two forces. */
#define rsqrtf(x) (1.0f / sqrt(x))
#define rsqrt_of_normal rsqrtf
#define fmaxf fmax
#define fminf fmin
#define fabsf fabs
#define __saturatef(x) clamp(x, 0.0f, 1.0f)
#define sqrtf sqrt
#define sqrt_about(x) sqrt(fmax(x, 1.17549435e-38f))
#define rintf rint
#define make_int2(x, y) ((int2)(x, y))
#define make_int4(x, y, z, w) ((int4)(x, y, z, w))
#define make_float4(x, y, z, w) ((float4)(x, y, z, w))
#define make_uint4(x, y, z, w) ((uint4)(x, y, z, w))
#define __int_as_float(x) as_float(x)
#define __float_as_int(x) as_int(x)

/* Shift the sign of a number into the bits, by rotation, as Oclgrind has no funnel shift. */
inline uint with_sign(uint bits, int number)
{
    return bits << 1 | (rotate((uint)number, 1u) & 1u);
}

/* The dot product of four signed bytes, added to a sum. */
inline int __dp4a(int a, int b, int sum)
{
    return (char)a * (char)b + (char)(a >> 8) * (char)(b >> 8) +
           (char)(a >> 16) * (char)(b >> 16) + (a >> 24) * (b >> 24) + sum;
}

/* A product that is never contracted with a following sum or difference. */
inline float __fmul_rn(float a, float b)
{
#pragma OPENCL FP_CONTRACT OFF
    return a * b;
}

inline void add_float_exact(volatile GLOBAL int *address, float value)
{
    int before, seen = 0; /* a guess, as a plain load would race */
    do {
        before = seen;
        seen = atomic_cmpxchg(address, before, as_int(as_float(before) + value));
    } while (seen != before);
}

/* Atomically add (x, y, z), in any order: for exact sums. */
inline void add_exact(GLOBAL float4 *address, float x, float y, float z)
{
    GLOBAL int *words = (GLOBAL int *)address;
    add_float_exact(words, x);
    add_float_exact(words + 1, y);
    add_float_exact(words + 2, z);
}

typedef long int64;
typedef ulong uint64;

#endif
