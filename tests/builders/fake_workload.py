"""A workload for tests: particles that fly through a box and turn, in NumPy on any device.

What a step costs is queued on the device as fills of an array; on a FakeDevice these move its
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import Grid
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.workloads.workload import BlowUp, Snapshot, Value, Workload

GRID = Grid((4, 4, 4), (0.0,) * 3, (4.0,) * 3, (True,) * 3)
MIB = 1 << 20


class FakeCells(CellList):
    """Keeps no cells."""

    name = "counting-sort"
    summary = "keeps no cells"
    source = "nowhere"
    forms: ClassVar[dict[str, Form]] = {
        "unheard-of": Form("what no device has", requires=frozenset({"magic"}), reorders=True),
        "order": Form("indices"),
        "reorder": Form("positions too", reorders=True),
    }
    defaults: ClassVar[dict[str, int]] = {"capacity": 8}

    def build(self, cell_of: Any, positions: Any) -> None:
        raise AssertionError("nobody asks for cells")

    def traffic_bytes(self) -> None:
        return None

    @property
    def answer(self) -> SortedCells:
        raise AssertionError("nobody asks for cells")


class FakeGas(Workload):
    """Particles of two species that fly freely and turn a little each step.

    after_step: called with the workload after each step, e.g. to press Ctrl-C.
    """

    name = "fake-gas"
    summary = "particles that do not interact"
    source = "nowhere"
    defaults: ClassVar[dict[str, Value]] = {
        "time_step": 0.25,
        "blows_up_at": 0,
        "integrator": "euler",
        "depth": 4.0,
    }
    particles_by_default = 100
    steps_by_default = 24

    after_step: ClassVar[Callable[[FakeGas], None]] = staticmethod(lambda workload: None)

    def __init__(
        self,
        device: Any,
        particles: int,
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, Value],
        seed: int,
        skin: float = 0.0,
    ) -> None:
        self.device, self.particles, self.seed, self.skin = device, particles, seed, skin
        self.parameters = {**self.defaults, **parameters}
        self.time_step = float(self.parameters["time_step"])
        if self.time_step <= 0:
            raise UserError(f"time_step must be positive, not {self.time_step:g}")
        self.algorithm = algorithm(device, particles, GRID, form, {})
        self.workspace_bytes = 48 * particles
        self.size = np.array([4.0, float(self.parameters["depth"]), 8.0])
        rng = np.random.default_rng(seed)
        self.step = 0
        self.positions = rng.random((particles, 3)) * self.size
        self.velocities = rng.normal(size=(particles, 3))
        self.scratch = device.empty(MIB, np.uint8)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self.phases():
                launch()

    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        phases = [("sort", self._work), ("force", self._work), ("force", self._work)]
        if self.step % 4 == 3:
            phases.append(("lists", self._work))
        return [*phases, ("integrate", self._integrate)]

    def require_sound(self) -> None:
        self.device.synchronize()
        if 0 < int(self.parameters["blows_up_at"]) <= self.step:
            raise BlowUp(f"step {self.step}: particle 7 is nowhere: make the time step smaller")

    def check(self) -> str | None:
        self.advance(1)
        return None

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "step": np.array(self.step),
            "positions": self.positions.copy(),
            "velocities": self.velocities.copy(),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if state.keys() != {"step", "positions", "velocities"}:
            raise UserError("this is no state of fake-gas")
        self.step = int(state["step"])
        self.positions, self.velocities = state["positions"].copy(), state["velocities"].copy()

    def snapshot(self) -> Snapshot:
        x, y, z = self.size
        return Snapshot(
            self.step,
            self.step * self.time_step,
            (float(x), float(y), float(z)),
            (True, True, False),
            self.positions.copy(),
            self.velocities.copy(),
            (self.positions[:, 2] > 4).astype(np.int8),
            ("light oil", "water"),
        )

    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        # Nothing is known of the first moment.
        energy = float((snapshot.velocities**2).sum()) if snapshot.step else float("nan")
        return {"energy": energy, "height": float(snapshot.positions[:, 2].mean())}

    def _work(self) -> None:
        self.device.fill(self.scratch, 0)

    def _integrate(self) -> None:
        self._work()
        self._work()
        # Not the same as the step before would have done: order and number of steps matter.
        turn = np.sin(self.positions + self.step)
        self.velocities += self.time_step * turn
        self.positions = (self.positions + self.time_step * self.velocities) % self.size
        self.step += 1
        type(self).after_step(self)
