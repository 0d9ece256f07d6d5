/* Re-sort of the bucket sort's lists (Rozen, Boryczko, Alda 2008, section 2.2): elements in the wrong
   bucket are unlinked and inserted again; the others stay.

   `unlink_lists` is the paper's scan, one thread per list, followed by the rounds of bucket_sort.cu.
   `resident_resort` does everything in one launch and traverses only lists that lost an element. */
#include "common/unlink.h"

/* Scan each list, unlink the movers, and count them. */
__global__ void unlink_lists(GLOBAL const int *__restrict__ cell_of, GLOBAL int *head,
                             GLOBAL int *next, GLOBAL int *moved, int buckets)
{
    __shared__ int moved_from_block;
    unsigned bucket = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        moved_from_block = 0;
    __syncthreads();
    if (bucket < buckets) {
        int count = unlink_movers(head, next, cell_of, (int)bucket);
        if (count > 0)
            atomicAdd(&moved_from_block, count);
    }
    __syncthreads();
    if (threadIdx.x == 0 && moved_from_block > 0)
        atomicAdd(moved, moved_from_block);
}

/* Clear the visited flags of the movers. */
__global__ void clear_moved(GLOBAL const int *__restrict__ cell_of,
                            GLOBAL const int *__restrict__ listed_in,
                            GLOBAL int *__restrict__ visited, int elements)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements)
        return;
    if (listed_in[i] != cell_of[i])
        visited[i] = 0;
}

#ifdef RESIDENT_THREADS /* CUDA only */
#include "common/meet.h"

#define AT_ONCE 4 /* elements that a thread loads at once */

/* The whole re-sort in one launch, with all blocks resident. Each warp owns an equal range of the
   elements and keeps its movers, and the lists to unlink them from, in its range of `movers` and
   `touched`.

   listed_in: the bucket whose list holds each element.
   claims: shape (2, buckets), scratch for the scatters, alternating between even and odd rounds.
   is_touched: zeros, shape (buckets); zeros again on return.
   control: [0..2] for the barriers, -1 before the first launch; on return [3] is the number of rounds,
   [4] the total number of elements drawn, [5] the next pass modulo 3 (initially 0). */
__global__ void __launch_bounds__(RESIDENT_THREADS, RESIDENT_BLOCKS)
    resident_resort(const int *__restrict__ cell_of, const int *__restrict__ listed_in, int *head,
                    int *next, int *claims, int *is_touched, int2 *movers, int *touched, uint64 *control,
                    int elements, int buckets)
{
    __shared__ unsigned left_in_block[3];
    if (threadIdx.x < 3)
        left_in_block[threadIdx.x] = 0;
    __syncthreads();
    unsigned pass = (unsigned)control[5];
    const unsigned lane = threadIdx.x % 32;
    const unsigned lower_lanes = (1u << lane) - 1;
    const unsigned warps = gridDim.x * (blockDim.x / 32);
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const unsigned stretch = (((unsigned)elements + warps - 1) / warps + 31) / 32 * 32;
    const unsigned begin = min((uint64)warp * stretch, (uint64)elements);
    const unsigned owned = min(stretch, elements - begin);

    /* List the movers, and their old lists once each. */
    unsigned moved = 0, lists = 0;
    for (unsigned base = 0; base < owned; base += 32 * AT_ONCE) {
        int bucket[AT_ONCE], was[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; ++s) {
            unsigned k = base + s * 32 + lane;
            bucket[s] = k < owned ? cell_of[begin + k] : -1;
            was[s] = k < owned ? listed_in[begin + k] : -1;
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; ++s) {
            int i = begin + base + s * 32 + lane;
            bool leaves = bucket[s] != was[s], first = false;
            if (leaves)
                first = atomicExch(&is_touched[was[s]], 1) == 0;
            unsigned leaving = __ballot_sync(0xffffffffu, leaves);
            unsigned touching = __ballot_sync(0xffffffffu, first);
            if (leaves)
                movers[begin + moved + __popc(leaving & lower_lanes)] = make_int2(i, bucket[s]);
            if (first)
                touched[begin + lists + __popc(touching & lower_lanes)] = was[s];
            moved += __popc(leaving);
            lists += __popc(touching);
        }
    }
    __syncwarp();
    unsigned left = meet(control, left_in_block, pass++, moved);
    unsigned round = 0;
    uint64 drawn = 0;

    if (left > 0) {
        /* Unlink the movers. */
        for (unsigned k = lane; k < lists; k += 32) {
            int bucket = touched[begin + k];
            unlink_movers(head, next, cell_of, bucket);
            is_touched[bucket] = 0;
        }
        meet(control, left_in_block, pass++, moved);

        /* Movers link to the present head of their list, and scatter to the even claims. */
        for (unsigned k = lane; k < moved; k += 32) {
            int2 element = movers[begin + k];
            next[element.x] = head[element.y];
            store_relaxed(&claims[element.y], element.x);
        }
        left = meet(control, left_in_block, pass++, moved);
    }

    while (left > 0) {
        drawn += left;
        int *now = claims + (size_t)(round % 2) * buckets;
        int *coming = claims + (size_t)((round + 1) % 2) * buckets;
        /* Winners become heads; losers link to them and claim again. */
        unsigned kept = 0;
        for (unsigned k = 0; k < moved; k += 32) {
            int2 element;
            bool lost = false;
            if (k + lane < moved) {
                element = movers[begin + k + lane];
                int winner = now[element.y];
                lost = winner != element.x;
                if (lost) {
                    next[element.x] = winner;
                    store_relaxed(&coming[element.y], element.x);
                } else {
                    head[element.y] = element.x;
                }
            }
            /* All lanes have read their entries before any is overwritten. */
            __syncwarp();
            unsigned losers = __ballot_sync(0xffffffffu, lost);
            if (lost)
                movers[begin + kept + __popc(losers & lower_lanes)] = element;
            kept += __popc(losers);
            __syncwarp();
        }
        moved = kept;
        ++round;
        left = meet(control, left_in_block, pass++, moved);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        control[3] = round;
        control[4] = drawn;
        control[5] = pass % 3;
    }
}

#endif
