"""Problems (families of algorithms): the answer that each requires, and the oracle for it.

An oracle is made from an input before anything is launched on it, and then checks any number
of algorithms, before they are timed and after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.answers import (
    Compacted,
    HashedCells,
    LimitedCells,
    LinkedCells,
    Neighbours,
    Noise,
    SortedCells,
)
from gpubench.core.block_matrix import Assembled, Product
from gpubench.core.collision import Collisions
from gpubench.core.contracts import Algorithm, CellListUpdate
from gpubench.core.grid import Grid, UnboundedGrid, hash_buckets
from gpubench.core.key_sort import SortedKeys
from gpubench.core.subdivision import Subdivided
from gpubench.inputs import (
    Inputs,
    KeySet,
    LoopMesh,
    MatrixSet,
    MeshPair,
    PairSet,
    ParticleSet,
    RecordSet,
    SimulationStart,
)
from gpubench.inputs.specs import (
    Keys,
    Matrices,
    Meshes,
    Pairs,
    Particles,
    Recipe,
    Records,
    Surfaces,
)
from gpubench.verify import oracle
from gpubench.verify.collision_oracle import CollisionReference
from gpubench.verify.key_sort_oracle import KeySortReference
from gpubench.verify.neighbour_oracle import (
    NeighbourOracle,
    SampledNeighbourOracle,
    neighbour_oracle,
)
from gpubench.verify.sparse_oracle import BlockRowsReference
from gpubench.verify.subdivision_oracle import SubdivisionReference


class Oracle(ABC):
    """The right answers for one input.

    tells_idle: whether an answer that was poisoned is wrong until there is another launch.
    """

    tells_idle: bool = True

    @abstractmethod
    def check(self, algorithm: Any) -> str | None:
        """Download the answer of the last launch; return None, or a sentence on what is wrong."""

    def poison(self, algorithm: Any) -> None:
        """Overwrite the answer, so that only the next launch can make it right."""
        algorithm.poison()


@dataclass(frozen=True)
class Family:
    """Algorithms that answer the same question.

    oracle: make the oracle of an input; `exact` where float32 represents its distances exactly.
    kind: what its inputs are.
    """

    name: str
    oracle: Callable[[Any, bool], Oracle]
    kind: type[Recipe]

    def check(self, algorithm: Algorithm, inputs: Inputs, exact: bool = False) -> str | None:
        """Check one answer. To check several on one input, keep the oracle."""
        return self.oracle(inputs, exact).check(algorithm)


def first_launch(
    algorithm: Algorithm,
    inputs: Inputs,
    oracle: Oracle,
    do: Callable[[Callable[[], None]], None] | None = None,
) -> str | None:
    """Load an input, launch once, and check; return None, or a sentence on what is wrong.

    Where an input comes with an answer, that is checked first: a launch would work on it, and a
    broken list may have no end.
    do: what is to load and to launch, for more on either.
    """
    do = do or (lambda work: work())
    do(partial(algorithm.load, inputs))
    if algorithm.answers_once_loaded and (problem := oracle.check(algorithm)):
        return problem
    do(algorithm.launch)
    return oracle.check(algorithm)


def ends_where_it_began(algorithm: Algorithm) -> bool:
    """Say whether a launch works on its own answer and brings it back, as that of an update does.

    A graph of such a launch is right for the state in which it was recorded, and for no other.
    """
    return isinstance(algorithm, CellListUpdate) or getattr(algorithm, "task", "") == "update"


class CellListOracle(Oracle):
    """Check cell ids and cell lists: linked, sorted, or of limited capacity."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.cells = inputs.grid.count
        self.positions = inputs.positions.copy()
        self.cell_of = inputs.cell_of.copy()

    def check(self, algorithm: Any) -> str | None:
        """Check the cell list, with the reordered positions where the form makes them."""
        download, answer = algorithm.download, algorithm.answer
        if problem := oracle.check_cell_ids(self.cell_of, download(algorithm.cell_of)):
            return problem
        match answer:
            case LinkedCells(head, next):
                return oracle.check_linked(self.cell_of, self.cells, download(head), download(next))
            case SortedCells(start, order, positions):
                if algorithm.forms[algorithm.form].reorders and positions is None:
                    return f"form {algorithm.form} reorders, but gives no positions"
                reordered = None if positions is None else download(positions)
                return oracle.check_sorted(
                    self.cell_of,
                    self.cells,
                    download(start),
                    download(order),
                    self.positions,
                    reordered,
                )
            case LimitedCells(count, slots, lost, allow_overflow):
                return oracle.check_limited(
                    self.cell_of,
                    self.cells,
                    download(count),
                    download(slots),
                    download(lost),
                    allow_overflow,
                )
        raise TypeError(f"{algorithm.name} answers with {type(answer).__name__}, not a cell list")


