/* Iterative bucket sort (Rozen, Boryczko, Alda 2008, Listing 1).

   Every element that is in no list yet writes itself to the head of its bucket, and one of the
   writes to a bucket survives. The survivor is in the list; the others store it as their next
   element and try again. Lists grow at the front, one element per round.

   `scatter` and `link_elements` are the two loops of the listing, one thread per element, launched
   once per round with the host's end test between them; elements are split into equal parts
   (section 2.1), and `active` has a bit for each active part. `resident_sort` holds the rounds on
   the device. */

/* Lines 6 to 9: write unvisited elements to the heads, and count them by part, as the paper does
   with occlusion queries. Grid: blocks_per_part * parts blocks. */
__global__ void scatter(GLOBAL const int *__restrict__ cell_of, GLOBAL const int *__restrict__ visited,
                        GLOBAL int *head, GLOBAL int *drawn, uint64 active, int blocks_per_part,
                        int part_size, int elements)
{
    __shared__ int drawn_by_block;
    int part = blockIdx.x / blocks_per_part;
    int offset = (blockIdx.x % blocks_per_part) * blockDim.x + threadIdx.x;
    unsigned i = (unsigned)part * part_size + offset;

    if (threadIdx.x == 0)
        drawn_by_block = 0;
    __syncthreads();
    if (((active >> part) & 1) && offset < part_size && i < elements && !visited[i]) {
        store_relaxed(&head[cell_of[i]], (int)i);
        atomicAdd(&drawn_by_block, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0 && drawn_by_block > 0)
        atomicAdd(&drawn[part], drawn_by_block);
}

/* Lines 12 to 17: mark the elements that are heads as visited; the others point to the head.
   A part that becomes active in the next round must be linked in this one: an element that wins its
   first round needs the previous head, or the tail of its list would be lost. */
__global__ void link_elements(GLOBAL const int *__restrict__ cell_of, GLOBAL int *__restrict__ visited,
                     GLOBAL const int *__restrict__ head, GLOBAL int *__restrict__ next,
                     uint64 active, int blocks_per_part, int part_size, int elements)
{
    int part = blockIdx.x / blocks_per_part;
    int offset = (blockIdx.x % blocks_per_part) * blockDim.x + threadIdx.x;
    unsigned i = (unsigned)part * part_size + offset;
    if (!((active >> part) & 1) || offset >= part_size || i >= elements || visited[i])
        return;
    int first = head[cell_of[i]];
    if (first == (int)i)
        visited[i] = 1;
    else
        next[i] = first;
}

#ifdef RESIDENT_THREADS /* CUDA only */
#include "common/meet.h"

/* The head of a list is the later of the last even and the last odd winner: the one that points
   to the other. */
__device__ __forceinline__ void settle_heads(int *heads, const int *next, int buckets)
{
    for (unsigned c = blockIdx.x * blockDim.x + threadIdx.x; c < buckets;
         c += gridDim.x * blockDim.x) {
        int even = heads[c], odd = heads[buckets + c];
        if (odd >= 0 && next[odd] == even)
            heads[c] = odd;
    }
}

/* The whole sort in one launch, with all blocks resident. Each warp owns an equal range of the
   elements. Heads are double-buffered by the parity of the round: an element that lost reads one
   buffer and immediately scatters to the other, which saves a second barrier per round. Only
   unfinished elements cost time.

   control: -1, shape (5); [0..2] for the barriers; on return [3] is the number of rounds, [4] the
   total number of elements drawn.
   heads: -1, shape (2, buckets); on return the first half holds the heads.

   SLOTS > 0: a thread keeps its elements in SLOTS sets of registers; for up to SLOTS elements per
   resident thread. SLOTS = 0: a warp keeps its unvisited elements as a list of (element, bucket) in
   `unvisited`, shape (elements), and compacts it every round. */
__global__ void __launch_bounds__(RESIDENT_THREADS, RESIDENT_BLOCKS)
    resident_sort(const int *__restrict__ cell_of, int *heads, int *next, int2 *unvisited,
                  uint64 *control, int elements, int buckets)
{
    __shared__ unsigned left_in_block[3];
    if (threadIdx.x == 0)
        left_in_block[0] = 0;
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    const unsigned warps = gridDim.x * (blockDim.x / 32);
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const unsigned stretch = (((unsigned)elements + warps - 1) / warps + 31) / 32 * 32;
    const unsigned begin = min((uint64)warp * stretch, (uint64)elements);
    unsigned left_in_warp = min(stretch, elements - begin);

    /* First scatter, to the even heads. */
#if SLOTS
    int bucket[SLOTS], before[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        bucket[s] = s * 32 + lane < left_in_warp ? cell_of[begin + s * 32 + lane] : -1;
        before[s] = -1;
    }
#pragma unroll
    for (int s = 0; s < SLOTS; ++s)
        if (bucket[s] >= 0)
            store_relaxed(&heads[bucket[s]], begin + s * 32 + lane);
#else
    for (unsigned k = lane; k < left_in_warp; k += 32)
        store_relaxed(&heads[cell_of[begin + k]], begin + k);
#endif
    unsigned left = meet(control, left_in_block, 0, left_in_warp);

    unsigned round = 0;
    uint64 drawn = 0;
    while (left > 0) {
        drawn += left;
        int *now = heads + (size_t)(round % 2) * buckets;
        int *coming = heads + (size_t)((round + 1) % 2) * buckets;

        /* Link to this round's heads: winners are done, losers precede the winner in the list and
           scatter to the next round's heads. */
#if SLOTS
        /* The last winner before an element itself wins is its next element: write only that. */
        if (left_in_warp > 0) {
            int winner[SLOTS];
#pragma unroll
            for (int s = 0; s < SLOTS; ++s)
                winner[s] = bucket[s] >= 0 ? now[bucket[s]] : -1;
            unsigned lost = 0;
#pragma unroll
            for (int s = 0; s < SLOTS; ++s) {
                int element = begin + s * 32 + lane;
                if (bucket[s] >= 0 && winner[s] != element) {
                    store_relaxed(&coming[bucket[s]], element);
                    before[s] = winner[s];
                    ++lost;
                } else if (bucket[s] >= 0) {
                    next[element] = before[s];
                    bucket[s] = -1;
                }
            }
            left_in_warp = __reduce_add_sync(0xffffffffu, lost);
        }
#else
        unsigned kept = 0;
        for (unsigned k = 0; k < left_in_warp; k += 32) {
            int2 element;
            bool lost = false;
            if (k + lane < left_in_warp) {
                /* In the first round, the list is all elements. */
                element = round > 0 ? unvisited[begin + k + lane]
                                    : make_int2(begin + k + lane, cell_of[begin + k + lane]);
                int winner = now[element.y];
                lost = winner != element.x;
                if (lost) {
                    store_relaxed(&coming[element.y], element.x);
                    next[element.x] = winner;
                } else if (round == 0) {
                    next[element.x] = -1;
                }
            }
            /* All lanes have read their entries before any is overwritten. */
            __syncwarp();
            unsigned losers = __ballot_sync(0xffffffffu, lost);
            if (lost)
                unvisited[begin + kept + __popc(losers & ((1u << lane) - 1))] = element;
            kept += __popc(losers);
            __syncwarp();
        }
        left_in_warp = kept;
#endif
        ++round;
        left = meet(control, left_in_block, round, left_in_warp);
    }

    settle_heads(heads, next, buckets);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        control[3] = round;
        control[4] = drawn;
    }
}

#endif
