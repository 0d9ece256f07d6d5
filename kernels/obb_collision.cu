/* Collision of two meshes by trees of oriented boxes, breadth first (Horn 2005, Listing 36-4;
   Gottschalk, Lin and Manocha 1996).

   Recursively:
       collide(a, b): if the boxes are disjoint, return; if both are leaves, test their triangles;
                      else collide each child of the larger box with the other (a leaf is never larger).
   Breadth first, a stream holds the pairs of a level: test_boxes flags overlapping pairs, a filter drops the others,
   is_split flags those that are not leaves, a filter separates them, expand replaces each by two pairs and collects
   the leaves. Finally test_triangles tests all pairs of leaves.

   A pair is int2: a node of each tree. boxes: rows (x axis, half edge), (y axis, half edge), (centre, half edge
   along z). links: first child and size; for a leaf, -1 - triangle and -1. pose: rows of rotation and
   translation, of the second mesh. Boxes are tested in float32 with a slack above its rounding, triangles in
   float64. BLOCK threads per block. */

#include "common/triangles.h"

#define PARALLEL 1e-6f /* added to |R|, so that axes of parallel edges separate nothing */

__device__ __forceinline__ float dot3(float4 a, float4 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ __forceinline__ float4 cross3(float4 a, float4 b)
{
    return make_float4(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x, 0.0f);
}

__device__ __forceinline__ float4 turned(GLOBAL const float4 *pose, float4 v)
{
    return make_float4(dot3(pose[0], v), dot3(pose[1], v), dot3(pose[2], v), 0.0f);
}

/* Whether one of 15 axes separates box a of the first tree from box b of the second. */
__device__ int are_apart(GLOBAL const float4 *a, GLOBAL const float4 *b, GLOBAL const float4 *pose, float slack)
{
    float4 a_axis[3], b_axis[3];
    a_axis[0] = a[0];
    a_axis[1] = a[1];
    a_axis[2] = cross3(a[0], a[1]);
    b_axis[0] = turned(pose, b[0]);
    b_axis[1] = turned(pose, b[1]);
    b_axis[2] = turned(pose, cross3(b[0], b[1]));
    float4 to = turned(pose, b[2]);
    to.x += pose[0].w - a[2].x;
    to.y += pose[1].w - a[2].y;
    to.z += pose[2].w - a[2].z;
    const float a_half[3] = {a[0].w, a[1].w, a[2].w}, b_half[3] = {b[0].w, b[1].w, b[2].w};

    float r[3][3], size[3][3], t[3];
    for (int i = 0; i < 3; ++i) {
        t[i] = dot3(to, a_axis[i]);
        for (int j = 0; j < 3; ++j) {
            r[i][j] = dot3(a_axis[i], b_axis[j]);
            size[i][j] = fabsf(r[i][j]) + PARALLEL;
        }
    }
    for (int i = 0; i < 3; ++i) {
        if (fabsf(t[i]) > a_half[i] + b_half[0] * size[i][0] + b_half[1] * size[i][1] + b_half[2] * size[i][2] + slack)
            return 1;
        float along = t[0] * r[0][i] + t[1] * r[1][i] + t[2] * r[2][i];
        if (fabsf(along)
            > b_half[i] + a_half[0] * size[0][i] + a_half[1] * size[1][i] + a_half[2] * size[2][i] + slack)
            return 1;
    }
    for (int i = 0; i < 3; ++i) {
        const int i1 = (i + 1) % 3, i2 = (i + 2) % 3;
        for (int j = 0; j < 3; ++j) {
            const int j1 = (j + 1) % 3, j2 = (j + 2) % 3;
            float along = t[i2] * r[i1][j] - t[i1] * r[i2][j];
            if (fabsf(along) > a_half[i1] * size[i2][j] + a_half[i2] * size[i1][j] + b_half[j1] * size[i][j2]
                    + b_half[j2] * size[i][j1] + slack)
                return 1;
        }
    }
    return 0;
}

/* Return both pairs that replace one. */
__device__ __forceinline__ int4 split(int2 pair, GLOBAL const int2 *a_links, GLOBAL const int2 *b_links)
{
    int2 a = a_links[pair.x], b = b_links[pair.y];
    if (__int_as_float(a.y) > __int_as_float(b.y))
        return make_int4(a.x, pair.y, a.x + 1, pair.y);
    return make_int4(pair.x, b.x, pair.x, b.x + 1);
}

/* Start with the pair of roots. */
__global__ void begin(GLOBAL int2 *pairs, GLOBAL int *size, GLOBAL int *lengths, GLOBAL int *leaves_before)
{
    pairs[0] = make_int2(0, 0);
    size[0] = lengths[0] = 1;
    leaves_before[0] = 0;
}

__global__ void test_boxes(GLOBAL const int2 *__restrict__ pairs, GLOBAL const int *__restrict__ size, int most,
                           GLOBAL const float4 *__restrict__ a_boxes, GLOBAL const float4 *__restrict__ b_boxes,
                           GLOBAL const float4 *__restrict__ pose, float slack, GLOBAL int *__restrict__ keep)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= min(size[0], most))
        return;
    int2 pair = pairs[i];
    keep[i] = !are_apart(a_boxes + 3 * pair.x, b_boxes + 3 * pair.y, pose, slack);
}

