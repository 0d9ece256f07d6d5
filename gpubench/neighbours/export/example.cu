/* Finds the neighbours of random particles. */
#include "neighbours.cuh"

#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

template <typename T> static T *room(size_t items)
{
    T *memory = nullptr;
    check(cudaMalloc(&memory, items * sizeof(T)));
    return memory;
}

int main()
{
    const int particles = 100000;
    const float edge = 30.0f, cutoff = 1.0f;
    std::vector<float4> host(particles);
    for (float4 &p : host)
        p = float4{edge * std::rand() / (RAND_MAX + 1.0f), edge * std::rand() / (RAND_MAX + 1.0f),
                   edge * std::rand() / (RAND_MAX + 1.0f), 0.0f};

    gpubench::NeighbourList search;
#if HASHED
    check(search.init(particles, cutoff));
#else
    const float low[3] = {0.0f, 0.0f, 0.0f}, size[3] = {edge, edge, edge};
    check(search.init(particles, low, size, cutoff));
#endif
    void *workspace = room<char>(search.workspace_bytes());
    float4 *positions = room<float4>(particles);
    int *counts = room<int>(particles);
    check(cudaMemcpy(positions, host.data(), particles * sizeof(float4), cudaMemcpyHostToDevice));
    check(search.prepare(workspace, 0));
    check(search.count(positions, counts, 0));
#if LISTS
    int64_t *offsets = room<int64_t>(particles + 1), pairs = 0;
    check(search.sum(counts, offsets, 0));
    check(cudaMemcpy(&pairs, offsets + particles, sizeof pairs, cudaMemcpyDeviceToHost));
    int *neighbours = room<int>(pairs);
    check(search.fill(offsets, neighbours, pairs, 0));
    std::printf("%d particles, %lld neighbours\n", particles, (long long)pairs);
#else
    std::printf("%d particles counted\n", particles);
#endif
    check(cudaDeviceSynchronize());
    return 0;
}