class CellListUpdateOracle(Oracle):
    """Check the list of every state of an input, each re-sorted from the one before."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.states = [CellListOracle(state) for state in inputs.history]
        oldest, newest = self.states[0], self.states[-1]
        self.tells_idle = not np.array_equal(oldest.cell_of, newest.cell_of)

    def check(self, algorithm: Any) -> str | None:
        """Check the list that a launch left, then re-sort through all states and back."""
        if problem := self.states[0].check(algorithm):
            return problem
        newest = len(self.states) - 1
        for state in [*range(1, newest + 1), 0]:
            algorithm.move_to(*algorithm.states[state])
            if problem := self.states[state].check(algorithm):
                return f"re-sorted to state {state} of {newest}: {problem}"
        return None


class StreamFilterOracle(Oracle):
    """Check the records that a filter kept, bit for bit, and the nulls where it keeps them."""

    def __init__(self, inputs: RecordSet, exact: bool = False) -> None:
        self.kept = inputs.records[inputs.is_kept]
        self.rest = inputs.records[~inputs.is_kept]

    def check(self, algorithm: Any) -> str | None:
        """Check count and records, in their order where the form keeps it."""
        download, answer = algorithm.download, algorithm.answer
        if not isinstance(answer, Compacted):
            raise TypeError(f"{algorithm.name} answers with {type(answer).__name__}, not Compacted")
        form = algorithm.forms[algorithm.form]
        if problem := oracle.check_compacted(
            self.kept, download(answer.records), download(answer.count), form.stable
        ):
            return problem
        if form.halves == 1:
            return None
        rest, count = download(answer.rest), download(answer.rest_count)
        problem = oracle.check_compacted(self.rest, rest, count, form.stable)
        return problem and f"of the nulls: {problem}"


class NeighbourQueryOracle(Oracle):
    """Check neighbour counts, and the neighbours where an algorithm lists them.

    The pairs of a cutoff are found once, at the first check that asks for it.

    pairs: what finds them.
    """

    pairs: ClassVar[Callable[..., NeighbourOracle | SampledNeighbourOracle]] = NeighbourOracle

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.positions = inputs.positions.copy()
        self.grid: Grid | None = inputs.grid
        self.exact = exact
        self._pairs: dict[float, NeighbourOracle | SampledNeighbourOracle] = {}

    def check(self, algorithm: Any) -> str | None:
        """Check the neighbours within `algorithm.cutoff`."""
        download, answer, cutoff = algorithm.download, algorithm.answer, algorithm.cutoff
        if not isinstance(answer, Neighbours):
            raise TypeError(
                f"{algorithm.name} answers with {type(answer).__name__}, not Neighbours"
            )
        if cutoff not in self._pairs:
            self._pairs[cutoff] = self.pairs(self.positions, self.grid, cutoff, self.exact)
        pairs, counts = self._pairs[cutoff], download(answer.counts)
        # A list is long: where its counts are wrong, it stays where it is.
        problem = pairs.check_counts(counts)
        if problem or answer.offsets is None or answer.neighbours is None:
            return problem
        return pairs.check_list(counts, download(answer.offsets), download(answer.neighbours))


class NeighbourSearchOracle(Oracle):
    """Check searches from positions to neighbours; see `contracts.NeighbourSearch`."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        *before, newest = inputs.history
        self.states = [*(_before(state, exact) for state in before), SearchOracle(newest, exact)]

    def check(self, algorithm: Any) -> str | None:
        """Check the neighbours in the state that a launch ends in; an update, in all of them."""
        if algorithm.task != "update":
            return self.states[-1].check(algorithm)
        if problem := self.states[0].check(algorithm):
            return problem
        newest = len(self.states) - 1
        for state in [*range(1, newest + 1), 0]:
            algorithm.move_to(state)
            if problem := self.states[state].check(algorithm):
                return f"brought to state {state} of {newest}: {problem}"
        return None

    def poison(self, algorithm: Any) -> None:
        """Overwrite the answer; an update must also begin in the state that it does not end in."""
        if algorithm.task == "update":
            algorithm.move_to(len(self.states) - 1)
        algorithm.poison()


