/* Loop subdivision of triangles that carry their neighbourhood (Horn 2005, section 36.4; Loop 1987).

   A triangle is twelve float4, in as many planes: corners A, B, C, then the ring around them, AB, AAB, AAC, AC,
   ACC, BCC, BC, BBC, ABB. AB lies across edge AB, and AAB follows it around A. Around a corner of valence 3 to 5
   entries repeat, which is detected by their bits. A thread splits one triangle and writes child j of the p-th
   unfinished triangle to index j * parents + p, so that a warp writes adjacent elements.

   All triangles around a vertex must compute it to the same bit. So sums do not depend on their order: terms of a
   vertex are sorted, edges are symmetric, no product is fused with a sum, and there is no -0.

   TEST 0: split all. 1, 2: an edge is finished if it is short on the screen, or the surface bends little across
   it, or both its ends are frozen. The end of a finished edge is frozen: it never moves again, so a triangle (P, Q, m)
   closes the gap between PQ and the halves of an unfinished neighbour. w of a vertex: 1 if it is frozen; of corner A, 2
   if nothing unfinished is left across AB, likewise B for BC and C for CA.

   FILTERED: both halves of the stream were numbered by a filter, and only the triangles that close gaps by a scan. */

#ifndef __CUDACC__
#pragma OPENCL FP_CONTRACT OFF
#endif

typedef struct {
    float4 corner[3]; /* A, C, B: corner c has ring[3 * c] to ring[3 * c + 3] between its neighbours */
    float4 ring[9];
} Patch;

/* After one subdivision; w of a point is 1 if it is frozen. */
typedef struct {
    float4 corner[3];
    float4 edge[3];     /* of corner c and the one before it in the ring: AB, CA, BC */
    float4 outer[3][4]; /* of corner c and its four entries of the ring */
    int closed[3];      /* whether nothing unfinished is left across edge c */
    int sliver[3];      /* whether edge c leaves a gap */
    int done;
} Split;

