/* Flags between GPUs of one host, by which kernels wait for what other GPUs write into their memory
   (CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "Memory Consistency Model"). The
   number of a turn is released after all earlier stores of this GPU, and acquired before all later
   loads. CUDA only. */
#include "common/part.h"

/* The turn of this launch: `turns` has the last of each kind of message. */
__device__ __forceinline__ unsigned next_turn(int *turns, int kind)
{
    const int turn = turns[kind] + 1;
    __syncwarp(3);
    if (threadIdx.x == 0)
        turns[kind] = turn;
    return turn;
}

/* Tell the neighbours that all written to their memory so far is there: store the number of the turn
   after it. One thread for each side. */
__global__ void set_flags(int *turns, int kind, int sides, unsigned *low_flags, unsigned *high_flags)
{
    const int side = threadIdx.x;
    const unsigned turn = next_turn(turns, kind);
    if (!HAS_SIDE(side))
        return;
    __threadfence_system();
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"((side ? high_flags : low_flags) + kind * FLAG_STEP),
                 "r"(turn)
                 : "memory");
}

/* Wait until the neighbours' flags, in this rank's memory, have the number of the turn; after
   `patience` nanoseconds this is a fault, and nothing waits any more. One thread for each side, so
   that spinning takes no room from other kernels. */
__global__ void wait_for_flags(int *turns, int kind, int sides, const unsigned *low_flags,
                               const unsigned *high_flags, int64 patience, int *part)
{
    const int side = threadIdx.x;
    const unsigned turn = next_turn(turns, kind);
    if (!HAS_SIDE(side) || part[PART_FAULT] & PART_LATE)
        return;
    uint64 begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    for (;;) {
        unsigned flag;
        asm volatile("ld.acquire.sys.u32 %0, [%1];"
                     : "=r"(flag)
                     : "l"((side ? high_flags : low_flags) + kind * FLAG_STEP)
                     : "memory");
        if ((int)(flag - turn) >= 0)
            return;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if ((int64)(now - begin) > patience) {
            atomicOr(&part[PART_FAULT], PART_LATE);
            return;
        }
    }
}
