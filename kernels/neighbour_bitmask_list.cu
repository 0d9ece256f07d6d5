/* Write the neighbours of each particle at the offsets from the counts. The plain version:

       for each particle i, for each candidate j that neighbour_bitmask_count.cu marked for it:
           neighbours[offsets[i]++] = order[j]

   Rows of cells without marks are tested again: products are explicitly fused with sums, so that both kernels round
   alike with any compiler. Constants as in neighbour_sorted_count.cu.

   STAGED is 0 for the plain kernel, which comes first: each thread writes its own row. On CUDA, with 1, a
   thread collects up to 32 neighbours in shared memory at a time, from the words that have bits, and its warp
   writes them row by row. */
#include "common/wraps.h"

/* The candidates of a particle in one of the rows around it. */
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
    Along along;
    set_along(&along, grid, p.x, slack);
    Stretch s;
    set_stretch(&s, grid, start, cell_number(grid, 0, max(y, 0), max(z, 0)), &along, gap2, cutoff2);
    return s;
}

/* Clear a bit, and return its index. */
__device__ __forceinline__ int taken(unsigned *bits)
{
    const int k = 31 - __clz(*bits);
    *bits ^= 1u << k;
    return k;
}

/* Write the neighbours of a particle in a row, by one thread, and return the end. */
__device__ __forceinline__ int64 write_row(GLOBAL const float4 *positions, GLOBAL const int *start,
                                           GLOBAL const int *order, GLOBAL const Grid *grid,
                                           float cutoff2, float slack, int particles, GLOBAL int *neighbours,
                                           int64 capacity, GLOBAL const unsigned *masks, int slot, int number,
                                           int64 place)
{
    const float4 p = positions[slot];
    float shift_y, shift_z;
    const Stretch s = row_of(grid, start, p, number, cutoff2, slack, &shift_y, &shift_z);
    const int is_marked = candidates_of(s, slot) <= 32 * WORDS;
    masks += (size_t)number * WORDS * particles + slot;
    int before = 0; /* candidates */
    for (int is_far = 0; is_far <= PERIODIC; ++is_far) {
        Piece piece;
        set_piece(&piece, s, is_far, grid, slot);
        while (piece.begin < piece.end) {
            const Piece part = part_of(piece, piece.begin, before);
            const int many = part.end - part.begin;
            unsigned bits = is_marked ? masks[(size_t)(before / 32) * particles] >> (before & 31) &
                                            0xffffffffu >> (32 - many)
                                      : word_of(positions, p, &part, part.begin, shift_y, shift_z, cutoff2, slot);
            for (; bits; ++place) {
                const int j = part.begin + taken(&bits);
                if (place < capacity)
                    neighbours[place] = order[j];
            }
            before += many;
            piece.begin = part.end;
        }
    }
    return place;
}

#if !STAGED

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity, GLOBAL const int *__restrict__ begins,
                     GLOBAL const int *__restrict__ wraps, GLOBAL const unsigned *__restrict__ masks)
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
#define AT_ONCE 16 /* rows loaded at once */
/* Rows held by a thread at once: short rows vary most in length, long ones take space. */
#define ROWS_AT_ONCE (WORDS == 1 ? 9 : 3)
#define LEAST 16 /* neighbours that a thread may write at once while any other must */
#define PITCH 33 /* 32, plus one so that the rows of a warp are in different banks */

/* Write the neighbours collected by the threads of a warp, up to 32 each, to the positions in `rows`. */
__device__ __forceinline__ void write_rows(const int *stage, int4 *rows, int listed, int64 place,
                                           const int *__restrict__ order, int *__restrict__ neighbours,
                                           int64 capacity)
{
    const int lane = threadIdx.x % 32, *of_lane = stage + (threadIdx.x - lane) * PITCH + lane;
    const int64 room = capacity - place;
    listed = room >= listed ? listed : room > 0 ? (int)room : 0;
    rows[threadIdx.x] = make_int4((int)place, (int)(place >> 32), listed, 0);
    rows += threadIdx.x - lane;
    neighbours += lane;
    __syncwarp();
#pragma unroll
    for (int first = 0; first < 32; first += AT_ONCE) {
        int id[AT_ONCE]; /* first, so that their loads overlap */
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            if (lane < rows[first + k].z)
                id[k] = order[of_lane[(first + k) * PITCH]];
        __syncwarp(); /* else fewer loads are ahead of stores */
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const int4 row = rows[first + k];
            if (lane < row.z)
                neighbours[(int64)((uint64)(unsigned)row.y << 32 | (unsigned)row.x)] = id[k];
        }
    }
    __syncwarp();
}

