"""NVIDIA Warp's hash grid and BVH in open boxes, queried by kernels as in its examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import LibraryImages
from gpubench.libraries._library import need
from gpubench.libraries._warp import Warp
from gpubench.problems.images.contract import Images

SIDE = 128  # cells along each axis of the hash grid, which others share, as in Warp's examples


class WarpImages(LibraryImages):
    """Lists by our kernels, on arrays of float32: NumPy's on the host, CuPy's on a GPU."""

    name = "warp-images"
    summary = "NVIDIA Warp's hash grid and BVH, queried in kernels of our own; open boxes alone"
    source = "NVIDIA Warp, wp.HashGrid, wp.Bvh"
    package, module, extra = "warp-lang", "warp", "rivals"
    call = """
import warp as wp
points = wp.array(positions, dtype=wp.vec3)
grid, tree = wp.HashGrid(128, 128, 128), wp.Bvh(points, points)
grid.build(points, cutoff)"""
    kernels: ClassVar = {"hash-grid": "_warp_kernels", "bvh": "_warp_bvh_kernels"}
    forms: ClassVar[Mapping[str, Form]] = {
        form: Form(f"list, by Warp's {form}", allocates=True) for form in kernels
    }

    def prepare(self) -> None:
        if any(self.periodic):
            raise NotSupported("it finds no images across periodic walls")
        self._warp = Warp(self.device)
        self.kind = "numpy" if self._warp.is_host else "cupy"
        super().prepare()
        self._kernels = need(f"gpubench.libraries.{self.kernels[self.form]}", "warp-lang")

    def on_stream(self) -> Any:
        return self._warp.on_stream()

    def begin(self) -> None:
        x = self.inputs.positions
        if not np.array_equal(x, x.astype(np.float32), equal_nan=True):
            raise NotSupported("its trees, and our kernels, are of float32")

    def count(self) -> Any:
        wp, on = self._warp.wp, {"device": self._warp.spec}
        self._view = wp.array(self.points, dtype=wp.vec3, copy=self._warp.is_host, **on)
        if self.form == "bvh":
            self._built = wp.Bvh(self._view, self._view)
        else:
            self._built = wp.HashGrid(SIDE, SIDE, SIDE, **on)
            self._built.build(self._view, self.inputs.cutoff)
        counts = wp.zeros(len(self.points), dtype=wp.int32, **on)
        self._query(self._kernels.count, counts)
        return counts

    def _query(self, kernel: Any, *out: Any) -> None:
        inputs = [self._built.id, self._view, self.inputs.cutoff, *out]
        self._warp.wp.launch(kernel, dim=len(self._view), inputs=inputs, device=self._warp.spec)

    def search(self) -> tuple[Any, ...]:
        wp, counts = self._warp.wp, self.count()
        ends = wp.zeros_like(counts)
        wp.utils.array_scan(counts, ends)
        pairs = int(ends[-1:].numpy()[0]) if len(counts) else 0
        neighbours = wp.empty(pairs, dtype=wp.int32, device=self._warp.spec)
        self._query(self._kernels.fill, ends, neighbours)
        return ends, neighbours

    def rows(self, *found: Any) -> Images:
        offsets = np.append(0, found[0]).astype(np.int64)
        return Images(offsets, found[1], np.zeros((len(found[1]), 3), np.int32))

    def poison(self) -> None:
        for array in self.found:
            array.zero_()

    def _to_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = array.numpy()
        return host
