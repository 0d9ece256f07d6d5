/* CUB's and Thrust's sorts of keys behind a plain C function, for ctypes: host templates, which no
   runtime compiler of kernels can call. SORT_KEY and SORT_VALUE are the types of keys and values,
   SORT_PAIRS is whether there are values, SORT_BY selects the sort: 0 for CUB's radix sort, 1 for
   its segmented sort, 2 for Thrust.

   Sorts by the lowest `bits` bits, stably; segmented, between starts[i] and starts[i + 1]. With
   null for scratch, CUB returns the bytes it needs; Thrust allocates, and sorts a copy in place.
   Returns a cudaError_t. */
#include <cuda_runtime.h>
#include <stdint.h>
#if SORT_BY == 0
#include <cub/device/device_radix_sort.cuh>
#elif SORT_BY == 1
#include <cub/device/device_segmented_sort.cuh>
#else
#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#endif

extern "C" int sort_keys(void *scratch, size_t *bytes, const SORT_KEY *keys, SORT_KEY *sorted,
                         const SORT_VALUE *values, SORT_VALUE *sorted_values, int items, int bits,
                         const int *starts, int segments, cudaStream_t stream)
{
#if SORT_BY == 0 && SORT_PAIRS
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, keys, sorted, values, sorted_values,
                                           items, 0, bits, stream);
#elif SORT_BY == 0
    return cub::DeviceRadixSort::SortKeys(scratch, *bytes, keys, sorted, items, 0, bits, stream);
#elif SORT_BY == 1 && SORT_PAIRS
    return cub::DeviceSegmentedSort::StableSortPairs(scratch, *bytes, keys, sorted, values,
                                                     sorted_values, items, segments, starts,
                                                     starts + 1, stream);
#elif SORT_BY == 1
    return cub::DeviceSegmentedSort::StableSortKeys(scratch, *bytes, keys, sorted, items, segments,
                                                    starts, starts + 1, stream);
#else
    *bytes = 1;
    if (!scratch)
        return 0;
    auto policy = thrust::cuda::par_nosync.on(stream);
    cudaMemcpyAsync(sorted, keys, items * sizeof(*keys), cudaMemcpyDeviceToDevice, stream);
#if SORT_PAIRS
    cudaMemcpyAsync(sorted_values, values, items * sizeof(*values), cudaMemcpyDeviceToDevice,
                    stream);
    thrust::stable_sort_by_key(policy, sorted, sorted + items, sorted_values);
#else
    thrust::stable_sort(policy, sorted, sorted + items);
#endif
    return cudaGetLastError();
#endif
}
