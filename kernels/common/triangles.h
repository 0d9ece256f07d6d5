/* Whether two triangles intersect, in float64. pose: rows of the rotation and translation that bring the second
   into the coordinates of the first. */
#ifndef GPUBENCH_COMMON_TRIANGLES_H
#define GPUBENCH_COMMON_TRIANGLES_H

#define TRIANGLE_SLACK 1e-14 /* exceeds the rounding error of a projection, relative to its largest terms */

/* Whether the axis u x w separates the first three points from the others. All lie within `reach`. */
__device__ int separates(const double *u, const double *w, double (*points)[3], double reach)
{
    double x = u[1] * w[2] - u[2] * w[1], y = u[2] * w[0] - u[0] * w[2], z = u[0] * w[1] - u[1] * w[0];
    double low[2], high[2];
    for (int side = 0; side < 2; ++side)
        for (int k = 0; k < 3; ++k) {
            double *p = points[3 * side + k];
            double along = x * p[0] + y * p[1] + z * p[2];
            low[side] = k == 0 || along < low[side] ? along : low[side];
            high[side] = k == 0 || along > high[side] ? along : high[side];
        }
    double size = sqrt((u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) * (w[0] * w[0] + w[1] * w[1] + w[2] * w[2]));
    double slack = TRIANGLE_SLACK * reach * size;
    return low[1] - high[0] > slack || low[0] - high[1] > slack;
}

/* Whether two triangles intersect: none of 17 axes separates them, two normals, nine crosses of edges, six of an
   edge and its triangle's normal. */
__device__ int triangles_meet(GLOBAL const float *a, GLOBAL const float *b, GLOBAL const float4 *pose)
{
    double points[6][3], edges[6][3], normals[2][3], reach = 0;
    for (int k = 0; k < 3; ++k) {
        double x = b[3 * k], y = b[3 * k + 1], z = b[3 * k + 2];
        for (int c = 0; c < 3; ++c) { /* relative to the first corner, to reduce cancellation */
            points[k][c] = (double)a[3 * k + c] - a[c];
            points[3 + k][c] = (pose[c].x * x + pose[c].y * y + pose[c].z * z) + ((double)pose[c].w - a[c]);
        }
    }
    for (int k = 0; k < 6; ++k)
        for (int c = 0; c < 3; ++c) {
            reach = fmax(reach, fabs(points[k][c]));
            edges[k][c] = points[k / 3 * 3 + (k + 1) % 3][c] - points[k][c];
        }
    for (int side = 0; side < 2; ++side) {
        double *u = edges[3 * side], *w = edges[3 * side + 1];
        if (separates(u, w, points, reach))
            return 0;
        normals[side][0] = u[1] * w[2] - u[2] * w[1];
        normals[side][1] = u[2] * w[0] - u[0] * w[2];
        normals[side][2] = u[0] * w[1] - u[1] * w[0];
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 3; j < 6; ++j)
            if (separates(edges[i], edges[j], points, reach))
                return 0;
    for (int k = 0; k < 6; ++k)
        if (separates(edges[k], normals[k / 3], points, reach))
            return 0;
    return 1;
}

#endif
