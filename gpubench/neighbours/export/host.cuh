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
#if HASHED
    /* Positions may lie anywhere: there is no box. Returns cudaErrorInvalidValue for a number below 1 or
       from 2^30 on, and for a cutoff that is not positive and finite. */
    cudaError_t init(int particles, float cutoff)
    {
        if (particles < 1 || particles >= MOST || !(cutoff > 0.0f) || !std::isfinite(cutoff))
            return cudaErrorInvalidValue;
        particles_ = particles;
        for (buckets_ = 1; buckets_ < particles;)
            buckets_ *= 2;
        for (int a = 0; a < 3; ++a) {
            grid_.cell[a] = cutoff;
            grid_.inverse_cell[a] = 1.0f / cutoff;
        }
        grid_.mask = buckets_ - 1;
        cutoff2_ = cutoff * cutoff;
        place(nullptr);
        return cudaSuccess;
    }
#else
    /* low, size: the box, in the unit of the positions, which lie in it. Returns cudaErrorInvalidValue
       for a number below 1 or from 2^30 on, a box or cutoff that is not positive and finite, cells that
       are too many or that float cannot tell apart, and an axis that repeats after less than three
       cutoffs. */
    cudaError_t init(int particles, const float low[3], const float size[3], float cutoff)
    {
        static const bool repeats[3] = {REPEATS_HERE};
        if (particles < 1 || particles >= MOST || !(cutoff > 0.0f) || !std::isfinite(cutoff))
            return cudaErrorInvalidValue;
#if SORTED
        float largest = 0.0f;
#endif
        double cells[3];
        for (int a = 0; a < 3; ++a) {
            if (!(size[a] > 0.0f) || !std::isfinite(size[a]) || !std::isfinite(low[a]))
                return cudaErrorInvalidValue;
            cells[a] = std::fmax(1.0, std::floor((double)size[a] / cutoff * (1.0 + 0x1p-22)));
            if (repeats[a] && cells[a] < 3.0)
                return cudaErrorInvalidValue;
#if SORTED
            largest = std::fmax(largest, std::fmax(size[a], std::fmax(std::fabs(low[a]), std::fabs(low[a] + size[a]))));
#endif
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
#if SORTED
        cells[0] *= PARTS_HERE; /* shorter cells along x: fewer particles out of reach */
#endif
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
#if SORTED
        slack_ = 8.0f * FLT_EPSILON * largest; /* what rounding may take from a distance to a cell */
#endif
        place(nullptr);
        return cudaSuccess;
    }
#endif

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
#if HASHED
        cudaMemsetAsync(corner_, 0x7F, 3 * sizeof(int), stream); /* larger than any cell coordinate */
        cudaMemsetAsync(bounds_, 0xFF, buckets_ * sizeof(int2), stream);
        const unsigned few = std::min(blocks(n, buckets::BLOCK), 1024u);
        buckets::find_corner<<<few, buckets::BLOCK, 0, stream>>>(positions, device_grid_, corner_, n);
        buckets::hash_particles<<<blocks(n, buckets::BLOCK), buckets::BLOCK, 0, stream>>>(
            positions, device_grid_, corner_, cell_of_, n);
        sort(buckets_, stream);
        buckets::bound_buckets<<<blocks(n, buckets::BLOCK), buckets::BLOCK, 0, stream>>>(
            (const int *)keys_[0], order_, positions, bounds_, sorted_, n);
        count_neighbours::query<<<blocks(n, count_neighbours::BLOCK), count_neighbours::BLOCK, 0, stream>>>(
            sorted_, order_, bounds_, device_grid_, corner_, cutoff2_, n, counts, nullptr, nullptr, 0);
#else
        cells::cell_ids<<<blocks(n, 256), 256, 0, stream>>>(positions, cell_of_, device_grid_, n);
#endif
#if COUNTING
        counting_sort::histogram_with_rank<<<blocks(n, counting_sort::BLOCK * counting_sort::ITEMS), counting_sort::BLOCK, 0, stream>>>(
            cell_of_, cell_counts_, rank_, n);
        scan_cells::scan_lookback<<<blocks(cells_, scan_cells::BLOCK * scan_cells::ITEMS), scan_cells::BLOCK, 0, stream>>>(
            cell_counts_, start_, cell_status_, cells_);
        counting_sort::scatter_by_rank<<<blocks(n, counting_sort::BLOCK * counting_sort::ITEMS), counting_sort::BLOCK, 0, stream>>>(
            cell_of_, start_, rank_, order_, positions, sorted_, n);
        gather::gather<<<blocks(n, gather::BLOCK), gather::BLOCK, 0, stream>>>(order_, positions, sorted_, n);
#elif RADIX
        sort(cells_, stream);
        bounds::cell_bounds<<<blocks((int64_t)n + 1, bounds::BLOCK), bounds::BLOCK, 0, stream>>>(
            (const int *)keys_[0], order_, start_, positions, sorted_, cells_, n);
#elif LINKED
        cudaMemsetAsync(head_, 0xFF, cells_ * sizeof(int), stream);
        lists::push_front<<<blocks(n, 256), 256, 0, stream>>>(cell_of_, head_, next_, n);
        positions_ = positions;
        linked::count<<<blocks(n, linked::COUNT_BLOCK), linked::COUNT_BLOCK, 0, stream>>>(
            positions, head_, next_, device_grid_, cutoff2_, n, counts);
#endif
#if SORTED
        count_neighbours::count<<<blocks(n, count_neighbours::BLOCK), count_neighbours::BLOCK, 0, stream>>>(
#if HAS_MASKS
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, counts, begins_, masks_);
#else
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, counts);
#endif
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

