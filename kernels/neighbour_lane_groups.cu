/* Count and list the neighbours of each particle, for few particles: LANES threads per particle, 16 or 32, which look
   up a row of cells each, test LANES candidates at a time, and write neighbours contiguously. Over sorted cells; HALF,
   PERIODIC and REACH as in neighbour_sorted_count.cu, whose distance test this repeats to the bit. Needs warps (CUDA).

   With AHEAD the first LANES candidates of all rows are loaded before any is tested, as there are too few threads to
   hide dependent loads; then those past a periodic end likewise. That pays if few rows are longer. */
#include "common/stretch.h"

#define ROWS 9
#define ALL 0xffffffffu
/* The value of one thread of a particle. */
#define OF(lane, value) __shfl_sync(ALL, value, lane, LANES)

/* A row of cells that one thread looked up for its whole group. */
typedef struct Row {
    Stretch stretch;
    float shift_x, shift_y, shift_z;
} Row;

__device__ __forceinline__ Row row_of(const Grid *grid, const int *start, int number, float4 p, float cutoff2,
                                      float slack, int slot)
{
    Row row;
    const int dy = number % 3, dz = number / 3;
    const int cy = cell_along(grid, 1, p.y), cz = cell_along(grid, 2, p.z);
    const int y = neighbour_cell(grid, 1, cy + dy - 1, &row.shift_y);
    const int z = neighbour_cell(grid, 2, cz + dz - 1, &row.shift_z);
    const bool is_row = number < ROWS && y >= 0 && z >= 0;
    float before, behind;
    gaps(grid, 1, cy, p.y, slack, &before, &behind);
    const float gap_y = dy == 0 ? before : dy == 2 ? behind : 0.0f;
    gaps(grid, 2, cz, p.z, slack, &before, &behind);
    const float gap_z = dz == 0 ? before : dz == 2 ? behind : 0.0f;
    Along along;
    set_along(&along, grid, p.x, slack);
    set_stretch(&row.stretch, grid, start, is_row ? cell_number(grid, 0, y, z) : 0, &along,
                is_row ? fmaf(gap_y, gap_y, gap_z * gap_z) : 2.0f * cutoff2, cutoff2);
    row.shift_x = row.stretch.far_begin < row.stretch.begin ? grid->size[0] : -grid->size[0];
    if (HALF) {
        row.stretch.begin = max(row.stretch.begin, slot + 1);
        row.stretch.far_begin = max(row.stretch.far_begin, slot + 1);
    }
    return row;
}

/* The first candidates of all rows: LANES of each, from BEGIN to END. */
#define FOR_FIRST_CANDIDATES(VISIT, ID, BEGIN, END, SHIFT_X)                                                          \
    {                                                                                                                 \
        bool is_one[ROWS];                                                                                            \
        int id[ROWS];                                                                                                 \
        float4 q[ROWS];                                                                                               \
        _Pragma("unroll") for (int r = 0; r < ROWS; ++r)                                                              \
        {                                                                                                             \
            const int j = OF(r, BEGIN) + lane;                                                                        \
            is_one[r] = j < OF(r, END) && j != slot;                                                                  \
            q[r] = positions[is_one[r] ? j : slot];                                                                   \
            id[r] = ID(is_one[r] ? j : slot);                                                                         \
        }                                                                                                             \
        _Pragma("unroll") for (int r = 0; r < ROWS; ++r)                                                              \
        {                                                                                                             \
            const float shift_y = PERIODIC ? OF(r, own.shift_y) : 0.0f;                                               \
            const float shift_z = PERIODIC ? OF(r, own.shift_z) : 0.0f;                                               \
            VISIT(is_one[r] & is_near(p, q[r], SHIFT_X, shift_y, shift_z, cutoff2), id[r])                            \
        }                                                                                                             \
    }

/* Iterate over the candidates of a particle, LANES at a time: each thread calls VISIT(near, id) with whether its
   candidate is a neighbour, and with its id, loaded by ID(j). Warps stay converged: row lengths are uniform. */
