/* Write the neighbours of each particle at the offsets that the counts gave. Plainly:

       for each particle i, for each candidate j that neighbour_mark.cu marked for it:
           neighbours[offsets[i]++] = order[j]

   Rows of cells that have no bits there are tested again: distances are products fused with sums by hand,
   so that no compiler does it in one of the two kernels alone. Words as in neighbour_count.cu.

   STAGED is 0 for the plain kernel, which comes first: each thread writes a row of its own. On CUDA, a
   thread collects STAGED neighbours in shared memory at a time, and its warp writes them row by row. */
#include "common/marks.h"

/* What a particle may reach in one of the rows around it. */
__device__ __forceinline__ Stretch row_of(GLOBAL const Grid *grid, GLOBAL const int *start, float4 p, int number,
                                          float cutoff2, float slack, float *shift_y, float *shift_z)
{
    const int dy = number % 3, dz = number / 3;
    const int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    const int y = neighbour_cell(grid, 1, cy + dy - 1, shift_y);
    const int z = neighbour_cell(grid, 2, cz + dz - 1, shift_z);
    float before, behind;
    gaps(grid, 1, cy, p.y, slack, &before, &behind);
    const float gap_y = dy == 0 ? before : dy == 2 ? behind : 0.0f;
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    const float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
    const float gap2 = y < 0 || z < 0 ? 2.0f * cutoff2 : fmaf(gap_y, gap_y, gap_z * gap_z);
    return stretch_of(grid, start, cell_number(grid, 0, max(y, 0), max(z, 0)), along_x(grid, p.x, slack), gap2, cutoff2);
}

/* Take a bit, and return its number. */
__device__ __forceinline__ int taken(unsigned *bits)
{
    const int k = 31 - __clz(*bits);
    *bits ^= 1u << k;
    return k;
}

/* Write the neighbours of a particle in a row, by one thread, and return the place behind. */
__device__ __forceinline__ int64 write_row(GLOBAL const float4 *positions, GLOBAL const int *start,
                                           GLOBAL const int *order, GLOBAL const Grid *grid,
                                           float cutoff2, float slack, int particles, GLOBAL int *neighbours,
                                           int64 capacity, GLOBAL const unsigned *masks, int slot, int number,
                                           int64 place)
{
    const float4 p = positions[slot];
    float shift_y, shift_z;
    const Stretch s = row_of(grid, start, p, number, cutoff2, slack, &shift_y, &shift_z);
    const int is_marked = words_of(s, slot) <= WORDS;
    int w = number * WORDS;
    for (int is_far = 0; is_far <= PERIODIC; ++is_far) {
        Piece piece;
        set_piece(&piece, s, is_far, grid, slot);
        for (int first = piece.begin; first < piece.end; first += 32, ++w) {
            unsigned bits = is_marked ? masks[(size_t)w * particles + slot]
                                      : word_of(positions, p, &piece, first, shift_y, shift_z, cutoff2, slot);
            for (; bits; ++place) {
                const int j = first + taken(&bits);
                if (place < capacity)
                    neighbours[place] = order[j];
            }
        }
    }
    return place;
}

#if !STAGED

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity, GLOBAL const int *__restrict__ begins,
                     GLOBAL const unsigned *__restrict__ masks)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int64 place = offsets[order[slot]];
    for (int number = 0; number < ROWS; ++number)
        place = write_row(positions, start, order, grid, cutoff2, slack, particles, neighbours, capacity, masks, slot,
                          number, place);
}

#else

#define ALL 0xffffffffu
#define PITCH 33 /* 32, and one so that the rows of a warp lie in different banks */
#define AT_ONCE 8
#define LAYER (3 * WORDS) /* words of three rows */

/* Write what the threads of a warp have collected, up to 32 each, at their places. */
__device__ __forceinline__ void write_rows(const int *stage, int listed, int64 place, const int *__restrict__ order,
                                           int *__restrict__ neighbours, int64 capacity)
{
    const int lane = threadIdx.x % 32, *row = stage + (threadIdx.x - lane) * PITCH + lane;
    const int64 room = capacity - place;
    listed = room >= listed ? listed : room > 0 ? (int)room : 0;
    __syncwarp();
#pragma unroll
    for (int first = 0; first < 32; first += AT_ONCE) {
        int id[AT_ONCE]; /* first, so that their loads overlap */
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            id[k] = lane < __shfl_sync(ALL, listed, first + k) ? order[row[(first + k) * PITCH]] : -1;
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const int64 target = __shfl_sync(ALL, place, first + k) + lane;
            if (id[k] >= 0)
                neighbours[target] = id[k];
        }
    }
    __syncwarp();
}

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity, GLOBAL const int *__restrict__ begins,
                     GLOBAL const unsigned *__restrict__ masks)
{
    __shared__ int stage[BLOCK * PITCH];
    __shared__ unsigned words[LAYER * BLOCK];
    __shared__ int firsts[LAYER * BLOCK]; /* candidate of bit 0 */
    const int slot = blockIdx.x * BLOCK + threadIdx.x, is_here = slot < particles;
    LOCAL int *const own = stage + threadIdx.x * PITCH;
    int64 place = is_here ? offsets[order[slot]] : 0;
    int listed = 0;
    unsigned others = 0; /* rows that are not marked */
    for (int dz = 0; dz < 3; ++dz) {
#pragma unroll
        for (int w = 0; w < LAYER; ++w)
            words[w * BLOCK + threadIdx.x] = is_here ? masks[(size_t)(dz * LAYER + w) * particles + slot] : 0;
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            const int number = dz * 3 + dy, begin = is_here ? begins[(size_t)number * particles + slot] : 0;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                firsts[(dy * WORDS + w) * BLOCK + threadIdx.x] = begin + 32 * w;
            if (begin >= 0)
                continue;
            float shift_y, shift_z;
            const Stretch s = row_of(grid, start, positions[slot], number, cutoff2, slack, &shift_y, &shift_z);
            const int is_marked = words_of(s, slot) <= WORDS;
            others |= !is_marked << number;
            for (int w = dy * WORDS; w < (dy + 1) * WORDS && !is_marked; ++w)
                words[w * BLOCK + threadIdx.x] = 0;
            int w = dy * WORDS;
            for (int is_far = 0; is_far <= PERIODIC && is_marked; ++is_far) {
                Piece piece;
                set_piece(&piece, s, is_far, grid, slot);
                for (int first = piece.begin; first < piece.end; first += 32)
                    firsts[w++ * BLOCK + threadIdx.x] = first;
            }
        }
        /* Each thread goes through its words, and pauses where it has 32 neighbours. */
        unsigned bits = 0;
        for (int w = 0, first = 0; __any_sync(ALL, bits || w < LAYER);) {
            while (listed < 32 && (bits || w < LAYER)) {
                if (!bits) {
                    bits = words[w * BLOCK + threadIdx.x];
                    first = firsts[w++ * BLOCK + threadIdx.x];
                }
                if (bits)
                    own[listed++] = first + taken(&bits);
            }
            const int full = listed == 32 ? 32 : 0;
            if (__any_sync(ALL, full))
                write_rows(stage, full, place, order, neighbours, capacity);
            place += full;
            listed -= full;
        }
    }
    write_rows(stage, listed, place, order, neighbours, capacity);
    place += listed;
    for (; others; others &= others - 1)
        place = write_row(positions, start, order, grid, cutoff2, slack, particles, neighbours, capacity, masks, slot,
                          __ffs(others) - 1, place);
}

#endif
