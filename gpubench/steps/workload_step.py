"""Steps of a workload as something that a study measures: an algorithm's part of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.decomposed import share
from gpubench.devices.base import Device
from gpubench.evidence.declared import STEP
from gpubench.measure.phases import phase_times, picture_time
from gpubench.problems.cells.contract import CellList
from gpubench.problems.steps.inputs import SimulationStart
from gpubench.workloads.cell_workload import InCells
from gpubench.workloads.parameters import parse
from gpubench.workloads.workload import Value, Workload

# An even number: what takes turns with its arrays is back where it was, as a graph needs it.
STEPS = 2
# Lists are made anew every few steps: enough of them that each launch has its share.
STEPS_WITH_SKIN = 20
PHASE_STEPS = 20  # over which phases are timed


class WorkloadStep(Algorithm):
    """Plain steps of a workload with a cell list inside, launch by launch, without its own graph.

    workload, algorithm: classes; form and parameters are those of the algorithm.
    skin: see Workload. time_step: in place of the workload's own, unless None.
    ranks: how many share the simulation, which the runner has made sure of; None for one.
    decomposition: how they do, see decomposed/shared.py; None with one rank.
    setting: a parameter of the workload, NAME=VALUE, or None.
    launches: steps in one launch; reported times are of one step.
    input_hash: SHA-256 over the state at the beginning, first 16 hex digits.
    """

    family = STEP

    def __init__(
        self,
        device: Device,
        workload: type[Workload],
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, int],
        *,
        particles: int,
        skin: float,
        time_step: float | None,
        seed: int,
        ranks: int | None = None,
        decomposition: str | None = None,
        setting: str | None = None,
    ) -> None:
        super().__init__(device, form, parameters)
        given: dict[str, Value] = {**parameters}
        if time_step is not None:
            given["time_step"] = time_step
        if setting is not None:
            name, _, text = setting.partition("=")
            given[name] = parse(name, text, type(workload.defaults[name]))
        made = share(workload, decomposition, device)
        self.workload = made(device, particles, algorithm, form, given, seed, skin)
        inside = self.workload.algorithm
        self.launches = STEPS_WITH_SKIN if skin > 0 else STEPS
        self.workspace_bytes = self.workload.workspace_bytes + inside.workspace_bytes
        self.input_hash = _hash(self.workload.state())
        # Ranks that share a simulation have a part of the particles each.
        self._is_alone = ranks is None
        alone = self.workload if self._is_alone else None
        self._cells = alone.cell_by_id if isinstance(alone, InCells) else None
        self._begun_at = self.workload.step
        self._moved: dict[str, float] = {}

    def load(self, inputs: SimulationStart) -> None:
        """Leave the workload as it is: it drew its particles from the seed when it was made."""

    def launch(self) -> None:
        """Queue the steps."""
        self.workload.plain_steps(self.launches)

    def check(self) -> str | None:
        """Do one step and compare it with the right one; return None, or what is wrong with it.

        The launches since the last `poison` must have done their steps. Of a right step it is
        noted which share of the particles it took to another cell.
        """
        self.workload.count_steps()
        if (done := self.workload.step - self._begun_at) < self.launches:
            return f"a launch did {done} steps, expected {self.launches}"
        if self._cells is None:
            return self.workload.check()
        before = self._cells()
        wrong = self.workload.check()
        if not wrong:
            self._moved = {"moved_share": round(float((self._cells() != before).mean()), 6)}
        return wrong

    @property
    def answer(self) -> Any:
        """Raise NotImplementedError: a step is checked by its workload, from the state before."""
        raise NotImplementedError("a step has no answer of its own")

    def poison(self) -> None:
        """Note how many steps are done, and empty the cells that the next one builds."""
        self.workload.count_steps()
        self._begun_at = self.workload.step
        if self._is_alone:
            self.workload.poison()

    def phases_ms(self) -> dict[str, float]:
        """Time the phases of some steps: medians, or with a skin, where steps differ, means.

        A picture, of what paints one on the device, is told as `draw`; it is no part of a step.
        """
        found = phase_times(self.workload, PHASE_STEPS)
        if type(self.workload).paint is not Workload.paint:
            found["draw"] = picture_time(self.workload, PHASE_STEPS)
        if self.workload.skin > 0:
            return {name: time.mean_ms for name, time in found.items()}
        return {name: time.median_ms for name, time in found.items()}

    @property
    def no_graph(self) -> str | None:
        """Say what the host reads back in a step, or return None."""
        if self.workload.host_part is not None:
            return self.workload.host_part
        if self.workload.skin > 0:
            return "the host reads back whether the lists still hold, which no CUDA graph can hold"
        return self.workload.algorithm.no_graph

    def traffic_bytes(self) -> None:
        """Return None: how often a neighbour is read depends on the caches."""

    def outcome(self) -> dict[str, int | float | str]:
        """Return how many steps the simulation has done, checks and warm-up included.

        And which share of the particles was in another cell, as long as the reach of the forces,
        after the last step that was checked; and what the workload tells.
        """
        return {"steps_done": self.workload.step, **self._moved, **self.workload.outcome()}


def _hash(state: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(np.ascontiguousarray(state[name]).data)
    return digest.hexdigest()[:16]