__device__ __forceinline__ int same(float4 a, float4 b)
{
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

__device__ __forceinline__ int is_frozen(float4 a)
{
    return (int)a.w & 1;
}

__device__ __forceinline__ float halves(float p, float q, float r, float s)
{
    return __fmul_rn(0.375f, p + q) + __fmul_rn(0.125f, r + s) + 0.0f;
}

__device__ __forceinline__ float dot_at(float4 row, float4 p)
{
    return ((__fmul_rn(row.x, p.x) + __fmul_rn(row.y, p.y)) + __fmul_rn(row.z, p.z)) + row.w;
}

__device__ __forceinline__ float square3(float x, float y, float z)
{
    return (__fmul_rn(x, x) + __fmul_rn(y, y)) + __fmul_rn(z, z);
}

/* Whether edge pq between the triangles of r and s is finished. view: rows that give the screen position, in pixels,
   times the depth, and the depth. bound: pixels; or the ratio of |r + s - p - q| to the edge. */
__device__ __forceinline__ int is_finished(float4 p, float4 q, float4 r, float4 s, GLOBAL const float4 *view,
                                           float bound)
{
#if TEST == 0
    return 0;
#else
    if (is_frozen(p) && is_frozen(q))
        return 1;
#if TEST == 1
    float pz = fmaxf(dot_at(view[2], p), NEAR), qz = fmaxf(dot_at(view[2], q), NEAR);
    float dx = __fmul_rn(dot_at(view[0], p), qz) - __fmul_rn(dot_at(view[0], q), pz);
    float dy = __fmul_rn(dot_at(view[1], p), qz) - __fmul_rn(dot_at(view[1], q), pz);
    float most = __fmul_rn(bound, __fmul_rn(pz, qz));
    return square3(dx, dy, 0.0f) < __fmul_rn(most, most);
#else
    float bend = square3((r.x + s.x) - (p.x + q.x), (r.y + s.y) - (p.y + q.y), (r.z + s.z) - (p.z + q.z));
    float length = square3(p.x - q.x, p.y - q.y, p.z - q.z);
    return bend < __fmul_rn(__fmul_rn(bound, bound), length);
#endif
#endif
}

__device__ __forceinline__ float4 edge_point(float4 p, float4 q, float4 r, float4 s, GLOBAL const float4 *view,
                                             float bound)
{
    return make_float4(halves(p.x, q.x, r.x, s.x), halves(p.y, q.y, r.y, s.y), halves(p.z, q.z, r.z, s.z),
                       (float)is_finished(p, q, r, s, view, bound));
}

#define ORDER(a, b)              \
    {                            \
        float least = fminf(a, b); \
        b = fmaxf(a, b);         \
        a = least;               \
    }

/* The sum of six terms from the smallest to the largest; zeros among them change nothing. */
__device__ __forceinline__ float sorted_sum(float a, float b, float c, float d, float e, float f)
{
    ORDER(b, c) ORDER(e, f) ORDER(a, c) ORDER(d, f) ORDER(a, b) ORDER(d, e)
    ORDER(c, f) ORDER(a, d) ORDER(b, e) ORDER(c, e) ORDER(b, d) ORDER(c, d)
    return ((((a + b) + c) + d) + e) + f;
}

/* 5/8 - (3/8 + cos(2 pi / n) / 4)^2 is the weight of all n neighbours together. */
__device__ __forceinline__ float4 vertex_point(float4 v, float4 first, const float4 *ring, float4 last)
{
    int second = !same(ring[1], ring[0]), third = !same(ring[2], ring[1]), fourth = !same(ring[3], ring[2]);
    int valence = 3 + second + third + fourth;
    float each = valence == 6 ? 0.0625f : valence == 5 ? BETA_5 : valence == 4 ? BETA_4 : 0.1875f;
    float own = valence == 6 ? 0.625f : valence == 5 ? OWN_5 : valence == 4 ? OWN_4 : 0.4375f;
#define SUM(of)                                                                                              \
    (__fmul_rn(own, v.of) +                                                                                  \
     __fmul_rn(each, sorted_sum(first.of, ring[0].of, second ? ring[1].of : 0.0f, third ? ring[2].of : 0.0f, \
                                fourth ? ring[3].of : 0.0f, last.of)) +                                      \
     0.0f)
    return make_float4(SUM(x), SUM(y), SUM(z), 0.0f);
}

__device__ __forceinline__ Patch load_patch(GLOBAL const float4 *triangles, int64 plane, int i)
{
    Patch patch;
    patch.corner[0] = triangles[i];
    patch.corner[2] = triangles[plane + i];
    patch.corner[1] = triangles[2 * plane + i];
    for (int k = 0; k < 9; ++k)
        patch.ring[k] = triangles[(3 + k) * plane + i];
    return patch;
}

__device__ __forceinline__ Split split_patch(Patch patch, GLOBAL const float4 *view, float bound)
{
    Split split;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        float4 about[6];
        about[0] = patch.corner[(c + 2) % 3];
        about[5] = patch.corner[(c + 1) % 3];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            about[k + 1] = patch.ring[(3 * c + k) % 9];
#pragma unroll
        for (int j = 1; j < 5; ++j) {
            float4 before = about[0], after = about[5]; /* the nearest distinct entries */
#pragma unroll
            for (int k = 1; k < 4; ++k)
                before = k < j && !same(about[k], about[j]) ? about[k] : before;
#pragma unroll
            for (int k = 4; k > 1; --k)
                after = k > j && !same(about[k], about[j]) ? about[k] : after;
            split.outer[c][j - 1] = edge_point(patch.corner[c], about[j], before, after, view, bound);
        }
        split.edge[c] = edge_point(patch.corner[c], about[0], about[5], about[1], view, bound);
        split.corner[c] = vertex_point(patch.corner[c], about[0], about + 1, about[5]);
    }
    split.done = TEST != 0 && split.edge[0].w != 0 && split.edge[1].w != 0 && split.edge[2].w != 0;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        int frozen = is_frozen(patch.corner[c]) || split.edge[c].w != 0 || split.edge[(c + 1) % 3].w != 0;
#pragma unroll
        for (int k = 0; k < 4; ++k)
            frozen = frozen || split.outer[c][k].w != 0;
        if (TEST != 0 && frozen) {
            split.corner[c] = patch.corner[c];
            split.corner[c].w = 1.0f;
        }
        /* The other two edges of the triangle across. */
        int is_done_across = split.outer[c][0].w != 0 && split.outer[(c + 2) % 3][3].w != 0;
        int was_closed = ((int)patch.corner[c].w & 2) != 0;
        split.sliver[c] = !split.done && split.edge[c].w != 0 && (was_closed || is_done_across);
        split.closed[c] = was_closed || split.sliver[c];
    }
    return split;
}

