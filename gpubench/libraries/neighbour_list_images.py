"""`gpubench.NeighbourList` in cells of any shape, as users call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.base.version import __version__
from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import LibraryImages
from gpubench.libraries._library import need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries.neighbour_list import OPENCL, require_own_cpu
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import SystemSet


class NeighbourListImages(LibraryImages):
    """A call of `NeighbourList`, from the user's positions to rows with shifts.

    Each variant names a kind of array: NumPy with float64, CuPy or PyTorch with float32.
    """

    name = "neighbour-list-images"
    summary = "gpubench.NeighbourList in any cell, to a list with shifts"
    source = "docs/use.md"
    forms: ClassVar[Mapping[str, Form]] = {
        kind: Form(f"list with shifts, in arrays of {kind}", needs, allocates=True)
        for kind, needs in (("numpy", OPENCL), ("cupy", CUDA), ("torch", frozenset[str]()))
    }
    called = f"gpubench {__version__}"
    call = """
from gpubench import NeighbourList
found = NeighbourList(cutoff, cell, periodic)(positions)"""

    def prepare(self) -> None:
        self.kind = self.form
        super().prepare()
        if self.device.backend != "cuda":
            require_own_cpu(self.device)
        else:
            need("cupy", "CuPy", "cuda13")
        # Imported like a third-party library, since this layer must not import NeighbourList.
        self._library = need("gpubench", "gpubench", "cpu")

    def begin(self) -> None:
        inputs, is_one = self.inputs, self.systems == 1
        box = self._bounded(inputs.vectors[0]) if is_one else None
        self._search = self._library.NeighbourList(inputs.cutoff, box, self.periodic)
        self._batch = {} if is_one else {"batch": inputs.offsets, "box": inputs.vectors}

    def _bounded(self, cell: Any) -> Any:
        """Return a cell whose open axes have no bounds if particles are beyond them."""
        x, ends = self.inputs.positions, np.diag(cell)
        is_in = np.asarray(((x >= 0) & (x <= ends)).all(axis=0)) | np.array(self.periodic)
        return cell if is_in.all() else np.where(np.array(self.periodic)[:, None], cell, 0.0)

    def change(self, inputs: SystemSet) -> None:
        super().change(inputs)
        cells = inputs.vectors if self.systems > 1 else self._bounded(inputs.vectors[0])
        self._batch |= {"box": cells}

    def search(self) -> tuple[Any, ...]:
        self._last = found = self._search(self.points, **self._batch)
        return found.offsets, found.neighbours, found.shifts

    def count(self) -> Any:
        return self._search.count(self.points, **self._batch)

    def lengths(self) -> Any:
        return self._last.distances()

    def rows(self, *found: Any) -> Images:
        return Images(*found)

    def outcome(self) -> dict[str, int | float | str]:
        return {"method": self._search.chosen} if self.particles else {}
