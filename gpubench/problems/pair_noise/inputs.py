"""Random pairs of particles that need random numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.core.recipe import MAX_PARTICLES
from gpubench.problems.pair_noise.axes import MAX_PAIRS, Pairs


@dataclass(frozen=True, eq=False)
class PairSet:
    """Pairs of particles that need random numbers, from a given step on.

    i, j: int32, shape (pairs,), the ids of the two particles, in any order.
    step, key: 64-bit inputs of the generator: the first step, and the simulation's seed.
    """

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    step: int
    key: int
    seed: int | None

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.i)

    @property
    def clock(self) -> NDArray[np.uint32]:
        """Step and key as kernels read them: the low and high words of both, uint32, shape (4,)."""
        return np.array([self.step, self.key], "<u8").view("<u4").astype(np.uint32)

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these pairs."""
        return {"pairs": self.pairs}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over clock and ids, first 16 hex digits."""
        digest = hashlib.sha256(self.clock.tobytes())
        digest.update(np.ascontiguousarray(self.i).data)
        digest.update(np.ascontiguousarray(self.j).data)
        return digest.hexdigest()[:16]


PARTNERS = 16  # partners per particle in `make_pairs`


def make_pairs(pairs: int, seed: int = 0) -> PairSet:
    """Draw pairs as in a simulation: each particle with the particles of the next 16 ids.

    Successive ids are the hardest input for a generator, as are successive pairs that share a
    particle. The first id, the order within each pair, the step and the key are random.
    Raises UserError for a bad number of pairs or seed.
    """
    if not 0 <= pairs <= MAX_PAIRS:
        raise UserError(f"the number of pairs must be 0 to {MAX_PAIRS}, not {pairs}")
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    index = np.arange(pairs)
    lower = rng.integers(0, MAX_PARTICLES - pairs // PARTNERS - PARTNERS) + index // PARTNERS
    upper = lower + 1 + index % PARTNERS
    swapped = rng.random(pairs, np.float32) < 0.5
    i, j = np.where(swapped, (upper, lower), (lower, upper)).astype(np.int32)
    step, key = (int(word) for word in rng.integers(0, 2**64, 2, np.uint64))
    return PairSet(i, j, step, key, seed)


def draw(axes: Pairs, seed: int) -> PairSet:
    """Draw the pairs of a recipe."""
    return make_pairs(axes.pairs, seed)
