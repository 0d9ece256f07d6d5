/* Count and list the neighbours of each particle in a tilted cell that repeats along three vectors, over sorted cells
   of its brick (common/tilted.h). The plain version:

       for each particle i, for each of the nine rows around it, for each particle j in the row:
           if |x[j] - x[i]| < cutoff, where i is moved to the row, and j != i: j is a neighbour of i

   `count` keeps words of 32 candidates for `fill`, each with its first candidate: those of a row at words[row * WORDS],
   what finds no room there behind those of all rows. If there is no room either (extras > EXTRAS), `fill` tests the
   particle's candidates again. Arrays of words are `particles` long. HALF, BLOCK, STEP, STAGED: see
   neighbour_bitmask_list.cu. PERIODIC is 0. With LISTS 0, nothing is kept. */
#if LISTS
#define fill fill_in_boxes /* Its functions are used here, not its kernel. */
#include "neighbour_bitmask_list.cu"
#undef fill
#else
#include "common/marks.h"
#endif
#include "common/tilted.h"

#define EXTRAS ROWS

/* As in neighbour_bitmask_count.cu. */
#if defined(__CUDACC__) && WORDS > 1
#define OCCUPANCY __launch_bounds__(BLOCK, 1024 / BLOCK)
#else
#define OCCUPANCY
#endif

/* Bit k: candidate first + k of a stretch, near or far, is a neighbour. */
__device__ __forceinline__ unsigned word_in(GLOBAL const float4 *positions, const TiltedRow *row, int is_far, int first,
                                            int end, float cutoff2, int own)
{
    const float4 p = make_float4(is_far ? row->far_x : row->x, row->y, row->z, 0.0f);
    const unsigned near = near_bits(positions, p, first, min(first + 32, end), 0.0f, 0.0f, 0.0f, cutoff2);
    return (unsigned)(own - first) < 32u ? near & ~(1u << (own - first)) : near;
}

__device__ __forceinline__ int begin_of(Stretch s, int is_far, int own)
{
    const int begin = is_far ? s.far_begin : s.begin;
    return HALF ? max(begin, own + 1) : begin;
}

__global__ void OCCUPANCY count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      GLOBAL const Tilt *__restrict__ tilt, float cutoff2, float slack, int particles,
                      GLOBAL int *__restrict__ counts, GLOBAL int *__restrict__ extras,
                      GLOBAL int2 *__restrict__ words)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    int found = 0;
#if LISTS
    GLOBAL int2 *kept = words + slot;
    int extra = 0;
#endif
#pragma unroll 1
    for (int dz = -1; dz <= 1; ++dz) {
        Layer layer;
        set_layer(&layer, grid, tilt, p, dz, slack);
        /* The bounds of three rows first: their loads overlap. */
        TiltedRow row[3];
#pragma unroll
        for (int dy = 0; dy < 3; ++dy)
            set_row(&row[dy], &layer, grid, tilt, start, dy - 1, cutoff2, slack);
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
            const int own = dy == 1 ? (int)slot : -1; /* in a row with its own y only */
            int w = 0;
            for (int is_far = 0; is_far < 2; ++is_far) {
                const int end = is_far ? row[dy].stretch.far_end : row[dy].stretch.end;
#pragma unroll 1
                for (int first = begin_of(row[dy].stretch, is_far, slot); first < end; first += 32, ++w) {
                    const unsigned near = word_in(positions, &row[dy], is_far, first, end, cutoff2, own);
                    found += __popc(near);
#if LISTS
                    if (w < WORDS) {
                        *kept = make_int2(first, (int)near);
                        kept += particles;
                    } else if (near) {
                        if (extra < EXTRAS)
                            words[(size_t)(ROWS * WORDS + extra) * particles + slot] = make_int2(first, (int)near);
                        ++extra;
                    }
#endif
                }
            }
#if LISTS
            for (; w < WORDS; ++w, kept += particles)
                *kept = make_int2(0, 0);
#endif
        }
    }
    counts[order[slot]] = found;
#if LISTS
    extras[slot] = extra;
#endif
}

#if LISTS

