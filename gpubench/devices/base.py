"""The interface of all backends: memory, kernels from shared sources, events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# A launch: kernel(blocks, threads_per_block, *arguments). Arguments are device arrays, NumPy
# scalars, Python ints (passed as int32) or Python floats (float32).
Kernel = Callable[..., None]


@dataclass(frozen=True)
class DeviceReport:
    """One device as listed by `gpubench devices`.

    spec: its value for `--device`. reason: if unusable, why, and what to install; else None.
    """

    spec: str
    backend: str
    name: str | None
    usable: bool
    reason: str | None
    details: dict[str, Any] = field(default_factory=dict)


class Graph(ABC):
    """A recorded sequence of launches, replayed without launch gaps."""

    @abstractmethod
    def launch(self) -> None:
        """Queue one replay."""


class Device(AbstractContextManager["Device"], ABC):
    """A device with one in-order queue.

    backend: "cuda" or "opencl".
    spec: its value for `--device`, e.g. "cuda:0", "opencl:pocl".
    name: the vendor's name of the device.
    features: features that a variant may require: the name of the backend, and "graphs" if
        launches can be captured.
    compute_units: number of multiprocessors or cores.
    cache_bytes: size of the last-level cache. memory_bytes: memory available to arrays.
    shared_bytes: maximum shared memory per block.
    """

    backend: str
    spec: str
    name: str
    is_cpu: bool
    features: frozenset[str]
    compute_units: int
    cache_bytes: int
    memory_bytes: int
    shared_bytes: int
    # The ranks of a distributed simulation (a Team of gpubench.distributed), if any.
    team: Any = None

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        """Allocate an uninitialised array; a zero-length one is allowed. Raises OutOfMemory."""

    def upload(self, host: NDArray[Any]) -> Any:
        """Copy a host array to a new device array."""
        array = self.empty(host.shape, host.dtype)
        self.write(array, host)
        return array

    @abstractmethod
    def write(self, array: Any, host: NDArray[Any]) -> None:
        """Copy a host array into a device array of the same shape and type."""

    @abstractmethod
    def download(self, array: Any) -> NDArray[Any]:
        """Wait for the queue, then copy a device array to the host."""

    @abstractmethod
    def fill(self, array: Any, byte: int) -> None:
        """Queue a fill of every byte of an array: 0x00 gives zeros, 0xFF gives -1 in int32."""

    @abstractmethod
    def copy(self, source: Any, target: Any) -> None:
        """Queue a copy between two arrays with the same number of bytes."""

    def status(self, items: int) -> Any:
        """Return an int64 array of flags that kernels write and the host polls.

        Two calls may return the same memory: do not use two such arrays at the same time.
        """
        return self.empty(items, np.int64)

    def replayed(self, work: Callable[..., None], arrays: int) -> Callable[..., None]:
        """Return a cheaper way to queue the launches of `work`, or `work` itself.

        work: takes `arrays` one-dimensional arrays, and always launches the same kernels.
        """
        return work

    def host_buffer(self, size: int) -> NDArray[np.uint8]:
        """Allocate `size` bytes of host memory for `read_rows` and `write_rows`."""
        return np.empty(size, np.uint8)

    def read_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        """Queue a copy of rows, from row `first` on, that fills a host buffer.

        array: contiguous; its first axis counts the rows. host: a `host_buffer` or a slice of one,
        at least one row long. Returns a function that waits for this copy only.
        """
        raise NotImplementedError(f"{self.spec} reads no rows")

    def write_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        """Queue a copy of a host buffer into rows, from row `first` on: the inverse of `read_rows`.

        The buffer must not change until the copy completes; the returned function waits for it.
        """
        raise NotImplementedError(f"{self.spec} writes no rows")

    @abstractmethod
    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        """Compile a kernel file with -DNAME=value for each constant, and return one kernel.

        The file is in kernels/, or in the folder of a plug-in. Compiled code is reused for the same
        file and constants. SHARED_BYTES is the size of the array that SHARED_VECTORS declares.
        """

    @contextmanager
    def compiled_together(self) -> Iterator[None]:
        """Return a context in which kernels may compile in parallel; its exit waits for all."""
        yield

    def record(self) -> Any:
        """Queue a timing event and return it."""
        raise NotImplementedError(f"{self.spec} has no clock")

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Wait for `end` and return the device time between two events in milliseconds."""
        raise NotImplementedError(f"{self.spec} has no clock")

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything queued is done."""

    def capture(self, work: Callable[[], None]) -> Graph:
        """Record the launches of `work` without running them. Needs the feature "graphs"."""
        raise NotImplementedError(f"{self.spec} records no graphs")

    def environment(self) -> dict[str, Any]:
        """Describe the device for a results file: at least backend, name, is_cpu, driver."""
        return {name: getattr(self, name) for name in ("backend", "spec", "name", "is_cpu")}

    def state(self) -> dict[str, Any] | None:
        """Read current clocks, power, temperature and throttle reasons; None if not available."""
        return None

    def throttled_by(self, state: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Return the reasons for throttling in a reading of `state()`; usually none."""
        return ()

    def energy_j(self) -> float | None:
        """Read a counter of the joules that the whole device takes; None if not available."""
        return None

    def close(self) -> None:
        """Free the device's resources; it must not be used again."""

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def row_bytes(array: Any) -> int:
        """Return the bytes of one row of a contiguous array."""
        return int(np.prod(array.shape[1:], dtype=np.int64)) * int(array.dtype.itemsize)

    @staticmethod
    def blocks(items: int, per_block: int) -> int:
        """Return the number of blocks that cover `items`, at least one for a valid launch."""
        return max(1, -(-items // per_block))


def scalar(value: Any) -> Any:
    """Convert a kernel argument to its C type: int to int32, float to float32."""
    if isinstance(value, bool | int) and not isinstance(value, np.generic):
        return np.int32(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.float32(value)
    return value
