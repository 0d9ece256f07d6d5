"""What `choose` is asked."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from gpubench.base.errors import UserError
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.axes import DESTINATIONS, DISTRIBUTIONS, ORDERS


@dataclass(frozen=True)
class Question:
    """What is to be done, to which particles.

    moved: share of the particles that are in another cell than before, from 0 to 1; it makes the
        task `update`, which no other task may be. destination: where they moved to; by default
        the only one that was measured, or `next`.
    """

    particles: int
    per_cell: float
    moved: float | None = None
    task: str | None = None
    distribution: str = "uniform"
    order: str = "random"
    destination: str | None = None

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
        require_known("distribution", self.distribution, DISTRIBUTIONS)
        require_known("order", self.order, ORDERS)
        require_known("destination", self.destination, (None, *DESTINATIONS))

    @property
    def its_task(self) -> str:
        """The task, where none was given `update` of what moved and else `count`."""
        return self.task or ("count" if self.moved is None else "update")


def require_known(option: str, given: object, known: Collection[object]) -> None:
    """Raise UserError where an option is not one of what it takes."""
    if given not in known:
        names = ", ".join(str(name) for name in known if name is not None)
        raise UserError(f"--{option} takes one of {names}, not {given!r}")


def occupancy(
    per_cell: float | None,
    density: float | None,
    cutoff: float | None,
    neighbours: float | None,
    distribution: str = "uniform",
) -> float | None:
    """Return the particles per cell, in cells as long as the cutoff; None where nothing is given.

    density, cutoff: particles per volume, and a length, in one unit. neighbours: of a particle on
    average where particles are uniform, 4/3 pi times as many as particles per cell. Raises
    UserError where less or more than one of the three is given, or a value is not positive.
    """
    if (density is None) != (cutoff is None):
        raise UserError("--density and --cutoff belong together: give both")
    ways = {"--per-cell": per_cell, "--density": density, "--neighbours": neighbours}
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} say the same: give one of them")
    if cutoff is not None:
        given["--cutoff"] = cutoff
    for name, value in given.items():
        if name != "--per-cell" and not (math.isfinite(value) and value > 0):
            raise UserError(f"{name} takes a positive number, not {value:g}")
    if neighbours is not None:
        if distribution != "uniform":
            raise UserError("--neighbours is for --distribution uniform: give --per-cell")
        return neighbours / (4 / 3 * math.pi)
    if density is not None and cutoff is not None:
        return density * cutoff**3
    return per_cell
