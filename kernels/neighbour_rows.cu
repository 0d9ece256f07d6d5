/* Rows of a list of neighbours: keys by which a library sorts their pairs, and rows as a matrix. The neighbours of
   row r are from offsets[r] to offsets[r + 1].

   IMAGES: whether pairs have images. The first `particles` are the particles, and have no source. REAL: the type of
   distances. LIMITS: what they must be below: 0 nothing, the sum (1) or the larger (2) of two radii, or an item of a
   table by species (3). */
#ifdef __OPENCL_VERSION__
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__device__ __forceinline__ int is_before(GLOBAL const int *move, GLOBAL const int *than)
{
    return move[0] != than[0] ? move[0] < than[0] : move[1] != than[1] ? move[1] < than[1] : move[2] < than[2];
}

/* Ranks of the images, by particle, then by their moves, and the images in this order. Those of a particle follow one
   another, from offsets[i]. One thread per particle. */
__global__ void rank_images(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ moves,
                            int particles, GLOBAL int *__restrict__ ranks, GLOBAL int *__restrict__ order)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const int64 first = particles + offsets[i], end = particles + offsets[i + 1];
    int64 own = i;
    while (own < end) {
        int64 rank = first - particles + i + is_before(moves + 3 * (size_t)i, moves + 3 * own);
        for (int64 other = first; other < end; ++other)
            rank += is_before(moves + 3 * other, moves + 3 * own);
        ranks[own] = (int)rank;
        order[rank] = (int)own;
        own = own < particles ? first : own + 1;
    }
}

/* Keys that ascend by row, then by neighbour, and with IMAGES by shift. One thread per row. */
__global__ void write_keys(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ listed,
                           GLOBAL const int *__restrict__ ranks, int rows, GLOBAL int64 *__restrict__ keys)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    for (int64 k = offsets[row]; k < offsets[row + 1]; ++k)
        keys[k] = ((int64)row << 32) + (IMAGES ? ranks[listed[k]] : listed[k]);
}

/* The pairs of sorted keys. One thread per row. */
__global__ void read_keys(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int64 *__restrict__ keys,
                          GLOBAL const int *__restrict__ order, GLOBAL const int *__restrict__ sources, int particles,
                          int rows, GLOBAL int *images, GLOBAL int *neighbours)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    for (int64 k = offsets[row]; k < offsets[row + 1]; ++k) {
        int listed = (int)(keys[k] - ((int64)row << 32));
#if IMAGES
        images[k] = listed = order[listed];
        if (listed >= particles)
            listed = sources[listed - particles];
#endif
        neighbours[k] = listed;
    }
}

/* Keep those pairs of each row, in place, whose neighbour is at least `first` and whose distance is below its limit and
   the skin. A limit of 0 keeps none. One thread per row. */
__global__ void keep_pairs(GLOBAL const int64 *__restrict__ offsets, GLOBAL int *neighbours, GLOBAL int *images,
                           GLOBAL const REAL *__restrict__ distances, GLOBAL const double *__restrict__ sizes,
                           GLOBAL const int *__restrict__ species, int kinds, double skin, int first, int rows,
                           GLOBAL int *__restrict__ counts)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int64 kept = offsets[row];
    for (int64 k = offsets[row]; k < offsets[row + 1]; ++k) {
        const int neighbour = neighbours[k];
        int is_kept = neighbour >= first;
#if LIMITS
#if LIMITS == 1
        const double limit = sizes[row] + sizes[neighbour];
#elif LIMITS == 2
        const double limit = fmax(sizes[row], sizes[neighbour]);
#else
        const double limit = sizes[(size_t)species[row] * kinds + species[neighbour]];
#endif
        is_kept &= limit > 0.0 && distances[k] < limit + skin;
#endif
        if (!is_kept)
            continue;
        neighbours[kept] = neighbour;
#if IMAGES
        images[kept] = images[k];
#endif
        ++kept;
    }
    counts[row] = (int)(kept - offsets[row]);
}

/* Copy what was kept of each row to where it is in a list of its own. One thread per row. */
__global__ void pack_pairs(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                           GLOBAL const int *__restrict__ images, int rows, GLOBAL const int64 *__restrict__ to,
                           GLOBAL int *__restrict__ packed, GLOBAL int *__restrict__ packed_images)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const int64 away = offsets[row] - to[row];
    for (int64 k = to[row]; k < to[row + 1]; ++k) {
        packed[k] = neighbours[k + away];
#if IMAGES
        packed_images[k] = images[k + away];
#endif
    }
}

/* Each row in `width` items, filled up, with neighbours less `first`. One thread per item. */
__global__ void write_matrix(GLOBAL const int64 *__restrict__ offsets, GLOBAL const int *__restrict__ neighbours,
                             int rows, int width, int first, int fill, GLOBAL int *__restrict__ out)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= (size_t)rows * width)
        return;
    const int row = (int)(item / width);
    const int64 k = offsets[row] + (int64)(item % width);
    out[item] = k < offsets[row + 1] ? neighbours[k] - first : fill;
}
