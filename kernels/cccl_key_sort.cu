/* CUB's sorts of keys of whichever CCCL nvcc finds first, as in cub_key_sort.cu. SORT_BY selects
   the sort: 0 for DeviceRadixSort, 1 for DeviceSegmentedSort, 2 for DeviceSegmentedRadixSort. */
#include <cuda_runtime.h>
#include <stdint.h>
#if SORT_BY == 0
#include <cub/device/device_radix_sort.cuh>
#elif SORT_BY == 1
#include <cub/device/device_segmented_sort.cuh>
#else
#include <cub/device/device_segmented_radix_sort.cuh>
#endif
#if SORT_PAIRS
#define ARRAYS keys, sorted, values, sorted_values, items
#define SORT SortPairs
#define STABLE StableSortPairs
#else
#define ARRAYS keys, sorted, items
#define SORT SortKeys
#define STABLE StableSortKeys
#endif

extern "C" int sort_keys(void *scratch, size_t *bytes, const SORT_KEY *keys, SORT_KEY *sorted,
                         const SORT_VALUE *values, SORT_VALUE *sorted_values, int items, int bits,
                         const int *starts, int segments, cudaStream_t stream)
{
#if SORT_BY == 0
    return cub::DeviceRadixSort::SORT(scratch, *bytes, ARRAYS, 0, bits, stream);
#elif SORT_BY == 1
    return cub::DeviceSegmentedSort::STABLE(scratch, *bytes, ARRAYS, segments, starts, starts + 1,
                                            stream);
#else
    return cub::DeviceSegmentedRadixSort::SORT(scratch, *bytes, ARRAYS, segments, starts,
                                               starts + 1, 0, bits, stream);
#endif
}