/* Leaves have no child: -1 - triangle is negative. */
__global__ void is_split(GLOBAL const int2 *__restrict__ pairs, GLOBAL const int *__restrict__ size, int most,
                         GLOBAL const int2 *__restrict__ a_links, GLOBAL const int2 *__restrict__ b_links,
                         GLOBAL int *__restrict__ keep)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= min(size[0], most))
        return;
    keep[i] = a_links[pairs[i].x].x >= 0 || b_links[pairs[i].y].x >= 0;
}

/* Expand the pairs to split to the next level, and append the pairs of leaves to those of other levels. Both have a
   capacity of `room` pairs; pairs beyond it are counted and dropped. */
__global__ void expand(GLOBAL const int2 *__restrict__ splits, GLOBAL const int *__restrict__ split_count,
                       GLOBAL const int2 *__restrict__ leaves, GLOBAL const int *__restrict__ leaf_count,
                       GLOBAL const int2 *__restrict__ a_links, GLOBAL const int2 *__restrict__ b_links,
                       GLOBAL int4 *__restrict__ next, GLOBAL int *__restrict__ next_size,
                       GLOBAL int2 *__restrict__ all_leaves, GLOBAL int *lengths, GLOBAL int *leaves_before,
                       int level, int room)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int before = leaves_before[level];
    if (i == 0) {
        next_size[0] = lengths[level + 1] = 2 * split_count[0];
        leaves_before[level + 1] = before + leaf_count[0];
    }
    if (i < split_count[0] && i < room / 2)
        next[i] = split(splits[i], a_links, b_links);
    if (i < leaf_count[0] && before + i < room)
        all_leaves[before + i] = leaves[i];
}

/* Turn pairs of leaves into pairs of triangles, and flag those that intersect. count: leaves_before past the end. */
__global__ void test_triangles(GLOBAL int2 *pairs, GLOBAL const int *__restrict__ leaves_before, int levels, int most,
                               GLOBAL const int2 *__restrict__ a_links, GLOBAL const int2 *__restrict__ b_links,
                               GLOBAL const float *__restrict__ a_triangles,
                               GLOBAL const float *__restrict__ b_triangles, GLOBAL const float4 *__restrict__ pose,
                               GLOBAL int *__restrict__ keep, GLOBAL int *__restrict__ size)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int count = leaves_before[levels];
    if (i == 0)
        size[0] = count;
    if (i >= min(count, most))
        return;
    int a = -1 - a_links[pairs[i].x].x, b = -1 - b_links[pairs[i].y].x;
    pairs[i] = make_int2(a, b);
    keep[i] = triangles_meet(a_triangles + 9 * a, b_triangles + 9 * b, pose);
}

/* Count the pairs lost on each level and among the leaves, whose capacity is bounds[levels]; none without filters,
   when `levels` is negative. */
__global__ void finish(GLOBAL const int *found, GLOBAL const int *lengths, GLOBAL const int *leaves_before,
                       GLOBAL const int *bounds, int levels, GLOBAL int *counts)
{
    int lost = 0;
    if (levels >= 0)
        lost = max(0, leaves_before[levels] - bounds[levels]) + lengths[levels];
    for (int level = 0; level < levels; ++level)
        lost += max(0, lengths[level] - bounds[level]);
    counts[0] = found[0];
    counts[1] = lost;
}

/* Without filters: pair i of n always becomes pairs 2i and 2i + 1. A pair is null if x is -1; -2 - node marks a pair
   of leaves with overlapping boxes. */
__global__ void step_unfiltered(GLOBAL const int2 *__restrict__ pairs, GLOBAL int4 *__restrict__ next, int n,
                                GLOBAL const float4 *__restrict__ a_boxes, GLOBAL const float4 *__restrict__ b_boxes,
                                GLOBAL const int2 *__restrict__ a_links, GLOBAL const int2 *__restrict__ b_links,
                                GLOBAL const float4 *__restrict__ pose, float slack)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    int2 pair = pairs[i];
    int4 both = make_int4(-1, -1, -1, -1);
    if (pair.x < -1)
        both = make_int4(pair.x, pair.y, -1, -1);
    else if (pair.x >= 0 && !are_apart(a_boxes + 3 * pair.x, b_boxes + 3 * pair.y, pose, slack)) {
        if (a_links[pair.x].x < 0 && b_links[pair.y].x < 0)
            both = make_int4(-2 - pair.x, pair.y, -1, -1);
        else
            both = split(pair, a_links, b_links);
    }
    next[i] = both;
}

__global__ void test_unfiltered(GLOBAL int2 *pairs, int n, GLOBAL const int2 *__restrict__ a_links,
                                GLOBAL const int2 *__restrict__ b_links, GLOBAL const float *__restrict__ a_triangles,
                                GLOBAL const float *__restrict__ b_triangles, GLOBAL const float4 *__restrict__ pose,
                                GLOBAL int *__restrict__ keep)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    keep[i] = 0;
    if (pairs[i].x < -1) {
        int a = -1 - a_links[-2 - pairs[i].x].x, b = -1 - b_links[pairs[i].y].x;
        pairs[i] = make_int2(a, b);
        keep[i] = triangles_meet(a_triangles + 9 * a, b_triangles + 9 * b, pose);
    }
}
