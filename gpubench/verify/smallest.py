"""Find the smallest input on which an algorithm is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.verify.conformance import run_case

PIECES = 8  # maximum number of pieces of each size that are tried in place of a large input


@dataclass(frozen=True)
class Smallest:
    """The smallest input found on which an algorithm is wrong.

    inputs: the remaining particles. problem: the error in the algorithm's answer for them.
    tried: the number of inputs on which the algorithm was run.
    """

    inputs: ParticleSet
    problem: str
    tried: int

    @property
    def clause(self) -> str:
        """A one-clause summary of the failure, for display."""
        n = self.inputs.particles
        return f"{n} particle{'s' * (n != 1)} are enough: {self.problem}"

    def describe(self) -> str:
        """Return the grid, positions and problem as text that suffices to recreate the input."""
        grid = self.inputs.grid
        lines = [
            f"grid: cells {grid.cells}, low {grid.low}, size {grid.size},"
            f" periodic {grid.periodic}, cutoff {grid.reach!r}"
        ]
        for at, state in enumerate(self.inputs.history):
            lines += [f"positions, state {at}:"] if self.inputs.before else ["positions:"]
            # Enough digits to distinguish any two float32 values.
            lines += [
                f"  {i}: ({', '.join(f'{x:.9g}' for x in row[:3])})"
                for i, row in enumerate(state.positions)
            ]
        return "\n".join([*lines, f"wrong: {self.problem}"])


def smallest_failure(
    make_algorithm: Callable[..., Algorithm],
    family: str,
    inputs: ParticleSet,
    exact: bool = False,
    most: int = 1000,
) -> Smallest | None:
    """Shrink an input as long as the algorithm stays wrong on it.

    Halves of the particles are left out, then quarters, down to single particles (delta debugging:
    Zeller and Hildebrandt 2002, section 3). A run on fewer particles that raises or is skipped
    counts as right. Returns None if the algorithm is right on the whole input.

    make_algorithm: as in run_conformance. exact: as in Case. most: the maximum number of runs.
    """

    def problem_of(candidate: ParticleSet) -> str | None:
        case = Case("", lambda: candidate, exact)
        result = run_case(make_algorithm, family, case)
        return result.reason if result.status == "wrong" else None

    def problem_of_fewer(candidate: ParticleSet) -> str | None:
        try:
            return problem_of(candidate)
        except (Exception, SystemExit):  # a different failure
            return None

    problem = problem_of(inputs)
    if problem is None:
        return None
    kept, problem, tried = shrink(
        inputs.particles, lambda kept: problem_of_fewer(_only(inputs, kept)), problem, most
    )
    return Smallest(_only(inputs, kept), problem, tried)


def shrink(
    items: int, problem_of: Callable[[NDArray[np.intp]], str | None], problem: str, most: int
) -> tuple[NDArray[np.intp], str, int]:
    """Return the few of `items` that keep a problem, the problem, and the number of runs.

    problem_of: the problem with these items alone, ascending; None without one. problem: that of
    all items.
    """
    kept, tried, length = np.arange(items), 1, items // 2
    while length:
        first, shrunk = 0, False
        while first < len(kept) and tried < most:
            fewer = np.delete(kept, slice(first, first + length))
            tried += 1
            if found := problem_of(fewer):
                kept, problem, shrunk = fewer, found, True
            else:
                first += length
        # Repeat passes over single items until no more can be left out.
        length = length if shrunk and length == 1 and tried < most else length // 2
    return kept, problem, tried


def smallest_failure_of_a_piece(
    make_algorithm: Callable[..., Algorithm],
    family: str,
    inputs: ParticleSet,
    particles: int = 2**12,
    largest: int = 2**16,
    most: int = 300,
) -> Smallest | None:
    """Find a piece of a large input on which an algorithm is still wrong, and shrink it.

    Pieces of `particles` particles are tried first, then larger ones up to `largest`, with fewer
    runs each: some algorithms use cells only for many particles, and may be wrong only then.
    Returns None if the algorithm is right on all pieces that were tried (PIECES of each size).
    """
    while particles <= largest:
        for piece in _pieces_of(inputs, particles, PIECES):
            if found := smallest_failure(make_algorithm, family, piece, most=most):
                return found
        if particles >= inputs.particles:
            break
        particles, most = 4 * particles, max(1, most // 4)
    return None


def _pieces_of(inputs: ParticleSet, particles: int, pieces: int) -> list[ParticleSet]:
    """Return pieces of an input, each of `particles` particles from consecutive cells.

    The pieces are spread over the input. An input of at most that size is its only piece.
    """
    if inputs.particles <= particles:
        return [inputs]
    in_order = np.argsort(inputs.cell_of, kind="stable")
    begins = np.linspace(0, inputs.particles - particles, pieces).astype(np.int64)
    return [_only(inputs, np.sort(in_order[begin : begin + particles])) for begin in begins]


def _only(inputs: ParticleSet, which: NDArray[np.intp]) -> ParticleSet:
    """Return the input with only the given particles, in every state."""
    before = None if inputs.before is None else _only(inputs.before, which)
    radii = None if inputs.radii is None else inputs.radii[which]
    left = replace(inputs, positions=inputs.positions[which], before=before, radii=radii)
    return replace(left, distribution="given", order="given")
