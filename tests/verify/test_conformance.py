"""The suites themselves: NumPy algorithms that are right pass them, and broken ones do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from fake_algorithms import LosingSearch
from fakes import FakeDevice

from gpubench import problems
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.grid import Grid, UnboundedGrid, hash_buckets
from gpubench.physics.noise import GENERATORS
from gpubench.problems.cells.contract import (
    CellList,
    CellListUpdate,
    HashedCells,
    LinkedCells,
    SortedCells,
)
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.pair_noise.contract import Noise, PairNoise
from gpubench.problems.pair_noise.oracle import noise
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import from_positions, make, move
from gpubench.problems.stream_filter.contract import Compacted, StreamFilter
from gpubench.verify.conformance import CaseResult, cases, run_case, run_conformance
from gpubench.verify.smallest import smallest_failure, smallest_failure_of_a_piece

HOST: Any = SimpleNamespace(download=np.array, upload=np.array)


class HostCellList(CellList):
    """The part that the two shapes share: an input kept on the host."""

    name, summary, source = "host", "", ""
    forms: ClassVar = {"only": Form("")}

    def __init__(self, particles: int, grid: Grid) -> None:
        super().__init__(HOST, particles, grid, "only", {})

    def load(self, inputs) -> None:
        self.positions, self.cell_of = inputs.positions, inputs.cell_of

    def traffic_bytes(self) -> None:
        return None


class HostSorted(HostCellList):
    """Sorted cells by NumPy's stable sort."""

    forms: ClassVar = {"only": Form("", reorders=True)}

    def build(self, cell_of: np.ndarray, positions: np.ndarray) -> None:
        order = np.argsort(cell_of, kind="stable").astype(np.int32)
        bounds = np.arange(self.grid.count + 1)
        start = np.searchsorted(cell_of[order], bounds).astype(np.int32)
        self._answer = SortedCells(start, order, positions[order])

    @property
    def answer(self) -> SortedCells:
        return self._answer


class HostLinked(HostCellList):
    """Linked cells, each particle after the next of its cell in sorted order."""

    def build(self, cell_of: np.ndarray, positions: np.ndarray) -> None:
        order = np.argsort(cell_of, kind="stable").astype(np.int32)
        first = np.diff(cell_of[order], prepend=-1) != 0
        self.head = np.full(self.grid.count, -1, np.int32)
        self.head[cell_of[order[first]]] = order[first]
        self.next = np.full(self.particles, -1, np.int32)
        self.next[order[:-1][~first[1:]]] = order[1:][~first[1:]]

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self.head, self.next)


class HostQuery(ParticleAlgorithm):
    """The 27-cell query in float32, as a device does it."""

    name, summary, source, family = "host", "", "", "neighbour-query"
    forms: ClassVar = {"only": Form("")}

    def __init__(self, particles: int, grid: Grid) -> None:
        super().__init__(HOST, particles, grid, "only", {})
        self.cutoff = min(grid.cell_size)

    def load(self, inputs) -> None:
        self.positions = inputs.positions
        self.cells = HostSorted(self.particles, self.grid)
        self.cells.load(inputs)
        self.cells.launch()

    def traffic_bytes(self) -> None:
        return None

    def launch(self) -> None:
        pieces = [
            self.near(step)
            for step in np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3)
        ]
        rows, columns = np.concatenate(pieces, axis=1)
        self.counts = np.bincount(rows, minlength=self.particles).astype(np.int32)
        self.neighbours = columns[np.argsort(rows, kind="stable")].astype(np.int32)

    def near(self, step: np.ndarray) -> np.ndarray:
        """Return pairs (rows, columns) of particles with those one step of cells away."""
        grid, answer = self.grid, self.cells.answer
        coordinates = grid.coordinates(self.positions) + step
        turns = np.floor_divide(coordinates, grid.cells)  # -1, 0 or 1 turn of a periodic box
        rows = np.flatnonzero((np.asarray(grid.periodic) | (turns == 0)).all(axis=1))
        x, y, z = (coordinates - turns * grid.cells)[rows].T
        cell = (z * grid.cells[1] + y) * grid.cells[0] + x
        lengths = answer.start[cell + 1] - answer.start[cell]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        columns = answer.order[np.repeat(answer.start[cell], lengths) + within]
        rows = np.repeat(rows, lengths)
        shift = turns[rows].astype(np.float32) * np.asarray(grid.size, np.float32)
        near = self.squared_distance(rows, columns, shift) < np.float32(self.cutoff) ** 2
        return np.stack((rows, columns))[:, near & (rows != columns)]

    def squared_distance(self, rows, columns, shift) -> np.ndarray:
        # Difference first, image second: the same rounding from both sides of a pair.
        apart = (self.positions[rows, :3] - self.positions[columns, :3]) - shift
        return (apart**2).sum(axis=1, dtype=np.float32)

    @property
    def answer(self) -> Neighbours:
        offsets = np.append(0, np.cumsum(self.counts, dtype=np.int64))
        return Neighbours(self.counts, offsets, self.neighbours)


