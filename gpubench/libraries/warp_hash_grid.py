"""NVIDIA Warp's hash grid, queried by our own kernels, which is how Warp is meant to be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.poison import poison
from gpubench.libraries._library import LibrarySearch, name_with_version, need
from gpubench.libraries._warp import Warp
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.tasks import COUNTS, TASKS
from gpubench.problems.particles.inputs import ParticleSet


class WarpHashGrid(LibrarySearch):
    """`wp.HashGrid`: a radix sort of the points by hashed cell.

    The hash grid has as many cells as our grid, each as wide as the cutoff. Warp sorts by all 32
    bits of the cell number. As in Warp's examples, our kernels process particles in cell order, and
    skip the particle itself and candidates beyond the cutoff.
    """

    name = "warp-hash-grid"
    summary = "NVIDIA Warp's hash grid, queried in kernels of our own"
    source = "NVIDIA Warp, wp.HashGrid, wp.hash_grid_query"
    finds_images = False
    forms: ClassVar[Mapping[str, Form]] = {
        task: Form(TASKS[task], capturable=False, allocates=True)
        for task in ("build", "count", "ten-counts", "list")
    }

    @classmethod
    def structure(cls) -> str:
        return "hashed"

    def prepare(self) -> None:
        self._warp = warp = Warp(self.device)
        self.library = name_with_version("warp-lang")
        self._kernels = need("gpubench.libraries._warp_kernels", "warp-lang")
        self._lists = self.task == "list"
        self._pool_before = warp.pool_bytes()
        with warp.on_stream():
            self._grid = warp.wp.HashGrid(*self.grid.cells, device=warp.spec)
        self._counts, self._count_view = self._make(self.particles)
        self._ends, self._end_view = self._make(self.particles if self._lists else 0)
        self._neighbours, self._neighbour_view = self._make(0)
        self._pool = 0

    def _make(self, size: int) -> tuple[Any, Any]:
        """Allocate an int32 array; return the array and a Warp view of it."""
        array = self._warp.empty(size, "int32")
        self.workspace_bytes += 0 if self._warp.is_host else array.nbytes
        return array, self._warp.view(array, self._warp.wp.int32)

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions, shape (n, 3), allocate the list, and launch once."""
        xyz = np.ascontiguousarray(inputs.positions[:, :3])
        self._points = self._warp.upload(xyz)
        self._point_view = self._warp.view(self._points, self._warp.wp.vec3)
        if self._lists:
            with self._warp.on_stream():
                self._build()
                self._count()
            counts = self.download(self._counts)
            pairs = int(counts.sum(dtype=np.int64)) if self.particles else 0
            if pairs >= 2**31:
                raise NotSupported(
                    f"{pairs} pairs are more than an int32 scan can count: use fewer particles"
                )
            self.workspace_bytes -= 0 if self._warp.is_host else self._neighbours.nbytes
            self._neighbours, self._neighbour_view = self._make(pairs)
        self.launch()
        self._pool = max(0, self._warp.pool_bytes() - self._pool_before)

    def launch(self) -> None:
        """Build the grid, then count or list as the task requires."""
        if self._warp.is_host:
            self.device.synchronize()
        with self._warp.on_stream():
            self._build()
            for _ in range(COUNTS[self.task]):
                self._count()
            if self._lists:
                self._list()

    def _build(self) -> None:
        if self.particles:
            self._grid.build(self._point_view, self.cutoff)

    def _count(self) -> None:
        self._query(self._kernels.count, self._count_view)

    def _list(self) -> None:
        self._count()
        self._warp.wp.utils.array_scan(self._count_view, self._end_view)
        self._query(self._kernels.fill, self._end_view, self._neighbour_view)

    def _query(self, kernel: Any, *arrays: Any) -> None:
        inputs = [self._grid.id, self._point_view, self.cutoff, *arrays]
        self._warp.wp.launch(kernel, dim=self.particles, inputs=inputs, device=self._warp.spec)

    def neighbours(self) -> Neighbours:
        if self.task == "build":
            with self._warp.on_stream():
                self._count()
        if not self._lists:
            return Neighbours(self._counts)
        offsets = np.zeros(self.particles + 1, np.int64)
        offsets[1:] = self.download(self._ends)
        return Neighbours(self._counts, offsets, self._neighbours)

    def poison(self) -> None:
        if not self.particles:
            return
        warp = self._warp
        elsewhere = warp.upload(np.zeros((self.particles, 3), np.float32))
        with warp.on_stream():
            # Warp's internal arrays cannot be overwritten: rebuild the grid for other points.
            self._grid.build(warp.view(elsewhere, warp.wp.vec3), self.cutoff)
        poison(self.device, self._counts, self._ends, self._neighbours)

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer on the host; NumPy arrays are returned as they are."""
        return self._warp.download(array)

    @property
    def no_graph(self) -> str:
        """The reason why a launch cannot be captured in a CUDA graph."""
        if self._warp.is_host:
            return "it works on the host, which no CUDA graph can hold"
        # See hash_grid_update_device_impl in Warp's native/hashgrid.cpp.
        return "a build copies a host variable that all of Warp's hash grids share"

    def outcome(self) -> dict[str, int | float | str]:
        pairs = {"pairs": int(self._neighbours.shape[0])} if self._lists else {}
        return {
            "overflow": "none: lists are counted first, by us",
            "wrapping": "cells wrap modulo the grid; distances do not, so it finds no images",
            "order": "neighbours come in the order of the cells",
            "self_pairs": "a particle is its own candidate: our kernel leaves it out",
            "ties": "candidates come unfiltered: our kernel compares, strictly nearer",
            **pairs,
        }

    def peak_bytes(self) -> int | None:
        """Return the size of our arrays plus the growth of Warp's pool, including sort scratch."""
        return None if self._warp.is_host else self.workspace_bytes + self._pool
