/* A picture of particles: opaque discs with depth, shaded by speed.

   A pixel is an integer: depth in its upper bits, speed in the lower SPEED_BITS, so that the smallest is
   the nearest, in any drawing order. The view is along the first axis of memory, from the origin, with
   the third axis to the right and the second up. */
#include "common/box.h"

#define DEPTH_BITS (31 - SPEED_BITS)

/* Draw the particles from `first` to `last` as discs `size` pixels wide. scale: pixels per unit of
   length. fastest: speed of the last shade. */
__global__ void draw(GLOBAL const uint4 *__restrict__ places,
                     GLOBAL const float4 *__restrict__ velocities,
                     GLOBAL const Box *__restrict__ box, int first, int last, int width, int height,
                     float scale, int size, float fastest, GLOBAL int *__restrict__ picture)
{
    unsigned i = first + blockIdx.x * BLOCK + threadIdx.x;
    if (i >= last)
        return;
    uint4 p = places[i];
    int shade = (int)(sqrtf(square_length(velocities[i])) / fastest * (float)(1 << SPEED_BITS));
    shade = max(0, min(shade, (1 << SPEED_BITS) - 1));
    unsigned depth = (box->periodic[0] ? p.x : p.x << 1) >> (32 - DEPTH_BITS);
    int pixel = (int)(depth << SPEED_BITS) | shade;
    int right = (int)((float)p.z * box->length[2] * scale) - size / 2;
    int up = height - 1 - (int)((float)p.y * box->length[1] * scale) - size / 2;
    for (int y = 0; y < size; ++y)
        for (int x = 0; x < size; ++x) {
            /* Corners of the square that are outside the disc, in halves of a pixel. */
            int dx = 2 * x + 1 - size, dy = 2 * y + 1 - size;
            int at_x = right + x, at_y = up + y;
            if (dx * dx + dy * dy <= size * size && at_x >= 0 && at_x < width && at_y >= 0 &&
                at_y < height)
                atomicMin(&picture[at_y * width + at_x], pixel);
        }
}

/* Merge two pictures, pixel by pixel, keeping the nearest. */
__global__ void merge(GLOBAL int *__restrict__ picture, GLOBAL const int *__restrict__ other,
                      int pixels)
{
    unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < pixels)
        picture[i] = min(picture[i], other[i]);
}
