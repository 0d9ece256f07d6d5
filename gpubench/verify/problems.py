"""Problems (families of algorithms): the answer that each requires, and the oracle for it.

An oracle is made from an input before anything is launched on it, and then checks any number
of algorithms, before they are timed and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.answers import (
    HashedCells,
    LimitedCells,
    LinkedCells,
    Neighbours,
    Noise,
    SortedCells,
)
from gpubench.core.block_matrix import Assembled, Product
from gpubench.core.collision import Collisions
from gpubench.core.contracts import CellListUpdate
from gpubench.core.grid import Grid, UnboundedGrid, hash_buckets
from gpubench.core.oracle import Oracle as Oracle
from gpubench.core.oracle import first_launch as first_launch
from gpubench.core.subdivision import Subdivided
from gpubench.inputs import (
    LoopMesh,
    MatrixSet,
    MeshPair,
    PairSet,
    ParticleSet,
    SimulationStart,
)
from gpubench.verify import oracle
from gpubench.verify.collision_oracle import CollisionReference
from gpubench.verify.neighbour_oracle import (
    NeighbourOracle,
    SampledNeighbourOracle,
    neighbour_oracle,
)
from gpubench.verify.sparse_oracle import BlockRowsReference
from gpubench.verify.subdivision_oracle import SubdivisionReference


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


def __getattr__(name: str) -> Any:
    """Return what earlier commits and tests look for here."""
    from gpubench import problems

    if name == "FAMILIES":
        return problems.problems()
    if name == "ORACLES":
        return {name: each.oracle for name, each in problems.problems().items()} | {
            "workload-step": WorkloadStepOracle
        }
    raise AttributeError(name)
