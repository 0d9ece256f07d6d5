"""Steps of a workload, wrapped as an algorithm so that a study can measure them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.decomposed import share
from gpubench.decomposed.room import BALANCE_EVERY
from gpubench.devices.base import Device
from gpubench.evidence.declared import STEP
from gpubench.measure.phases import phase_times, picture_time
from gpubench.problems.cells.contract import CellList
from gpubench.problems.steps.inputs import SimulationStart
from gpubench.workloads.cell_workload import InCells
from gpubench.workloads.parameters import parse
from gpubench.workloads.workload import Value, Workload

# Even: a graph must leave double-buffered arrays as it found them.
STEPS = 2
# Lists are rebuilt every few steps: a launch must be long enough to include some rebuilds.
STEPS_WITH_SKIN = 20
# Hosts of several ranks look at the balance of the load every so many steps, which is timed too.
STEPS_OF_RANKS = BALANCE_EVERY
PHASE_STEPS = 20  # steps whose phases are timed


@runtime_checkable
class Settles(Protocol):
    """A workload that knows how long its lists hold, so that no host has to look.

    missed: steps queued, but not done as a list did not hold: counted on the device.
    """

    missed: int

    def settle(self) -> int:
        """Advance to the state to measure, and return the number of steps of a launch."""


class WorkloadStep(Algorithm):
    """Steps of a workload over a cell list, queued launch by launch, without the workload's graph.

    workload: the workload's class. algorithm, form, parameters: the cell list's class and variant.
    skin: see Workload. time_step: replaces the workload's time step, unless None.
    ranks: the number of ranks that share the simulation (the runner starts them); None for one.
    decomposition: how the ranks divide it, see gpubench/decomposed; None for one rank.
    setting: a parameter of the workload, NAME=VALUE, or None.
    launches: the number of steps in a launch; reported times are per step.
    input_hash: SHA-256 over the initial state, first 16 hex digits.
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
        made = share(workload, decomposition, device, algorithm)
        self.workload = made(device, particles, algorithm, form, given, seed, skin)
        inside = self.workload.algorithm
        self.launches = STEPS_OF_RANKS if ranks else STEPS_WITH_SKIN if skin > 0 else STEPS
        self.workspace_bytes = self.workload.workspace_bytes + inside.workspace_bytes
        self.input_hash = _hash(self.workload.state())
        # With several ranks, each rank has only a part of the particles.
        self._is_alone = ranks is None
        alone = self.workload if self._is_alone else None
        self._cells = alone.cell_by_id if isinstance(alone, InCells) else None
        self._settles = self.workload if isinstance(self.workload, Settles) else None
        if self._settles:
            self.launches = self._settles.settle()
        self._begun_at = self._queued
        self._moved: dict[str, float] = {}

    def load(self, inputs: SimulationStart) -> None:
        """Do nothing: the workload's constructor has already drawn its particles."""

    def launch(self) -> None:
        """Queue the steps."""
        self.workload.plain_steps(self.launches)

    def check(self) -> str | None:
        """Do one step and compare it with a reference step; return None, or the first error.

        It is also an error if too few steps were done since the last `poison`. After a correct
        step, record the fraction of particles that changed cells.
        """
        if (done := self._queued - self._begun_at) < self.launches:
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
        """Raise NotImplementedError: `check` compares the workload's states instead."""
        raise NotImplementedError("a step has no answer of its own")

    def poison(self) -> None:
        """Record the number of steps done, and clear the cells that the next step builds."""
        self._begun_at = self._queued
        if self._is_alone:
            self.workload.poison()

    @property
    def _queued(self) -> int:
        """The number of simulation steps so far, done or missed."""
        self.workload.count_steps()
        return self.workload.step + (self._settles.missed if self._settles else 0)

    def phases_ms(self) -> dict[str, float]:
        """Return each phase's median time over some steps; with a skin, its mean, as steps differ.

        A picture drawn on the device is reported as `draw`; it is not part of a step.
        """
        found = phase_times(self.workload, PHASE_STEPS)
        if type(self.workload).paint is not Workload.paint:
            found["draw"] = picture_time(self.workload, PHASE_STEPS)
        if self.workload.skin > 0:
            return {name: time.mean_ms for name, time in found.items()}
        return {name: time.median_ms for name, time in found.items()}

    @property
    def no_graph(self) -> str | None:
        """Describe the values that the host reads back in each step, or return None."""
        if self.workload.host_part is not None:
            return self.workload.host_part
        if self.workload.skin > 0 and not self._settles:
            return "the host reads back whether the lists still hold, which no CUDA graph can hold"
        return self.workload.algorithm.no_graph

    def traffic_bytes(self) -> None:
        """Return None: the number of reads of neighbours from memory depends on the caches."""

    def outcome(self) -> dict[str, int | float | str]:
        """Return the number of simulation steps done, including checks and warm-up.

        Also return the fraction of particles that changed cells in the last checked step (cells at
        least as long as the reach of the forces), and the workload's own outcome.
        """
        return {"steps_done": self.workload.step, **self._moved, **self.workload.outcome()}


def _hash(state: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(np.ascontiguousarray(state[name]).data)
    return digest.hexdigest()[:16]
