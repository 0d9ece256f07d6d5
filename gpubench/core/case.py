"""One input of a conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpubench.core.recipe import Inputs


@dataclass(frozen=True)
class Case:
    """One input of a suite.

    make: generates the input; deterministic.
    exact: whether coordinates and distances are exact in float32, so that the neighbours must
        match those of exact arithmetic, even at the cutoff.
    """

    name: str
    make: Callable[[], Inputs]
    exact: bool = False
