#include <cuda_runtime.h>

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
       for a number below 1, a box or cutoff that is not positive and finite, cells that are too many or
       that float cannot tell apart, and an axis that repeats after less than three cutoffs. */
    cudaError_t init(int particles, const float low[3], const float size[3], float cutoff)
    {
        static const bool repeats[3] = {REPEATS};
        if (particles < 1 || !(cutoff > 0.0f) || !std::isfinite(cutoff))
            return cudaErrorInvalidValue;
        float largest = 0.0f;
        double cells[3];
        for (int a = 0; a < 3; ++a) {
            if (!(size[a] > 0.0f) || !std::isfinite(size[a]) || !std::isfinite(low[a]))
                return cudaErrorInvalidValue;
            cells[a] = std::fmax(1.0, std::floor((double)size[a] / cutoff * (1.0 + 0x1p-22)));
            if (repeats[a] && cells[a] < 3.0)
                return cudaErrorInvalidValue;
            largest = std::fmax(largest, std::fmax(size[a], std::fmax(std::fabs(low[a]), std::fabs(low[a] + size[a]))));
        }
        /* Many more cells than particles cost time and memory: longer ones along the longest axis. */
        const double most = std::fmax(4096.0, 4.0 * particles);
        for (;;) {
            int longest = 0;
            for (int a = 1; a < 3; ++a)
                longest = cells[a] > cells[longest] ? a : longest;
            const double least = repeats[longest] ? 3.0 : 1.0;
            if (cells[0] * cells[1] * cells[2] <= most || cells[longest] <= least)
                break;
            cells[longest] = std::fmax(least, std::ceil(cells[longest] / 2.0));
        }
        cells[0] *= CELLS_PER_CUTOFF; /* shorter cells along x: fewer particles out of reach */
        if (cells[0] * cells[1] * cells[2] > 2147483646.0)
            return cudaErrorInvalidValue;
        for (int a = 0; a < 3; ++a) {
            const float end = std::fmax(std::fabs(low[a]), std::fabs(low[a] + size[a]));
            if (size[a] / cells[a] < std::fmax(4.0f * FLT_EPSILON * end, 1e-15f))
                return cudaErrorInvalidValue;
            grid_.low[a] = low[a];
            grid_.size[a] = size[a];
            grid_.cells[a] = (int)cells[a];
            grid_.inverse_cell[a] = 1.0f / (float)(size[a] / cells[a]);
            grid_.periodic[a] = repeats[a];
        }
        particles_ = particles;
        cells_ = grid_.cells[0] * grid_.cells[1] * grid_.cells[2];
        cutoff2_ = cutoff * cutoff;
        slack_ = 8.0f * FLT_EPSILON * largest; /* what rounding may take from a distance to a cell */
        place(nullptr);
        return cudaSuccess;
    }

    /* Bytes of device memory that prepare() takes. */
    size_t workspace_bytes() const { return bytes_; }

    /* Take a workspace, aligned as cudaMalloc aligns; it holds the state between count() and fill(). Not
       for a stream that is being captured: it copies from the host. */
    cudaError_t prepare(void *workspace, cudaStream_t stream)
    {
        place((char *)workspace);
        cudaError_t error = cudaMemsetAsync(workspace, 0, bytes_, stream);
        return error != cudaSuccess ? error
                                    : cudaMemcpyAsync(device_grid_, &grid_, sizeof grid_, cudaMemcpyHostToDevice, stream);
    }

    /* counts[i] = how many neighbours particle i has.
       positions: x, y, z and a number that is ignored, of each particle. */
    cudaError_t count(const float4 *positions, int *counts, cudaStream_t stream)
    {
        using namespace detail;
        const int n = particles_;
        cells::cell_ids<<<blocks(n, 256), 256, 0, stream>>>(positions, cell_of_, device_grid_, n);
        counting_sort::histogram_with_rank<<<blocks(n, counting_sort::BLOCK * counting_sort::ITEMS), counting_sort::BLOCK, 0, stream>>>(
            cell_of_, cell_counts_, rank_, n);
        scan_cells::scan_lookback<<<blocks(cells_, TILE), scan_cells::BLOCK, 0, stream>>>(
            cell_counts_, start_, cell_status_, cells_);
        counting_sort::scatter_by_rank<<<blocks(n, counting_sort::BLOCK * counting_sort::ITEMS), counting_sort::BLOCK, 0, stream>>>(
            cell_of_, start_, rank_, order_, positions, sorted_, n);
        gather::gather<<<blocks(n, gather::BLOCK), gather::BLOCK, 0, stream>>>(order_, positions, sorted_, n);
        count_neighbours::count<<<blocks(n, count_neighbours::BLOCK), count_neighbours::BLOCK, 0, stream>>>(
#if HAS_MASKS
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, counts, masks_);
#else
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, counts);
#endif
        return cudaGetLastError();
    }

#if LISTS
    /* offsets[i] = where the neighbours of particle i begin; offsets[particles] = how many there are. */
    cudaError_t sum(int *counts, int64_t *offsets, cudaStream_t stream)
    {
        using namespace detail;
        scan_counts::scan_lookback<<<blocks(particles_, TILE), scan_counts::BLOCK, 0, stream>>>(
            counts, (int64 *)offsets, status_, particles_);
        return cudaGetLastError();
    }

    /* Write the neighbours of the particles that count() saw last, as far as there is room. */
    cudaError_t fill(const int64_t *offsets, int *neighbours, int64_t capacity, cudaStream_t stream)
    {
        using namespace detail;
        const int n = particles_;
#if LANES
        fill_neighbours::fill<<<blocks((int64_t)n * LANES, 256), 256, 0, stream>>>(
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, (const int64 *)offsets, neighbours, capacity);
#else
        fill_neighbours::fill<<<blocks(n, fill_neighbours::BLOCK), fill_neighbours::BLOCK, 0, stream>>>(
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, (const int64 *)offsets, neighbours, capacity, masks_);
#endif
        return cudaGetLastError();
    }

#endif
  private:
    static constexpr int TILE = detail::scan_cells::BLOCK * detail::scan_cells::ITEMS;

    static unsigned blocks(int64_t items, int per_block) { return (unsigned)((items + per_block - 1) / per_block); }

    template <typename T> void take(char *&at, T *&array, size_t items)
    {
        array = (T *)at;
        at += (items * sizeof(T) + 255) / 256 * 256;
    }

    void place(char *begin)
    {
        char *at = begin;
        const size_t n = particles_, cells = cells_;
        take(at, device_grid_, 1);
        take(at, cell_counts_, cells);
        take(at, cell_status_, 1 + blocks(cells, TILE));
        take(at, status_, 1 + blocks(n, TILE));
        take(at, start_, cells + 1);
        take(at, cell_of_, n);
        take(at, rank_, n);
        take(at, order_, n);
        take(at, sorted_, n);
        take(at, masks_, HAS_MASKS * 9 * n);
        bytes_ = at - begin;
    }

    detail::Grid grid_{}, *device_grid_ = nullptr;
    int particles_ = 0, cells_ = 0;
    float cutoff2_ = 0.0f, slack_ = 0.0f;
    size_t bytes_ = 0;
    int *cell_counts_ = nullptr, *start_ = nullptr, *cell_of_ = nullptr, *rank_ = nullptr, *order_ = nullptr;
    float4 *sorted_ = nullptr;
    unsigned *masks_ = nullptr;
    detail::uint64 *cell_status_ = nullptr, *status_ = nullptr;
};

}
