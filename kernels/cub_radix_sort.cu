/* CUB's device-wide radix sort behind plain C functions, for ctypes: CUB's device algorithms are
   host templates, which no runtime compiler of kernels can call. Nothing here allocates. */
#include <cub/device/device_radix_sort.cuh>

/* Bytes of scratch for sorting `items` pairs on their lowest `bits` bits. */
extern "C" int radix_sort_scratch(size_t *bytes, int items, int bits)
{
    const unsigned *keys = nullptr;
    const int *values = nullptr;
    return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, keys, (unsigned *)nullptr, values,
                                           (int *)nullptr, items, 0, bits);
}

/* Sort pairs by the lowest `bits` bits of their keys, stably. Returns a cudaError_t. */
extern "C" int radix_sort(void *scratch, size_t bytes, const unsigned *keys_in, unsigned *keys_out,
                          const int *values_in, int *values_out, int items, int bits,
                          cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys_in, keys_out, values_in,
                                           values_out, items, 0, bits, stream);
}
