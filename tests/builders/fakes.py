"""A device for tests, with a clock that only moves as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpubench.devices.base import Device, Graph, Kernel


@dataclass
class FakeGraph(Graph):
    device: FakeDevice
    launches: list[tuple[str, Callable[[], float]]]

    def launch(self) -> None:
        self.device.log.append("replay")
        for label, cost_ms in self.launches:
            self.device.advance(label, cost_ms)


@dataclass
class FakeDevice(Device):
    """A device whose arrays are NumPy's and whose time is `clock_ms`.

    Work made with `work` moves the clock by what it costs; `fill` and `copy` move it by their
    bytes over `bandwidth_gb_s`, and move no data. `log` holds what was queued, in order:
    "record", "fill", "copy", "synchronize", "capture", "replay", and the labels of works.
    """

    backend: str = "cuda"
    spec: str = "cuda:0"
    name: str = "NVIDIA H200"
    is_cpu: bool = False
    features: frozenset[str] = frozenset({"cuda", "graphs"})
    compute_units: int = 132
    cache_bytes: int = 1 << 20
    memory_bytes: int = 64 << 20
    shared_bytes: int = 48 << 10
    bandwidth_gb_s: float = 1000.0
    clock_ms: float = 0.0
    log: list[str] = field(default_factory=list)
    filled_bytes: list[int] = field(default_factory=list)
    _capturing: list[tuple[str, Callable[[], float]]] | None = None

    def work(
        self, label: str, cost_ms: float | Iterator[float] | Callable[[], float]
    ) -> Callable[[], None]:
        """Return a launch that costs a constant, or the next of a series."""
        if callable(cost_ms):
            cost = cost_ms
        elif isinstance(cost_ms, Iterator):
            series = cost_ms
            cost = lambda: next(series)  # noqa: E731
        else:
            constant = cost_ms
            cost = lambda: constant  # noqa: E731

        def launch() -> None:
            if self._capturing is None:
                self.advance(label, cost)
            else:
                self._capturing.append((label, cost))

        return launch

    def advance(self, label: str, cost_ms: Callable[[], float]) -> None:
        self.log.append(label)
        self.clock_ms += cost_ms()

    def empty(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def upload(self, host: Any) -> Any:
        return host.copy()

    def write(self, array: Any, host: Any) -> None:
        array[...] = host

    def download(self, array: Any) -> Any:
        return array.copy()

    def fill(self, array: Any, byte: int) -> None:
        self.filled_bytes.append(array.nbytes)
        self.advance("fill", lambda: self._transfer_ms(array.nbytes))

    def copy(self, source: Any, target: Any) -> None:
        assert source.nbytes == target.nbytes
        self.advance("copy", lambda: self._transfer_ms(2 * source.nbytes))

    def kernel(self, file: str, name: str, **constants: int) -> Kernel:
        raise AssertionError("a fake device has no kernels")

    def record(self) -> float:
        self.log.append("record")
        return self.clock_ms

    def elapsed_ms(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def capture(self, work: Callable[[], None]) -> Graph:
        self.log.append("capture")
        self._capturing = captured = []
        try:
            work()
        finally:
            self._capturing = None
        return FakeGraph(self, captured)

    def environment(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "name": self.name,
            "is_cpu": self.is_cpu,
            "driver": "1.0",
        }

    def state(self) -> dict[str, Any] | None:
        return {"clock_ms": self.clock_ms}

    def close(self) -> None:
        self.log.append("close")

    def _transfer_ms(self, nbytes: int) -> float:
        return nbytes / self.bandwidth_gb_s / 1e6
