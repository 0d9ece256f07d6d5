"""Oracles of neighbour searches and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from gpubench.core.grid import Grid
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.pairs import (
    NeighbourOracle,
    SampledNeighbourOracle,
    neighbour_oracle,
)
from gpubench.problems.neighbours.radii import RadiiOracle
from gpubench.problems.particles.inputs import ParticleSet


class NeighbourQueryOracle(Oracle):
    """Check neighbour counts, and the neighbours if an algorithm lists them.

    The pairs within a cutoff are found by the first check that needs them, then cached.

    pairs: a class or function that constructs the oracle of all pairs within a cutoff.
    """

    pairs: ClassVar[Callable[..., NeighbourOracle | SampledNeighbourOracle]] = NeighbourOracle

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.positions = inputs.positions.copy()
        self.grid: Grid | None = inputs.grid
        self.exact = exact
        self._pairs: dict[float, NeighbourOracle | SampledNeighbourOracle] = {}

    def check(self, algorithm: Any) -> str | None:
        """Check the neighbours within `algorithm.cutoff`."""
        download, cutoff = algorithm.download, algorithm.cutoff
        answer = self.answer_of(algorithm, Neighbours)
        if cutoff not in self._pairs:
            self._pairs[cutoff] = self.pairs(self.positions, self.grid, cutoff, self.exact)
        pairs, counts = self._pairs[cutoff], download(answer.counts)
        # Lists are long, so download them only if the counts are correct.
        problem = pairs.check_counts(counts)
        if problem or answer.offsets is None or answer.neighbours is None:
            return problem
        return pairs.check_list(counts, download(answer.offsets), download(answer.neighbours))


class NeighbourSearchOracle(Oracle):
    """Check searches that start from positions; see `NeighbourSearch`."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        *before, newest = inputs.history
        last = (SearchOracle if newest.radii is None else RadiiOracle)(newest, exact)
        self.states: list[Oracle] = [*(_before(state, exact) for state in before), last]

    def check(self, algorithm: Any) -> str | None:
        """Check the neighbours after a launch; for an update, in all states."""
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
        """Overwrite the answer; first move an update to the newest state, where no launch ends."""
        if algorithm.task == "update":
            algorithm.move_to(len(self.states) - 1)
        algorithm.poison()


class SearchOracle(NeighbourQueryOracle):
    """A NeighbourQueryOracle that checks only samples if an input is large or has many pairs."""

    pairs = staticmethod(neighbour_oracle)


_kept: dict[tuple[str, bool], SearchOracle] = {}


def _before(state: ParticleSet, exact: bool) -> SearchOracle:
    """Return the oracle of an earlier state, cached for inputs with the same earlier state."""
    key = state.hash, exact
    if key not in _kept:
        _kept.clear()
        _kept[key] = SearchOracle(state, exact)
    return _kept[key]


class UnboundedQueryOracle(NeighbourQueryOracle):
    """Check the neighbours of particles in an unbounded world.

    Only the cell size of the input's grid matters; the particles may be anywhere.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        super().__init__(inputs, exact)
        self.grid = None
