"""What a search found, in arrays of the kind that the positions came in."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.neighbours.arrays import Arrays, arrays_of, uncompiled
from gpubench.neighbours.box import SearchBox
from gpubench.neighbours.plan import BLOCK, PairKernels, ResultArrays


class Found(Fixed):
    """Neighbours of n particles, in compressed rows.

    The neighbours of row r are `neighbours[offsets[r]:offsets[r + 1]]`, in no particular order. A
    row is a particle; with `order="cells"` it is the r-th particle in the order of the cells, its
    number is `ids[r]`, and neighbours are rows as well.

    Later searches do not change these arrays. Vectors and distances are computed when they are
    asked for, from the positions that were given: change those in place only afterwards. Of a
    tensor that requires a gradient they have one, in the positions.

    It can be copied and pickled, which waits for the device and raises what `check` does.
    """

    arrays: Arrays
    plan: PairKernels
    rows: ResultArrays
    positions: Any

    def __init__(
        self,
        arrays: Arrays,
        plan: PairKernels,
        rows: ResultArrays,
        positions: Any,
        pairs: int | None,
        given: Any,
    ) -> None:
        # positions: as kernels read them. given: the same as the user has them.
        vars(self).update(arrays=arrays, plan=plan, rows=rows, positions=positions)
        self._source, self._pairs = given, pairs
        self._given = rows.given if arrays.gives_once else {}

    def __reduce__(self) -> Any:
        self.check()
        names = ("counts", "offsets", "neighbours", "ids")
        is_own = isinstance(self._source, self.arrays.given)
        given = self._source if is_own else self.positions.owner
        return restored, (given, self.plan.box, {name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        rows = self.rows.counts.shape[0]
        pairs = "pairs not counted yet" if self._pairs is None else f"{self._pairs:,} pairs"
        return f"Found({rows:,} particles, {pairs})"

    @property
    def counts(self) -> Any:
        """How many neighbours each row has: int32, shape (n,)."""
        return self._give("counts")

    @property
    def offsets(self) -> Any:
        """Where each row begins, and where the last ends: int64, shape (n + 1,)."""
        return self._give("offsets")

    @property
    def neighbours(self) -> Any:
        """The neighbours: int32, shape (offsets[-1],), or (capacity,) where one was given."""
        return self._give("neighbours")

    @property
    def ids(self) -> Any:
        """The particle of each row: int32, shape (n,); None where rows are particles."""
        return None if self.rows.ids is None else self._give("ids")

    @uncompiled
    def _give(self, name: str) -> Any:
        if name not in self._given:
            self._given[name] = self.arrays.give(getattr(self.rows, name))
        return self._given[name]

    @uncompiled
    def __len__(self) -> int:
        """Return how many pairs there are. Waits for the device."""
        if self._pairs is None:
            with self.arrays.lock, self.arrays.on_stream():
                last = self.arrays.device.download(self.rows.offsets)[-1]
                self._pairs = min(int(last), int(self.rows.neighbours.shape[0]))
        return self._pairs

    def pairs(self) -> Any:
        """Return the two rows of each pair: int32, shape (pairs, 2)."""
        return self._each("write_pairs", (2,), np.dtype(np.int32))

    @uncompiled
    def vectors(self) -> Any:
        """Return where each neighbour is from its row's particle, by the nearest image.

        In the unit and type of the positions, shape (pairs, 3), computed in double precision.
        """
        vectors = self._each("write_geometry", (3,), self.positions.dtype)
        if (gradients := self._gradients()) is None:
            return vectors
        pairs = self.pairs()
        particles = pairs if self.ids is None else self.ids[pairs]
        return gradients.Vectors.apply(self._source, vectors, particles)

    @uncompiled
    def distances(self) -> Any:
        """Return the distance of each pair, in the unit and type of the positions: (pairs,).

        Where it is 0, so is its gradient.
        """
        distances = self._each("write_geometry", (), self.positions.dtype)
        if (gradients := self._gradients()) is None:
            return distances
        return gradients.Distances.apply(self.vectors(), distances)

    def _gradients(self) -> Any:
        """Return what follows derivatives, where a gradient is asked for."""
        if not getattr(self._source, "requires_grad", False):
            return None  # as nearly all arrays
        from gpubench.neighbours import gradients  # needs PyTorch

        return gradients

    @uncompiled
    def check(self) -> Found:
        """Wait, and raise UserError for what a search with a `capacity` met since the last check.

        That is a position that is not finite, one outside an axis that does not repeat, or more
        pairs than there was room for. Returns itself.
        """
        with self.arrays.lock, self.arrays.on_stream():
            most = self.plan.require_sound()
        room = int(self.rows.neighbours.shape[0])
        if self.plan.capacity is not None and most > room:
            raise UserError(f"{most:,} neighbours found no room in a capacity of {room:,}")
        return self

    def suits(self, arrays: Arrays, particles: int, in_cells: bool) -> bool:
        """Say whether a search of so many particles in such arrays can write into these."""
        is_alike = (self.plan.particles, self.rows.ids is not None) == (particles, in_cells)
        return self.arrays.device is arrays.device and is_alike

    def at(self, positions: Any, given: Any) -> Found:
        """Return the same list for positions that have moved, on the device."""
        return Found(self.arrays, self.plan, self.rows, positions, self._pairs, given)

    @uncompiled
    def _each(self, kernel: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Compute something of each pair."""
        arrays, rows, plan, pairs = self.arrays, self.rows, self.plan, len(self)
        with arrays.lock, arrays.on_stream():
            out = arrays.empty((pairs, *shape), dtype.name)
            given = {"offsets": rows.offsets, "neighbours": rows.neighbours, "out": out}
            given |= {"most": np.int64(pairs), "rows": plan.particles}
            if kernel == "write_geometry":
                ids = plan.numbers if rows.ids is None else rows.ids
                given |= {"ids": ids, "given": self.positions, "box": plan.packed_box}
                given["wants_vectors"] = int(shape == (3,))
            plan.kernel(kernel)(arrays.device.blocks(plan.particles, BLOCK), BLOCK, **given)
            return arrays.give(out)


