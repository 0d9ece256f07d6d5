"""SciPy's k-d tree, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Form
from gpubench.core.poison import arrays_of, poison
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.problems.neighbours.tasks import COUNTS, TASKS

Ints = NDArray[Any]


class ScipyCKDTree(HostSearch):
    """A k-d tree split at midpoints, in float64.

    Median splits, SciPy's default, take longer to build and do not speed up queries of uniform
    particles. Counts are queried in the tree's particle order, on all cores. Lists come from
    `query_pairs`, which uses one core, but is faster than methods with a Python list per particle.
    """

    name = "scipy-ckdtree"
    summary = "a k-d tree on the host, by SciPy"
    source = "Maneewongvatana and Mount (1999), as SciPy has it"
    forms: ClassVar[Mapping[str, Form]] = {
        **{task: Form(TASKS[task]) for task in ("build", "count", "ten-counts", "list")},
        "list-pairs": Form("build, then list the pairs, from both sides, unsorted"),
        "list-pairs-once": Form("build, then list the pairs, each once: less work than the others"),
    }

    _tree: Any
    _counts: Any
    _pairs: Any
    _list: Any

    @classmethod
    def structure(cls) -> str:
        return "tree"

    def prepare(self) -> None:
        from scipy.spatial import cKDTree  # slow to import

        self._plant = cKDTree
        self.library = name_with_version("scipy")
        # SciPy includes distances equal to the radius; our cutoff excludes them.
        self._radius = np.nextafter(self.cutoff, 0.0)
        self._boxsize = np.where(self.grid.periodic, self.grid.size, 0.0)

    def work(self) -> None:
        self._build()
        for _ in range(COUNTS[self.task]):
            self._count()
        if self.task == "list":
            pairs = self._tree.query_pairs(self._radius, output_type="ndarray")
            self._pairs = pairs if self.form == "list-pairs-once" else both_sides(pairs)
            if self.form == "list":
                self._list = rows_of(self._pairs, self.particles)

    def _build(self) -> None:
        xyz = self.xyz.astype(np.float64)
        if any(self.grid.periodic):
            xyz -= self.grid.low
            for axis in np.flatnonzero(self.grid.periodic):
                along = xyz[:, axis]
                along %= self._boxsize[axis]
                along[along >= self._boxsize[axis]] = 0.0
        self._tree = self._plant(xyz, boxsize=self._boxsize, balanced_tree=False)

    def _count(self) -> None:
        order = self._tree.indices
        found = self._tree.query_ball_point(
            self._tree.data[order], self._radius, workers=-1, return_length=True
        )
        self._counts = np.empty(self.particles, np.int32)
        self._counts[order] = found - 1  # excluding the particle itself

    def neighbours(self) -> Neighbours:
        if self.form == "list":
            rows: Neighbours = self._list
            return rows
        if self.form == "list-pairs":
            return rows_of(self._pairs, self.particles)
        if self.form == "list-pairs-once":
            return rows_of(both_sides(self._pairs), self.particles)
        if self.form == "build" and self._tree is not None:
            self._count()
        return Neighbours(self._counts)

    def poison(self) -> None:
        self._tree = None  # not filled, since its arrays may be read-only; a launch rebuilds it
        if self.form.startswith("list-pairs"):
            self._pairs[...] = 0  # particle 0 paired with itself
        else:
            poison(self.device, *arrays_of(self.answer))

    def peak_bytes(self) -> int | None:
        self._tree = self._counts = self._pairs = self._list = None
        return peak_of(self.work)

    def outcome(self) -> dict[str, int | float | str]:
        return {
            "overflow": "none: arrays grow",
            "wrapping": "periodic axes, of positions that are in the box: ours to see to",
            "order": "pairs unsorted; rows are made by SciPy's COO to CSR",
            "self_pairs": "not in query_pairs; in query_ball_point, subtracted by us",
            "ties": "at the cutoff included: we ask for the next smaller float64",
        }


def both_sides(pairs: Ints) -> Ints:
    """Return the pairs (i, j), shape (pairs, 2), followed by their reverses (j, i)."""
    return np.concatenate((pairs, pairs[:, ::-1]))


def rows_of(pairs: Ints, particles: int) -> Neighbours:
    """Return pairs, distinct integers of shape (pairs, 2), as a CSR list."""
    from scipy.sparse import coo_array  # slow to import

    first, second = pairs.astype(np.int32, copy=False).T
    rows = coo_array((np.empty(len(pairs), np.bool_), (first, second)), (particles, particles))
    rows.has_canonical_format = True  # otherwise SciPy would sort the rows
    rows = rows.tocsr()
    offsets = rows.indptr.astype(np.int64)
    return Neighbours(np.diff(offsets).astype(np.int32), offsets, rows.indices)
