/* Defines the few words of the kernels' dialect that CUDA C++ lacks. */
#ifndef GPUBENCH_PRELUDE_CUDA_H
#define GPUBENCH_PRELUDE_CUDA_H

/* Address spaces of pointers, which CUDA infers. */
#define GLOBAL
#define LOCAL

typedef long long int64;
typedef unsigned long long uint64;

/* A store that may race with others to the same address: one of them wins, none is torn. */
__device__ __forceinline__ void store_relaxed(int *address, int value)
{
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

/* A load that sees what other blocks have stored: it does not answer from the L1 cache. */
__device__ __forceinline__ int load_relaxed(const int *address)
{
    int value;
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

#endif
