"""CUDA through CuPy's bindings, with NVRTC, and with the caller's memory allocator and stream.

Used for the arrays of user code; measurements use `devices/cuda.py`. Needs CuPy's wheels from pip,
but no nvcc, no C++ compiler and no PyCUDA. The package `cupy` itself is imported only for CuPy
arrays, since its import dominates the time of a first call.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpubench.base import install
from gpubench.base.errors import DeviceUnavailable
from gpubench.base.paths import kernel_folder
from gpubench.base.user_cache import machine_code, sources_digest
from gpubench.devices.base import Device, Kernel, scalar

INSTALL = f"{install.hint('neighbours-cuda13')} (or [neighbours-cuda12], to match `nvidia-smi`)"
BINDINGS = "cupy_backends.cuda"
MOST_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STATUS_BYTES = 256  # mapped host memory that kernels write to; see `Device.status`

# For each NumPy type code, the `struct` format that packs a scalar of that type into 64 bits.
WORDS = {"i": "i4x", "I": "I4x", "f": "f4x", "d": "d", "l": "q", "q": "q", "L": "Q", "Q": "Q"}

_sources = cache(sources_digest)  # sources are read once per process


def import_cupy(module: str = "cupy") -> Any:
    """Import CuPy or another module of its wheels; DeviceUnavailable if CuPy is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DeviceUnavailable(f"CuPy is missing ({error}): {INSTALL}") from None


