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
        static const int repeats[3] = {$REPEATS};
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
            double *longest = std::max_element(along, along + 3);
            *longest = std::ceil(*longest / 2.0);
        }
        along[0] *= $PARTS; /* shorter cells along x: fewer particles out of reach */
        slack = 8.0f * FLT_EPSILON * largest; /* what rounding may take from a distance to a cell */
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
        const unsigned sorting = blocks(n, sort::BLOCK * sort::ITEMS);
        sort::histogram_with_rank<<<sorting, sort::BLOCK, 0, stream>>>(
            positions, grid, cell_of, cell_counts, rank, n);
        scan_cells::scan_lookback<<<blocks(cells, scan_cells::BLOCK * scan_cells::ITEMS), scan_cells::BLOCK, 0, stream>>>(
            cell_counts, start, cell_status, cells);
        sort::scatter_by_rank<<<sorting, sort::BLOCK, 0, stream>>>(
            cell_of, start, rank, order, positions, sorted, n);
        sort::gather<<<blocks(n, sort::BLOCK), sort::BLOCK, 0, stream>>>(order, positions, sorted, n);
        query::count<<<blocks(n, query::BLOCK), query::BLOCK, 0, stream>>>(
#if LISTS
            sorted, start, order, grid, cutoff2, slack, n, counts, begins, masks);
#else
            sorted, start, order, grid, cutoff2, slack, n, counts);
#endif
        return cudaGetLastError();
    }

#if LISTS
    /* rows[i] = where the neighbours of particle i begin; rows[particles] = how many there are. */
    cudaError_t sum(int *counts, int64_t *rows, cudaStream_t stream)
    {
        using namespace detail;
        scan_counts::scan_lookback<<<blocks(n, scan_counts::BLOCK * scan_counts::ITEMS), scan_counts::BLOCK, 0, stream>>>(
            counts, (int64 *)rows, status, n);
        return cudaGetLastError();
    }

    /* Write the neighbours of the particles that count() saw last, as far as there is room. Their
       positions must still be where they were. */
    cudaError_t fill(const int64_t *rows, int *neighbours, int64_t capacity, cudaStream_t stream)
    {
        using namespace detail;
        query::fill<<<blocks(n, query::BLOCK), query::BLOCK, 0, stream>>>(
            sorted, start, order, grid, cutoff2, slack, n, (const int64 *)rows, neighbours, capacity, begins, masks);
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
        take(at, cell_of, n);
        take(at, cell_counts, cells);
        take(at, cell_status, 1 + blocks(cells, scan_cells::BLOCK * scan_cells::ITEMS));
        take(at, rank, n);
        take(at, start, cells + 1);
        take(at, order, n);
        take(at, sorted, n);
#if LISTS
        take(at, status, 1 + blocks(n, scan_counts::BLOCK * scan_counts::ITEMS));
        take(at, begins, 9 * n);
        take(at, masks, 9 * query::WORDS * n);
#endif
        bytes = at - begin;
    }

    int n = 0, cells = 0;
    size_t bytes = 0;
    float cutoff2 = 0.0f, slack = 0.0f;
    const float4 *positions = nullptr;
    detail::Grid host_grid{}, *grid = nullptr;
    /* Buffers in the workspace, see place(). */
    int *cell_of, *cell_counts, *rank, *start, *order;
    detail::uint64 *cell_status, *status;
    float4 *sorted;
    int *begins;
    unsigned *masks;
};

}
