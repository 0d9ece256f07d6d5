/* CUB's device-wide selection behind plain C functions, for ctypes: CUB's device algorithms are
   host templates, which no runtime compiler of kernels can call. Nothing here allocates.

   Records are 1 or 4 words. By predicate a record is null where keep[i] is zero; otherwise where
   its first float is +infinity. */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/transform_iterator.h>

struct IsRecord {
    __device__ bool operator()(int record) const { return record != 0x7f800000; }
    __device__ bool operator()(int4 record) const { return record.x != 0x7f800000; }
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

/* Select into `kept` what is no null, in order, and write how many those are to `count`. Without
   scratch, only say in `bytes` how much it takes. Returns a cudaError_t. */
extern "C" int select_records(void *scratch, size_t *bytes, int words, int by_predicate,
                              const void *records, const int *keep, void *kept, int *count,
                              int items, cudaStream_t stream)
{
    auto *chosen = words == 4 ? select<int4> : select<int>;
    return chosen(scratch, *bytes, by_predicate, records, keep, kept, count, items, stream);
}