class CuPyDevice(Device):
    """One NVIDIA GPU, by its number; its arrays are BorrowedArrays.

    allocate: allocates a number of bytes on the device; returns the owner and the address.
    stream: returns the handle of the caller's current CUDA stream, where all work is queued.
    """

    backend = "cuda"
    is_cpu = False
    features = frozenset({"cuda", "graphs"})

    def __init__(
        self, number: int, allocate: Callable[[int], tuple[Any, int]], stream: Callable[[], int]
    ) -> None:
        self._driver = import_cupy(f"{BINDINGS}.api.driver")
        self._runtime = runtime = import_cupy(f"{BINDINGS}.api.runtime")
        if number >= runtime.getDeviceCount():
            raise DeviceUnavailable(f"there is no cuda:{number}")
        self.number, self._allocate, self.stream = number, allocate, stream
        self.spec = f"cuda:{number}"
        properties = runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        self.compute_units = properties["multiProcessorCount"]
        self.cache_bytes = properties["l2CacheSize"]
        self.memory_bytes = properties["totalGlobalMem"]
        self.shared_bytes = properties["sharedMemPerBlockOptin"]
        self.architecture = f"sm_{properties['major']}{properties['minor']}"
        self._modules: dict[tuple[str, tuple[tuple[str, Any], ...]], int] = {}
        self.queue: Any = self._driver.launchKernel
        self.noted: list[Noted] | None = None
        """While `replayed` is recording, the launches recorded so far; else None."""
        with self.made_current():
            self._context = self._driver.ctxGetCurrent()
            address = runtime.hostAlloc(STATUS_BYTES, runtime.hostAllocMapped)
        memory = (ctypes.c_int64 * (STATUS_BYTES // 8)).from_address(address)
        self._status = address, np.ctypeslib.as_array(memory)  # never freed

    @property
    def is_current(self) -> bool:
        """Whether this GPU is current in this thread."""
        return bool(self._driver.ctxGetCurrent() == self._context)

    @contextmanager
    def made_current(self) -> Iterator[None]:
        """Return a context in which this GPU is current in this thread."""
        before = self._runtime.getDevice()
        self._runtime.setDevice(self.number)
        try:
            yield
        finally:
            self._runtime.setDevice(before)

    def _require_live(self) -> None:
        """Raise Unrecordable during a recording; called by operations other than launches."""
        if self.noted is not None:
            raise Unrecordable

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> BorrowedArray:
        self._require_live()
        shape, dtype = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
        owner, address = self._allocate(math.prod(shape) * dtype.itemsize)
        return BorrowedArray(address, shape, dtype, owner)

    def status(self, items: int) -> BorrowedArray:
        address, host = self._status
        return BorrowedArray(address, (items,), np.dtype(np.int64), host[:items])

    def _copy(self, target: int, source: int, size: int, kind: str) -> int:
        """Queue a copy between two addresses; return the stream."""
        self._require_live()
        stream = self.stream()
        if size:
            kind_of_copy = getattr(self._runtime, f"memcpy{kind}")
            self._runtime.memcpyAsync(target, source, size, kind_of_copy, stream)
        return stream

    def write(self, array: BorrowedArray, host: NDArray[Any]) -> None:
        host = np.ascontiguousarray(host)
        stream = self._copy(array.ptr, host.ctypes.data, host.nbytes, "HostToDevice")
        self._runtime.streamSynchronize(stream)  # the caller may free the host array

    def download(self, array: BorrowedArray) -> NDArray[Any]:
        self._require_live()
        if isinstance(array.owner, np.ndarray):  # returned by `status`
            self.synchronize()
            return array.owner.copy()
        host = np.empty(array.shape, array.dtype)
        stream = self._copy(host.ctypes.data, array.ptr, host.nbytes, "DeviceToHost")
        self._runtime.streamSynchronize(stream)
        return host

    def fill(self, array: BorrowedArray, byte: int) -> None:
        self._require_live()
        if isinstance(array.owner, np.ndarray):  # returned by `status`
            array.owner.view(np.uint8)[:] = byte
        elif array.size:
            self._runtime.memsetAsync(array.ptr, byte, array.nbytes, self.stream())

    def copy(self, source: BorrowedArray, target: BorrowedArray) -> None:
        self._copy(target.ptr, source.ptr, source.nbytes, "DeviceToDevice")

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        key = file, tuple(sorted(constants.items()))
        if key not in self._modules:
            code = self._code(file, [f"-D{k}={v}" for k, v in key[1]])
            self._modules[key] = self._driver.moduleLoadData(code)
        function = self._driver.moduleGetFunction(self._modules[key], name)
        shared = int(constants.get("SHARED_BYTES", 0))
        if shared:
            self._driver.funcSetAttribute(function, MOST_SHARED_BYTES, shared)
        return Launch(self, function, shared)

    def replayed(self, work: Callable[..., None], arrays: int) -> Callable[..., None]:
        # Placeholders, recognised by addresses and lengths that no real array has.
        slots = [
            BorrowedArray((0x5EED << 48) + number, ((1 << 61) + number,), np.dtype(np.uint8), None)
            for number in range(arrays)
        ]
        noted: list[list[Noted]] = []
        try:
            for _ in range(2):
                self.noted = []
                noted.append(self.noted)
                work(*slots)
        except Unrecordable:
            return work
        finally:
            self.noted = None
        words = [[launch.packed(arguments) for launch, _, _, arguments in each] for each in noted]
        return Replay(self, noted[0], slots) if words[0] == words[1] else work

    def _code(self, file: str, defines: list[str]) -> bytes:
        """Return the machine code of a kernel file: from the user's cache folder, or compiled."""
        source = f'extern "C" {{\n#include "prelude/cuda.h"\n#include "{file}"\n}}\n'
        # Use CuPy's CUDA version: querying NVRTC takes longer than reading the cache.
        version = self._runtime.runtimeGetVersion()
        what = source, defines, self.architecture, version, _sources((kernel_folder(),))
        return machine_code(file, what, lambda: self._compiled(source, defines))

    def _compiled(self, source: str, defines: list[str]) -> bytes:
        """Compile kernels with NVRTC; raises RuntimeError with the compiler's messages."""
        nvrtc = import_cupy(f"{BINDINGS}.libs.nvrtc")
        program = nvrtc.createProgram(source, "gpubench.cu", (), ())
        options = (f"-arch={self.architecture}", f"-I{kernel_folder()}", "--std=c++17", *defines)
        try:
            nvrtc.compileProgram(program, options)
            code: bytes = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            raise RuntimeError(f"{error}:\n{nvrtc.getProgramLog(program)}") from None
        finally:
            nvrtc.destroyProgram(program)
        return code

    def synchronize(self) -> None:
        self._runtime.streamSynchronize(self.stream())


class Unrecordable(Exception):
    """Something other than a launch was requested while launches were being recorded."""


class BorrowedArray:
    """An array in memory that belongs to `owner`, at byte offset `at` in it."""

    __slots__ = ("at", "dtype", "owner", "ptr", "shape")

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any, at: int = 0
    ) -> None:
        self.ptr, self.shape, self.dtype, self.owner, self.at = address, shape, dtype, owner, at

    @property
    def size(self) -> int:
        """The number of items."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all items in bytes."""
        return self.size * self.dtype.itemsize


class Launch:
    """A kernel, as a function that launches it.

    Arguments are packed into a buffer, one 64-bit word each; the driver copies it in each launch.
    The first launch fixes the argument types. Not thread-safe.
    """

    def __init__(self, device: CuPyDevice, function: int, shared: int = 0) -> None:
        self._device, self.function, self.shared = device, function, shared
        self._pack: Any = None

    def packed(self, arguments: Sequence[Any]) -> list[int]:
        """Pack the arguments of a launch, and return the words; see `Kernel` for their types."""
        if self._pack is None:
            words = [
                "Q" if type(each) is BorrowedArray else WORDS[np.dtype(type(scalar(each))).char]
                for each in arguments
            ]
            self._words = (ctypes.c_uint64 * len(words))()
            begin = ctypes.addressof(self._words)
            places = range(begin, begin + 8 * len(words), 8)
            self._pointers = (ctypes.c_uint64 * len(words))(*places)
            self._pack = struct.Struct("<" + "".join(words)).pack_into
        values = [each.ptr if type(each) is BorrowedArray else each for each in arguments]
        self._pack(self._words, 0, *values)
        return list(self._words)

    def __call__(self, blocks: int, threads: int, *arguments: Any) -> None:
        """Queue a launch on the current stream; see `Kernel`."""
        device = self._device
        if device.noted is not None:
            device.noted.append((self, blocks, threads, arguments))
            return
        self.packed(arguments)
        address, stream = ctypes.addressof(self._pointers), device.stream()
        device.queue(self.function, blocks, 1, 1, threads, 1, 1, self.shared, stream, address, 0)


Noted = tuple[Launch, int, int, tuple[Any, ...]]  # a launch, its blocks and threads, its arguments


class Replay:
    """Launches recorded once with placeholder arrays (slots), and replayed with real arrays.

    The driver reads each argument through a pointer. So all arguments that are the same array share
    one word, and a replay writes only one word per slot, and one per slot length that kernels take.
    """

    def __init__(
        self, device: CuPyDevice, noted: Sequence[Noted], slots: Sequence[BorrowedArray]
    ) -> None:
        self._device = device
        self._noted = noted  # keeps the arrays in the arguments alive
        given = [word for launch, _, _, arguments in noted for word in launch.packed(arguments)]
        self._measured = [number for number, slot in enumerate(slots) if slot.size in given]
        shared = [slot.ptr for slot in slots] + [slots[at].size for at in self._measured]
        words = [*shared, *(word for word in given if word not in shared)]
        self._words = (ctypes.c_uint64 * len(words))(*words)
        begin, fixed = ctypes.addressof(self._words), itertools.count(len(shared))
        places = [shared.index(word) if word in shared else next(fixed) for word in given]
        self._pointers = (ctypes.c_uint64 * len(given))(*(begin + 8 * place for place in places))
        self._pack = struct.Struct(f"<{len(shared)}Q").pack_into
        self._queued, address = [], ctypes.addressof(self._pointers)
        for launch, blocks, threads, arguments in noted:
            self._queued.append((launch.function, blocks, threads, launch.shared, address))
            address += 8 * len(arguments)

    def __call__(self, *arrays: BorrowedArray) -> None:
        """Queue all launches on the current stream, with these arrays."""
        lengths = [arrays[number].size for number in self._measured]
        self._pack(self._words, 0, *[array.ptr for array in arrays], *lengths)
        queue, stream = self._device.queue, self._device.stream()
        for function, blocks, threads, shared, address in self._queued:
            queue(function, blocks, 1, 1, threads, 1, 1, shared, stream, address, 0)
