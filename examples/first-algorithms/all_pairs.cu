/* All pairs: one thread per particle. */

__global__ void count_all_pairs(GLOBAL const float4 *__restrict__ positions, float cutoff2,
                                int particles, GLOBAL int *__restrict__ counts)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    float4 a = positions[i];
    int found = 0;
    for (int j = 0; j < particles; ++j) {
        float4 b = positions[j];
        float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
        found += j != i && x * x + y * y + z * z < cutoff2;
    }
    counts[i] = found;
}