__device__ __forceinline__ float4 with_closed(float4 point, int closed)
{
    point.w += closed ? 2.0f : 0.0f;
    return point;
}

/* Write the corners of child j of a split: that of A, B or C, or the middle one. */
__device__ __forceinline__ void store_corners(GLOBAL float4 *out, int64 plane, int64 at, float4 a, float4 b, float4 c)
{
    out[at] = a;
    out[plane + at] = b;
    out[2 * plane + at] = c;
}

/* Write the four children, up to the capacity. */
__device__ __forceinline__ void store_children(Split split, GLOBAL float4 *children, int64 plane, int64 parents,
                                               int64 place)
{
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        int64 at = ((3 - c) % 3) * parents + place;
        int next = (c + 1) % 3, last = (c + 2) % 3;
        if (at >= plane)
            continue;
        store_corners(children, plane, at, with_closed(split.corner[c], split.closed[c]), split.edge[c],
                      with_closed(split.edge[next], split.closed[next]));
#pragma unroll
        for (int k = 0; k < 4; ++k)
            children[(3 + k) * plane + at] = split.outer[c][k];
        children[7 * plane + at] = split.outer[next][0];
        children[8 * plane + at] = split.corner[next];
        children[9 * plane + at] = split.edge[last];
        children[10 * plane + at] = split.corner[last];
        children[11 * plane + at] = split.outer[last][3];
    }
    int64 at = 3 * parents + place;
    if (at >= plane)
        return;
    store_corners(children, plane, at, split.edge[0], split.edge[2], split.edge[1]);
    children[3 * plane + at] = split.corner[2];
    children[4 * plane + at] = split.outer[2][3];
    children[5 * plane + at] = split.outer[0][0];
    children[6 * plane + at] = split.corner[0];
    children[7 * plane + at] = split.outer[0][3];
    children[8 * plane + at] = split.outer[1][0];
    children[9 * plane + at] = split.corner[1];
    children[10 * plane + at] = split.outer[1][3];
    children[11 * plane + at] = split.outer[2][0];
}

__global__ void split_all(GLOBAL const float4 *__restrict__ triangles, GLOBAL float4 *__restrict__ children,
                          int parents)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < parents)
        store_children(split_patch(load_patch(triangles, parents, i), triangles, 0.0f), children, 4 * (int64)parents,
                       parents, i);
}

/* counts: the unfinished triangles, the finished ones, and those lost for lack of capacity. */
__global__ void begin(GLOBAL int *__restrict__ counts, int going_on, int finished)
{
    counts[0] = going_on;
    counts[1] = finished;
    counts[2] = 0;
}

#if TEST
/* Which triangles are unfinished, and how many finished ones each yields: itself (numbered by a filter), or those that
   close its gaps. */
