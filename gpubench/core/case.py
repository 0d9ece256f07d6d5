"""One input of a conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpubench.core.recipe import Inputs


@dataclass(frozen=True)
class Case:
    """One input of a suite.

    make: draw it; the same each time.
    exact: whether its coordinates and distances are exact in float32, so that the neighbours
        are those of exact arithmetic, even exactly at the cutoff.
    """

    name: str
    make: Callable[[], Inputs]
    exact: bool = False
