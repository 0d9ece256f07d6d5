"""Which part of a study is measured, and with what in place of the study's own values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Selection:
    """What was asked for of a study; None for what the study says itself.

    quick: its small sizes.
    algorithms: only these of its algorithms.
    sweeps: only these of its sweeps.
    particles (records, pairs), per_cell, moved, kept: values along these axes.
    inputs: how many take turns; simulations have one all the same.
    parameters: for the algorithms that have them.
    """

    quick: bool = False
    algorithms: tuple[str, ...] | None = None
    sweeps: tuple[str, ...] | None = None
    particles: tuple[int, ...] | None = None
    per_cell: tuple[float, ...] | None = None
    moved: tuple[int, ...] | None = None
    kept: tuple[float, ...] | None = None
    inputs: int | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, tuple[float, ...] | None]:
        """Values along the axes that only some studies have."""
        return {"per_cell": self.per_cell, "moved": self.moved, "kept": self.kept}


WHOLE = Selection()  # all of a study, as the study says
