"""Algorithms for tests: counting sorts in NumPy on a FakeDevice, right or wrong to order."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import OutOfMemory
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import SortedCells
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.stream_filter.contract import Compacted, StreamFilter

ENVIRONMENT = {
    "machine": "fake",
    "device": {"backend": "cuda", "name": "fake", "is_cpu": False},
    "host": {},
    "libraries": {},
    "commit": None,
    "dirty": None,
    "code_hash": "0123456789abcdef",
    "copy_bandwidth_gb_s": 1.0,
    "overhead_ms": {"cold": 0.0, "hot": 0.0},
    "started": "2026-01-31T12:00:00Z",
}


class RightSort(ParticleAlgorithm):
    """Sorts when the device runs what was launched: at once, or when a graph is replayed."""

    name = "right-sort"
    family = "cell-list"
    summary = "sorts"
    source = "nowhere"
    forms: ClassVar[dict[str, Form]] = {
        "plain": Form("one pass"),
        "host-loop": Form("reads back", capturable=False),
        "graphs-only": Form("needs graphs", requires=frozenset({"graphs"})),
    }
    defaults: ClassVar[dict[str, int]] = {"width": 1, "depth": 2}

    made: ClassVar[list[tuple[str, int, dict[str, int]]]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.made.append((self.name, self.particles, dict(self.parameters)))
        self.start = self.allocate(self.grid.count + 1, np.int32)
        self.order = self.allocate(self.particles, np.int32)
        self.runs = 0

    def load(self, inputs: Any) -> None:
        self.cell_of = self.device.upload(inputs.cell_of)

    def launch(self) -> None:
        self.device.work(self.name, self.sort)()

    def sort(self) -> float:
        self.runs += 1
        counts = np.bincount(self.cell_of, minlength=self.grid.count)
        self.start[:] = np.concatenate(([0], np.cumsum(counts)))
        self.order[:] = np.argsort(self.cell_of, kind="stable")
        return 1.0

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self.start, self.order)

    def traffic_bytes(self) -> int:
        return 8 * self.particles

    def outcome(self) -> dict[str, int | float | str]:
        return {"rounds": 3}


class WrongSort(RightSort):
    name = "wrong-sort"
    good_runs = 0

    def sort(self) -> float:
        cost = super().sort()
        if self.runs > self.good_runs:
            self.order[:] = np.roll(self.order, 1)
        return cost


class SpoiltSort(WrongSort):
    """Right at first, wrong once it has been timed."""

    name = "spoilt-sort"
    good_runs = 1


class BadGraphSort(RightSort):
    """Right when launched, wrong when replayed."""

    name = "bad-graph-sort"

    def launch(self) -> None:
        capturing = self.device._capturing is not None
        self.device.work(self.name, lambda: self.spoil() if capturing else self.sort())()

    def spoil(self) -> float:
        self.order[:] = 0
        return 1.0


class BrokenSort(RightSort):
    """Raises on its first launch."""

    name = "broken-sort"
    good_runs = 0

    def launch(self) -> None:
        if self.runs >= self.good_runs:
            raise RuntimeError("illegal address\nsecond line")
        super().launch()


class BreakingSort(BrokenSort):
    """Raises while it is being timed."""

    name = "breaking-sort"
    good_runs = 3


class HugeSort(RightSort):
    name = "huge-sort"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise OutOfMemory("100 GiB asked for, 1 GiB free")


class TwiceSort(RightSort):
    """Sorts twice a launch."""

    name = "twice-sort"
    launches = 2

    def launch(self) -> None:
        super().launch()
        super().launch()


class RightFilter(StreamFilter):
    name = "right-filter"
    summary = "filters"
    source = "nowhere"
    forms: ClassVar[dict[str, Form]] = {"plain": Form("one pass")}

    def filter(self, records: Any, keep: Any) -> None:
        is_kept = records[:, 0] != np.inf if keep is None else keep != 0
        self.device.work(self.name, 1.0)()
        self.kept = records[is_kept]

    @property
    def answer(self) -> Compacted:
        return Compacted(self.kept, np.array([len(self.kept)], np.int32))

    def traffic_bytes(self) -> int:
        return self.size * self.record_bytes


class LosingSearch(HostSearch):
    """Loses the neighbours of a particle beyond the third, as a list of three would."""

    name = "losing-search"
    summary = "searches"
    source = "nowhere"
    forms: ClassVar[dict[str, Form]] = {"count": Form("all pairs")}
    room = 3

    def work(self) -> None:
        apart = np.linalg.norm(self.xyz[:, None] - self.xyz, axis=-1)
        counts = np.count_nonzero(apart < self.cutoff, axis=1) - 1
        self.counts = np.minimum(counts, self.room).astype(np.int32)
        self.device.work(self.name, 1.0)()

    def neighbours(self) -> Neighbours:
        return Neighbours(self.counts)


ALGORITHMS = {
    cls.name: cls
    for cls in (
        RightSort,
        WrongSort,
        SpoiltSort,
        BadGraphSort,
        BrokenSort,
        BreakingSort,
        HugeSort,
        TwiceSort,
        RightFilter,
        LosingSearch,
    )
}
