"""Reading the user's arrays on a device, and returning results as the same kind of array."""

from __future__ import annotations

import math
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown, without_gradient
from gpubench.base.errors import OutOfMemory, UserError
from gpubench.core.memory import allowed_bytes
from gpubench.devices.base import Device
from gpubench.devices.cupy import BorrowedArray, CuPyDevice, import_cupy

TYPES = frozenset((np.dtype("float32"), np.dtype("float64")))
HOST, CUDA, CUDA_MANAGED = 1, 2, 13  # device types of DLPack
FLOATS = frozenset(map(str, TYPES))
LARGE = 2**30  # bytes; larger arrays are checked against the memory limit of this process
ALIGNMENT = 256  # bytes, of each array within a shared allocation
NOTHING = nullcontext()
Function = TypeVar("Function", bound=Callable[..., Any])
KINDS = (
    "positions take an array of shape (n, 3) or (n, 4): NumPy's, or anything with DLPack or"
    " __cuda_array_interface__ on an NVIDIA GPU"
)


class Layout:
    """Several arrays in one allocation. bytes: its size. places: offset, shape, type of each."""

    def __init__(self, *sizes: tuple[int, str]) -> None:
        self.bytes = 0
        self.places: list[tuple[int, tuple[int], np.dtype[Any]]] = []
        for items, name in sizes:
            dtype = np.dtype(name)
            self.places.append((self.bytes, (items,), dtype))
            self.bytes += -(-items * dtype.itemsize // ALIGNMENT) * ALIGNMENT


class Arrays(ABC):
    """One kind of array on one device.

    device: where the search runs. lock: held during launches, since kernels and queue are shared.
    gives_once: whether an array already returned to the user shows later writes by kernels.
    library: NumPy, CuPy or PyTorch. given: the type of array that `give` returns.
    """

    device: Device
    lock: threading.RLock
    gives_once = False
    library: Any
    given: type

    @abstractmethod
    def take(self, positions: Any) -> Any:
        """Check a user's array and return it as a kernel argument; copy only if necessary.

        The `owner` of the result is an array of `library`.
        """

    def bounds(self, taken: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Wait, then return the minimum and maximum along each axis; NaN if any value is NaN."""
        xyz, library = taken.owner[:, :3], self.library
        low, high = library.amin(xyz, 0).tolist(), library.amax(xyz, 0).tolist()
        return np.array(low), np.array(high)

    @abstractmethod
    def view(self, array: Any) -> Any:
        """Wrap a contiguous array of `library` as a kernel argument, without a copy."""

    @abstractmethod
    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """Allocate one result array."""

    def empty_each(self, layout: Layout) -> list[Any]:
        """Allocate all arrays of a result."""
        return [self.empty(shape, dtype.name) for _, shape, dtype in layout.places]

    @abstractmethod
    def give(self, array: Any) -> Any:
        """Return a result as the user's kind of array; on the host, wait until it is complete."""

    def numbers(self, name: str, value: Any) -> Any:
        """Return a user's few numbers on the host; those of a tensor, which may have a gradient."""
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            if self.given is not sys.modules["torch"].Tensor:
                without_gradient(name, value)
            return value.detach().cpu().numpy()
        return value.get() if hasattr(value, "__cuda_array_interface__") else value

    def joined(self, name: str, first: Any, positions: Any) -> Any:
        """Return other points, and then the positions, as one array of the user's kind.

        Raises UserError if they do not go together. Of tensors, gradients go to both.
        """
        if not hasattr(first, "dtype") or arrays_of(first) is not self:
            raise UserError(f"{name} take the kind of array, and the device, of the positions")
        given, taken = (first, positions), self.take(positions)
        if (first.dtype, *first.shape[1:]) != (positions.dtype, *positions.shape[1:]):
            raise UserError(
                f"{name} take the type and columns of the positions, {taken.dtype} and"
                f" {taken.shape[1]}, not {first.dtype} and the shape {tuple(first.shape)}"
            )
        if self.given.__module__.startswith("torch"):
            return sys.modules["torch"].cat(given)
        return self.library.concatenate([self.take(each).owner for each in given])

    def each(self, name: str, value: Any, particles: int, dtype: str) -> Any:
        """Return a user's numbers, one of each particle, as a kernel argument of this type."""
        without_gradient(name, value)
        with suppress(TypeError, ValueError, RuntimeError):
            array, kinds = self.array(value), ("int", "uint") + ("float",) * (dtype[0] == "f")
            kind = str(array.dtype).removeprefix("torch.")
            if tuple(array.shape) == (particles,) and (kind.startswith(kinds) or not particles):
                return self.view(self.array(array, dtype))
        what = "a whole number" if dtype[0] == "i" else "a number"
        raise UserError(f"{name} take {what} for each of {particles} particles, not {shown(value)}")

    @abstractmethod
    def array(self, value: Any, dtype: str | None = None) -> Any:
        """Return anything that `library` takes as its contiguous array, of this type."""

    @abstractmethod
    def sorted(self, array: Any) -> Any:
        """Sort an array by `library`, and return it, or another."""

    @abstractmethod
    def on_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which launches go to the user's current stream."""


class HostArrays(Arrays):
    """NumPy and other host arrays, searched on a CPU through OpenCL.

    Zero-copy: kernels read the user's memory and write directly into the result arrays.
    """

    device: Any  # an OpenCL device; typed Any because OpenCL is imported lazily
    library = np

    def __init__(self, torch: Any) -> None:
        self.device, self.lock = _cpu()
        self._torch, self.given = torch, np.ndarray if torch is None else torch.Tensor

    def take(self, positions: Any) -> Any:
        if self._torch is not None:
            positions = dense(positions).numpy()
        elif np.ma.is_masked(positions):
            raise UserError("positions take an array without masked numbers: leave them out")
        return self.view(np.ascontiguousarray(checked(np.asarray(positions))))

    def view(self, array: Any) -> Any:
        host, device = np.asarray(array), self.device
        over = device.over(host) if host.size else device.empty(host.shape, host.dtype)
        over.owner = host
        return over

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        with self.device.memory_errors(shape, dtype):
            host = np.empty(shape, dtype)  # pages are committed only when written
            if host.nbytes > LARGE and host.nbytes > (allowed := allowed_bytes()):
                raise OutOfMemory(
                    f"{host.nbytes / 2**30:.2f} GiB for one array are more than the"
                    f" {allowed / 2**30:.2f} GiB that this process may take"
                )
            return self.view(host)

    def give(self, array: Any) -> Any:
        host = array.owner
        if host.size:
            self.device.complete(array, host)
        return host if self._torch is None else self._torch.from_numpy(host)

    def array(self, value: Any, dtype: str | None = None) -> Any:
        return np.ascontiguousarray(value, dtype)

    def sorted(self, array: Any) -> Any:
        if (host := array.owner).size:
            self.device.complete(array, host)
            host.sort()
        return self.view(host)

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Return a context that waits on exit for everything queued in it.

        Host memory has no stream: without the wait, the user could free or change arrays in use.
        """
        try:
            yield
        finally:
            self.device.synchronize()


class CudaArrays(Arrays):
    """CuPy or PyTorch arrays on an NVIDIA GPU; that library also allocates the search's buffers."""

    device: CuPyDevice
    gives_once = True

    def __init__(self, number: int, stream: Callable[[], int], too_large: type[Exception]) -> None:
        self.device, self.lock = CuPyDevice(number, self._allocate, stream), threading.RLock()
        self._too_large = too_large

    @abstractmethod
    def block(self, size: int) -> tuple[Any, int]:
        """Allocate an array of `size` bytes; return it and its address."""

    def _allocate(self, size: int) -> tuple[Any, int]:
        if size > self.device.memory_bytes:
            raise OutOfMemory(f"{size / 2**30:.2f} GiB are more than {self.device.name} has")
        try:
            return self.block(size)
        except self._too_large as error:
            what = str(error).partition("\n")[0]
            raise OutOfMemory(f"{self.device.name} has too little memory left: {what}") from None

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> BorrowedArray:
        return self.device.empty(shape, dtype)

    def empty_each(self, layout: Layout) -> list[Any]:
        """Allocate all arrays of a result in one block, since each allocation takes time."""
        block, address = self._allocate(layout.bytes)
        return [
            BorrowedArray(address + at, shape, dtype, block, at)
            for at, shape, dtype in layout.places
        ]

    def sorted(self, array: BorrowedArray) -> BorrowedArray:
        found = self.library.sort(self.give(array))
        view: BorrowedArray = self.view(getattr(found, "values", found))  # of PyTorch, a tuple
        return view

    def on_stream(self) -> AbstractContextManager[Any]:
        return NOTHING if self.device.is_current else self.device.made_current()


class CuPyArrays(CudaArrays):
    """CuPy arrays, and others that CuPy can wrap without a copy."""

    def __init__(self, number: int) -> None:
        self.library = cupy = import_cupy()
        self.given = cupy.ndarray
        current = cupy.cuda.get_current_stream
        super().__init__(number, lambda: current().ptr, cupy.cuda.memory.OutOfMemoryError)

    def block(self, size: int) -> tuple[Any, int]:
        block = self.library.empty(size, np.uint8)
        return block, block.data.ptr

    def take(self, positions: Any) -> BorrowedArray:
        array, cupy = positions, self.library
        if type(array) is not cupy.ndarray:
            has_dlpack = hasattr(array, "__dlpack__")
            array = cupy.from_dlpack(array) if has_dlpack else cupy.asarray(array)
        if not checked(array).flags.c_contiguous:
            array = cupy.ascontiguousarray(array)
        return self.view(array)

    def array(self, value: Any, dtype: str | None = None) -> Any:
        return self.library.ascontiguousarray(self.library.asarray(value), dtype)

    def view(self, array: Any) -> BorrowedArray:
        return BorrowedArray(array.data.ptr, array.shape, array.dtype, array)

    def give(self, array: BorrowedArray) -> Any:
        return self.library.ndarray(array.shape, array.dtype, array.owner.data + array.at)


class TorchArrays(CudaArrays):
    """PyTorch tensors."""

    def __init__(self, number: int) -> None:
        self.library = torch = sys.modules["torch"]
        self.given = torch.Tensor
        # Template for `new_empty`, which is faster than torch.empty with a type and a device.
        self._like = torch.empty(0, dtype=torch.uint8, device=torch.device("cuda", number))
        names = ("float32", "float64", "int32", "int64")
        self._types = {getattr(torch, name): np.dtype(name) for name in names}
        self._torch_types = {of_numpy: of_torch for of_torch, of_numpy in self._types.items()}
        # Same as torch.cuda.current_stream().cuda_stream, but creates no Stream object per call.
        stream = partial(torch._C._cuda_getCurrentRawStream, number)
        super().__init__(number, stream, torch.OutOfMemoryError)

    def block(self, size: int) -> tuple[Any, int]:
        block = self._like.new_empty(size)
        return block, block.data_ptr()

    def take(self, positions: Any) -> BorrowedArray:
        view: BorrowedArray = checked(self.view(dense(positions).contiguous()))
        return view

    def array(self, value: Any, dtype: str | None = None) -> Any:
        of_torch = None if dtype is None else self._torch_types[np.dtype(dtype)]
        device = self._like.device
        return self.library.as_tensor(value, dtype=of_torch, device=device).contiguous()

    def view(self, array: Any) -> BorrowedArray:
        dtype = self._types.get(array.dtype, array.dtype)
        return BorrowedArray(array.data_ptr(), array.shape, dtype, array)

    def give(self, array: BorrowedArray) -> Any:
        flat = array.owner[array.at : array.at + array.nbytes].view(self._torch_types[array.dtype])
        return flat if len(array.shape) == 1 else flat.view(array.shape)


def checked(array: Any) -> Any:
    """Return positions unchanged; raise UserError for a wrong shape or type."""
    if len(array.shape) != 2 or array.shape[1] not in (3, 4):
        raise UserError(f"positions take the shape (n, 3) or (n, 4), not {tuple(array.shape)}")
    if array.dtype not in TYPES:
        raise UserError(f"positions take float32 or float64, not {array.dtype}")
    if array.shape[0] >= 2**31:
        raise UserError(f"positions take less than 2^31 particles, not {array.shape[0]}")
    return array


def dense(tensor: Any) -> Any:
    """Return a tensor detached from autograd; raise UserError if it is not float or not dense."""
    if (kind := str(tensor.dtype).removeprefix("torch.")) not in FLOATS:
        raise UserError(f"positions take float32 or float64, not {kind}")
    try:
        lies_in_memory = not math.prod(tensor.shape) or bool(tensor.data_ptr())
    except RuntimeError:  # raised by sparse and nested tensors, and inside torch.func transforms
        lies_in_memory = False
    if not lies_in_memory:
        raise UserError(
            "positions take tensors that lie in memory: not sparse or nested ones, nor those of"
            " torch.func"
        )
    tensor = tensor.detach() if tensor.requires_grad else tensor
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def is_writable(array: Any) -> bool:
    """Whether a NumPy, CuPy or PyTorch array is contiguous and writable."""
    if not hasattr(array, "flags"):
        return bool(array.is_contiguous())
    return bool(array.flags.c_contiguous and getattr(array.flags, "writeable", True))


def uncompiled(function: Function) -> Function:
    """Exclude a function, and everything it calls, from torch.compile."""
    disabled: list[Any] = []

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        dynamo = sys.modules.get("torch._dynamo")  # slow to import; loaded if torch.compile is used
        if dynamo is None:
            return function(*arguments, **named)
        if not disabled:
            disabled.append(dynamo.disable(function))
        return disabled[0](*arguments, **named)

    return cast(Function, call)


def arrays_of(positions: Any) -> Arrays:
    """Return the `Arrays` for the kind and device of the user's array."""
    if isinstance(positions, np.ndarray):
        return on_host(False)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(positions, torch.Tensor):
        if positions.is_cuda:
            return on_cuda(positions.get_device(), True)
        if positions.is_cpu:
            return on_host(True)
        raise UserError(f"{KINDS}; this tensor is on another device: {positions.device.type}")
    if hasattr(positions, "__dlpack_device__"):
        kind, number = map(int, positions.__dlpack_device__())
        if kind == HOST:
            return on_host(False)
        if kind in (CUDA, CUDA_MANAGED):
            return on_cuda(number, False)
        raise UserError(f"{KINDS}; this one is on another device (DLPack type {kind})")
    if hasattr(positions, "__cuda_array_interface__"):
        return on_cuda(int(import_cupy().asarray(positions).device.id), False)
    raise UserError(f"{KINDS}, not {type(positions).__name__}")


@cache
def on_cuda(number: int, in_torch: bool) -> CudaArrays:
    """Return the `Arrays` of an NVIDIA GPU; one per process for CuPy, one for PyTorch."""
    return TorchArrays(number) if in_torch else CuPyArrays(number)


@cache
def on_host(in_torch: bool) -> HostArrays:
    """Return the `Arrays` of host memory, for PyTorch or for NumPy and others."""
    return HostArrays(sys.modules["torch"] if in_torch else None)


@cache
def _cpu() -> tuple[Any, threading.RLock]:
    """Open the first CPU, once per process."""
    from gpubench.devices import opencl  # slow to import

    return opencl.open_cpu(), threading.RLock()
