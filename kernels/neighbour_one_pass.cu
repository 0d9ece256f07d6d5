/* List the neighbours of each particle in one pass over sorted cells. Rows are in the order of the cells but for the
   order of blocks, and neighbours are numbered in it, so nothing is scattered by particle. The plain version:

       for each block of particles: count their neighbours, and keep the answers of all tests as bits
                                    room = atomic addition of the sum to `used`
           for each particle i:     begins[i] = room, counts[i] = number, neighbours[begins[i] ...] = those with bits

   The list with counts, scan and fill (neighbour_bitmask_list.cu) keeps bits in global memory, and reads positions
   twice. Tests, and the ranges of rows, as in neighbour_sorted_count.cu, whose PERIODIC, REACH and STEP these are.

   One thread per particle, BLOCK per block. WORDS: of 32 bits for a row of cells, more are tested again. STAGED: of a
   block's neighbours that are collected in shared memory, to be written contiguously. HALF is 0. */
#include "common/block_sum.h"
#include "common/marks.h"

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
    Along along;
    set_along(&along, grid, p.x, slack);
    Stretch s;
    set_stretch(&s, grid, start, cell_number(grid, 0, max(y, 0), max(z, 0)), &along,
                y < 0 || z < 0 ? 2.0f * cutoff2 : fmaf(gap_y, gap_y, gap_z * gap_z), cutoff2);
    return s;
}

/* Visit the words of a particle's row: its number among the words kept, -1 for those tested again, and its bits, tested
   here or as kept. */
#define FOR_WORDS(number, KEPT, VISIT)                                                                                 \
    {                                                                                                                  \
        float shift_y, shift_z;                                                                                        \
        const Stretch s = row_of(grid, start, p, number, cutoff2, slack, &shift_y, &shift_z);                          \
        const int is_kept = words_of(s, slot) <= WORDS;                                                                \
        int w = (number)*WORDS;                                                                                        \
        for (int is_far = 0; is_far <= PERIODIC; ++is_far) {                                                           \
            Piece piece;                                                                                               \
            set_piece(&piece, s, is_far, grid, slot);                                                                  \
            for (int first = piece.begin; first < piece.end; first += 32, ++w) {                                       \
                unsigned bits = KEPT && is_kept                                                                        \
                                    ? masks[w * BLOCK + (int)threadIdx.x]                                              \
                                    : word_of(positions, p, &piece, first, shift_y, shift_z, cutoff2, slot);           \
                VISIT                                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }

__global__ void list_rows(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                          GLOBAL const Grid *__restrict__ grid, float cutoff2, float slack, int particles,
                          GLOBAL int *__restrict__ begins, GLOBAL int *__restrict__ counts,
                          GLOBAL int *__restrict__ neighbours, int capacity, GLOBAL int *__restrict__ used)
{
    __shared__ unsigned masks[ROWS * WORDS * BLOCK];
    __shared__ int staged[STAGED], sums[BLOCK], room_and_total[2];
    const int slot = (int)(blockIdx.x * BLOCK + threadIdx.x);
    const float4 p = slot < particles ? positions[slot] : make_float4(0, 0, 0, 0);
    int found = 0;
    if (slot < particles)
        for (int number = 0; number < ROWS; ++number)
            FOR_WORDS(number, 0, found += __popc(bits); if (is_kept) masks[w * BLOCK + (int)threadIdx.x] = bits;)
    const int at = sum_before(found, sums, BLOCK);
    if (threadIdx.x == BLOCK - 1) {
        room_and_total[1] = at + found;
        room_and_total[0] = atomicAdd(used, at + found);
    }
    __syncthreads();
    const int room = room_and_total[0], total = room_and_total[1];
    if (slot < particles) {
        begins[slot] = room + at;
        counts[slot] = found;
    }
    for (int chunk = 0; chunk < total; chunk += STAGED) {
        int k = at - chunk;
        if (slot < particles && k < STAGED && k + found > 0)
            for (int number = 0; number < ROWS; ++number)
                FOR_WORDS(number, 1, for (; bits; ++k) {
                    const int bit = 31 - __clz((int)bits);
                    bits ^= 1u << bit;
                    if (k >= 0 && k < STAGED)
                        staged[k] = first + bit;
                })
        __syncthreads();
        const int many = min(min(total - chunk, STAGED), capacity - room - chunk);
        for (int s = threadIdx.x; s < many; s += BLOCK)
            neighbours[room + chunk + s] = staged[s];
        __syncthreads();
    }
}
