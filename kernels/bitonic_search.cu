/* Bitonic merge sort of (cell, particle) pairs (Batcher 1968), then a binary search for the first
   and last particle of each cell, as Purcell et al. 2003 built their photon grid.

   A pair is one 64-bit key, cell in the upper half. Every comparator of this form of the network
   puts the smaller key at the lower index, so indices past the last pair act as infinite keys
   and are skipped: any number of pairs will do. BLOCK threads a block; strides that fit in a
   tile of 2 * BLOCK keys run in shared memory. */

#define TILE (2 * BLOCK)

__device__ __forceinline__ void order_pair(LOCAL uint64 *keys, int low, int high)
{
    uint64 a = keys[low], b = keys[high];
    if (a > b) {
        keys[low] = b;
        keys[high] = a;
    }
}

/* Index of the lower key of comparator t where partners are `stride` apart. */
__device__ __forceinline__ unsigned lower_of(unsigned t, unsigned stride)
{
    return 2 * t - (t & (stride - 1));
}

/* Make the keys and sort each tile. */
__global__ void sort_tiles(GLOBAL const int *__restrict__ cell_of, GLOBAL uint64 *__restrict__ keys,
                           int particles)
{
    __shared__ uint64 tile[TILE];
    unsigned begin = blockIdx.x * TILE;
    for (int k = threadIdx.x; k < TILE; k += BLOCK) {
        unsigned i = begin + k;
        tile[k] = i < particles ? ((uint64)cell_of[i] << 32) | i : ~(uint64)0;
    }
    for (int size = 2; size <= TILE; size *= 2) {
        /* Merge two sorted halves: compare each key with its mirror image ... */
        int half_size = size / 2, t = threadIdx.x;
        int place = t % half_size, base = (t / half_size) * size;
        __syncthreads();
        order_pair(tile, base + place, base + size - 1 - place);
        /* ... then halve the strides. */
        for (int stride = size / 4; stride > 0; stride /= 2) {
            int low = (int)lower_of(threadIdx.x, stride);
            __syncthreads();
            order_pair(tile, low, low + stride);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < particles)
            keys[begin + k] = tile[k];
}

/* First step of merging two sorted halves of `size` keys: compare mirror images. */
__global__ void merge_mirrored(GLOBAL uint64 *keys, int log2_size, int particles)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned half_size = 1u << (log2_size - 1);
    unsigned place = t & (half_size - 1);
    uint64 base = (uint64)(t >> (log2_size - 1)) << log2_size;
    uint64 low = base + place, high = base + 2 * (uint64)half_size - 1 - place;
    if (high < particles) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* One step with a stride longer than a tile. */
__global__ void merge_strided(GLOBAL uint64 *keys, int log2_stride, int particles)
{
    unsigned t = blockIdx.x * BLOCK + threadIdx.x;
    unsigned stride = 1u << log2_stride;
    uint64 low = 2 * (uint64)t - (t & (stride - 1)), high = low + stride;
    if (high < particles) {
        uint64 a = keys[low], b = keys[high];
        if (a > b) {
            keys[low] = b;
            keys[high] = a;
        }
    }
}

/* All steps whose strides fit in a tile. */
__global__ void merge_tiles(GLOBAL uint64 *keys, int particles)
{
    __shared__ uint64 tile[TILE];
    unsigned begin = blockIdx.x * TILE;
    for (int k = threadIdx.x; k < TILE; k += BLOCK)
        tile[k] = begin + k < particles ? keys[begin + k] : ~(uint64)0;
    for (int stride = TILE / 2; stride > 0; stride /= 2) {
        int low = (int)lower_of(threadIdx.x, stride);
        __syncthreads();
        order_pair(tile, low, low + stride);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < TILE; k += BLOCK)
        if (begin + k < particles)
            keys[begin + k] = tile[k];
}

/* Search each cell's first place in the sorted keys; the one past the last cell gets the total. */
__global__ void search_starts(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ start,
                              int cells, int particles)
{
    unsigned cell = blockIdx.x * BLOCK + threadIdx.x;
    if (cell > cells)
        return;
    uint64 wanted = (uint64)cell << 32;
    unsigned low = 0, high = particles;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (keys[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    start[cell] = (int)low;
}

/* Take the particles out of the keys, and their positions along. */
__global__ void unpack(GLOBAL const uint64 *__restrict__ keys, GLOBAL int *__restrict__ order,
                       GLOBAL const float4 *__restrict__ positions,
                       GLOBAL float4 *__restrict__ sorted_positions, int particles)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int i = (int)(keys[slot] & 0xffffffffu);
    order[slot] = i;
    if (REORDER)
        sorted_positions[slot] = positions[i];
}
