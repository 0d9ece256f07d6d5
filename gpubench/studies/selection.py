"""The selected part of a study, and values that replace the study's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Selection:
    """The user's selection from a study; None for the study's own values.

    quick: whether to use the study's small sizes.
    algorithms, sweeps: measure only those with these names.
    particles (records, pairs), per_cell, moved, kept: values along these axes.
    inputs: the number of alternating inputs; simulations always have one.
    parameters: values for all algorithms that have a parameter of that name.
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


WHOLE = Selection()  # the complete study
