#include <cuda_runtime.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gpubench {

/* Lists all pairs of particles that are nearer than a cutoff.

   init() once for a number of particles and a box; prepare() once for a workspace; then, for each set
   of positions, count() and, for a list, sum() and fill(). These allocate and throw nothing, and wait
   for nothing: all work goes to the stream, and each function returns what CUDA said. */
class NeighbourList {
  public:
    /* low, size: the box, in the unit of the positions, which lie in it. Returns cudaErrorInvalidValue
       for a number below 1 or from 2^30 on, a box or cutoff that is not positive and finite, cells that
       are too many or that float cannot tell apart, and an axis that repeats after less than three
       cutoffs. */
    cudaError_t init(int particles, const float low[3], const float size[3], float cutoff)
    {
        static const bool repeats[3] = {REPEATS_HERE};
        if (particles < 1 || particles >= 1 << 30 || !(cutoff > 0.0f) || !std::isfinite(cutoff))
            return cudaErrorInvalidValue;
        float ends[3], largest = 0.0f;
        double along[3]; /* cells */
        for (int a = 0; a < 3; ++a) {
            ends[a] = std::fmax(std::fabs(low[a]), std::fabs(low[a] + size[a]));
            largest = std::fmax(largest, std::fmax(ends[a], size[a]));
            along[a] = std::fmax(1.0, std::floor((double)size[a] / cutoff * (1.0 + 0x1p-22)));
            if (!(size[a] > 0.0f) || !std::isfinite(ends[a]) || (repeats[a] && along[a] < 3.0))
                return cudaErrorInvalidValue;
        }
        /* Many more cells than particles cost time and memory: longer ones along the longest axis. */
        while (along[0] * along[1] * along[2] > std::fmax(4096.0, 4.0 * particles)) {
            const auto longest = std::max_element(along, along + 3) - along;
            const double least = repeats[longest] ? 3.0 : 1.0;
            if (along[longest] <= least)
                break;
            along[longest] = std::fmax(least, std::ceil(along[longest] / 2.0));
        }
#if SORTED
        along[0] *= PARTS_HERE; /* shorter cells along x: fewer particles out of reach */
        slack = 8.0f * FLT_EPSILON * largest; /* what rounding may take from a distance to a cell */
#endif
        if (along[0] * along[1] * along[2] > 2147483646.0)
            return cudaErrorInvalidValue;
        for (int a = 0; a < 3; ++a) {
            const double edge = size[a] / along[a];
            if (edge < std::fmax(4.0f * FLT_EPSILON * ends[a], 1e-15f))
                return cudaErrorInvalidValue;
            host_grid.low[a] = low[a];
            host_grid.size[a] = size[a];
            host_grid.cells[a] = (int)along[a];
            host_grid.inverse_cell[a] = 1.0f / (float)edge;
            host_grid.periodic[a] = repeats[a];
        }
        cells = host_grid.cells[0] * host_grid.cells[1] * host_grid.cells[2];
        n = particles;
        cutoff2 = cutoff * cutoff;
        place(nullptr);
        return cudaSuccess;
    }

    /* Bytes of device memory that prepare() takes. */
    size_t workspace_bytes() const { return bytes; }

    /* Take a workspace, aligned as cudaMalloc aligns; it holds the state between count() and fill(). Not
       for a stream that is being captured: it copies from the host. */
    cudaError_t prepare(void *workspace, cudaStream_t stream)
    {
        place((char *)workspace);
        cudaError_t error = cudaMemsetAsync(workspace, 0, bytes, stream);
        return error != cudaSuccess ? error
                                    : cudaMemcpyAsync(grid, &host_grid, sizeof host_grid, cudaMemcpyHostToDevice, stream);
    }

    /* counts[i] = how many neighbours particle i has.
       given: x, y, z and a number that is ignored, of each particle. */
    cudaError_t count(const float4 *given, int *counts, cudaStream_t stream)
    {
        using namespace detail;
        positions = given;
COUNT_HERE
        return cudaGetLastError();
    }

#if LISTS
    /* rows[i] = where the neighbours of particle i begin; rows[particles] = how many there are. */
    cudaError_t sum(int *counts, int64_t *rows, cudaStream_t stream)
    {
        using namespace detail;
        int64 *offsets = (int64 *)rows;
SUM_HERE
        return cudaGetLastError();
    }

    /* Write the neighbours of the particles that count() saw last, as far as there is room. Their
       positions must still be where they were. */
    cudaError_t fill(const int64_t *rows, int *neighbours, int64_t capacity, cudaStream_t stream)
    {
        using namespace detail;
        const int64 *offsets = (const int64 *)rows;
FILL_HERE
        return cudaGetLastError();
    }

#endif
  private:
    static unsigned blocks(int64_t items, int per_block) { return (unsigned)((items + per_block - 1) / per_block); }

    template <typename T> void take(char *&at, T *&array, size_t items)
    {
        array = (T *)at;
        at += (items * sizeof(T) + 255) / 256 * 256;
    }

    void place(char *begin)
    {
        using namespace detail;
        const size_t n = this->n, cells = this->cells;
        char *at = begin;
        take(at, grid, 1);
TAKE_HERE
        bytes = at - begin;
    }

#if RADIX
    /* Sort the numbers of cells, and particles by them into order. */
    void sort(cudaStream_t stream)
    {
        using namespace detail::radix_sort;
        void (*const count[4])(const unsigned *, unsigned *, int) = {
            count_digits<1>, count_digits<2>, count_digits<3>, count_digits<4>};
        unsigned *const keys[2] = {(unsigned *)sorted_cells, (unsigned *)other_cells};
        int *const values[2] = {order, other_order};
        const unsigned *from = (const unsigned *)cell_of;
        int passes = 1;
        while (passes < 4 && (cells - 1) >> (DIGIT_BITS * passes))
            ++passes;
        const unsigned few = std::min(blocks(n, COUNT_BLOCK * COUNT_ITEMS), 1024u);
        count[passes - 1]<<<few, COUNT_BLOCK, 0, stream>>>(from, bins, n);
        for (int pass = 0; pass < passes; ++pass) {
            const int to = (passes - 1 - pass) % 2;
            sort_digit<<<blocks(n, BLOCK * ITEMS), BLOCK, 0, stream>>>(
                from, values[1 - to], keys[to], values[to], bins, ticket, chains, pass, pass == 0, n);
            from = keys[to];
        }
    }

#endif
    int n = 0, cells = 0;
    size_t bytes = 0;
    float cutoff2 = 0.0f, slack = 0.0f;
    const float4 *positions = nullptr;
    detail::Grid host_grid{}, *grid = nullptr;
DECLARE_HERE
};

}
