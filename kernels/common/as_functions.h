/* Included before the text of kernels and behind it: what is in between defines functions, which other kernels
   call. So the text, and with it the machine code of a single GPU, stays as it is. */
#ifndef KERNELS_ARE_FUNCTIONS
#define KERNELS_ARE_FUNCTIONS
#pragma push_macro("__global__")
#pragma push_macro("__launch_bounds__")
#undef __global__
#undef __launch_bounds__
#define __global__ __device__ __forceinline__
#define __launch_bounds__(...)
#else
#undef KERNELS_ARE_FUNCTIONS
#undef __global__
#undef __launch_bounds__
#pragma pop_macro("__global__")
#pragma pop_macro("__launch_bounds__")
#endif
