/* Count and list the neighbours of each particle where there are few particles: LANES threads a particle, which look
   up a row of cells each, test LANES candidates at a time, and write those that are near side by side. Over sorted
   cells; HALF, PERIODIC and REACH as in neighbour_count.cu, whose distance test this repeats to the bit. Needs warps
   (CUDA). */
#include "common/stretch.h"

#define ROWS 9

/* A row of cells that a thread looked up for all of its group. */
typedef struct Row {
    Stretch stretch;
    float shift_x, shift_y, shift_z;
} Row;

__device__ __forceinline__ Row row_of(GLOBAL const Grid *grid, GLOBAL const int *start, int number, float4 p,
                                      float cutoff2, float slack)
{
    Row row = {{0, 0, 0, 0}, 0.0f, 0.0f, 0.0f};
    const int dy = number % 3, dz = number / 3;
    const int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    const int y = neighbour_cell(grid, 1, cy + dy - 1, &row.shift_y);
    const int z = neighbour_cell(grid, 2, cz + dz - 1, &row.shift_z);
    if (number >= ROWS || y < 0 || z < 0)
        return row;
    float before, behind;
    gaps(grid, 1, cy, p.y, slack, &before, &behind);
    const float gap_y = dy == 0 ? before : dy == 2 ? behind : 0.0f;
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    const float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
    Along along;
    set_along(&along, grid, p.x, slack);
    set_stretch(&row.stretch, grid, start, cell_number(grid, 0, y, z), &along,
                fmaf(gap_y, gap_y, gap_z * gap_z), cutoff2);
    row.shift_x = row.stretch.far_begin < row.stretch.begin ? grid->size[0] : -grid->size[0];
    return row;
}

/* Go through the candidates of a particle, LANES at a time: VISIT(j, near, found) is done by each thread with its
   candidate, whether that is a neighbour, and the bits of all threads of the group. */
#define FOR_ALL_CANDIDATES(VISIT)                                                                                     \
    for (int number = 0; number < ROWS; number += LANES) {                                                            \
        const Row own = row_of(grid, start, number + lane, p, cutoff2, slack);                                        \
        for (int from = 0; from < LANES && number + from < ROWS; ++from) {                                            \
            int begin = __shfl_sync(group, own.stretch.begin, from, LANES);                                           \
            int end = __shfl_sync(group, own.stretch.end, from, LANES);                                               \
            const float shift_y = __shfl_sync(group, own.shift_y, from, LANES);                                       \
            const float shift_z = __shfl_sync(group, own.shift_z, from, LANES);                                       \
            float shift_x = 0.0f;                                                                                     \
            for (int piece = 0; piece < (PERIODIC ? 2 : 1); ++piece) {                                                \
                if (piece) {                                                                                          \
                    begin = __shfl_sync(group, own.stretch.far_begin, from, LANES);                                   \
                    end = __shfl_sync(group, own.stretch.far_end, from, LANES);                                       \
                    shift_x = __shfl_sync(group, own.shift_x, from, LANES);                                           \
                }                                                                                                     \
                if (HALF)                                                                                             \
                    begin = max(begin, slot + 1);                                                                     \
                for (int base = begin; base < end; base += LANES) {                                                   \
                    const int j = base + lane;                                                                        \
                    const int near = j < end && j != slot &&                                                          \
                                     is_near(p, positions[j], shift_x, shift_y, shift_z, cutoff2);                    \
                    const unsigned found = __ballot_sync(group, near);                                                \
                    VISIT(j, near, found)                                                                             \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                      float slack, int particles, GLOBAL int *__restrict__ counts)
{
    const int lane = threadIdx.x % LANES, first = threadIdx.x % 32 - lane;
    const unsigned group = (unsigned)((1ull << LANES) - 1) << first;
    const int slot = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES);
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    int listed = 0;
#define ADD(j, near, found) listed += __popc(found);
    FOR_ALL_CANDIDATES(ADD)
    if (lane == 0)
        counts[order[slot]] = listed;
}

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                     float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity)
{
    const int lane = threadIdx.x % LANES, first = threadIdx.x % 32 - lane;
    const unsigned group = (unsigned)((1ull << LANES) - 1) << first;
    const int slot = (int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES);
    if (slot >= particles)
        return;
    const float4 p = positions[slot];
    int64 place = offsets[order[slot]];
#define WRITE(j, near, found)                                                                                         \
    const int64 mine = place + __popc(found & ((1u << (first + lane)) - 1u));                                         \
    if (near && mine < capacity)                                                                                      \
        neighbours[mine] = order[j];                                                                                  \
    place += __popc(found);
    FOR_ALL_CANDIDATES(WRITE)
}
