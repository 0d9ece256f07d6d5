"""Our kernels that query Warp's hash grid; imported only if Warp is installed.

No `from __future__ import annotations` here: Warp reads argument types from the annotations.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, untyped-decorator"

import warp as wp


@wp.kernel(enable_backward=False)
def count(
    grid: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    cutoff: wp.float32,
    counts: wp.array(dtype=wp.int32),
):
    """Count each particle's neighbours, one thread per particle, in cell order."""
    i = wp.hash_grid_point_id(grid, wp.tid())
    here = points[i]
    found = wp.int32(0)
    for j in wp.hash_grid_query(grid, here, cutoff):
        between = here - points[j]
        if j != i and wp.dot(between, between) < cutoff * cutoff:
            found += 1
    counts[i] = found


@wp.kernel(enable_backward=False)
def fill(
    grid: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    cutoff: wp.float32,
    ends: wp.array(dtype=wp.int32),
    neighbours: wp.array(dtype=wp.int32),
):
    """Write the neighbours of each particle; those of particle i start at ends[i - 1]."""
    i = wp.hash_grid_point_id(grid, wp.tid())
    here = points[i]
    at = wp.int32(0)
    if i > 0:
        at = ends[i - 1]
    for j in wp.hash_grid_query(grid, here, cutoff):
        between = here - points[j]
        if j != i and wp.dot(between, between) < cutoff * cutoff:
            neighbours[at] = j
            at += 1
