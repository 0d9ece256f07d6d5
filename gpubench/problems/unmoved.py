"""The problems that have no folder yet: a scaffold, which goes with the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpubench.core.case import Case
from gpubench.core.oracle import Oracle
from gpubench.core.problem import Problem
from gpubench.core.recipe import Recipe
from gpubench.inputs.mesh_specs import Meshes, Surfaces
from gpubench.inputs.specs import Matrices, Pairs, Particles

_UNMOVED: dict[str, tuple[type[Recipe], str]] = {
    "cell-list": (Particles, "CellListOracle"),
    "cell-list-update": (Particles, "CellListUpdateOracle"),
    "neighbour-query": (Particles, "NeighbourQueryOracle"),
    "neighbour-search": (Particles, "NeighbourSearchOracle"),
    "hash-grid": (Particles, "HashGridOracle"),
    "unbounded-query": (Particles, "UnboundedQueryOracle"),
    "pair-noise": (Pairs, "PairNoiseOracle"),
    "sparse-product": (Matrices, "SparseProductOracle"),
    "surface-subdivision": (Surfaces, "SubdivisionOracle"),
    "mesh-collision": (Meshes, "MeshCollisionOracle"),
}


class Unmoved(Problem):
    """A problem whose oracle and suite are in `verify`."""

    def __init__(self, name: str) -> None:
        self.name, (self.takes, self._oracle) = name, _UNMOVED[name]  # type: ignore[misc]

    def oracle(self, inputs: Any, exact: bool = False) -> Oracle:
        """Make the oracle."""
        from gpubench.verify import problems

        made: Oracle = getattr(problems, self._oracle)(inputs, exact)
        return made

    def cases(self) -> Sequence[Case]:
        """Return the suite."""
        from gpubench.verify import suites

        return suites.unmoved(self.name)

    def large_cases(self) -> Sequence[Case]:
        """Return the suite for a GPU."""
        from gpubench.verify import suites

        return suites.unmoved_large(self.name)


UNMOVED = tuple(map(Unmoved, _UNMOVED))
