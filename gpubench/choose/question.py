"""The questions that `choose` answers."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.problems.key_sort.axes import KEY_TYPES, VALUE_BYTES
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.axes import CONTRASTED, DESTINATIONS, DISTRIBUTIONS, ORDERS

GRAPH, PYTHON = CALLED_FROM = ("graph", "python")
SORT = "sort"  # the task of a SortQuestion
NO_GRAPHS = (
    "nothing was timed in a graph: all times are as launched from Python, and short ones may be"
    " mostly launches"
)


@dataclass(frozen=True)
class Question:
    """A task and its input. per_cell: mean number of particles over all cells of the box.

    moved: fraction of the particles that changed cells; for the task `update`, otherwise None.
        destination: where they moved to; by default `next` or, if it was not measured, another.
    called_from: `graph`, where device time alone counts, or `python`, where launches count too.
    periodic: the axes along which the box repeats, some of xyz.
    contrast, radii: highest over lowest density, longest over shortest radius; see `Particles`.
    """

    particles: int
    per_cell: float
    moved: float | None = None
    task: str | None = None
    distribution: str = "uniform"
    order: str = "random"
    destination: str | None = None
    called_from: str = GRAPH
    periodic: str = ""
    contrast: float | None = None
    radii: float = 1.0

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UserError(f"--particles takes a count of at least 1, not {self.particles}")
        if not 0 < self.per_cell <= self.particles:
            raise UserError(
                f"--per-cell takes a number above 0, and at most that of all particles, not"
                f" {self.per_cell:g}"
            )
        if self.moved is not None and not 0 <= self.moved <= 1:
            raise UserError(f"--moved takes a share from 0 to 1, not {self.moved:g}")
        require_known("task", self.task, (None, *TASKS))
        if self.moved is None and self.task == "update":
            raise UserError("--task update needs --moved SHARE: how many particles changed cells")
        if self.moved is not None and self.task not in (None, "update"):
            raise UserError(f"--moved is for --task update, not for {self.task}")
        if self.moved is None and self.destination is not None:
            raise UserError("--destination is for particles that moved: add --moved SHARE")
        require_known("called-from", self.called_from, CALLED_FROM)
        require_known("distribution", self.distribution, DISTRIBUTIONS)
        require_known("order", self.order, ORDERS)
        require_known("destination", self.destination, (None, *DESTINATIONS))
        if self.contrast is not None:
            require_known("distribution", self.distribution, CONTRASTED)
        if not (1 < (self.contrast or 2) < math.inf and 1 <= self.radii < math.inf):
            raise UserError("--contrast takes a number above 1, --radii one of at least 1")

    @property
    def its_task(self) -> str:
        """The task; by default `update` if particles moved, else `count`."""
        return self.task or ("count" if self.moved is None else "update")

    @property
    def words(self) -> str:
        """A description of the input for users."""
        return words_of(self.particles, self.per_cell, self.moved, self.contrast or 1, self.radii)


@dataclass(frozen=True)
class SortQuestion:
    """Uniform keys to sort: their number, their type, and the size of a value in bytes."""

    keys: int
    value_bytes: int = 4
    key_type: str = KEY_TYPES[0]
    called_from: str = GRAPH
    its_task: ClassVar[str] = SORT

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise UserError(f"--keys takes a count of at least 1, not {self.keys}")
        require_known("called-from", self.called_from, CALLED_FROM)
        require_known("value-bytes", self.value_bytes, VALUE_BYTES)
        require_known("key-type", self.key_type, KEY_TYPES)

    @property
    def words(self) -> str:
        """A description of the keys for users."""
        return f"{self.keys:,} keys of {self.key_type}, values of {self.value_bytes} bytes"


def words_of(
    particles: int, per_cell: float, moved: float | None, contrast: float = 1, radii: float = 1
) -> str:
    """Describe an input for users, without its setting."""
    moves = "" if moved is None else f", {100 * moved:.3g} % moved"
    varied = f", contrast {contrast:.4g}" * (contrast > 1) + f", radii {radii:.4g}" * (radii > 1)
    return f"{particles:,} particles, {per_cell:.4g} per cell{moves}{varied}"


def require_known(option: str, given: object, known: Collection[object]) -> None:
    """Raise UserError unless an option has one of its known values."""
    if given not in known:
        names = ", ".join(str(name) for name in known if name is not None)
        raise UserError(f"--{option} takes one of {names}, not {given!r}")