def restored(given: Any, box: SearchBox, rows: dict[str, Any]) -> Found:
    """Return what was found, of arrays that were copied or pickled."""
    arrays = arrays_of(rows["counts"])
    with arrays.lock, arrays.on_stream():
        taken = arrays.take(given)
        views: dict[str, Any] = {
            name: None if array is None else arrays.view(array) for name, array in rows.items()
        }
        kernels = PairKernels(arrays.device, taken, box)
        return Found(arrays, kernels, ResultArrays(**views, given=rows), taken, None, given)


class Kept:
    """A list that is kept until a particle has moved further than `reach` since it was made."""

    def __init__(self, found: Found, reach: float) -> None:
        self.found, self._reach2 = found, np.float64(reach) ** 2
        device, positions = found.arrays.device, found.positions
        self._before = device.empty(positions.shape, positions.dtype)
        device.copy(positions, self._before)
        self._flag, self._kernel = device.empty(1, "int64"), found.plan.kernel("has_moved")

    def serves(self, arrays: Arrays, positions: Any) -> bool:
        """Wait, and say so; a position that is not finite counts as one that moved too far."""
        device, plan, before = arrays.device, self.found.plan, self._before
        is_alike = (positions.shape, positions.dtype) == (before.shape, before.dtype)
        if arrays is not self.found.arrays or not is_alike:
            return False
        device.fill(self._flag, 0)
        self._kernel(
            device.blocks(plan.particles, BLOCK), BLOCK, before=before, now=positions,
            box=plan.packed_box, particles=plan.particles, reach2=self._reach2, status=self._flag,
        )  # fmt: skip
        return not device.download(self._flag)[0]