class HostCount(HostQuery):
    """The form that only counts."""

    @property
    def answer(self) -> Neighbours:
        return Neighbours(self.counts)


class HostUpdate(CellListUpdate):
    """Linked lists from which each mover is unlinked, then pushed on the list of its new cell."""

    name, summary, source = "host", "", ""
    forms: ClassVar = {"only": Form("")}
    build = HostLinked.build
    answer = HostLinked.answer
    traffic_bytes = HostLinked.traffic_bytes

    def __init__(self, particles: int, grid: Grid) -> None:
        super().__init__(HOST, particles, grid, "only", {})

    def load(self, inputs) -> None:
        self.states = [(state.cell_of, state.positions) for state in inputs.history]
        self.cell_of, self.positions = self.states[0]
        self.build(self.cell_of, self.positions)

    def update(self, cell_of: np.ndarray, positions: np.ndarray) -> None:
        movers = np.flatnonzero(cell_of != self.cell_of)
        for cell in np.unique(self.cell_of[movers]):
            self.mend(cell, cell_of)
        for i in movers:
            self.next[i], self.head[cell_of[i]] = self.head[cell_of[i]], i

    def mend(self, cell: int, cell_of: np.ndarray) -> None:
        """Link those that stay in a cell to each other."""
        last = -1
        for i in self.members(cell):
            if cell_of[i] == cell:
                self.link(cell, last, i)
                last = i
        self.link(cell, last, -1)

    def members(self, cell: int) -> list[int]:
        """Return the list of a cell; a ring, which a broken update leaves, is cut."""
        found, i = [], self.head[cell]
        while i != -1 and len(found) < self.particles:
            found.append(i)
            i = self.next[i]
        return found

    def link(self, cell: int, last: int, i: int) -> None:
        if last == -1:
            self.head[cell] = i
        else:
            self.next[last] = i


