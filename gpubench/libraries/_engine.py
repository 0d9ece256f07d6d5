"""Base of the adapters to engines, which simulate whole steps with their own cells and lists."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm, Form
from gpubench.core.host_work import HostWork
from gpubench.devices.base import Device


class EngineStep(HostWork, Algorithm):
    """Steps of a simulation by another engine, on the device's own GPU or on the host.

    A launch starts from an idle device, does `launches` steps in one call, and ends when the device
    has done them; times are per step.

    needs: the workload that the engine simulates, or whose step stands beside its own.
    models_alike: whether it solves the equations of that workload, so that times may be ranked.
    steps: those done so far.
    """

    family = "workload-step"
    forms: ClassVar[Mapping[str, Form]] = {"steps": Form("whole steps", capturable=False)}
    models_alike: ClassVar[bool] = True

    def __init__(
        self,
        device: Device,
        form: str,
        parameters: Mapping[str, int],
        *,
        particles: int,
        time_step: float | None,
        seed: int,
        **settings: Any,
    ) -> None:
        super().__init__(device, form, parameters)
        if given := [name for name, value in settings.items() if value]:
            raise NotSupported(f"{self.name} has no {', '.join(given)}: it keeps lists of its own")
        self.particles, self.time_step, self.seed = particles, time_step, seed
        self.steps = self._begun_at = 0
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        return None, None if cls.models_alike else cls.name

    @abstractmethod
    def work(self) -> None:
        """Do `launches` steps, wait for any context of the engine's own, and count the steps."""

    @abstractmethod
    def wrong(self) -> str | None:
        """Compare the state with independent figures; return None, or the first error."""

    def launch(self) -> None:
        """Wait until the device is idle, do the steps, and wait for all streams of our context."""
        self.device.synchronize()
        self.work()
        self.come_back()

    def come_back(self) -> None:
        """Make our CUDA context current, where the engine may have left its own; wait for it."""
        if self.device.backend == "cuda":
            import cupy

            cupy.cuda.runtime.setDevice(int(self.device.spec.partition(":")[2]))
            cupy.cuda.runtime.deviceSynchronize()

    def check(self) -> str | None:
        """Return None, or the first error; too few steps since the last `poison` are one."""
        if (done := self.steps - self._begun_at) < self.launches:
            return f"a launch did {done} steps, expected {self.launches}"
        return self.wrong()

    def poison(self) -> None:
        """Note the steps done: a state of the engine cannot be overwritten."""
        self._begun_at = self.steps
