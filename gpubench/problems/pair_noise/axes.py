"""The axis of pairs of particles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpubench.core.recipe import Recipe, Words, axis

MAX_PAIRS = 2**31 - 1


@dataclass(frozen=True)
class Pairs(Recipe):
    """Pairs of particles whose random numbers are wanted; see inputs.PairSet."""

    kind: ClassVar[str] = "pairs"
    size_axis: ClassVar[str] = "pairs"
    named_by: ClassVar[str] = "pairs"

    pairs: int = axis(
        words=Words("Pairs", "pairs", "{} pairs", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_PAIRS,
    )

    @property
    def title(self) -> str:
        """Their number."""
        return f"{self.pairs:,} pairs"

    @property
    def host_bytes(self) -> int:
        """Ids, and the numbers of several steps, drawn by an algorithm and by each oracle."""
        return self.pairs * 180

    @property
    def device_bytes(self) -> int:
        """Ids, and the numbers of one step."""
        return self.pairs * 12
