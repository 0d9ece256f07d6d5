"""Our kernels that query Warp's BVH of points; imported only if Warp is installed.

No `from __future__ import annotations` here: Warp reads argument types from the annotations.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, untyped-decorator, operator"

import warp as wp

WIDER = wp.constant(1.00001)  # so that no rounding of the query loses what our test keeps


@wp.kernel(enable_backward=False)
def count(
    tree: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    cutoff: wp.float32,
    counts: wp.array(dtype=wp.int32),
):
    """Count each particle's neighbours, one thread per particle."""
    i = wp.tid()
    here = points[i]
    found = wp.int32(0)
    query = wp.bvh_query_sphere(tree, here, WIDER * cutoff)
    j = wp.int32(0)
    while wp.bvh_query_next(query, j):
        between = here - points[j]
        if j != i and wp.dot(between, between) < cutoff * cutoff:
            found += 1
    counts[i] = found


@wp.kernel(enable_backward=False)
def fill(
    tree: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    cutoff: wp.float32,
    ends: wp.array(dtype=wp.int32),
    neighbours: wp.array(dtype=wp.int32),
):
    """Write the neighbours of each particle; those of particle i start at ends[i - 1]."""
    i = wp.tid()
    here = points[i]
    at = wp.int32(0)
    if i > 0:
        at = ends[i - 1]
    query = wp.bvh_query_sphere(tree, here, WIDER * cutoff)
    j = wp.int32(0)
    while wp.bvh_query_next(query, j):
        between = here - points[j]
        if j != i and wp.dot(between, between) < cutoff * cutoff:
            neighbours[at] = j
            at += 1
