/* The version of the CUB that nvcc finds, for ctypes. */
#include <cub/version.cuh>

extern "C" int cub_version(void)
{
    return CUB_VERSION;
}
