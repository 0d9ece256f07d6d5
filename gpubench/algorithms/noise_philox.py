"""Pair noise by Philox, a counter-based generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._pair_noise import DrawnNoise
from gpubench.core.algorithm import Form

ROUNDS: Mapping[str, int] = {"rounds-10": 10, "rounds-7": 7}


class NoisePhilox(DrawnNoise):
    """Stateless: rounds of multiplication mix the ids and the step with a key."""

    name = "noise-philox"
    summary = "counter-based: ids and step are the counter, the simulation's seed is the key"
    source = "Philox4x32: Salmon, Moraes, Dror, Shaw, SC 2011"
    forms: ClassVar[Mapping[str, Form]] = {
        "rounds-10": Form("the rounds that its authors advise, with a margin of safety"),
        "rounds-7": Form("the fewest rounds that pass their tests"),
    }

    @property
    def generator(self) -> str:
        return f"philox-{ROUNDS[self.form]}"

    def _generator_constants(self) -> dict[str, int]:
        return {"NOISE": 0, "PHILOX_ROUNDS": ROUNDS[self.form]}
