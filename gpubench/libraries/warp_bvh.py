"""NVIDIA Warp's BVH of points, queried by our own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.poison import poison
from gpubench.libraries._library import need
from gpubench.libraries.warp_hash_grid import WarpHashGrid
from gpubench.problems.particles.inputs import ParticleSet


class WarpBvh(WarpHashGrid):
    """`wp.Bvh` of boxes that are points, rebuilt in place: an LBVH on a GPU, SAH on the host.

    Queries are spheres; threads take the particles in the order given, as Warp tells no other.
    """

    name = "warp-bvh"
    summary = "NVIDIA Warp's BVH, queried in kernels of our own"
    source = "NVIDIA Warp, wp.Bvh, wp.bvh_query_sphere"

    @classmethod
    def structure(cls) -> str:
        return "tree"

    def prepare(self) -> None:
        super().prepare()
        self._kernels = need("gpubench.libraries._warp_bvh_kernels", "warp-lang")
        self._grid: Any = None

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions, shape (n, 3), allocate the list, and launch once."""
        self._grid = None  # the tree of other positions
        super().load(inputs)

    def _build(self) -> None:
        if self._grid is None and self.particles:
            self._grid = self._warp.wp.Bvh(self._point_view, self._point_view)
        elif self.particles:
            self._grid.rebuild()

    def _query(self, kernel: Any, *arrays: Any) -> None:
        if self.particles:  # there is no tree of nothing
            super()._query(kernel, *arrays)

    def poison(self) -> None:
        if not self.particles:
            return
        kept = self.download(self._points).copy()
        self._put(np.zeros_like(kept))
        with self._warp.on_stream():
            self._grid.rebuild()  # to a tree of other positions
        self._put(kept)
        poison(self.device, self._counts, self._ends, self._neighbours)

    def _put(self, points: NDArray[np.float32]) -> None:
        if self._warp.is_host:
            self._points[...] = points
        else:
            self.device.write(self._points, points)

    @property
    def no_graph(self) -> str | None:  # type: ignore[override]  # a rebuild can be captured
        if self._lists and not self._warp.is_host:
            return "its scan of the counts allocates"
        return super().no_graph if self._warp.is_host else None

    def outcome(self) -> dict[str, int | float | str]:
        order = "neighbours come in the order of the tree"
        return super().outcome() | {"wrapping": "none: it finds no images", "order": order}