class SearchOracle(NeighbourQueryOracle):
    """As the oracle above; an input with many pairs is checked in samples of its particles."""

    pairs = staticmethod(neighbour_oracle)


_kept: dict[tuple[str, bool], SearchOracle] = {}


def _before(state: ParticleSet, exact: bool) -> SearchOracle:
    """Return the oracle of a state from which particles move, in one input after another."""
    key = state.hash, exact
    if key not in _kept:
        _kept.clear()
        _kept[key] = SearchOracle(state, exact)
    return _kept[key]


class UnboundedQueryOracle(NeighbourQueryOracle):
    """Check the neighbours of particles in a world without a box.

    Of the input's grid only the cell size counts; its particles may lie anywhere.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        super().__init__(inputs, exact)
        self.grid = None


class HashGridOracle(Oracle):
    """Check the buckets of particles in a world without a box, as the oracle above has it.

    An algorithm says how many `buckets` it has, and whether the `limits` of the world are part of
    the key: then cells are counted from the lowest one along each axis.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.positions = inputs.positions.copy()
        self.cells = UnboundedGrid(inputs.grid.cell_size).coordinates(self.positions)

    def check(self, algorithm: Any) -> str | None:
        """Check the corner of the world, bounds, order and the reordered positions."""
        download, answer = algorithm.download, algorithm.answer
        if not isinstance(answer, HashedCells):
            raise TypeError(
                f"{algorithm.name} answers with {type(answer).__name__}, not HashedCells"
            )
        corner = np.zeros(3, np.int32)
        if algorithm.limits and len(self.cells):
            corner = self.cells.min(axis=0)
        found = download(answer.corner)
        if len(self.cells) and not np.array_equal(found, corner):
            return f"the corner is {found.tolist()}, expected {corner.tolist()}"
        return oracle.check_hashed(
            hash_buckets(self.cells - corner, algorithm.buckets),
            algorithm.buckets,
            download(answer.bounds),
            download(answer.order),
            self.positions,
            download(answer.positions),
        )


class PairNoiseOracle(Oracle):
    """Check the random numbers of pairs, bit for bit; those of a generator are drawn once."""

    def __init__(self, inputs: PairSet, exact: bool = False) -> None:
        self.i, self.j = inputs.i.copy(), inputs.j.copy()
        self.step, self.key = inputs.step, inputs.key
        self._expected: dict[str, NDArray[np.float32]] = {}

    def check(self, algorithm: Any) -> str | None:
        """Check the numbers of every pair in all steps of a launch."""
        answer, name = algorithm.answer, algorithm.generator
        if not isinstance(answer, Noise):
            raise TypeError(f"{algorithm.name} answers with {type(answer).__name__}, not Noise")
        if name not in self._expected:
            self._expected[name] = oracle.noise(
                name, self.i, self.j, self.step, self.key, algorithm.launches
            )
        found = algorithm.download(answer.values)
        return oracle.check_noise(self._expected[name], found, self.i, self.j, self.step)


