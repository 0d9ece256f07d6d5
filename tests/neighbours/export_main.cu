/* Finds the neighbours of particles in a file with an exported header.

   main PARTICLES BOX CUTOFF POSITIONS OUT

   POSITIONS: float4 of each particle. OUT: gets counts (int32), offsets (int64) and neighbours
   (int32). */
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
    void *memory = nullptr;
    check(cudaMalloc(&memory, items * sizeof(T) + 1));
    return (T *)memory;
}

template <typename T> static void save(std::FILE *file, const T *device, size_t items)
{
    std::vector<T> host(items);
    check(cudaMemcpy(host.data(), device, items * sizeof(T), cudaMemcpyDeviceToHost));
    if (std::fwrite(host.data(), sizeof(T), items, file) != items)
        std::exit(2);
}

int main(int, char **argv)
{
    const int particles = std::atoi(argv[1]);
    const float edge = (float)std::atof(argv[2]), cutoff = (float)std::atof(argv[3]);
    gpubench::NeighbourList search;
    const float low[3] = {0.0f, 0.0f, 0.0f}, size[3] = {edge, edge, edge};
    check(search.init(particles, low, size, cutoff));
    std::vector<float4> host(particles);
    std::FILE *file = std::fopen(argv[4], "rb");
    if (!file || std::fread(host.data(), sizeof(float4), host.size(), file) != host.size())
        return 3;
    std::fclose(file);
    void *workspace = room<char>(search.workspace_bytes());
    float4 *positions = room<float4>(particles);
    int *counts = room<int>(particles);
    check(cudaMemcpy(positions, host.data(), particles * sizeof(float4), cudaMemcpyHostToDevice));
    check(search.prepare(workspace, 0));
    check(search.count(positions, counts, 0));
    std::FILE *out = std::fopen(argv[5], "wb");
    save(out, counts, particles);
    int64_t *offsets = room<int64_t>(particles + 1), pairs = 0;
    check(search.sum(counts, offsets, 0));
    check(cudaMemcpy(&pairs, offsets + particles, sizeof pairs, cudaMemcpyDeviceToHost));
    int *neighbours = room<int>(pairs);
    check(search.fill(offsets, neighbours, pairs, 0));
    save(out, offsets, particles + 1);
    save(out, neighbours, pairs);
    std::fclose(out);
    check(cudaDeviceSynchronize());
    return 0;
}
