/* Count and list the neighbours of each particle in a tilted cell (common/tilted.h) by LANES threads, 16 or 32: for
   few particles of many neighbours, and where rows of cells have more candidates than tilted_cells.cu marks. As
   neighbour_lane_groups.cu, each thread looks up a row, to which it moves the particle; then all test LANES candidates
   of a row at a time, and write neighbours contiguously. HALF, REACH: see tilted_cells.cu. Needs warps (CUDA). */
#include "common/tilted.h"

#define ROWS 9
#define ALL 0xffffffffu
/* The value of one thread of a particle. */
#define OF(lane, value) __shfl_sync(ALL, value, lane, LANES)

/* The row of a thread; those past the last one are empty. */
__device__ __forceinline__ TiltedRow row_of(const Grid *grid, const Tilt *tilt, const int *start, int number, float4 p,
                                            float cutoff2, float slack, int slot)
{
    Layer layer;
    TiltedRow row;
    set_layer(&layer, grid, tilt, p, min(number, ROWS - 1) / 3 - 1, slack);
    set_row(&row, &layer, grid, tilt, start, number % 3 - 1, cutoff2, slack);
    if (number >= ROWS)
        row.stretch.end = row.stretch.far_end = 0;
    if (HALF) {
        row.stretch.begin = max(row.stretch.begin, slot + 1);
        row.stretch.far_begin = max(row.stretch.far_begin, slot + 1);
    }
    return row;
}

/* Iterate over the candidates of a particle, LANES at a time: each thread calls VISIT(near, j) with whether its
   candidate is a neighbour. Warps stay converged: row lengths are uniform. */
#define FOR_ALL_CANDIDATES(VISIT)                                                                                     \
    for (int is_far = 0; is_far < 2; ++is_far) {                                                                      \
        const int begin = is_far ? own.stretch.far_begin : own.stretch.begin;                                         \
        const int end = is_far ? own.stretch.far_end : own.stretch.end;                                               \
        const float x = is_far ? own.far_x : own.x;                                                                   \
        if (!__any_sync(ALL, begin < end))                                                                            \
            continue;                                                                                                 \
        _Pragma("unroll 1") for (int r = 0; r < ROWS; ++r)                                                            \
        {                                                                                                             \
            const float4 moved = make_float4(OF(r, x), OF(r, own.y), OF(r, own.z), 0.0f);                             \
            const int last = OF(r, end);                                                                              \
            for (int j = OF(r, begin) + lane; __any_sync(ALL, j - lane < last); j += LANES) {                         \
                const bool near = j < last && j != slot && square_distance(moved, positions[j]) < cutoff2;            \
                VISIT(near, j)                                                                                        \
            }                                                                                                         \
        }                                                                                                             \
    }

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                      GLOBAL const Tilt *__restrict__ tilt, float cutoff2, float slack, int particles,
                      GLOBAL int *__restrict__ counts)
{
    if (particles == 0)
        return;
    const int lane = threadIdx.x % LANES;
    /* Past the last particle, repeat the last one. */
    const int slot = min((int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), particles - 1);
    const TiltedRow own = row_of(grid, tilt, start, lane, positions[slot], cutoff2, slack, slot);
    int found = 0;
#define ADD(near, j) found += near;
    FOR_ALL_CANDIDATES(ADD)
    for (int reach = LANES / 2; reach > 0; reach /= 2)
        found += __shfl_xor_sync(ALL, found, reach);
    if (lane == 0)
        counts[order[slot]] = found;
}

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid,
                     GLOBAL const Tilt *__restrict__ tilt, float cutoff2, float slack, int particles,
                     GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity)
{
    if (particles == 0)
        return;
    const int lane = threadIdx.x % LANES, first = threadIdx.x % 32 - lane;
    const unsigned group = (ALL >> (32 - LANES)) << first, before = group & ((1u << (first + lane)) - 1u);
    const int slot = min((int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), particles - 1);
    const TiltedRow own = row_of(grid, tilt, start, lane, positions[slot], cutoff2, slack, slot);
    int64 place = offsets[order[slot]];
#define WRITE(near, j)                                                                                                \
    {                                                                                                                 \
        const unsigned found = __ballot_sync(ALL, near);                                                              \
        const int64 mine = place + __popc(found & before);                                                            \
        if (near && mine < capacity)                                                                                  \
            neighbours[mine] = order[j];                                                                              \
        place += __popc(found & group);                                                                               \
    }
    FOR_ALL_CANDIDATES(WRITE)
}
