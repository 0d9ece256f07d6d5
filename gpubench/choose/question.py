"""What `choose` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from gpubench.core.errors import UserError
from gpubench.core.tasks import TASKS
from gpubench.inputs import DESTINATIONS, DISTRIBUTIONS, ORDERS


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
        if self.task is not None and self.task not in TASKS:
            raise UserError(f"--task takes one of {', '.join(TASKS)}, not {self.task!r}")
        if self.moved is None and self.task == "update":
            raise UserError("--task update needs --moved SHARE: how many particles changed cells")
        if self.moved is not None and self.task not in (None, "update"):
            raise UserError(f"--moved is for --task update, not for {self.task}")
        if self.moved is None and self.destination is not None:
            raise UserError("--destination is for particles that moved: add --moved SHARE")
        for name, given, known in (
            ("distribution", self.distribution, DISTRIBUTIONS),
            ("order", self.order, ORDERS),
            ("destination", self.destination, (None, *DESTINATIONS)),
        ):
            if given not in known:
                names = ", ".join(filter(None, known))
                raise UserError(f"--{name} takes one of {names}, not {given!r}")

    @property
    def its_task(self) -> str:
        """The task, where none was given `update` of what moved and else `count`."""
        return self.task or ("count" if self.moved is None else "update")
