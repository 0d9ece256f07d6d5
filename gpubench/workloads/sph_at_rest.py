"""A column of SPH fluid at rest, to find the longest step that a tank's walls bear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.workloads.sph import SPHOfPaper
from gpubench.workloads.workload import BlowUp, State, Value

SHORTEST, RATIO = 0.02, 1.1  # the first step tried, and each over the one before
GAIN = 0.02  # of g H: what the mechanical energy of a particle may rise by
SAMPLES = 10  # moments at which a run is looked at


class SPHAtRest(SPHOfPaper):
    """A column of fluid from wall to wall, by explicit Euler as in silva2012.

    Its outcome is the longest stable step: of steps rising from SHORTEST by RATIO, the last before
    one with which the column gains mechanical energy, which nothing in a closed tank supplies. Each
    run begins with the column settled by the shortest step, and lasts the fall through its height;
    the energy a particle may at no sampled moment exceed the first by GAIN.
    """

    name = "sph-silva2012-at-rest"
    summary = "the longest stable step of a column at rest, stepped as in silva2012"
    defaults: ClassVar[Mapping[str, Value]] = {
        **SPHOfPaper.defaults,
        "length": 1.0,
        "height": 1.0,
        "mach": 0.1,
    }

    def outcome(self) -> dict[str, int | float | str]:
        return {"longest_step": self.longest_step()}

    def longest_step(self) -> float:
        """Return the longest stable step of this column and its walls; 0 if none is."""
        column = self._with(SHORTEST)
        column._pass(self._fall)
        settled = column.state()
        longest, step = 0.0, SHORTEST
        while self._is_stable(settled, step):
            longest, step = step, step * RATIO
        return longest

    @property
    def _fall(self) -> float:
        """The time of a fall through the height of the fluid."""
        return 2 * self.scene.height / self.speed_scale

    def _is_stable(self, settled: State, step: float) -> bool:
        column = self._with(step)
        column.restore(settled)
        limit = column._energy() + GAIN
        try:
            for _ in range(SAMPLES):
                column._pass(self._fall / SAMPLES)
                if not column._energy() <= limit:
                    return False
        except BlowUp:
            return False
        return True

    def _with(self, step: float) -> SPHAtRest:
        given: dict[str, Any] = {**self.parameters, "time_step": step}
        cells = self.algorithm
        return type(self)(
            self.device, self.particles, type(cells), cells.form, given, self.seed, self.skin
        )

    def _pass(self, time: float) -> None:
        self.advance(max(1, round(time / self.time_step)))
        self.require_sound()

    def _energy(self) -> float:
        seen = self.observe(self.snapshot())
        return seen["kinetic_energy"] + seen["potential_energy"]
