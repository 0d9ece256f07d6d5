"""Pair noise by the generator of the bucket sort paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gpubench.algorithms._cycles import cycles
from gpubench.algorithms._pair_noise import BLOCK, DrawnNoise
from gpubench.core.algorithm import Form

FRACTIONS = 2**24  # number of possible first values of a pair's sequence
# A draw is the fractional part of a number from 15.6 to 152.3, hence a multiple of 2^-20, the
# smallest spacing of float32 numbers in that range.
DRAWS = 2**20


class NoiseRozen(DrawnNoise):
    """Iterates the fractional part of a fifth power; a historical generator with a short period."""

    name = "noise-rozen"
    summary = "the paper's recurrence in float32, begun where a hash of the pair says"
    source = "rozen2008, section 4.2, after Karpinski's Paranoia, Byte 10 (1985)"
    forms: ClassVar[Mapping[str, Form]] = {
        "fourth-draw": Form("a hash of ids, step and seed is the start; the fourth draw is taken")
    }

    @property
    def generator(self) -> str:
        return "rozen2008"

    def _generator_constants(self) -> dict[str, int]:
        return {"NOISE": 1}

    def prepare(self) -> None:
        super().prepare()
        self._follow = self.device.kernel("pair_noise.cu", "follow_fractions", **self._constants)

    def outcome(self) -> dict[str, int | float | str]:
        return super().outcome() | self._periods()

    def _periods(self) -> dict[str, int | float | str]:
        """Return the periods of the recurrence on this device.

        tail: the number of draws from r = 0, the paper's start, until a cycle begins. cycle: the
        length of that cycle. cycle_mean: the mean noise over it, scaled as in `moments`.
        cycles: the number of distinct cycles. longest_cycle: the length of the longest.
        in_longest: the fraction of first values that lead to the longest cycle.
        """
        draws = self.device.empty(FRACTIONS, "float32")
        self._follow(
            self.device.blocks(FRACTIONS, BLOCK), BLOCK, draws, 1 / FRACTIONS, np.uint32(FRACTIONS)
        )
        first = (self.device.download(draws) * np.float32(DRAWS)).astype(np.int64)
        found = cycles(first[:: FRACTIONS // DRAWS])
        tail, members = found.walk(0)
        longest = int(found.lengths.argmax())
        return {
            "tail": tail,
            "cycle": len(members),
            "cycle_mean": float(np.sqrt(3) * np.mean(2 * members / DRAWS - 1)),
            "cycles": len(found.lengths),
            "longest_cycle": int(found.lengths[longest]),
            "in_longest": float(np.mean(found.cycle_of[first] == longest)),
        }