#if LINKED
    /* Write the neighbours of the particles that count() saw last, as far as there is room. Their
       positions must still be where they were. */
#else
    /* Write the neighbours of the particles that count() saw last, as far as there is room. */
#endif
    cudaError_t fill(const int64_t *offsets, int *neighbours, int64_t capacity, cudaStream_t stream)
    {
        using namespace detail;
        const int n = particles_;
#if LINKED
        linked::fill<<<blocks(n, linked::FILL_BLOCK), linked::FILL_BLOCK, 0, stream>>>(
            positions_, head_, next_, device_grid_, cutoff2_, n, (const int64 *)offsets, neighbours, capacity);
#elif HASHED
        fill_neighbours::query<<<blocks(n, fill_neighbours::BLOCK), fill_neighbours::BLOCK, 0, stream>>>(
            sorted_, order_, bounds_, device_grid_, corner_, cutoff2_, n, nullptr, (const int64 *)offsets, neighbours, capacity);
#else
        fill_neighbours::fill<<<blocks(n, fill_neighbours::BLOCK), fill_neighbours::BLOCK, 0, stream>>>(
            sorted_, start_, order_, device_grid_, cutoff2_, slack_, n, (const int64 *)offsets, neighbours, capacity, begins_,
            masks_);
#endif
        return cudaGetLastError();
    }

#endif
  private:
    static constexpr int MOST = 1 << 30;
#if LISTS
    static constexpr int TILE = detail::scan_counts::BLOCK * detail::scan_counts::ITEMS;
#endif

    static unsigned blocks(int64_t items, int per_block) { return (unsigned)((items + per_block - 1) / per_block); }

    template <typename T> void take(char *&at, T *&array, size_t items)
    {
        array = (T *)at;
        at += (items * sizeof(T) + 255) / 256 * 256;
    }

