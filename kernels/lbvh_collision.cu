/* Collision of two meshes over a linear BVH of the first: one thread per triangle of the second descends the tree
   with a stack, and records the leaves whose boxes overlap its own; then all recorded pairs are tested. BLOCK threads
   per block. The counts are initially zero. */
#include "common/triangles.h"

#define DEEPEST 64 /* 30 bits of a code, 31 of an index, and the root */

__global__ void make_boxes(GLOBAL const float *__restrict__ triangles, int n, GLOBAL float4 *__restrict__ boxes)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    GLOBAL const float *t = triangles + 9 * i;
    boxes[2 * i] = make_float4(fminf(t[0], fminf(t[3], t[6])), fminf(t[1], fminf(t[4], t[7])),
                               fminf(t[2], fminf(t[5], t[8])), 0.0f);
    boxes[2 * i + 1] = make_float4(fmaxf(t[0], fmaxf(t[3], t[6])), fmaxf(t[1], fmaxf(t[4], t[7])),
                                   fmaxf(t[2], fmaxf(t[5], t[8])), 0.0f);
}

__device__ __forceinline__ int boxes_meet(GLOBAL const float4 *box, float4 low, float4 high)
{
    float4 a = box[0], b = box[1];
    return a.x <= high.x && a.y <= high.y && a.z <= high.z && b.x >= low.x && b.y >= low.y && b.z >= low.z;
}

__global__ void traverse(GLOBAL const float *__restrict__ b_triangles, int n, GLOBAL const int *__restrict__ children,
                         GLOBAL const float4 *__restrict__ node_boxes, GLOBAL const float4 *__restrict__ leaf_boxes,
                         GLOBAL const int *__restrict__ order, int leaves, GLOBAL const float4 *__restrict__ pose,
                         float slack, GLOBAL int *__restrict__ candidates, GLOBAL int *count, int room)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    float low[3], high[3];
    for (int axis = 0; axis < 3; ++axis)
        for (int k = 0; k < 3; ++k) {
            GLOBAL const float *p = b_triangles + 9 * i + 3 * k;
            float x = pose[axis].x * p[0] + pose[axis].y * p[1] + pose[axis].z * p[2] + pose[axis].w;
            low[axis] = k == 0 || x - slack < low[axis] ? x - slack : low[axis];
            high[axis] = k == 0 || x + slack > high[axis] ? x + slack : high[axis];
        }
    float4 from = make_float4(low[0], low[1], low[2], 0.0f), to = make_float4(high[0], high[1], high[2], 0.0f);

    int stack[DEEPEST], top = 0;
    stack[top++] = leaves > 1 ? 0 : -1; /* one leaf is its own root */
    while (top > 0) {
        int node = stack[--top];
        if (node < 0) {
            if (!boxes_meet(leaf_boxes + 2 * (-1 - node), from, to))
                continue;
            int place = atomicAdd(count, 1);
            if (place < room) {
                candidates[2 * place] = order[-1 - node];
                candidates[2 * place + 1] = i;
            }
        } else if (boxes_meet(node_boxes + 2 * node, from, to)) {
            stack[top++] = children[2 * node];
            stack[top++] = children[2 * node + 1];
        }
    }
}

__global__ void test_candidates(GLOBAL const int *__restrict__ candidates, GLOBAL const int *__restrict__ count,
                                int room, GLOBAL const float *__restrict__ a_triangles,
                                GLOBAL const float *__restrict__ b_triangles, GLOBAL const float4 *__restrict__ pose,
                                GLOBAL int *__restrict__ pairs, GLOBAL int *found)
{
    int n = min(count[0], room);
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
        int a = candidates[2 * i], b = candidates[2 * i + 1];
        if (triangles_meet(a_triangles + 9 * a, b_triangles + 9 * b, pose)) {
            int place = atomicAdd(found, 1);
            pairs[2 * place] = a;
            pairs[2 * place + 1] = b;
        }
    }
}

__global__ void finish(GLOBAL const int *count, GLOBAL const int *found, int room, GLOBAL int *counts)
{
    counts[0] = found[0];
    counts[1] = max(0, count[0] - room);
}
