"""The input axis of pairs of particles."""

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
        """A title with the number of pairs."""
        return f"{self.pairs:,} pairs"

    @property
    def host_bytes(self) -> int:
        """The bytes of ids, and of several steps' answers and reference random numbers."""
        return self.pairs * 180

    @property
    def device_bytes(self) -> int:
        """The bytes of ids, and of the random numbers of one step."""
        return self.pairs * 12
