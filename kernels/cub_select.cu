/* CUB's device-wide selection behind plain C functions, for ctypes: CUB's device algorithms are
   host templates, which no runtime compiler of kernels can call. Nothing here allocates.

   By predicate a record is null where keep[i] is zero; otherwise where its first float is
   +infinity. Without scratch, functions only write the required size to `bytes`; they return a
   cudaError_t. */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#define POSITIVE_INFINITY 0x7f800000

struct IsRecord {
    __device__ bool operator()(int record) const { return record != POSITIVE_INFINITY; }
    __device__ bool operator()(int4 record) const { return record.x != POSITIVE_INFINITY; }
};

/* Older CUBs add up flags as they are. */
struct IsSet {
    __device__ bool operator()(int flag) const { return flag != 0; }
};

template <typename Record>
static int select(void *scratch, size_t &bytes, bool by_predicate, const void *records,
                  const int *keep, void *kept, int *count, int items, cudaStream_t stream)
{
    auto *in = (const Record *)records;
    auto *out = (Record *)kept;
    if (!by_predicate)
        return cub::DeviceSelect::If(scratch, bytes, in, out, count, items, IsRecord(), stream);
    auto flags = thrust::make_transform_iterator(keep, IsSet());
    return cub::DeviceSelect::Flagged(scratch, bytes, in, flags, out, count, items, stream);
}

/* Select into `kept`, in order, those of `items` records of 1 or 4 words that are not null, and
   write their number to `count`. */
extern "C" int select_records(void *scratch, size_t *bytes, int words, int by_predicate,
                              const void *records, const int *keep, void *kept, int *count,
                              int items, cudaStream_t stream)
{
    auto *chosen = words == 4 ? select<int4> : select<int>;
    return chosen(scratch, *bytes, by_predicate, records, keep, kept, count, items, stream);
}

/* Whether the record of an index belongs to the selected half. */
struct IsOfHalf {
    const int *records, *keep, *size;
    int words, by_predicate, is_rest;
    __device__ bool operator()(int i) const
    {
        if (i >= *size)
            return false;
        bool null = by_predicate ? keep[i] == 0 : records[(size_t)i * words] == POSITIVE_INFINITY;
        return null == (is_rest != 0);
    }
};

static __global__ void gather(const int *records, const int *indices, int words, int *out,
                              const int *count)
{
    size_t all = (size_t)count[0] * words;
    for (size_t w = blockIdx.x * (size_t)blockDim.x + threadIdx.x; w < all;
         w += (size_t)gridDim.x * blockDim.x)
        out[w] = records[(size_t)indices[w / words] * words + w % words];
}

/* Select the records, or with `is_rest` the nulls, of the first size[0] of at most `items`: select
   indices, then gather. */
extern "C" int select_indices(void *scratch, size_t *bytes, int words, int by_predicate,
                              int is_rest, const int *records, const int *keep, const int *size,
                              int *indices, int *out, int *count, int items, cudaStream_t stream)
{
    IsOfHalf wanted = {records, keep, size, words, by_predicate, is_rest};
    auto all = thrust::make_counting_iterator(0);
    int error = cub::DeviceSelect::If(scratch, *bytes, all, indices, count, items, wanted, stream);
    if (scratch == nullptr || error != 0)
        return error;
    int blocks = (items + 255) / 256;
    gather<<<blocks < 1 ? 1 : blocks > 2048 ? 2048 : blocks, 256, 0, stream>>>(records, indices,
                                                                             words, out, count);
    return cudaGetLastError();
}
