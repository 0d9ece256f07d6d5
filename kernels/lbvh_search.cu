/* Neighbours over a linear BVH of the particles (Karras 2012, see linear_bvh.cu), whose leaves are points. The plain
   version, one thread per particle in the order of the leaves:

       stack = [root]
       while stack: for each child of stack.pop():
           leaf: if |x[leaf] - x[i] + shift| < radius and it is not i: it is a neighbour
           node: if its box is nearer than the radius: stack.push(child)

   for each image of the box. With RADII, each particle has a radius of its own, and the list of i holds the particles
   nearer than that of i, so that a pair may appear from one side. BLOCK threads per block. */
#include "common/shifts.h"

#define DEEPEST 64 /* 30 bits of a code, 31 of an index, and the root */

/* The box of each particle is its position. */
__global__ void boxes_of_points(GLOBAL const float4 *__restrict__ positions, int particles,
                                GLOBAL float4 *__restrict__ boxes)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= particles)
        return;
    boxes[2 * (size_t)i] = positions[i];
    boxes[2 * (size_t)i + 1] = positions[i];
}

__device__ __forceinline__ float outside(float at, float from, float to)
{
    return fmaxf(fmaxf(from - at, at - to), 0.0f);
}

__device__ __forceinline__ int is_box_near(float4 p, GLOBAL const float4 *box, float reach)
{
    const float4 low = box[0], high = box[1];
    const float dx = outside(p.x, low.x, high.x), dy = outside(p.y, low.y, high.y);
    const float dz = outside(p.z, low.z, high.z);
    return fmaf(dz, dz, fmaf(dy, dy, dx * dx)) < reach * reach;
}

/* Count the neighbours of each particle or, if `fills`, list them at the offsets from the counts. slack bounds the
   rounding of coordinates. */
__global__ void search(GLOBAL const Grid *__restrict__ grid, int particles, GLOBAL const int *__restrict__ order,
                       GLOBAL const int *__restrict__ children, GLOBAL const float4 *__restrict__ node_boxes,
                       GLOBAL const float4 *__restrict__ leaf_boxes, float cutoff,
                       GLOBAL const float *__restrict__ radii, float slack, GLOBAL int *__restrict__ counts,
                       GLOBAL const int64 *__restrict__ offsets, GLOBAL int *__restrict__ neighbours, int64 capacity,
                       int fills)
{
    const int own = blockIdx.x * BLOCK + threadIdx.x;
    if (own >= particles)
        return;
    const int particle = order[own];
    const float4 p = leaf_boxes[2 * (size_t)own];
    const float radius = RADII ? radii[particle] : cutoff, reach = radius + slack, radius2 = radius * radius;
    const int64 place = fills ? offsets[particle] : 0;
    int stack[DEEPEST], found = 0;
    for (int image = FIRST_IMAGE; image <= LAST_IMAGE; ++image) {
        const float4 shift = shift_of(grid, image);
        const float4 at = make_float4(p.x - shift.x, p.y - shift.y, p.z - shift.z, 0.0f);
        if (particles < 2 || !is_image(grid, image) || !is_box_near(at, node_boxes, reach))
            continue;
        int top = 0;
        stack[top++] = 0;
        while (top > 0) {
            const int node = stack[--top];
            for (int side = 0; side < 2; ++side) {
                const int child = children[2 * (size_t)node + side], leaf = -1 - child;
                if (child >= 0) {
                    if (is_box_near(at, node_boxes + 2 * (size_t)child, reach))
                        stack[top++] = child;
                } else if (leaf != own
                           && is_near(p, leaf_boxes[2 * (size_t)leaf], shift.x, shift.y, shift.z, radius2)) {
                    if (fills && place + found < capacity)
                        neighbours[place + found] = order[leaf];
                    ++found;
                }
            }
        }
    }
    if (!fills)
        counts[particle] = found;
}
