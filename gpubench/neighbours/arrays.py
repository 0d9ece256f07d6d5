"""The user's arrays: what they are, how a device reads them, and how answers are given back."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.errors import DeviceUnavailable, OutOfMemory, UserError
from gpubench.devices import open_device
from gpubench.devices.base import Device
from gpubench.devices.cupy import CuPyDevice, View, import_cupy

TYPES = frozenset((np.dtype("float32"), np.dtype("float64")))
HOST, CUDA, CUDA_MANAGED = 1, 2, 13  # device types of DLPack
ALIGNMENT = 256  # bytes, of arrays in one allocation
NOTHING = nullcontext()
KINDS = (
    "positions take an array of shape (n, 3) or (n, 4): NumPy's, or anything with DLPack or"
    " __cuda_array_interface__ on an NVIDIA GPU"
)


class Layout:
    """Several arrays in one allocation: its bytes; of each array its first, its shape and type."""

    def __init__(self, *sizes: tuple[int, str]) -> None:
        self.bytes = 0
        self.places: list[tuple[int, tuple[int], np.dtype[Any]]] = []
        for items, name in sizes:
            dtype = np.dtype(name)
            self.places.append((self.bytes, (items,), dtype))
            self.bytes += -(-items * dtype.itemsize // ALIGNMENT) * ALIGNMENT


class Arrays(ABC):
    """One kind of array on one device.

    device: where the search runs. lock: held while it launches, for kernels and queue are shared.
    gives_once: whether an array that was given shows what kernels write later.
    """

    device: Device
    lock: threading.RLock
    gives_once = False

    @abstractmethod
    def take(self, positions: Any) -> Any:
        """Return what kernels read of a user's array, checked; a copy only where it must be."""

    @abstractmethod
    def bounds(self, taken: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Wait, then return the least and the greatest coordinates, NaN where one is NaN."""

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """Allocate an array of a result."""

    def empty_each(self, layout: Layout) -> list[Any]:
        """Allocate the arrays of one result."""
        return [self.empty(shape, dtype.name) for _, shape, dtype in layout.places]

    @abstractmethod
    def give(self, array: Any) -> Any:
        """Return an array of a result in the user's kind; on the host, when it is complete."""

    def on_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which launches go to the stream of the user's code."""
        return nullcontext()


class HostArrays(Arrays):
    """NumPy arrays, and others in host memory, on an OpenCL device.

    A CPU reads the user's memory and writes into that of the answers: nothing is copied.
    """

    device: Any  # an OpenCL device, imported where there is one

    def __init__(self, spec: str, torch: Any) -> None:
        self.device, self.lock = _opencl(spec)
        self._torch = torch

    def take(self, positions: Any) -> Any:
        host = np.asarray(positions) if self._torch is None else positions.detach().numpy()
        self.host = np.ascontiguousarray(checked(host))
        return self._over(self.host) if self._shares(self.host) else self.device.upload(self.host)

    def _over(self, host: NDArray[Any]) -> Any:
        """Return a device array over host memory, which both keep."""
        array = self.device.over(host)
        array.gpubench_host = host
        return array

    def _shares(self, host: NDArray[Any]) -> bool:
        return self.device.is_cpu and host.size > 0

    def bounds(self, taken: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        xyz = self.host[:, :3]
        return xyz.min(axis=0).astype(np.float64), xyz.max(axis=0).astype(np.float64)

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        host = np.empty(shape, dtype)
        return self._over(host) if self._shares(host) else self.device.empty(shape, dtype)

    def give(self, array: Any) -> Any:
        host = getattr(array, "gpubench_host", None)
        if host is None:
            host = self.device.download(array)
        else:
            self.device.complete(array, host)
        return host if self._torch is None else self._torch.from_numpy(host)

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Return a context that ends when all is done that was queued in it.

        Host memory has no stream: kernels would work in arrays that their owner drops or changes.
        """
        try:
            yield
        finally:
            self.device.synchronize()


class CudaArrays(Arrays):
    """CuPy's, PyTorch's and other arrays on an NVIDIA GPU."""

    device: CuPyDevice
    gives_once = True

    def __init__(self, number: int, torch: Any) -> None:
        self.device, self.lock = open_cuda(number)
        self._cupy, self._torch = self.device.cupy, torch
        self._on_stream: tuple[int | None, Any] = None, None
        if torch is None:
            return
        # New tensors are made like this one: sooner than from a type and a device.
        like = torch.empty(0, dtype=torch.uint8, device=torch.device("cuda", number))
        self._new_tensor = like.new_empty
        names = ("float32", "float64", "int32", "int64")
        self._types = {getattr(torch, name): np.dtype(name) for name in names}
        self._torch_types = {of_numpy: of_torch for of_torch, of_numpy in self._types.items()}
        # As torch.cuda.current_stream().cuda_stream, without an object for each call.
        self._current_stream = torch._C._cuda_getCurrentRawStream

    def take(self, positions: Any) -> Any:
        if type(positions) is self._cupy.ndarray:
            array = positions
        elif self._torch is not None and positions.dtype in self._types:
            tensor = positions.detach() if positions.requires_grad else positions
            return checked(self._view(tensor.contiguous()))
        elif hasattr(positions, "__dlpack__"):
            array = self._cupy.from_dlpack(positions)
        else:
            array = self._cupy.asarray(positions)
        array = checked(array)
        return array if array.flags.c_contiguous else self._cupy.ascontiguousarray(array)

    def _view(self, tensor: Any) -> View:
        """Return the memory of a contiguous tensor, which it keeps; see `give`."""
        dtype = self._types[tensor.dtype]
        return View(tensor.data_ptr(), tensor.shape, dtype, tensor)

    def bounds(self, taken: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if type(taken) is View:
            cuda = self._cupy.cuda
            memory = cuda.UnownedMemory(taken.ptr, taken.nbytes, taken.owner, self.device.number)
            taken = self._cupy.ndarray(taken.shape, taken.dtype, cuda.MemoryPointer(memory, 0))
        xyz = taken[:, :3]
        low, high = xyz.min(axis=0).get(), xyz.max(axis=0).get()
        return low.astype(np.float64), high.astype(np.float64)

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        if self._torch is None:
            return self.device.empty(shape, dtype)
        return self._view(self._tensor(shape, dtype=getattr(self._torch, dtype)))

    def _tensor(self, shape: int | tuple[int, ...], **dtype: Any) -> Any:
        try:
            return self._new_tensor(shape, **dtype)
        except self._torch.OutOfMemoryError as error:
            raise OutOfMemory(f"{self.device.name} has too little memory left: {error}") from None

    def empty_each(self, layout: Layout) -> list[Any]:
        """Allocate the arrays of one result in one go: an allocation, and an array, takes time."""
        if self._torch is None:
            block = self.device.empty(layout.bytes, "uint8")
            address = block.data.ptr
        else:
            block = self._tensor(layout.bytes)
            address = block.data_ptr()
        return [View(address + at, shape, dtype, block, at) for at, shape, dtype in layout.places]

    def give(self, array: Any) -> Any:
        if type(array) is not View:
            return array if self._torch is None else self._torch.from_dlpack(array)
        at, owner = array.at, array.owner
        if at is None:
            return owner
        if self._torch is None:
            return self._cupy.ndarray(array.shape, array.dtype, owner.data + at)
        return owner[at : at + array.nbytes].view(self._torch_types[array.dtype])

    def on_stream(self) -> AbstractContextManager[Any]:
        cuda, number = self._cupy.cuda, self.device.number
        is_current = cuda.runtime.getDevice() == number  # to enter and leave a context takes time
        if self._torch is None:
            return NOTHING if is_current else cuda.Device(number)
        handle = self._current_stream(number)
        if is_current and self.device.current_stream().ptr == handle:
            return NOTHING
        if handle != self._on_stream[0]:
            stream = cuda.Stream.from_external(_Handle(handle)) if handle else cuda.Stream.null
            self._on_stream = handle, _OnStream(cuda.Device(number), stream)
        return self._on_stream[1]  # type: ignore[no-any-return]


class _Handle:
    """A stream of another library, by CUDA's stream protocol."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of the protocol, and the stream."""
        return 0, self._handle


class _OnStream(AbstractContextManager[None]):
    """A CuPy device and one of its streams, made current together."""

    def __init__(self, device: Any, stream: Any) -> None:
        self._both = device, stream

    def __enter__(self) -> None:
        for each in self._both:
            each.__enter__()

    def __exit__(self, *error: Any) -> None:
        for each in reversed(self._both):
            each.__exit__(*error)


def checked(array: Any) -> Any:
    """Return positions as they are, or raise UserError for a wrong shape or type."""
    if len(array.shape) != 2 or array.shape[1] not in (3, 4):
        raise UserError(f"positions take the shape (n, 3) or (n, 4), not {tuple(array.shape)}")
    if array.dtype not in TYPES:
        raise UserError(f"positions take float32 or float64, not {array.dtype}")
    if array.shape[0] >= 2**31:
        raise UserError(f"positions take less than 2^31 particles, not {array.shape[0]}")
    return array


def kind_of(positions: Any) -> tuple[int, int, str]:
    """Return DLPack's type of an array's device, its number, and the module of the array."""
    module = type(positions).__module__.partition(".")[0]
    if isinstance(positions, np.ndarray):
        return HOST, 0, "numpy"
    if module == "torch" and positions.is_cuda:
        return CUDA, positions.get_device(), module  # sooner than DLPack says it
    if hasattr(positions, "__dlpack_device__"):
        kind, number = positions.__dlpack_device__()
        if int(kind) in (HOST, CUDA, CUDA_MANAGED):
            return int(kind), int(number), module
        raise UserError(f"{KINDS}; this one is on another device (DLPack type {int(kind)})")
    if hasattr(positions, "__cuda_array_interface__"):
        pointer = positions.__cuda_array_interface__["data"][0]
        attributes = import_cupy().cuda.runtime.pointerGetAttributes(pointer)
        return CUDA, int(attributes.device), module
    raise UserError(f"{KINDS}, not {type(positions).__name__}")


def arrays_for(kind: tuple[int, int, str], spec: str | None) -> Arrays:
    """Return how arrays of a kind are read and given.

    spec: for host memory, the OpenCL device to search on; by default a CPU.
    """
    where, number, module = kind
    torch = sys.modules["torch"] if module == "torch" else None
    if where == HOST:
        return HostArrays(spec or "", torch)
    if spec is not None and spec != f"cuda:{number}":
        raise UserError(f"these positions are on cuda:{number}, and device says {spec}")
    return CudaArrays(number, torch)


@cache
def _opencl(spec: str) -> tuple[Any, threading.RLock]:
    """Open an OpenCL device once a process: the one that is named, or the first CPU."""
    if spec and not spec.startswith("opencl"):
        raise UserError(f"arrays in host memory are searched through OpenCL, not on {spec}")
    if spec:
        return open_device(spec), threading.RLock()
    from gpubench.devices.opencl import open_cpu

    return open_cpu(), threading.RLock()


@cache
def open_cuda(number: int) -> tuple[CuPyDevice, threading.RLock]:
    """Open an NVIDIA GPU once a process."""
    if number >= import_cupy().cuda.runtime.getDeviceCount():
        raise DeviceUnavailable(f"there is no cuda:{number}")
    return CuPyDevice(number), threading.RLock()