/* Note the words of ROWS_AT_ONCE rows, each with its first candidate, and return their end. Unmarked rows become bits
   of `others`. */
__device__ __forceinline__ int noted_words(int2 *words, int from, int particles, const int *__restrict__ begins,
                                           const int *__restrict__ wraps, const unsigned *__restrict__ masks,
                                           int slot, unsigned *others)
{
    int begin[ROWS_AT_ONCE], wrap[ROWS_AT_ONCE], end = threadIdx.x; /* all loads first, so that they overlap */
    unsigned loaded[ROWS_AT_ONCE * WORDS];
    const size_t first = (size_t)from * particles + slot;
    const unsigned *mask = masks + (size_t)from * WORDS * particles + slot;
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; ++r)
        begin[r] = begins[first + (size_t)r * particles];
#pragma unroll
    for (int w = 0; w < ROWS_AT_ONCE * WORDS; ++w, mask += particles)
        loaded[w] = *mask;
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE && PERIODIC; ++r)
        wrap[r] = begin[r] < -1 ? wraps[first + (size_t)r * particles] : 0;
#pragma unroll
    for (int w = 0; w < ROWS_AT_ONCE * WORDS; ++w) {
        const int r = w / WORDS, of_row = 32 * (w % WORDS);
        unsigned bits = loaded[w];
        int at = begin[r] + of_row;
        if (begin[r] == -1) {
            *others |= 1u << (from + r);
            bits = 0;
        } else if (PERIODIC && begin[r] < 0) {
            at = -2 - begin[r] + of_row;
            const int near = (wrap[r] & ((1 << NEAR_BITS) - 1)) - of_row;
            const unsigned far = bits & (near <= 0 ? ALL : near < 32 ? ALL << near : 0);
            words[end] = make_int2(at + (wrap[r] >> NEAR_BITS), (int)far);
            end += far ? BLOCK : 0;
            bits ^= far;
        }
        /* Without a branch: the next word overwrites one that has no bits. */
        words[end] = make_int2(at, (int)bits);
        end += bits ? BLOCK : 0;
    }
    return end;
}

__global__ void __launch_bounds__(BLOCK)
    fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
         GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
         float cutoff2, float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
         GLOBAL int *__restrict__ neighbours, int64 capacity, GLOBAL const int *__restrict__ begins,
         GLOBAL const int *__restrict__ wraps, GLOBAL const unsigned *__restrict__ masks)
{
    __shared__ int stage[BLOCK * PITCH];
    __shared__ int4 rows[BLOCK];
    __shared__ int2 words[(ROWS_AT_ONCE * (WORDS + PERIODIC) + 1) * BLOCK]; /* one more is accessed, but not used */
    const int slot = blockIdx.x * BLOCK + threadIdx.x, own = threadIdx.x * PITCH;
    int next = own, at = threadIdx.x, end = threadIdx.x, first = 0;
    int64 place = slot < particles ? offsets[order[slot]] : 0;
    unsigned bits = 0, others = 0; /* unmarked rows */
    for (int from = 0, is_last = 0; !is_last;) {
        if (!__any_sync(ALL, at < end)) {
            at = end = threadIdx.x;
            if (slot < particles)
                end = noted_words(words, from, particles, begins, wraps, masks, slot, &others);
            from += ROWS_AT_ONCE;
            first = words[at].x;
            bits = words[at].y;
        }
        /* Each thread iterates over its words, and pauses when it has 32 neighbours. */
#pragma unroll 1
        while (at < end && next < own + 32) {
            stage[next++] = first + taken(&bits);
            if (!bits) {
                at += BLOCK;
                first = words[at].x;
                bits = words[at].y;
            }
        }
        is_last = from == ROWS && !__any_sync(ALL, at < end);
        if (is_last || __any_sync(ALL, next == own + 32)) {
            const int many = is_last || next >= own + LEAST ? next - own : 0;
            write_rows(stage, rows, many, place, order, neighbours, capacity);
            place += many;
            next -= many;
        }
    }
    for (; others; others &= others - 1)
        place = write_row(positions, start, order, grid, cutoff2, slack, particles, neighbours, capacity, masks, slot,
                          __ffs(others) - 1, place);
}

#endif
