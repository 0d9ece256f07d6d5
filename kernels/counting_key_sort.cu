/* Gather keys and values in the order of sorted indices. One thread per key. VALUES: words per
   value, 0, 1 or 4. */
#if VALUES == 4
typedef uint4 Value;
#else
typedef int Value;
#endif

__global__ void take(GLOBAL const int *__restrict__ order, GLOBAL const int *__restrict__ keys,
                     GLOBAL const Value *__restrict__ values, GLOBAL int *__restrict__ sorted_keys,
                     GLOBAL Value *__restrict__ sorted_values, int size)
{
    unsigned slot = blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= size)
        return;
    sorted_keys[slot] = keys[order[slot]];
    if (VALUES)
        sorted_values[slot] = values[order[slot]];
}