/* Write the neighbours of a particle, tested again, by one thread. */
__device__ __forceinline__ void write_tested(GLOBAL const float4 *positions, GLOBAL const int *start,
                                             GLOBAL const int *order, GLOBAL const Grid *grid, GLOBAL const Tilt *tilt,
                                             float cutoff2, float slack, GLOBAL int *neighbours, int64 capacity,
                                             int slot, int64 place)
{
    for (int number = 0; number < ROWS; ++number) {
        Layer layer;
        TiltedRow row;
        set_layer(&layer, grid, tilt, positions[slot], number / 3 - 1, slack);
        set_row(&row, &layer, grid, tilt, start, number % 3 - 1, cutoff2, slack);
        for (int is_far = 0; is_far < 2; ++is_far) {
            const int end = is_far ? row.stretch.far_end : row.stretch.end;
            for (int first = begin_of(row.stretch, is_far, slot); first < end; first += 32) {
                unsigned bits = word_in(positions, &row, is_far, first, end, cutoff2, slot);
                for (; bits; ++place) {
                    const int j = first + taken(&bits);
                    if (place < capacity)
                        neighbours[place] = order[j];
                }
            }
        }
    }
}

#if !STAGED

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     GLOBAL const Tilt *__restrict__ tilt, float cutoff2, float slack, int particles,
                     GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity,
                     GLOBAL const int *__restrict__ extras, GLOBAL const int2 *__restrict__ words)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= particles)
        return;
    int64 place = offsets[order[slot]];
    const int extra = extras[slot];
    if (extra > EXTRAS)
        write_tested(positions, start, order, grid, tilt, cutoff2, slack, neighbours, capacity, slot, place);
    for (int k = 0; extra <= EXTRAS && k < ROWS * WORDS + extra; ++k) {
        const int2 word = words[(size_t)k * particles + slot];
        unsigned bits = (unsigned)word.y;
        for (; bits; ++place) {
            const int j = word.x + taken(&bits);
            if (place < capacity)
                neighbours[place] = order[j];
        }
    }
}

#else

#define CHUNK ROWS /* words that a thread loads at once */

/* Store the nonzero words of a chunk, and return their end. */
__device__ __forceinline__ int noted_chunk(int2 *noted, const int2 *__restrict__ words, int from, int number,
                                           int particles, int slot)
{
    int2 loaded[CHUNK]; /* all loads first, so that they overlap */
#pragma unroll
    for (int k = 0; k < CHUNK; ++k)
        loaded[k] = from + k < number ? words[(size_t)(from + k) * particles + slot] : make_int2(0, 0);
    int end = threadIdx.x;
#pragma unroll
    for (int k = 0; k < CHUNK; ++k)
        if (loaded[k].y) {
            noted[end] = loaded[k];
            end += BLOCK;
        }
    return end;
}

/* As the kernel in neighbour_bitmask_list.cu. */
__global__ void __launch_bounds__(BLOCK)
    fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
         GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
         GLOBAL const Tilt *__restrict__ tilt, float cutoff2, float slack, int particles,
         GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity,
         GLOBAL const int *__restrict__ extras, GLOBAL const int2 *__restrict__ words)
{
    __shared__ int stage[BLOCK * PITCH];
    __shared__ int4 rows[BLOCK];
    __shared__ int2 noted[(CHUNK + 1) * BLOCK]; /* one more is read, but not used */
    const int slot = blockIdx.x * BLOCK + threadIdx.x, own = threadIdx.x * PITCH, is_one = slot < particles;
    const int extra = is_one ? extras[slot] : 0, is_marked = extra <= EXTRAS;
    const int number = is_one && is_marked ? ROWS * WORDS + extra : 0;
    int next = own, at = threadIdx.x, end = threadIdx.x, first = 0;
    int64 place = is_one ? offsets[order[slot]] : 0;
    unsigned bits = 0;
    for (int from = 0, is_last = 0; !is_last;) {
        if (!__any_sync(ALL, at < end)) {
            at = threadIdx.x;
            end = noted_chunk(noted, words, from, number, particles, slot);
            from += CHUNK;
            first = noted[at].x;
            bits = (unsigned)noted[at].y;
        }
        /* Each thread iterates over its words, and pauses when it has 32 neighbours. */
#pragma unroll 1
        while (at < end && next < own + 32) {
            stage[next++] = first + taken(&bits);
            if (!bits) {
                at += BLOCK;
                first = noted[at].x;
                bits = (unsigned)noted[at].y;
            }
        }
        is_last = !__any_sync(ALL, from < number || at < end);
        if (is_last || __any_sync(ALL, next == own + 32)) {
            const int many = is_last || next >= own + LEAST ? next - own : 0;
            write_rows(stage, rows, many, place, order, neighbours, capacity);
            place += many;
            next -= many;
        }
    }
    if (is_one && !is_marked)
        write_tested(positions, start, order, grid, tilt, cutoff2, slack, neighbours, capacity, slot, place);
}

#endif
#endif