class SparseProductOracle(Oracle):
    """Check assembled matrices, products and transposed products; see `BlockRowsReference`."""

    def __init__(self, inputs: MatrixSet, exact: bool = False) -> None:
        self.reference = BlockRowsReference(inputs)

    def check(self, algorithm: Any) -> str | None:
        """Check what the task of the algorithm answers."""
        match algorithm.answer:
            case Product() as answer if algorithm.task != "assemble":
                return self.reference.check_product(algorithm.task, answer, algorithm.download)
            case Assembled() as answer if algorithm.task == "assemble":
                return self.reference.check_matrix(answer, algorithm.download)
        raise TypeError(
            f"{algorithm.name} answers {algorithm.task} with {type(algorithm.answer).__name__}"
        )


class SubdivisionOracle(Oracle):
    """Check subdivided meshes; see `SubdivisionReference`."""

    def __init__(self, inputs: LoopMesh, exact: bool = False) -> None:
        self.reference = SubdivisionReference(inputs)

    def check(self, algorithm: Any) -> str | None:
        """Check positions, or that the mesh is closed and near to the surface, or both."""
        answer = algorithm.answer
        if not isinstance(answer, Subdivided):
            raise TypeError(
                f"{algorithm.name} answers with {type(answer).__name__}, not Subdivided"
            )
        return self.reference.check(algorithm.form == "uniform", answer, algorithm.download)


class KeySortOracle(Oracle):
    """Check sorted keys and their values; see `KeySortReference`."""

    def __init__(self, inputs: KeySet, exact: bool = False) -> None:
        self.reference = KeySortReference(inputs)

    def check(self, algorithm: Any) -> str | None:
        """Check every key, and every value: of equal keys, as a set where unstable."""
        answer = algorithm.answer
        if not isinstance(answer, SortedKeys):
            raise TypeError(
                f"{algorithm.name} answers with {type(answer).__name__}, not SortedKeys"
            )
        return self.reference.check(
            answer,
            algorithm.download,
            stable=algorithm.forms[algorithm.form].stable,
            equal_zeros=algorithm.equal_zeros,
        )


class MeshCollisionOracle(Oracle):
    """Check which triangles of two meshes meet; see `CollisionReference`."""

    def __init__(self, inputs: MeshPair, exact: bool = False) -> None:
        self.reference = CollisionReference(inputs)

    def check(self, algorithm: Any) -> str | None:
        """Check the pairs."""
        answer = algorithm.answer
        if not isinstance(answer, Collisions):
            raise TypeError(
                f"{algorithm.name} answers with {type(answer).__name__}, not Collisions"
            )
        return self.reference.check(answer, algorithm.download)


class WorkloadStepOracle(Oracle):
    """Check a step of a simulation with the workload's own float64 reference."""

    def __init__(self, inputs: SimulationStart, exact: bool = False) -> None:
        """Take nothing of the inputs: a step is checked from the state before it."""

    def check(self, algorithm: Any) -> str | None:
        """Advance the simulation by one step, and check that step."""
        problem: str | None = algorithm.check()
        return problem


FAMILIES = {
    family.name: family
    for family in (
        Family("cell-list", CellListOracle, Particles),
        Family("cell-list-update", CellListUpdateOracle, Particles),
        Family("neighbour-query", NeighbourQueryOracle, Particles),
        Family("neighbour-search", NeighbourSearchOracle, Particles),
        Family("hash-grid", HashGridOracle, Particles),
        Family("unbounded-query", UnboundedQueryOracle, Particles),
        Family("stream-filter", StreamFilterOracle, Records),
        Family("pair-noise", PairNoiseOracle, Pairs),
        Family("sparse-product", SparseProductOracle, Matrices),
        Family("surface-subdivision", SubdivisionOracle, Surfaces),
        Family("key-sort", KeySortOracle, Keys),
        Family("mesh-collision", MeshCollisionOracle, Meshes),
    )
}

# What checks an answer, by the family of what is measured. The steps of a workload have one too,
# and are no family: no algorithm is registered for them, and their suite is that of the workloads.
ORACLES: dict[str, Callable[[Any, bool], Oracle]] = {
    **{family.name: family.oracle for family in FAMILIES.values()},
    "workload-step": WorkloadStepOracle,
}
