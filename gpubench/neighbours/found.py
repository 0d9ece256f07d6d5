"""Results of a neighbour search, in the same kind of array as the positions."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from gpubench.base.arguments import whole
from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.neighbours.arrays import Arrays, arrays_of, uncompiled
from gpubench.neighbours.box import SearchBox
from gpubench.neighbours.cell import Cell, Space, deformed, images_of
from gpubench.neighbours.plan import BLOCK, PairKernels, ResultArrays
from gpubench.neighbours.rows import Limits, keep_pairs, kernel


class Found(Fixed):
    """Neighbours of n particles, in compressed sparse rows (CSR).

    The neighbours of row r are `neighbours[offsets[r]:offsets[r + 1]]`, in no particular order, or
    ascending with `sort=True`. Row r is particle r. With `order="cells"`, rows follow cell order:
    row r is particle `ids[r]`, and `neighbours` contains row numbers instead of particle numbers.

    Later searches do not change these arrays. Vectors and distances are computed on request, from
    the array of positions that was searched: do not modify it in place before requesting them. If
    it is a tensor that requires a gradient, vectors and distances are differentiable, twice too; so
    they are in a box that was given in the call.

    Copying and pickling wait for the device and raise the same errors as `check`.
    """

    _arrays: Arrays
    _plan: PairKernels
    _rows: ResultArrays
    _positions: Any
    _source: Any
    _box: Any
    _kernels: PairKernels
    _first: int
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
        box: Any = None,
        kernels: PairKernels | None = None,
        first: int = 0,
    ) -> None:
        # positions: as a kernel argument. given, box: the user's own array of positions, and the
        # box of the call. kernels: those of this box, if it is not that of the search. first: the
        # number of queries, which precede the particles.
        vars(self).update(
            _arrays=arrays, _plan=plan, _rows=rows, _positions=positions, _source=given,
            _pairs=pairs, _given=rows.given if arrays.gives_once else {},
            _box=box if getattr(box, "requires_grad", False) else None,
            _kernels=plan if kernels is None else kernels, _first=first,
        )  # fmt: skip

    def __reduce__(self) -> Any:
        self.check()
        names = [each.name for each in fields(ResultArrays) if each.name != "given"]
        is_own = isinstance(self._source, self._arrays.given)
        given = self._source if is_own else self._positions.owner
        arrays = {name: getattr(self._rows, name) for name in names}
        rows = {n: None if each is None else self._arrays.give(each) for n, each in arrays.items()}
        kernels = self._kernels
        return restored, (given, kernels.box, kernels.cell, rows, self._box, self._first)

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
            given: Any = None if array is None else self._arrays.give(array)
            is_of_queries = self._first and name == "neighbours"
            self._given[name] = given - self._first if is_of_queries else given
        return self._given[name]

    @uncompiled
    def __len__(self) -> int:
        """Return the number of pairs. Waits for the device."""
        if self._pairs is None:
            with self._arrays.lock, self._arrays.on_stream():
                last = self._arrays.device.download(self._rows.offsets)[-1]
                self._pairs = min(int(last), int(self._rows.neighbours.shape[0]))
        return self._pairs

    @uncompiled
    def matrix(self, width: int | None = None, *, fill: int = -1) -> tuple[Any, Any]:
        """Return the neighbours as a matrix, int32, shape (n, width), and the counts of its rows.

        width: by default the longest row. fill: what follows the neighbours of a row, an int32.
        Waits for the device. Raises UserError if a row is longer than the width, or if the list
        found no room in its capacity.
        """
        fill = whole("fill", fill, -(2**31), 2**31 - 1)
        width = None if width is None else whole("width", width, 0, 2**31 - 1)
        arrays, rows, n = self._arrays, self._rows, self._rows.counts.shape[0]
        with arrays.lock, arrays.on_stream():
            total, room = int(arrays.device.download(rows.offsets)[-1]), rows.neighbours.shape[0]
            if total > room:
                raise no_room(total, room)
            longest = int(self.counts.max()) if n else 0
            if (width := longest if width is None else width) < longest:
                raise UserError(f"a row has {longest} neighbours: matrix needs width={longest}")
            out = arrays.empty((n, width), "int32")
            kernel(arrays.device, "write_matrix")(
                arrays.device.blocks(n * width, BLOCK), BLOCK, offsets=rows.offsets, rows=n,
                neighbours=rows.neighbours, width=width, first=self._first, fill=fill, out=out,
            )  # fmt: skip
            return arrays.give(out), self.counts

    def pairs(self) -> Any:
        """Return the two row numbers of each pair, or query and particle: int32, (pairs, 2)."""
        pairs = self._each("write_pairs", (2,), np.dtype(np.int32))
        pairs[:, 1] -= self._first
        return pairs

    @uncompiled
    def vectors(self) -> Any:
        """Return the vector from each row's particle to each neighbour, by its image in `shifts`.

        Shape (pairs, 3), in the unit and type of the positions, computed in double precision.
        """
        vectors = self._each("write_geometry", (3,), self._positions.dtype)
        if (gradients := self._gradients()) is None:
            return vectors
        pairs = self._each("write_pairs", (2,), np.dtype(np.int32))
        particles = pairs if self.ids is None else self.ids[pairs]
        shifts = None if self._box is None else self.shifts
        own = None if self._rows.systems is None else self._give("systems")[pairs[:, 0]]
        return gradients.Vectors.apply(self._source, self._box, vectors, particles, shifts, own)

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
        if self._box is None and not getattr(self._source, "requires_grad", False):
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
            raise no_room(most, room)
        return self

    def rows_for(self, arrays: Arrays, particles: int, in_cells: bool) -> ResultArrays | None:
        """Return this result's arrays, for a search to overwrite; None if they do not suit it."""
        is_alike = (self._plan.particles, self._rows.ids is not None) == (particles, in_cells)
        return self._rows if self._arrays.device is arrays.device and is_alike else None

    def selected(self, first: int | None, limits: Limits | None, skin: float) -> Found:
        """Return a selection of the pairs of this list, which is overwritten.

        first: the number of queries, of which only the particles behind them are neighbours; None
        for all rows and neighbours.
        """
        distances = limits and self._written("write_geometry", (), self._positions.dtype)
        rows, first = self._plan.particles if first is None else first, first or 0
        kept = keep_pairs(self._arrays, self._rows, rows, first, distances, limits, skin)
        return Found(
            self._arrays, self._plan, kept, self._positions, None, self._source, self._box, None,
            first,
        )  # fmt: skip

    @uncompiled
    def _each(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Run a kernel that writes one item of this shape for each pair."""
        with self._arrays.lock, self._arrays.on_stream():
            return self._arrays.give(self._written(name, shape, dtype))

    def _written(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        arrays, rows, plan, pairs = self._arrays, self._rows, self._kernels, len(self)
        out = arrays.empty((pairs, *shape), dtype.name)
        given = {
            "offsets": rows.offsets, "neighbours": rows.neighbours, "out": out,
            "most": np.int64(pairs), "rows": rows.counts.shape[0], "given": self._positions,
            "wants_vectors": int(shape == (3,)), "box": plan.packed_box,
        }  # fmt: skip
        if rows.shifts is not None:
            name = name.replace("write_geometry", "write_shifted_geometry")
            given |= {"shifts": rows.shifts, "cells": rows.cells, "system_of": rows.systems}
        elif plan.cell is None:
            given["ids"] = plan.numbers if rows.ids is None else rows.ids
        elif name != "write_pairs":
            name = name.replace("write", "write_cell" if rows.images is None else "write_image")
            given |= {"images": rows.images, "moves": rows.moves, "cell": plan.vectors}
        blocks = arrays.device.blocks(rows.counts.shape[0], BLOCK)
        if name.endswith("shifts"):
            blocks = plan.blocks_of_teams
        plan.kernel(name).launch_from(blocks, BLOCK, given)
        return out


def no_room(pairs: int, room: int) -> UserError:
    """Return the error of a list that is longer than its capacity."""
    return UserError(f"{pairs:,} neighbours found no room in a capacity of {room:,}")


def restored(
    given: Any, box: SearchBox, cell: Cell | None, rows: dict[str, Any], source: Any, first: int
) -> Found:
    """Rebuild a result from copied or unpickled arrays."""
    arrays = arrays_of(rows["counts"])
    with arrays.lock, arrays.on_stream():
        taken = arrays.take(given)
        views: dict[str, Any] = {
            name: None if array is None else arrays.view(array) for name, array in rows.items()
        }
        own = {} if first else rows  # neighbours are given less `first`
        kernels = PairKernels(arrays.device, taken, box, cell)
        found = ResultArrays(**views, given=own)
        return Found(arrays, kernels, found, taken, None, given, source, None, first)


class Kept:
    """A list that stays valid until particles have moved too far, or the box has changed too much.

    given: what was searched. corner: of all boxes. sure: pairs nearer than this are listed.
    """

    def __init__(self, found: Found, given: Space, corner: Any, cutoff: float, sure: float) -> None:
        self._found, self._space, self._corner = found, given, np.array(corner, np.float64)
        self._cutoff, self._sure = cutoff, sure
        device, positions = found._arrays.device, found._positions
        self._before = device.empty(positions.shape, positions.dtype)
        device.copy(positions, self._before)
        self._flag, self._kernel = device.empty(1, "int64"), found._plan.kernel("has_moved")
        self._unchanged = device.upload(np.append(np.eye(3), self._corner))

    def serves(self, arrays: Arrays, positions: Any, given: Space) -> bool:
        """Wait; True if the list is valid for these positions; False if one is not finite.

        Two particles within the cutoff now, that each moved by `reach` beside the deformation, were
        within (cutoff + 2 reach) apart before, times `stretch`.
        """
        device, before = arrays.device, self._before
        is_alike = (positions.shape, positions.dtype) == (before.shape, before.dtype)
        change, stretch = self._unchanged, 1.0
        if given != self._space:
            matrix, stretch = deformed(self._space, given)
            change = device.upload(np.append(matrix, self._corner))
        reach = (self._sure / stretch - self._cutoff) / 2
        if arrays is not self._found._arrays or not is_alike or reach < 0:
            return False
        plan = self._kernels(positions, given)
        device.fill(self._flag, 0)
        self._kernel(
            device.blocks(plan.particles, BLOCK), BLOCK, before=before, now=positions,
            box=plan.packed_box, particles=plan.particles, reach2=np.float64(reach) ** 2,
            change=change, status=self._flag,
        )  # fmt: skip
        return not device.download(self._flag)[0]

    def found_at(self, positions: Any, given: Space, source: Any, box: Any) -> Found:
        """Return the same list with new positions, and a new box; source: the user's array."""
        old, kernels = self._found, self._kernels(positions, given)
        return Found(old._arrays, old._plan, old._rows, positions, old._pairs, source, box, kernels)

    def _kernels(self, positions: Any, given: Space) -> PairKernels:
        """Return the kernels of a box; those along open axes stay."""
        plan, device = self._found._plan, self._found._arrays.device
        if given == self._space or given is None:
            return plan
        if isinstance(given, SearchBox) and plan.cell is None:
            x, y, z = np.where(given.periodic, given.size, plan.box.size).tolist()
            return PairKernels(device, positions, replace(plan.box, size=(x, y, z)))
        cell = given if isinstance(given, Cell) else images_of(given)
        return PairKernels(device, positions, plan.box, cell)