__global__ void classify(GLOBAL const float4 *__restrict__ triangles, int64 plane, GLOBAL const int *__restrict__ counts,
                         GLOBAL const float4 *__restrict__ view, float bound, GLOBAL int *__restrict__ goes_on,
                         GLOBAL int *__restrict__ leaves, int places)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= places)
        return;
    int stays = 0, left = 0;
    if (i < counts[0]) {
        Split split = split_patch(load_patch(triangles, plane, i), view, bound);
        stays = !split.done;
        left = split.done ? !FILTERED : split.sliver[0] + split.sliver[1] + split.sliver[2];
    }
    goes_on[i] = stays;
    leaves[i] = left;
}

#if FILTERED
/* The index of each triangle in its half of the stream, from the triangles of both halves. */
__global__ void number(GLOBAL const int *__restrict__ going_on, GLOBAL const int *__restrict__ going,
                       GLOBAL const int *__restrict__ done, GLOBAL const int *__restrict__ whole,
                       GLOBAL int *__restrict__ place_of, int places)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < min(going[0], places))
        place_of[going_on[i]] = i;
    if (i < min(whole[0], places))
        place_of[done[i]] = i;
}
#endif

__device__ __forceinline__ void finish(GLOBAL float4 *finished, int64 room, int64 at, float4 a, float4 b, float4 c,
                                       int level)
{
    if (at >= room)
        return;
    a.w = b.w = c.w = (float)level;
    store_corners(finished, room, at, a, b, c);
}

/* Write both halves of the stream: finished triangles, after all earlier ones, and the children of unfinished ones; on
   the last level these are finished too. level: of the children. going, whole: the number of unfinished triangles, and
   of finished ones not counted in `left_before`. */
__global__ void split_some(GLOBAL const float4 *__restrict__ triangles, int64 plane,
                           GLOBAL const int *__restrict__ counts, GLOBAL const float4 *__restrict__ view, float bound,
                           GLOBAL const int *__restrict__ place_of, GLOBAL const int *__restrict__ left_before,
                           GLOBAL const int *__restrict__ going, GLOBAL const int *__restrict__ whole,
                           GLOBAL float4 *__restrict__ children, int64 children_plane,
                           GLOBAL float4 *__restrict__ finished, int64 room, int places, int level, int is_last)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= places || i >= counts[0])
        return;
    Patch patch = load_patch(triangles, plane, i);
    Split split = split_patch(patch, view, bound);
    const int wholes = FILTERED ? whole[0] : 0;
    int64 at = (int64)counts[1] + (FILTERED && split.done ? place_of[i] : wholes + left_before[i]);
    if (split.done) {
        finish(finished, room, at, patch.corner[0], patch.corner[2], patch.corner[1], level - 1);
        return;
    }
    for (int c = 0; c < 3; ++c)
        if (split.sliver[c])
            finish(finished, room, at++, patch.corner[c], patch.corner[(c + 2) % 3], split.edge[c], level);
    if (!is_last) {
        store_children(split, children, children_plane, going[FILTERED ? 0 : places], place_of[i]);
        return;
    }
    at = (int64)counts[1] + wholes + left_before[places] + 4 * (int64)place_of[i];
    for (int c = 0; c < 3; ++c)
        finish(finished, room, at++, split.corner[c], split.edge[c], split.edge[(c + 1) % 3], level);
    finish(finished, room, at, split.edge[0], split.edge[2], split.edge[1], level);
}

/* Add the counts of a level to the totals; one thread. */
__global__ void advance(GLOBAL int *__restrict__ counts, GLOBAL const int *__restrict__ left_before,
                        GLOBAL const int *__restrict__ going, GLOBAL const int *__restrict__ whole,
                        int64 children_plane, int64 room, int places, int is_last)
{
    int64 children = 4 * (int64)going[FILTERED ? 0 : places];
    int64 finished = (int64)counts[1] + (FILTERED ? whole[0] : 0) + left_before[places] + (is_last ? children : 0);
    int64 going_on = is_last ? 0 : children;
    int64 lost = max(finished - room, (int64)0) + max(going_on - children_plane, (int64)0);
    counts[0] = (int)min(going_on, children_plane);
    counts[1] = (int)min(finished, room);
    counts[2] += (int)lost;
}
#endif
