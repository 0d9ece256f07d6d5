"""The axis of pairs of particles."""

from __future__ import annotations

from dataclasses import dataclass

from gpubench.core.recipe import Recipe, Words, axis, whole

MAX_PAIRS = 2**31 - 1


@dataclass(frozen=True)
class Pairs(Recipe):
    """Pairs of particles that need random numbers; see inputs.PairSet."""

    kind, size_axis, named_by = "pairs", "pairs", "pairs"

    pairs: int = axis(
        Words("Pairs", "pairs", "{} pairs", "size", is_size=True), whole(1, MAX_PAIRS)
    )

    @property
    def title(self) -> str:
        """The number of pairs."""
        return f"{self.pairs:,} pairs"

    @property
    def host_bytes(self) -> int:
        """Ids, and the random numbers of several steps, from an algorithm and from each oracle."""
        return self.pairs * 180

    @property
    def device_bytes(self) -> int:
        """Ids, and the random numbers of one step."""
        return self.pairs * 12
