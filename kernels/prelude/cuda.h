/* Defines the few terms of the kernels' dialect that CUDA C++ lacks. */
#ifndef GPUBENCH_PRELUDE_CUDA_H
#define GPUBENCH_PRELUDE_CUDA_H

/* Address spaces of pointers, which CUDA infers. */
#define GLOBAL
#define LOCAL

/* An array of int4 of SHARED_BYTES bytes, a constant that the host launches the kernel with. */
#define SHARED_VECTORS(name) extern __shared__ int4 name[]

typedef long long int64;
typedef unsigned long long uint64;

/* A square root with relative error 2^-23 (PTX, sqrt.approx) in two instructions; smaller arguments count as
   2^-126. */
__device__ __forceinline__ float sqrt_about(float x)
{
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaxf(x, 1.17549435e-38f)));
    return root;
}

/* The reciprocal square root of a normal number, as rsqrtf, without its handling of subnormals. */
__device__ __forceinline__ float rsqrt_of_normal(float x)
{
    float root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

/* Shift the sign of a number into the bits. */
__device__ __forceinline__ unsigned with_sign(unsigned bits, int number)
{
    return bits << 1 | (unsigned)number >> 31;
}

/* A store that may race with others to the same address: one of them wins, without tearing. */
__device__ __forceinline__ void store_relaxed(int *address, int value)
{
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

/* Atomically add (x, y, z), in any order: for exact sums. */
__device__ __forceinline__ void add_exact(float4 *address, float x, float y, float z)
{
#if __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ >= 1)
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(address)),
                 "f"(x), "f"(y), "f"(z), "f"(0.0f));
#else
    atomicAdd(&address->x, x);
    atomicAdd(&address->y, y);
    atomicAdd(&address->z, z);
#endif
}

/* Add to a barrier word, after all stores of this block. */
__device__ __forceinline__ void add_release(uint64 *address, uint64 value)
{
    asm volatile("red.release.gpu.add.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

/* Read a barrier word, before all later loads of this block. */
__device__ __forceinline__ uint64 load_acquire(const uint64 *address)
{
    uint64 value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

#endif
