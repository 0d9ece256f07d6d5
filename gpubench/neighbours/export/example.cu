/* Finds the neighbours of random particles. */
#include "neighbours.cuh"

#include <cstdio>
#include <cstdlib>

static void check(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

template <typename T> static T *room(size_t items)
{
    T *memory = nullptr; /* of host and device */
    check(cudaMallocManaged(&memory, items * sizeof(T)));
    return memory;
}

int main()
{
    const int particles = 100000;
    const float edge = 30.0f, cutoff = 1.0f, unit = edge / (RAND_MAX + 1.0f);
    float4 *positions = room<float4>(particles);
    for (int i = 0; i < particles; ++i)
        positions[i] = float4{unit * std::rand(), unit * std::rand(), unit * std::rand(), 0.0f};
    int *counts = room<int>(particles);
    gpubench::NeighbourList search;
    const float low[3] = {0.0f, 0.0f, 0.0f}, size[3] = {edge, edge, edge};
    check(search.init(particles, low, size, cutoff));
    check(search.prepare(room<char>(search.workspace_bytes()), 0));
    check(search.count(positions, counts, 0));
#if LISTS
    int64_t *offsets = room<int64_t>(particles + 1);
    check(search.sum(counts, offsets, 0));
    check(cudaDeviceSynchronize());
    const int64_t pairs = offsets[particles];
    check(search.fill(offsets, room<int>(pairs), pairs, 0));
    std::printf("%d particles, %lld neighbours\n", particles, (long long)pairs);
#endif
    check(cudaDeviceSynchronize());
    return 0;
}
