/* The rows of a rank's part of a box, in device memory, so that no host need know them: an array of
   PART_WORDS numbers, as in gpubench/decomposed/direct.py; and how the blocks of a launch send to
   neighbours and wait for them (CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "Memory
   Consistency Model").

   The first blocks of a launch are *takers*: each waits for a neighbour's message, and copies some of
   it to where others of the same launch read it, who wait for all takers. Blocks begin in order of
   their numbers, so takers never wait for room. The last block that sends tells the neighbours. A
   launch may also be done in pieces, from block `skip` on; without CUDA it is, and hosts carry the
   messages in between.

   What a launch both writes and reads must not be `__restrict__`, or stale values could be read. */
#ifndef GPUBENCH_COMMON_PART_H
#define GPUBENCH_COMMON_PART_H
#include "common/box.h"

#define PART_HELD 0   /* rows of the state; some may have left */
#define PART_STAYED 1 /* those that have not */
#define PART_OWNED 2  /* sorted rows */
#define PART_FAULT 3  /* what went wrong: PART_CROWDED and so on */
/* The planes of the part: from LOW to before HIGH; those from TOP on are empty, and not sorted. */
#define PART_LOW 4
#define PART_TOP 5
#define PART_HIGH 6
/* The sorted rows: from BEGIN the lower edge, from INNER the inner planes, with MIDDLE halfway, from
   LAST the upper edge, END exclusive. From UPPER: the upper edge plane, which a single plane is too. */
#define PART_BEGIN 7
#define PART_INNER 8
#define PART_MIDDLE 9
#define PART_LAST 10
#define PART_END 11
#define PART_UPPER 12
/* Zero when a step begins: migrants to both sides, blocks that have taken a kind of message, those
   that have sent one, and those that have ended the step. */
#define PART_LEFT 13
#define PART_TAKEN 15
#define PART_SENT 17
#define PART_ENDED 20
#define PART_ZEROS 8 /* from PART_LEFT on */
#define PART_WAITED 21 /* nanoseconds that a first block waited for each kind, in all steps */

#define PART_CROWDED 1 /* an edge plane or its migrants have more rows than room */
#define PART_FULL 2    /* more rows than the capacity */
#define PART_ROSE 4    /* a particle may rise above the sorted planes */
#define PART_LATE 8    /* a neighbour did not answer in time */

/* Kinds of messages, in the order of a step; DPD has no FLOW. */
#define EDGES 0
#define FLOW 1
#define MOVERS 2

#define FLAG_STEP 32 /* words between flags */

#define HAS_SIDE(side) (sides >> (side)&1)

/* Whether the neighbour on a side is beyond the periodic end of the box; RING: whether any can be. */
#if RING
#define WRAPS(side) (sides >> (2 + (side)) & 1)
#else
#define WRAPS(side) 0
#endif

/* The cell of a row, relative to the plane `low`. Rows from `held` on are empty, and particles below
   `low` or from `high` on belong to another rank: they go to cells past the last plane, spread over
   one more plane. */
__device__ __forceinline__ int cell_in_part(GLOBAL const uint4 *places, GLOBAL const Box *box,
                                            int low, int high, int held, unsigned i)
{
    int plane = (int)(box->cells[0] * box->cells[1]);
    if (i < held) {
        uint4 p = places[i];
        int z = cell_at(box, 2, p.z);
        if (z >= low && z < high)
            return cell_index(box, cell_at(box, 0, p.x), cell_at(box, 1, p.y), z - low);
    }
    return plane * (high - low) + (int)(i % plane);
}

/* The parameters by which a launch's blocks wait and tell: the number of the last step that has ended,
   and this rank's flags and the neighbours', on both sides. */
#define FLAGS                                                                                      \
    int sides, GLOBAL int *turn, int64 patience, GLOBAL unsigned *low_flags,                       \
        GLOBAL unsigned *high_flags, GLOBAL unsigned *their_low_flags,                             \
        GLOBAL unsigned *their_high_flags

#ifdef __CUDACC__
__device__ __forceinline__ uint64 nanoseconds(void)
{
    uint64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* One thread waits for a neighbour's message of a kind. Return 0 if it is here; after `patience`
   nanoseconds this is a fault, and nothing waits any more. */
__device__ __forceinline__ int is_late(const unsigned *flags, int kind, const int *turn,
                                       int64 patience, int *part)
{
    const unsigned awaited = *turn + 1;
    const uint64 begin = nanoseconds();
    for (;;) {
        unsigned flag;
        asm volatile("ld.acquire.sys.u32 %0, [%1];"
                     : "=r"(flag)
                     : "l"(flags + kind * FLAG_STEP)
                     : "memory");
        if ((int)(flag - awaited) >= 0)
            return 0;
        if (*(volatile int *)&part[PART_FAULT] & PART_LATE)
            return 1;
        if ((int64)(nanoseconds() - begin) > patience) {
            atomicOr(&part[PART_FAULT], PART_LATE);
            return 1;
        }
        __nanosleep(20);
    }
}

/* Count this block after all that it has written here and in the neighbours' memory. Return in one
   thread whether it is the last of `blocks`, and then sees what the others have written. */
__device__ __forceinline__ int is_last(int *count, int blocks)
{
    __syncthreads();
    if (threadIdx.x > 0)
        return 0;
    __threadfence_system();
    if (atomicAdd(count, 1) != blocks - 1)
        return 0;
    __threadfence_system();
    return 1;
}

/* Tell a neighbour that all of a message of a kind is in its memory. */
__device__ __forceinline__ void tell(unsigned *flags, int kind, const int *turn)
{
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(flags + kind * FLAG_STEP), "r"(*turn + 1)
                 : "memory");
}

/* All threads of a block: whether a neighbour's message is here; waits for it. */
#define IS_HERE(kind, flags)                                                                       \
    !__syncthreads_or(threadIdx.x == 0 && is_late(flags, kind, turn, patience, part))

#define TELL(kind)                                                                                 \
    if (HAS_SIDE(0))                                                                               \
        tell(their_low_flags, kind, turn);                                                         \
    if (HAS_SIDE(1))                                                                               \
        tell(their_high_flags, kind, turn);

/* Count a taker after what it has copied. */
__device__ __forceinline__ void count_taker(int *taken)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(taken, 1);
    }
}

/* All threads of a block wait until all takers have been counted. Return the nanoseconds. */
__device__ __forceinline__ int wait_for_takers(const int *taken, int takers)
{
    uint64 begin = 0, end = 0;
    if (threadIdx.x == 0) {
        int now;
        begin = nanoseconds();
        for (;;) {
            asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(now) : "l"(taken) : "memory");
            if (now >= takers)
                break;
            __nanosleep(20);
        }
        end = nanoseconds();
    }
    __syncthreads();
    return (int)(end - begin);
}
#else
#define IS_HERE(kind, flags) 1
#define TELL(kind)
#define count_taker(taken)
#define wait_for_takers(taken, takers) 0
#define nanoseconds() 0
#define atomicOr(address, value) atomic_or(address, value)

inline int is_last(GLOBAL int *count, int blocks)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return threadIdx.x == 0 && atomicAdd(count, 1) == blocks - 1;
}
#endif

#endif