#if RADIX || HASHED
    static constexpr int SORT_TILE = detail::radix_sort::BLOCK * detail::radix_sort::ITEMS;

    template <int PASSES> void count_digits(cudaStream_t stream)
    {
        using namespace detail;
        const unsigned most = blocks(particles_, radix_sort::COUNT_BLOCK * radix_sort::COUNT_ITEMS);
        radix_sort::count_digits<PASSES><<<std::min(most, 1024u), radix_sort::COUNT_BLOCK, 0, stream>>>(
            (const unsigned *)cell_of_, bins_, particles_);
    }

    /* Sort the numbers of cells, of which there are so many, into keys_[0], and particles into order_. */
    void sort(int cells, cudaStream_t stream)
    {
        using namespace detail;
        int passes = 1;
        while (passes < 4 && (cells - 1) >> (radix_sort::DIGIT_BITS * passes))
            ++passes;
        if (passes == 1)
            count_digits<1>(stream);
        else if (passes == 2)
            count_digits<2>(stream);
        else if (passes == 3)
            count_digits<3>(stream);
        else
            count_digits<4>(stream);
        int *const values[2] = {order_, other_order_};
        for (int pass = 0; pass < passes; ++pass) {
            const int to = (passes - 1 - pass) % 2;
            const unsigned *from = pass ? keys_[1 - to] : (const unsigned *)cell_of_;
            radix_sort::sort_digit<<<blocks(particles_, SORT_TILE), radix_sort::BLOCK, 0, stream>>>(
                from, values[1 - to], keys_[to], values[to], bins_, ticket_, chains_, pass, pass == 0, particles_);
        }
    }

#endif
    void place(char *begin)
    {
        char *at = begin;
        const size_t n = particles_;
        take(at, device_grid_, 1);
        take(at, cell_of_, n);
#if LISTS
        take(at, status_, 1 + blocks(n, TILE));
#endif
#if COUNTING
        const size_t cells = cells_;
        take(at, cell_counts_, cells);
        take(at, cell_status_, 1 + blocks(cells, detail::scan_cells::BLOCK * detail::scan_cells::ITEMS));
        take(at, rank_, n);
#endif
#if RADIX || HASHED
        for (unsigned *&keys : keys_)
            take(at, keys, n);
        take(at, other_order_, n);
        take(at, bins_, 4 << detail::radix_sort::DIGIT_BITS);
        take(at, ticket_, 1);
        take(at, chains_, (size_t)blocks(n, SORT_TILE) << detail::radix_sort::DIGIT_BITS);
#endif
#if SORTED
        take(at, start_, (size_t)cells_ + 1);
#endif
#if LINKED
        take(at, head_, cells_);
        take(at, next_, n);
#else
        take(at, order_, n);
        take(at, sorted_, n);
#endif
#if HASHED
        take(at, corner_, 3);
        take(at, bounds_, buckets_);
#endif
#if HAS_MASKS
        take(at, begins_, 9 * n);
        take(at, masks_, 9 * detail::count_neighbours::WORDS * n);
#endif
        bytes_ = at - begin;
    }

#if HASHED
    detail::UnboundedGrid grid_{}, *device_grid_ = nullptr;
    int buckets_ = 0, *corner_ = nullptr;
    int2 *bounds_ = nullptr;
#else
    detail::Grid grid_{}, *device_grid_ = nullptr;
    int cells_ = 0;
#endif
#if SORTED
    float slack_ = 0.0f;
    int *start_ = nullptr;
#endif
    int particles_ = 0, *cell_of_ = nullptr;
    float cutoff2_ = 0.0f;
    size_t bytes_ = 0;
#if LISTS
    detail::uint64 *status_ = nullptr;
#endif
#if COUNTING
    int *cell_counts_ = nullptr, *rank_ = nullptr;
    detail::uint64 *cell_status_ = nullptr;
#elif RADIX || HASHED
    unsigned *keys_[2] = {}, *bins_ = nullptr, *chains_ = nullptr;
    int *other_order_ = nullptr;
    detail::uint64 *ticket_ = nullptr;
#endif
#if LINKED
    int *head_ = nullptr, *next_ = nullptr;
    const float4 *positions_ = nullptr; /* which fill() reads again */
#else
    int *order_ = nullptr;
    float4 *sorted_ = nullptr;
#endif
#if HAS_MASKS
    int *begins_ = nullptr;
    unsigned *masks_ = nullptr;
#endif
};

}