#define FOR_ALL_CANDIDATES(VISIT, ID)                                                                                 \
    for (int is_far = 0; is_far <= PERIODIC; ++is_far) {                                                              \
        int begin = is_far ? own.stretch.far_begin : own.stretch.begin;                                               \
        const int end = is_far ? own.stretch.far_end : own.stretch.end;                                               \
        if (is_far && !__any_sync(ALL, begin < end))                                                                  \
            continue;                                                                                                 \
        if (AHEAD) {                                                                                                  \
            FOR_FIRST_CANDIDATES(VISIT, ID, begin, end, is_far ? OF(r, own.shift_x) : 0.0f)                           \
            begin += LANES;                                                                                           \
            if (!__any_sync(ALL, begin < end))                                                                        \
                continue;                                                                                             \
        }                                                                                                             \
        _Pragma("unroll 1") for (int r = 0; r < ROWS; ++r)                                                            \
        {                                                                                                             \
            const int last = OF(r, end);                                                                              \
            const float shift_x = is_far ? OF(r, own.shift_x) : 0.0f;                                                 \
            const float shift_y = PERIODIC ? OF(r, own.shift_y) : 0.0f;                                               \
            const float shift_z = PERIODIC ? OF(r, own.shift_z) : 0.0f;                                               \
            for (int j = OF(r, begin) + lane; __any_sync(ALL, j - lane < last); j += LANES) {                         \
                const bool is_one = j < last && j != slot;                                                            \
                const bool near =                                                                                     \
                    is_one && is_near(p, positions[j], shift_x, shift_y, shift_z, cutoff2);                           \
                VISIT(near, near ? ID(j) : 0)                                                                         \
            }                                                                                                         \
        }                                                                                                             \
    }

__global__ void count(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                      GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                      float slack, int particles, GLOBAL int *__restrict__ counts)
{
    if (particles == 0)
        return;
    const int lane = threadIdx.x % LANES;
    /* Past the last particle, repeat the last one. */
    const int slot = min((int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), particles - 1);
    const Grid cells = *grid;
    const float4 p = positions[slot];
    const int particle = order[slot];
    const Row own = row_of(&cells, start, lane, p, cutoff2, slack, slot);
    int listed = 0;
#define NONE(j) 0
#define ADD(near, id) listed += (near), (void)(id);
    FOR_ALL_CANDIDATES(ADD, NONE)
    for (int reach = LANES / 2; reach > 0; reach /= 2)
        listed += __shfl_xor_sync(ALL, listed, reach);
    if (lane == 0)
        counts[particle] = listed;
}

__global__ void fill(GLOBAL const float4 *__restrict__ positions, GLOBAL const int *__restrict__ start,
                     GLOBAL const int *__restrict__ order, GLOBAL const Grid *__restrict__ grid, float cutoff2,
                     float slack, int particles, GLOBAL const int64 *__restrict__ offsets,
                     GLOBAL int *__restrict__ neighbours, int64 capacity)
{
    if (particles == 0)
        return;
    const int lane = threadIdx.x % LANES, first = threadIdx.x % 32 - lane;
    const unsigned group = (ALL >> (32 - LANES)) << first, before = group & ((1u << (first + lane)) - 1u);
    const int slot = min((int)((blockIdx.x * (size_t)blockDim.x + threadIdx.x) / LANES), particles - 1);
    const Grid cells = *grid;
    const float4 p = positions[slot];
    int64 place = offsets[order[slot]];
    const Row own = row_of(&cells, start, lane, p, cutoff2, slack, slot);
#define ID(j) order[j]
#define WRITE(near, id)                                                                                               \
    {                                                                                                                 \
        const bool writes = near;                                                                                     \
        const unsigned found = __ballot_sync(ALL, writes);                                                            \
        const int64 mine = place + __popc(found & before);                                                            \
        if (writes && mine < capacity)                                                                                \
            neighbours[mine] = id;                                                                                    \
        place += __popc(found & group);                                                                               \
    }
    FOR_ALL_CANDIDATES(WRITE, ID)
}