class HostFilter(StreamFilter):
    """Compaction by NumPy, over what an earlier launch left."""

    name, summary, source = "host", "", ""
    forms: ClassVar = {"only": Form("")}

    def __init__(self, records: int, record_bytes: int, nulls: str, form: str = "only") -> None:
        super().__init__(HOST, records, record_bytes, form, {}, nulls=nulls)
        self.kept = np.full((records, record_bytes // 4), 5, np.float32)

    def is_kept(self, records: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
        return records[:, 0] != np.inf if keep is None else keep != 0

    def filter(self, records: np.ndarray, keep: np.ndarray | None) -> None:
        found = records[self.is_kept(records, keep)]
        self.kept[: len(found)] = found
        self.count = np.array([len(found)], np.int32)

    def traffic_bytes(self) -> None:
        return None

    @property
    def answer(self) -> Compacted:
        return Compacted(self.kept, self.count)


class HostUnordered(HostFilter):
    """The form that does not keep the order."""

    forms: ClassVar = {"only": Form("", stable=False)}

    def filter(self, records: np.ndarray, keep: np.ndarray | None) -> None:
        super().filter(records[::-1], None if keep is None else keep[::-1])


class HostNoise(PairNoise):
    """Philox by NumPy."""

    name, summary, source, generator = "host", "", "", "philox-10"
    forms: ClassVar = {"only": Form("")}

    def __init__(self, pairs: int) -> None:
        super().__init__(HOST, pairs, "only", {})

    def load(self, inputs) -> None:
        super().load(inputs)
        self.step, self.key = inputs.step, inputs.key

    def draw(self, step: int, key: int) -> np.ndarray:
        return noise(self.generator, self.i, self.j, step, key, 1)

    def launch(self) -> None:
        steps = range(self.step, self.step + self.launches)
        self.values = np.concatenate([self.draw(step, self.key) for step in steps])

    def traffic_bytes(self) -> None:
        return None

    @property
    def answer(self) -> Noise:
        return Noise(self.values)


class HostHashGrid(ParticleAlgorithm):
    """Particles sorted by the bucket of their cell, counted from the world's lowest."""

    name, summary, source, family = "host", "", "", "hash-grid"
    forms: ClassVar = {"only": Form("", reorders=True)}
    limits = True

    def __init__(self, particles: int, grid: Grid) -> None:
        super().__init__(HOST, particles, grid, "only", {})
        self.edges = np.asarray(grid.cell_size, np.float32)
        self.cutoff = min(grid.cell_size)
        self.buckets = 1 << max(0, particles - 1).bit_length()

    def cells(self) -> np.ndarray:
        return UnboundedGrid(self.grid.cell_size).coordinates(self.positions)

    def load(self, inputs) -> None:
        self.positions = inputs.positions

    def launch(self) -> None:
        cells = self.cells()
        self.corner = cells.min(axis=0, initial=2**30).astype(np.int32)
        bucket_of = hash_buckets(cells - self.corner, self.buckets)
        self.order = np.argsort(bucket_of, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(bucket_of, minlength=self.buckets)).astype(np.int32)
        self.bounds = np.stack((np.append(np.int32(0), ends[:-1]), ends), axis=1)
        self.bounds[self.bounds[:, 0] == self.bounds[:, 1]] = -1

    def traffic_bytes(self) -> None:
        return None

    @property
    def answer(self) -> HashedCells:
        return HashedCells(self.bounds, self.order, self.positions[self.order], self.corner)


class HostHashQuery(HostHashGrid):
    """The query of the buckets of 27 cells in float32, as a device does it."""

    family = "unbounded-query"

    def launch(self) -> None:
        super().launch()
        steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3)
        around = self.cells()[:, None] - self.corner + steps
        visited = hash_buckets(around.reshape(-1, 3).astype(np.int32), self.buckets)
        visited = visited.reshape(-1, 27)
        pairs = self.once(np.arange(self.particles)[:, None] * self.buckets + visited)
        visitor, bucket = np.divmod(pairs, self.buckets)
        start, end = np.maximum(self.bounds[bucket], 0).T
        sizes = end - start
        rows = np.repeat(visitor, sizes)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        columns = self.order[np.repeat(start, sizes) + within]
        with np.errstate(over="ignore"):
            apart = self.positions[rows, :3] - self.positions[columns, :3]
            squared = (apart**2).sum(axis=1, dtype=np.float32)
        near = (squared < np.float32(self.cutoff) ** 2) & (rows != columns)
        self.counts = np.bincount(rows[near], minlength=self.particles).astype(np.int32)
        self.neighbours = columns[near][np.argsort(rows[near], kind="stable")]

    def once(self, pairs: np.ndarray) -> np.ndarray:
        """Return the pairs of particle and bucket, as one number each, without repetitions."""
        pairs = np.sort(pairs, axis=1)
        is_first = np.ones(pairs.shape, bool)
        is_first[:, 1:] = pairs[:, 1:] != pairs[:, :-1]
        return pairs[is_first]

    @property
    def answer(self) -> Any:
        offsets = np.append(0, np.cumsum(self.counts, dtype=np.int64))
        return Neighbours(self.counts, offsets, self.neighbours)


UNBOUNDED = ("hash-grid", "unbounded-query")  # their particles need not be in their boxes
RIGHT = [
    HostSorted, HostLinked, HostQuery, HostCount, HostUpdate, HostFilter, HostUnordered, HostNoise,
    HostHashGrid, HostHashQuery,
]  # fmt: skip


SLOW_ON_THE_HOST = (HostQuery, HostCount, HostHashQuery)


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(cls, marks=[pytest.mark.long] * (cls in SLOW_ON_THE_HOST)) for cls in RIGHT],
)
def test_a_right_algorithm_passes_every_case(algorithm: type[Any]) -> None:
    results = run_conformance(algorithm, algorithm.family)
    assert [result for result in results if result.status != "ok"] == []
    assert [result.name for result in results] == [case.name for case in cases(algorithm.family)]


