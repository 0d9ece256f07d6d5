"""One input of a conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpubench.core.recipe import Inputs


@dataclass(frozen=True)
class Case:
    """One input of a suite.

    make: draws it; deterministic.
    exact: whether its coordinates and distances are exact in float32, so that neighbours must agree
        with exact arithmetic, even at the cutoff.
    """

    name: str
    make: Callable[[], Inputs]
    exact: bool = False
