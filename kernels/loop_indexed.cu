/* Loop subdivision of an indexed mesh (Loop 1987), with the numbering of Dupuy and Vanhoey, "A Halfedge Refinement
   Rule for Parallel Loop Subdivision" (2022): every index of a level follows from those of the level before.

   Of a triangle (A, B, C), `triangles` holds nine planes: its vertices, the half-edges opposite AB, BC, CA, and the
   numbers of these edges. Half-edge e of triangle t is t << 2 | e. `leaving` is a half-edge out of each vertex. A vertex
   keeps its number; the point of edge k becomes vertex `vertices` + k, and its halves edges 2k, of the half-edge with
   the smaller number, and 2k + 1. Children are in the order of loop_subdivision.cu. */

#define VERTEX(t, e) triangles[(e)*plane + (t)]
#define TWIN(t, e) triangles[(3 + (e)) * plane + (t)]
#define EDGE(t, e) triangles[(6 + (e)) * plane + (t)]

__device__ __forceinline__ float4 blend(float own, float4 a, float each, float4 b)
{
    return make_float4(fmaf(own, a.x, each * b.x), fmaf(own, a.y, each * b.y), fmaf(own, a.z, each * b.z), 0.0f);
}

__device__ __forceinline__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, 0.0f);
}

/* Edge e of child j of triangle t: its start, its twin and its number. */
__device__ __forceinline__ void store_edge(GLOBAL int *children, int64 parents, int t, int j, int e, int vertex,
                                           int twin, int edge)
{
    int64 at = j * parents + t, plane = 4 * parents;
    children[e * plane + at] = vertex;
    children[(3 + e) * plane + at] = twin;
    children[(6 + e) * plane + at] = edge;
}

/* The new place of a vertex, from its neighbours in turn. */
__device__ __forceinline__ float4 moved_vertex(GLOBAL const int *__restrict__ triangles, int64 plane,
                                               GLOBAL const float4 *__restrict__ points, int v, int first)
{
    float4 about = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int valence = 0;
    for (int out = first; valence < 6 && (valence == 0 || out != first); ++valence) {
        int t = out >> 2, e = out & 3;
        about = sum_of(about, points[VERTEX(t, (e + 1) % 3)]);
        out = TWIN(t, (e + 2) % 3);
    }
    float each = valence == 6 ? 0.0625f : valence == 5 ? BETA_5 : valence == 4 ? BETA_4 : 0.1875f;
    float own = valence == 6 ? 0.625f : valence == 5 ? OWN_5 : valence == 4 ? OWN_4 : 0.4375f;
    return blend(own, points[v], each, about);
}

/* A thread moves one vertex, and splits one triangle; a point of an edge is computed by one of its two triangles. There
   are at most as many vertices as triangles. */
__global__ void split_indexed(GLOBAL const int *__restrict__ triangles, GLOBAL const float4 *__restrict__ points,
                              GLOBAL const int *__restrict__ leaving, GLOBAL int *__restrict__ children,
                              GLOBAL float4 *__restrict__ new_points, GLOBAL int *__restrict__ new_leaving,
                              int parents, int vertices)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int64 plane = parents;
    if (i < vertices) {
        int first = leaving[i];
        new_points[i] = moved_vertex(triangles, plane, points, i, first);
        new_leaving[i] = ((first & 3) * parents + (first >> 2)) << 2;
    }
    if (i >= parents)
        return;
    int edges = parents / 2 * 3;
#pragma unroll
    for (int e = 0; e < 3; ++e) {
        int from = VERTEX(i, e), twin = TWIN(i, e), edge = EDGE(i, e);
        int t = twin >> 2, across = twin & 3, is_first = (i << 2 | e) < twin;
        int next = (e + 1) % 3, last = (e + 2) % 3, middle = vertices + edge;
        if (is_first) {
            float4 ends = sum_of(points[from], points[VERTEX(i, next)]);
            float4 sides = sum_of(points[VERTEX(i, last)], points[VERTEX(t, (across + 2) % 3)]);
            new_points[middle] = blend(0.375f, ends, 0.125f, sides);
            new_leaving[middle] = (3 * parents + i) << 2 | e;
        }
        /* Both halves of this edge, and the edge between child e and the middle one. */
        store_edge(children, parents, i, e, 0, from, ((across + 1) % 3 * parents + t) << 2 | 2, 2 * edge + !is_first);
        store_edge(children, parents, i, next, 2, middle, (across * parents + t) << 2, 2 * edge + is_first);
        int inner = 2 * edges + 3 * i + e;
        store_edge(children, parents, i, e, 1, middle, (3 * parents + i) << 2 | last, inner);
        store_edge(children, parents, i, 3, last, vertices + EDGE(i, last), (e * parents + i) << 2 | 1, inner);
    }
}