class LosesTheLast(HostSorted):
    """Write one particle too few, as an inclusive bound does."""

    def build(self, cell_of, positions) -> None:
        super().build(cell_of, positions)
        if self.particles > 1:
            self._answer.order[-1] = self._answer.order[0]


class RoundsUpTheCells(HostSorted):
    """Scan whole blocks of 256 cells only, and leave the rest as it was."""

    def build(self, cell_of, positions) -> None:
        super().build(cell_of, positions)
        if self.grid.count > 256 and self.grid.count % 256:
            self._answer.start[self.grid.count // 256 * 256 + 1 :] = 0


class ForgetsToClear(HostLinked):
    """Push on the heads of the launch before: right once, rings the second time."""

    def load(self, inputs) -> None:
        super().load(inputs)
        self.before = np.full(self.grid.count, -1, np.int32)

    def build(self, cell_of, positions) -> None:
        super().build(cell_of, positions)
        last = np.flatnonzero(self.next == -1)
        self.next[last] = self.before[cell_of[last]]
        self.before = self.head


class ClampsAtTheCutoff(HostQuery):
    """Take the cutoff itself as near."""

    def squared_distance(self, rows, columns, shift) -> np.ndarray:
        return np.nextafter(super().squared_distance(rows, columns, shift), np.float32(-1))


class ForgetsTheImage(HostQuery):
    """Wrap cells, but not distances."""

    def squared_distance(self, rows, columns, shift) -> np.ndarray:
        return super().squared_distance(rows, columns, 0 * shift)


class ShiftsOneSide(HostQuery):
    """Move the particle before the difference is taken: each side of a pair rounds otherwise."""

    def squared_distance(self, rows, columns, shift) -> np.ndarray:
        apart = (self.positions[rows, :3] - shift) - self.positions[columns, :3]
        return (apart**2).sum(axis=1, dtype=np.float32)


class CutsRowsShort(HostQuery):
    """Keep at most 64 neighbours, as a table of fixed width does."""

    def launch(self) -> None:
        super().launch()
        self.counts = np.minimum(self.counts, 64)
        self.neighbours = self.neighbours[: self.counts.sum()]


class MendsOneLink(HostUpdate):
    """Unlink a mover by its neighbours' links as they were: wrong where neighbours leave."""

    def mend(self, cell: int, cell_of: np.ndarray) -> None:
        places, before = self.members(cell), self.next.copy()
        for k, i in enumerate(places):
            if cell_of[i] != cell:
                self.link(cell, places[k - 1] if k else -1, before[i])


class ForgetsTheHead(HostUpdate):
    """Leave the head where it is."""

    def mend(self, cell: int, cell_of: np.ndarray) -> None:
        head = self.head[cell]
        super().mend(cell, cell_of)
        self.head[cell] = head


class UpdatesNothing(HostUpdate):
    """Leave the list as it is, which looks right after there and back again."""

    def update(self, cell_of: np.ndarray, positions: np.ndarray) -> None:
        pass


class WearsOut(HostUpdate):
    """Right for the first updates only."""

    updates = 0

    def update(self, cell_of: np.ndarray, positions: np.ndarray) -> None:
        self.updates += 1
        if self.updates < 90:
            super().update(cell_of, positions)


class DropsNan(HostFilter):
    """Take a NaN for null too."""

    def is_kept(self, records: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
        return records[:, 0] < np.inf if keep is None else keep != 0


class DropsBothInfinities(HostFilter):
    def is_kept(self, records: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
        return ~np.isinf(records[:, 0]) if keep is None else keep != 0


class TakesOneForKeep(HostFilter):
    def is_kept(self, records: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
        return super().is_kept(records, keep) if keep is None else keep == 1


class LooksAtEveryFloat(HostFilter):
    def is_kept(self, records: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
        return (records != np.inf).all(axis=1) if keep is None else keep != 0


class QuietsNan(HostFilter):
    """Move floats through arithmetic, which loses the payloads of NaN."""

    def filter(self, records: np.ndarray, keep: np.ndarray | None) -> None:
        super().filter(np.where(np.isnan(records), np.float32(np.nan), records), keep)


class LosesTheOrder(HostUnordered):
    forms: ClassVar = HostFilter.forms


class TakesSides(HostNoise):
    """Count with the ids as they come: two particles push each other by different numbers."""

    def draw(self, step: int, key: int) -> np.ndarray:
        clock = step % 2**32, step >> 32, key % 2**32, key >> 32
        ids = self.i.view(np.uint32), self.j.view(np.uint32)
        return GENERATORS[self.generator](*ids, clock)[None]


class ForgetsTheCarry(HostNoise):
    """Count steps in the low word alone."""

    def draw(self, step: int, key: int) -> np.ndarray:
        high = self.step // 2**32 * 2**32
        return super().draw(high + step % 2**32, key)


class CutsTheStep(HostNoise):
    def draw(self, step: int, key: int) -> np.ndarray:
        return super().draw(step % 2**32, key)


class CutsTheKey(HostNoise):
    def draw(self, step: int, key: int) -> np.ndarray:
        return super().draw(step, key % 2**32)


class RoundsTowardsZero(HostHashGrid):
    """Cast to a whole number, as the print does, without limits: cell 0 is twice as wide."""

    def cells(self) -> np.ndarray:
        return np.trunc(self.positions[:, :3] / self.edges).astype(np.int32)


class HashesFromTheBox(HostHashGrid):
    """Count cells from the corner of a box that an unbounded world has not."""

    def cells(self) -> np.ndarray:
        return self.grid.coordinates(self.positions)


class OverflowsCells(HostHashGrid):
    """Let cell coordinates wrap like whole numbers of 32 bits."""

    def cells(self) -> np.ndarray:
        exact = np.floor(self.positions[:, :3].astype(np.float64) / self.edges)
        return np.remainder(exact, 2.0**32).astype(np.uint32).view(np.int32)


class VisitsSharedBucketsTwice(HostHashQuery):
    def __init__(self, particles: int, grid: Grid) -> None:
        super().__init__(particles, grid)
        self.buckets = 20

    def once(self, pairs: np.ndarray) -> np.ndarray:
        return pairs.ravel()


class AddsLimitsInFloat32(HostHashQuery):
    """Add the world's limits to positions, as the print has it: a wide world rounds them."""

    def cells(self) -> np.ndarray:
        limits = -self.positions[:, :3].min(axis=0, initial=np.float32(np.inf))
        with np.errstate(invalid="ignore"):
            return ((self.positions[:, :3] + limits) / self.edges).astype(np.int32)


@pytest.mark.parametrize(
    ("algorithm", "wrong_on", "right_on"),
    [
        (RoundsTowardsZero, "uniform about the origin", "one particle"),
        (HashesFromTheBox, "far from the origin", "one particle"),
        (OverflowsCells, "about the last cells", "uniform about the origin"),
        (VisitsSharedBucketsTwice, "uniform about the origin", "one particle"),
        (AddsLimitsInFloat32, "one particle below, far away", "uniform about the origin"),
        (LosesTheLast, "two particles, far apart", "one particle"),
        (RoundsUpTheCells, "257 cells", "256 cells"),
        (ForgetsToClear, "one particle", "empty"),
        (ClampsAtTheCutoff, "a pair at the cutoff", "a pair just nearer than the cutoff"),
        (ForgetsTheImage, "pairs across a periodic wall", "no pairs across an open wall"),
        (ShiftsOneSide, "within rounding of the cutoff, periodic", "on cell corners, periodic"),
        (CutsRowsShort, "all in one cell", "two particles, far apart"),
        (MendsOneLink, "neighbours in each list leave", "the first of each list leaves"),
        (ForgetsTheHead, "lists empty, one fills", "nothing moves"),
        (UpdatesNothing, "one moves", "nothing moves"),
        (WearsOut, "30 moves in a row", "everything moves"),
        (DropsNan, "NaN everywhere", "-infinity everywhere"),
        (DropsBothInfinities, "-infinity everywhere", "NaN everywhere"),
        (TakesOneForKeep, "any keep but 0", "alternating, 4 bytes, predicate"),
        (LooksAtEveryFloat, "infinity after the first float", "alternating, 4 bytes, infinity"),
        (QuietsNan, "all kept, 4 bytes, infinity", "no records, 4 bytes, infinity"),
        (LosesTheOrder, "runs of 7, 16 bytes, infinity", "only the last, 4 bytes, infinity"),
        (TakesSides, "one pair, the other way round", "one pair"),
        (ForgetsTheCarry, "across step 2^32", "past step 2^32"),
        (CutsTheStep, "past step 2^32", "across step 2^31"),
        (CutsTheKey, "key past 2^32", "key 2^32 - 1"),
    ],
)
def test_a_broken_algorithm_fails_where_it_should(
    algorithm: type[Any], wrong_on: str, right_on: str
) -> None:
    assert run_named(algorithm, wrong_on).status == "wrong"
    assert run_named(algorithm, right_on) == CaseResult(right_on, "ok")


def test_what_rounds_coordinates_may_be_wrong_at_the_cutoff_alone() -> None:
    class Rounds(ClampsAtTheCutoff):
        is_exact = False

    class ReachesFurther(Rounds):
        def squared_distance(self, rows, columns, shift) -> np.ndarray:
            return super().squared_distance(rows, columns, shift) * np.float32(0.99)

    for name in ("a pair at the cutoff", "on cell corners", "4096 particles"):
        assert run_named(Rounds, name).status == "ok"
    assert run_named(ReachesFurther, "4096 particles").status == "wrong"


def run_named(algorithm: type[Any], name: str) -> CaseResult:
    case = next(case for case in cases(algorithm.family) if case.name == name)
    return run_case(algorithm, algorithm.family, case)


def test_the_launch_that_went_wrong_is_named() -> None:
    reason = run_named(ForgetsToClear, "one particle").reason
    assert reason.startswith("after the second launch: next[0] is ")


def test_what_is_not_supported_is_skipped_with_its_reason() -> None:
    def only_small(particles: int, grid: Grid) -> HostSorted:
        if particles > 1024:
            raise NotSupported("at most 1024 particles: use another form")
        return HostSorted(particles, grid)

    results = {result.name: result for result in run_conformance(only_small, "cell-list")}
    assert results["1024 particles"].status == "ok"
    assert results["1025 particles"].status == "skipped"
    assert results["1025 particles"].reason == "at most 1024 particles: use another form"


def test_an_algorithm_that_breaks_down_is_not_hidden() -> None:
    class Breaks(HostSorted):
        def build(self, cell_of, positions) -> None:
            raise RuntimeError("no such kernel")

    with pytest.raises(RuntimeError, match="no such kernel"):
        run_conformance(Breaks, "cell-list")


SUITED = [name for name, each in problems.problems().items() if each.suite]


def test_what_algorithms_are_registered_for_has_a_suite() -> None:
    assert {*problems.problems()} - {*SUITED} == {"workload-step"}


@pytest.mark.parametrize("family", SUITED)
def test_names_are_unique(family: str) -> None:
    names = [case.name for case in cases(family)]
    assert len({*names}) == len(names) > 0
    large = [case.name for case in problems.problems()[family].large_cases()]
    assert len({*large}) == len(large)


@pytest.mark.parametrize("family", SUITED)
def test_cases_are_the_same_each_time_and_lie_where_they_may(family: str) -> None:
    for case in cases(family):
        inputs = case.make()
        assert case.make().hash == inputs.hash, case.name
        for state in getattr(inputs, "history", ()):
            if family in UNBOUNDED:
                assert np.isfinite(state.positions).all(), case.name
                assert not any(state.grid.periodic), case.name
            else:
                from_positions(state.positions, state.grid)


def test_query_cases_have_three_cells_along_periodic_axes() -> None:
    for case in cases("neighbour-query"):
        grid = case.make().grid
        assert all(n >= 3 for n, p in zip(grid.cells, grid.periodic, strict=True) if p), case.name


def test_exact_cases_are_exact_in_float32() -> None:
    """Coordinates, edges and cutoffs are multiples of 2^-20, at most 2^5."""
    for case in (c for family in SUITED for c in cases(family) if c.exact):
        inputs = case.make()
        lengths = [*inputs.grid.size, *inputs.grid.low, min(inputs.grid.cell_size)]
        for values in (inputs.positions, np.array(lengths)):
            assert (np.abs(values) <= 32).all(), case.name
            assert (np.rint(values * 2.0**20) == values * 2.0**20).all(), case.name


class TestSmallestFailure:
    """The input on which an algorithm is wrong, as small as it is found."""

    box = Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3)

    @staticmethod
    def search(room: int = 3) -> Callable[..., Any]:
        cls = type("Losing", (LosingSearch,), {"room": room})
        return partial(cls, FakeDevice(), form="count", parameters={})

    def test_a_list_of_three_loses_one_neighbour_of_five_particles(self):
        inputs = make(300, self.box, seed=1)
        found = smallest_failure(self.search(), "neighbour-search", inputs)
        assert found.inputs.particles == 5
        assert "has 3 neighbours, expected 4" in found.problem
        assert found.clause == f"5 particles are enough: {found.problem}"
        assert found.tried < 300
        # They are of the input, and not one of them can be left out.
        rows = {tuple(row) for row in inputs.positions}
        assert all(tuple(row) in rows for row in found.inputs.positions)

    def test_an_algorithm_that_is_right_has_none(self):
        inputs = make(300, self.box, seed=1)
        assert smallest_failure(self.search(400), "neighbour-search", inputs) is None

    def test_it_stops_after_so_many_inputs(self):
        inputs = make(300, self.box, seed=1)
        found = smallest_failure(self.search(), "neighbour-search", inputs, most=3)
        assert found.tried == 3
        assert 5 < found.inputs.particles < 300

    def test_what_raises_on_fewer_particles_is_another_failure(self):
        class Raising(LosingSearch):
            def work(self) -> None:
                if len(self.xyz) < 20:
                    raise RuntimeError("too few")
                super().work()

        search = partial(Raising, FakeDevice(), form="count", parameters={})
        found = smallest_failure(search, "neighbour-search", make(300, self.box, seed=1))
        assert found.inputs.particles == 20

    def test_pieces_grow_until_one_is_wrong(self):
        class Late(LosingSearch):
            """Right as long as it may look at all pairs."""

            def work(self) -> None:
                self.room = 3 if len(self.xyz) >= 70 else 400
                super().work()

        search = partial(Late, FakeDevice(), form="count", parameters={})
        inputs = make(900, self.box, seed=1)
        shrink = partial(smallest_failure_of_a_piece, search, "neighbour-search", inputs)
        found = shrink(particles=32)
        assert found.inputs.particles == 70
        assert shrink(particles=16, largest=64) is None
        assert (
            smallest_failure_of_a_piece(self.search(400), "neighbour-search", inputs, particles=32)
            is None
        )

    def test_states_before_a_move_shrink_as_well(self):
        class Late(LosingSearch):
            """Searches the positions of before the move."""

            room = 400

            def load(self, inputs: Any) -> None:
                super().load(inputs.history[0])

        search = partial(Late, FakeDevice(), form="count", parameters={})
        moved = move(make(100, self.box, seed=2), 50, "random")
        found = smallest_failure(search, "neighbour-search", moved)
        assert found.inputs.particles == found.inputs.before.particles == 2
        assert "state 0" in found.describe()

    def test_its_text_makes_the_input_again(self):
        found = smallest_failure(self.search(), "neighbour-search", make(300, self.box, seed=1))
        lines = found.describe().splitlines()
        assert "cells (4, 4, 4)" in lines[0]
        assert "cutoff 1.0" in lines[0]
        read = [eval(line.split(":")[1]) for line in lines[2:-1]]
        np.testing.assert_array_equal(np.float32(read), found.inputs.positions[:, :3])
