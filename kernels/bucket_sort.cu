/* Iterative bucket sort (Rozen, Boryczko, Alda 2008, Listing 1).

   Every element that is in no list yet writes itself to the head of its bucket, and one write
   of those to the same bucket survives. The survivor is in its list; the others note it as
   their next element and try again. Lists grow at the front, one element a round.

   `scatter` and `link_elements` are the two loops of the listing, one thread an element, once a round
   with the host's end test between them; elements are cut into equal parts (section 2.1), and
   `active` has a bit for each part that takes part. `resident_sort` holds the rounds on the
   device. */

/* Lines 6 to 9: put unvisited elements into the heads, and count them part by part: what the
   occlusion queries of the paper counted. Grid: blocks_per_part * parts blocks. */
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
   A part that joins in the next round must be linked in this one: an element that wins its
   first round needs the head before it, or the tail of its list would be lost. */
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

/* Meet all blocks of a grid that is resident as a whole, and return the sum of what their warps
   have left. What a block stored before the meeting, all see after it.

   words: three, for passes modulo 3, each arrivals << 32 | left; zero for the first two passes.
   left_in_block: shared, three, likewise; [0] and [1] zero. */
__device__ __forceinline__ unsigned meet(uint64 *words, unsigned *left_in_block, unsigned pass,
                                         unsigned left_in_warp)
{
    __shared__ unsigned left_in_grid;
    if (threadIdx.x % 32 == 0 && left_in_warp > 0)
        atomicAdd(&left_in_block[pass % 3], left_in_warp);
    __syncthreads();
    if (threadIdx.x == 0) {
        /* Nobody reads the word of two passes ago any more: ready it for the coming pass. */
        left_in_block[(pass + 1) % 3] = 0;
        if (blockIdx.x == 0)
            words[(pass + 1) % 3] = 0;
        add_release(&words[pass % 3], (uint64)1 << 32 | left_in_block[pass % 3]);
        uint64 seen;
        do
            seen = load_acquire(&words[pass % 3]);
        while (seen >> 32 != gridDim.x);
        left_in_grid = (unsigned)seen;
    }
    __syncthreads();
    return left_in_grid;
}

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

/* The whole sort in one launch, over a grid that is resident as a whole. Each warp owns an equal
   stretch of the elements. Heads are double-buffered by the parity of the round: an element that
   lost reads one buffer and at once scatters to the other, which saves the second barrier a round.
   Only elements that are not done cost anything.

   heads: -1, shape (2, buckets); on return the first half holds the heads.
   control: zeros, shape (4); [0..2] for the meetings, [3] on return the number of rounds.

   SLOTS > 0: a thread keeps its elements in SLOTS sets of registers; for up to SLOTS elements a
   resident thread. SLOTS = 0: a warp keeps its unvisited elements as a list in memory, in
   `unvisited`, shape (elements, 3), and closes it up every round. */
__global__ void __launch_bounds__(RESIDENT_THREADS, RESIDENT_BLOCKS)
    resident_sort(const int *__restrict__ cell_of, int *heads, int *next, int *unvisited,
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
    const unsigned owned = min(stretch, elements - begin);

    /* First scatter, to the even heads. */
#if SLOTS
    int bucket[SLOTS], before[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        bucket[s] = s * 32 + lane < owned ? cell_of[begin + s * 32 + lane] : -1;
        before[s] = -1;
    }
#pragma unroll
    for (int s = 0; s < SLOTS; ++s)
        if (bucket[s] >= 0)
            store_relaxed(&heads[bucket[s]], begin + s * 32 + lane);
#else
    int *const list = unvisited + 3 * (size_t)begin;
    unsigned remaining = owned;
    for (unsigned k = lane; k < owned; k += 32) {
        int bucket = cell_of[begin + k];
        store_relaxed(&heads[bucket], begin + k);
        list[k] = begin + k;
        list[owned + k] = bucket;
        list[2 * owned + k] = -1;
    }
    __syncwarp();
#endif
    unsigned left = meet(control, left_in_block, 0, owned);

    unsigned round = 0;
    while (left > 0) {
        int *now = heads + (size_t)(round % 2) * buckets;
        int *coming = heads + (size_t)((round + 1) % 2) * buckets;

        /* Link against this round's heads: a winner points to the winner before it and is done;
           a loser notes the winner and scatters to the coming round's heads. */
        unsigned kept = 0;
#if SLOTS
        int winner[SLOTS];
#pragma unroll
        for (int s = 0; s < SLOTS; ++s)
            winner[s] = bucket[s] >= 0 ? now[bucket[s]] : -1;
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            int element = begin + s * 32 + lane;
            bool lost = bucket[s] >= 0 && winner[s] != element;
            if (lost) {
                store_relaxed(&coming[bucket[s]], element);
                before[s] = winner[s];
            } else if (bucket[s] >= 0) {
                next[element] = before[s];
                bucket[s] = -1;
            }
            kept += __popc(__ballot_sync(0xffffffffu, lost));
        }
#else
        for (unsigned k = 0; k < remaining; k += 32) {
            int element = 0, bucket = 0, winner = 0;
            bool lost = false;
            if (k + lane < remaining) {
                element = list[k + lane];
                bucket = list[owned + k + lane];
                winner = now[bucket];
                lost = winner != element;
                if (lost)
                    store_relaxed(&coming[bucket], element);
                else
                    next[element] = list[2 * owned + k + lane];
            }
            /* All lanes have read their entries before any is overwritten. */
            __syncwarp();
            unsigned losers = __ballot_sync(0xffffffffu, lost);
            unsigned place = kept + __popc(losers & ((1u << lane) - 1));
            if (lost) {
                list[place] = element;
                list[owned + place] = bucket;
                list[2 * owned + place] = winner;
            }
            kept += __popc(losers);
            __syncwarp();
        }
        remaining = kept;
#endif
        ++round;
        left = meet(control, left_in_block, round, kept);
    }

    settle_heads(heads, next, buckets);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        control[3] = round;
}

#endif
