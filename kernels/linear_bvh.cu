/* A linear bounding volume hierarchy (Karras 2012): sort by Morton code, then every inner node finds its range and
   its split independently.

   Box i is two float4, boxes[2 i] low and boxes[2 i + 1] high. Inner node i of n - 1 has two children: inner nodes,
   or -1 - k for leaf k in the order of the codes. The root is 0. Karras computes boxes bottom-up with atomics; here
   they come from aligned blocks of 2^level leaves: a range is the union of a few of these, and no block waits for
   another. BLOCK threads per block. */

__device__ __forceinline__ unsigned spread(unsigned x)
{
    x = (x * 0x00010001u) & 0xff0000ffu;
    x = (x * 0x00000101u) & 0x0f00f00fu;
    x = (x * 0x00000011u) & 0xc30c30c3u;
    return (x * 0x00000005u) & 0x49249249u;
}

__device__ __forceinline__ unsigned along(float low, float high, float origin, float scale)
{
    return (unsigned)fminf(fmaxf(((low + high) * 0.5f - origin) * scale, 0.0f), 1023.0f);
}

/* The Morton code of the centre of each box, ten bits per axis. */
__global__ void make_codes(GLOBAL const float4 *__restrict__ boxes, int n, float x, float y, float z, float scale,
                           GLOBAL int *__restrict__ codes, GLOBAL int *__restrict__ order)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    float4 low = boxes[2 * i], high = boxes[2 * i + 1];
    codes[i] = (int)(spread(along(low.x, high.x, x, scale)) << 2 | spread(along(low.y, high.y, y, scale)) << 1
                     | spread(along(low.z, high.z, z, scale)));
    order[i] = i;
}

__global__ void gather_leaves(GLOBAL const float4 *__restrict__ boxes, GLOBAL const int *__restrict__ order, int n,
                              GLOBAL float4 *__restrict__ blocks)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    blocks[2 * i] = boxes[2 * order[i]];
    blocks[2 * i + 1] = boxes[2 * order[i] + 1];
}

__device__ __forceinline__ float4 lower(float4 a, float4 b)
{
    return make_float4(fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z), 0.0f);
}

__device__ __forceinline__ float4 higher(float4 a, float4 b)
{
    return make_float4(fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), 0.0f);
}

/* Unite pairs of boxes of the level of `count` blocks that begins at `first`; the next level follows it. */
__global__ void unite_blocks(GLOBAL float4 *blocks, int first, int count)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (2 * i >= count)
        return;
    int left = first + 2 * i, right = 2 * i + 1 < count ? left + 1 : left, out = first + count + i;
    blocks[2 * out] = lower(blocks[2 * left], blocks[2 * right]);
    blocks[2 * out + 1] = higher(blocks[2 * left + 1], blocks[2 * right + 1]);
}

/* The length of the common prefix of the codes of leaves i and j, extended by their indices; -1 past the ends. */
__device__ __forceinline__ int prefix(GLOBAL const int *codes, int n, int i, int j)
{
    if (j < 0 || j >= n)
        return -1;
    unsigned differ = (unsigned)(codes[i] ^ codes[j]);
    return differ ? __clz((int)differ) : 32 + __clz(i ^ j);
}

/* Make inner node i: its range, its split (Karras 2012, Figure 4), and its box. */
__global__ void make_nodes(GLOBAL const int *__restrict__ codes, GLOBAL const float4 *__restrict__ blocks, int n,
                           GLOBAL int *__restrict__ children, GLOBAL float4 *__restrict__ node_boxes)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n - 1)
        return;
    int direction = prefix(codes, n, i, i + 1) > prefix(codes, n, i, i - 1) ? 1 : -1;
    int outside = prefix(codes, n, i, i - direction), longest = 2, length = 0;
    while (prefix(codes, n, i, i + longest * direction) > outside)
        longest *= 2;
    for (int step = longest / 2; step >= 1; step /= 2)
        if (prefix(codes, n, i, i + (length + step) * direction) > outside)
            length += step;
    int end = i + length * direction, common = prefix(codes, n, i, end), split = 0;
    for (int step = (length + 1) / 2;; step = (step + 1) / 2) {
        if (prefix(codes, n, i, i + (split + step) * direction) > common)
            split += step;
        if (step == 1)
            break;
    }
    int first = min(i, end), last = max(i, end), left = i + split * direction + min(direction, 0);
    children[2 * i] = left == first ? -1 - left : left;
    children[2 * i + 1] = left + 1 == last ? -2 - left : left + 1;

    /* Unite the largest aligned blocks in the range, from both of its ends. */
    float4 low = blocks[2 * first], high = blocks[2 * first + 1];
    int level_begin = 0, size = n;
    for (int l = first, r = last + 1; l < r; l /= 2, r /= 2) {
        if (l & 1) {
            low = lower(low, blocks[2 * (level_begin + l)]);
            high = higher(high, blocks[2 * (level_begin + l) + 1]);
            ++l;
        }
        if (r & 1) {
            --r;
            low = lower(low, blocks[2 * (level_begin + r)]);
            high = higher(high, blocks[2 * (level_begin + r) + 1]);
        }
        level_begin += size;
        size = (size + 1) / 2;
    }
    node_boxes[2 * i] = low;
    node_boxes[2 * i + 1] = high;
}
