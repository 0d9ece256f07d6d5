"""Results of a neighbour search, in the same kind of array as the positions."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.neighbours.arrays import Arrays, arrays_of, uncompiled
from gpubench.neighbours.box import SearchBox
from gpubench.neighbours.cell import Cell
from gpubench.neighbours.plan import BLOCK, PairKernels, ResultArrays


class Found(Fixed):
    """Neighbours of n particles, in compressed sparse rows (CSR).

    The neighbours of row r are `neighbours[offsets[r]:offsets[r + 1]]`, in no particular order.
    Row r is particle r. With `order="cells"`, rows follow cell order: row r is particle `ids[r]`,
    and `neighbours` contains row numbers instead of particle numbers.

    Later searches do not change these arrays. Vectors and distances are computed on request, from
    the array of positions that was searched: do not modify it in place before requesting them. If
    it is a tensor that requires a gradient, vectors and distances are differentiable.

    Copying and pickling wait for the device and raise the same errors as `check`.
    """

    _arrays: Arrays
    _plan: PairKernels
    _rows: ResultArrays
    _positions: Any
    _source: Any
    _pairs: int | None
    _given: dict[str, Any]

    def __init__(
        self,
        arrays: Arrays,
        plan: PairKernels,
        rows: ResultArrays,
        positions: Any,
        pairs: int | None,
        given: Any,
    ) -> None:
        # positions: as a kernel argument. given: the user's own array of positions.
        vars(self).update(
            _arrays=arrays, _plan=plan, _rows=rows, _positions=positions, _source=given,
            _pairs=pairs, _given=rows.given if arrays.gives_once else {},
        )  # fmt: skip

    def __reduce__(self) -> Any:
        self.check()
        names = [each.name for each in fields(ResultArrays) if each.name != "given"]
        is_own = isinstance(self._source, self._arrays.given)
        given = self._source if is_own else self._positions.owner
        rows = {name: self._give(name) for name in names}
        return restored, (given, self._plan.box, self._plan.cell, rows)

    def __repr__(self) -> str:
        rows = self._rows.counts.shape[0]
        pairs = "pairs not counted yet" if self._pairs is None else f"{self._pairs:,} pairs"
        return f"Found({rows:,} particles, {pairs})"

    @property
    def counts(self) -> Any:
        """The number of neighbours in each row: int32, shape (n,)."""
        return self._give("counts")

    @property
    def offsets(self) -> Any:
        """The start of each row in `neighbours`, and the end of the last: int64, shape (n + 1,)."""
        return self._give("offsets")

    @property
    def neighbours(self) -> Any:
        """The neighbours: int32, shape (offsets[-1],), or (capacity,) if a capacity was given."""
        return self._give("neighbours")

    @property
    def ids(self) -> Any:
        """The particle of each row: int32, shape (n,); None unless `order="cells"`."""
        return self._give("ids")

    @property
    def shifts(self) -> Any:
        """The image of each pair's neighbour: int32, shape (pairs, 3).

        positions[j] - positions[i] + shifts @ cell is its vector; cell: the box as a 3x3 matrix,
        whose rows are vectors. 0 along open axes.
        """
        if self._rows.shifts is not None:
            return self._give("shifts")
        return self._each("write_shifts", (3,), np.dtype(np.int32))

    @uncompiled
    def _give(self, name: str) -> Any:
        if name not in self._given:
            array = getattr(self._rows, name)
            self._given[name] = None if array is None else self._arrays.give(array)
        return self._given[name]

    @uncompiled
    def __len__(self) -> int:
        """Return the number of pairs. Waits for the device."""
        if self._pairs is None:
            with self._arrays.lock, self._arrays.on_stream():
                last = self._arrays.device.download(self._rows.offsets)[-1]
                self._pairs = min(int(last), int(self._rows.neighbours.shape[0]))
        return self._pairs

    def pairs(self) -> Any:
        """Return the two row numbers of each pair: int32, shape (pairs, 2)."""
        return self._each("write_pairs", (2,), np.dtype(np.int32))

    @uncompiled
    def vectors(self) -> Any:
        """Return the vector from each row's particle to each neighbour, by its image in `shifts`.

        Shape (pairs, 3), in the unit and type of the positions, computed in double precision.
        """
        vectors = self._each("write_geometry", (3,), self._positions.dtype)
        if (gradients := self._gradients()) is None:
            return vectors
        pairs = self.pairs()
        particles = pairs if self.ids is None else self.ids[pairs]
        return gradients.Vectors.apply(self._source, vectors, particles)

    @uncompiled
    def distances(self) -> Any:
        """Return the distance of each pair: shape (pairs,), in the unit and type of the positions.

        The gradient of a zero distance is defined as 0.
        """
        distances = self._each("write_geometry", (), self._positions.dtype)
        if (gradients := self._gradients()) is None:
            return distances
        return gradients.Distances.apply(self.vectors(), distances)

    def _gradients(self) -> Any:
        """Return the module with the autograd functions; None if no gradient is required."""
        if not getattr(self._source, "requires_grad", False):
            return None  # the usual case
        from gpubench.neighbours import gradients  # needs PyTorch

        return gradients

    @uncompiled
    def check(self) -> Found:
        """Wait, and raise UserError for errors of searches with a `capacity` since the last check.

        The errors: a position that is not finite, a position outside the box along an axis that is
        not periodic, more pairs than the capacity. Returns self.
        """
        with self._arrays.lock, self._arrays.on_stream():
            most = self._plan.require_sound()
        room = int(self._rows.neighbours.shape[0])
        if self._plan.capacity is not None and most > room:
            raise UserError(f"{most:,} neighbours found no room in a capacity of {room:,}")
        return self

    def rows_for(self, arrays: Arrays, particles: int, in_cells: bool) -> ResultArrays | None:
        """Return this result's arrays, for a search to overwrite; None if they do not suit it."""
        is_alike = (self._plan.particles, self._rows.ids is not None) == (particles, in_cells)
        return self._rows if self._arrays.device is arrays.device and is_alike else None

    def at(self, positions: Any, given: Any) -> Found:
        """Return the same list with new positions. given: the user's own array of them."""
        return Found(self._arrays, self._plan, self._rows, positions, self._pairs, given)

    @uncompiled
    def _each(self, kernel: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Run a kernel that writes one item of this shape for each pair."""
        arrays, rows, plan, pairs = self._arrays, self._rows, self._plan, len(self)
        with arrays.lock, arrays.on_stream():
            out = arrays.empty((pairs, *shape), dtype.name)
            given = {
                "offsets": rows.offsets, "neighbours": rows.neighbours, "out": out,
                "most": np.int64(pairs), "rows": plan.particles, "given": self._positions,
                "wants_vectors": int(shape == (3,)), "box": plan.packed_box,
            }  # fmt: skip
            if rows.shifts is not None:
                kernel = kernel.replace("write_geometry", "write_shifted_geometry")
                given |= {"shifts": rows.shifts, "cells": rows.cells, "system_of": rows.systems}
            elif rows.images is None:
                given["ids"] = plan.numbers if rows.ids is None else rows.ids
            elif kernel != "write_pairs":
                kernel = kernel.replace("write", "write_image")
                given |= {"images": rows.images, "moves": rows.moves, "cell": plan.vectors}
            blocks = arrays.device.blocks(plan.particles, BLOCK)
            plan.kernel(kernel).launch_from(blocks, BLOCK, given)
            return arrays.give(out)


def restored(given: Any, box: SearchBox, cell: Cell | None, rows: dict[str, Any]) -> Found:
    """Rebuild a result from copied or unpickled arrays."""
    arrays = arrays_of(rows["counts"])
    with arrays.lock, arrays.on_stream():
        taken = arrays.take(given)
        views: dict[str, Any] = {
            name: None if array is None else arrays.view(array) for name, array in rows.items()
        }
        kernels = PairKernels(arrays.device, taken, box, cell)
        return Found(arrays, kernels, ResultArrays(**views, given=rows), taken, None, given)


class Kept:
    """A list that stays valid until a particle has moved further than `reach` since the search."""

    def __init__(self, found: Found, reach: float) -> None:
        self.found, self._reach2 = found, np.float64(reach) ** 2
        device, positions = found._arrays.device, found._positions
        self._before = device.empty(positions.shape, positions.dtype)
        device.copy(positions, self._before)
        self._flag, self._kernel = device.empty(1, "int64"), found._plan.kernel("has_moved")

    def serves(self, arrays: Arrays, positions: Any) -> bool:
        """Wait; True if the list is valid for these positions; False if one is not finite."""
        device, plan, before = arrays.device, self.found._plan, self._before
        is_alike = (positions.shape, positions.dtype) == (before.shape, before.dtype)
        if arrays is not self.found._arrays or not is_alike:
            return False
        device.fill(self._flag, 0)
        self._kernel(
            device.blocks(plan.particles, BLOCK), BLOCK, before=before, now=positions,
            box=plan.packed_box, particles=plan.particles, reach2=self._reach2, status=self._flag,
        )  # fmt: skip
        return not device.download(self._flag)[0]
