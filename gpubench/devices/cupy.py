"""CUDA through CuPy alone: kernels compiled by NVRTC, on the caller's current stream.

It needs CuPy's wheels from pip, no nvcc, no C++ compiler and no PyCUDA. `devices/cuda.py` is what
measures; this is for arrays that the user's own code holds.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import itertools
import math
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpubench.core import install
from gpubench.core.errors import DeviceUnavailable, NotSupported, OutOfMemory
from gpubench.core.paths import kernel_folder
from gpubench.core.user_cache import keep, usable_cache
from gpubench.devices.base import Device, Kernel, scalar

INSTALL = f"{install.hint('neighbours-cuda13')} (or [neighbours-cuda12], to match `nvidia-smi`)"


# How `struct` packs a scalar of each of NumPy's types into 64 bits.
WORDS = {"i": "i4x", "I": "I4x", "f": "f4x", "d": "d", "l": "q", "q": "q", "L": "Q", "Q": "Q"}


@cache
def import_cupy() -> Any:
    """Import CuPy, or raise DeviceUnavailable with what to install."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceUnavailable(f"CuPy is missing ({error}): {INSTALL}") from None


class CuPyDevice(Device):
    """One NVIDIA GPU, by its number; all work goes to CuPy's current stream."""

    backend = "cuda"
    is_cpu = False
    features = frozenset({"cuda", "graphs"})

    def __init__(self, number: int) -> None:
        self.cupy = cupy = import_cupy()
        self.number = number
        self.spec = f"cuda:{number}"
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        self.compute_units = properties["multiProcessorCount"]
        self.cache_bytes = properties["l2CacheSize"]
        self.memory_bytes = properties["totalGlobalMem"]
        self.architecture = f"sm_{properties['major']}{properties['minor']}"
        self._modules: dict[tuple[str, tuple[tuple[str, Any], ...]], Any] = {}
        self.queue: Any = cupy.cuda.driver.launchKernel
        self.current_stream: Any = cupy.cuda.get_current_stream
        self.noted: list[Noted] | None = None
        """While `replay_of` calls its work: the launches so far, which are not queued."""

    def _require_live(self) -> None:
        """Raise Unrecordable where launches are noted, since this is none."""
        if self.noted is not None:
            raise Unrecordable

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        self._require_live()
        try:
            return self.cupy.empty(shape, np.dtype(dtype))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemory(f"{self.name} has too little memory left: {error}") from None

    def write(self, array: Any, host: NDArray[Any]) -> None:
        self._require_live()
        if host.size:
            array.set(np.ascontiguousarray(host))
            self.synchronize()  # the host array may be gone after this

    def download(self, array: Any) -> NDArray[Any]:
        self._require_live()
        if type(array) is not View and not array.flags.c_contiguous:
            array = self.cupy.ascontiguousarray(array)
        runtime, stream = self.cupy.cuda.runtime, self.current_stream().ptr
        host = np.empty(array.shape, array.dtype)
        address, _ = host.__array_interface__["data"]
        to_host = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(address, array.data.ptr, host.nbytes, to_host, stream)
        runtime.streamSynchronize(stream)
        return host

    def fill(self, array: Any, byte: int) -> None:
        self._require_live()
        if array.size:
            array.data.memset_async(byte, array.nbytes)

    def copy(self, source: Any, target: Any) -> None:
        self._require_live()
        if source.size:
            runtime, stream = self.cupy.cuda.runtime, self.current_stream().ptr
            within = runtime.memcpyDeviceToDevice
            runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, within, stream)

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        key = file, tuple(sorted(constants.items()))
        if key not in self._modules:
            self._modules[key] = self._module(file, [f"-D{k}={v}" for k, v in key[1]])
        return Launch(self, self._modules[key].get_function(name))

    def replay_of(self, work: Callable[..., None], arrays: int) -> Replay | None:
        """Return the launches of `work`, to be queued again and again; None if it does more.

        work: is called, but queues nothing; it takes so many arrays, which a replay is given. The
            launches must be the same each time.
        """
        slots = [Slot(number) for number in range(arrays)]
        noted: list[list[Noted]] = []
        try:
            for _ in range(2):
                self.noted = []
                noted.append(self.noted)
                work(*slots)
        except Unrecordable:
            return None
        finally:
            self.noted = None
        words = [[launch.packed(arguments) for launch, _, _, arguments in each] for each in noted]
        return Replay(self, noted[0], slots) if words[0] == words[1] else None

    def _module(self, file: str, defines: list[str]) -> Any:
        """Load a file of kernels: from the user's cache folder if it is there, or compiled."""
        source = f'extern "C" {{\n#include "prelude/cuda.h"\n#include "{file}"\n}}\n'
        version = self.cupy.cuda.nvrtc.getVersion()
        key = repr((source, defines, self.architecture, version, _sources(kernel_folder())))
        name = f"{Path(file).stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.nvrtc.cubin"
        kept = usable_cache()
        if kept is not None and (kept / name).exists():
            return self.cupy.RawModule(path=str(kept / name))
        code = compile_to_cubin(self.cupy.cuda.nvrtc, source, defines, self.architecture)
        if kept is not None:
            keep(kept / name, code)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(code)
            module = self.cupy.RawModule(path=str(path))
            module.compile()  # reads the file now: it is gone after this
            return module

    def library(self, file: str, **constants: int | str) -> Any:
        """Host templates need nvcc, which this device does without: always NotSupported."""
        raise NotSupported(f"{file} needs nvcc to compile, and `gpubench` on CuPy alone has none")

    def record(self) -> Any:
        event = self.cupy.cuda.Event()
        event.record()
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, end))

    def synchronize(self) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def environment(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "spec": self.spec,
            "name": self.name,
            "is_cpu": False,
            "driver": self.cupy.cuda.runtime.driverGetVersion(),
        }

    def state(self) -> Mapping[str, Any] | None:  # type: ignore[override]  # nothing is read
        return None

    def close(self) -> None:
        self._modules.clear()


class Unrecordable(Exception):
    """Something other than a launch was asked for while launches were noted."""


class Slot:
    """Stands for an array, in launches that are noted, whose address and length come later."""

    def __init__(self, number: int) -> None:
        # Neither is an address or a length of anything.
        self.address, length = (0x5EED << 48) + number, (1 << 61) + number
        self.shape = (length,)
        self.size = self.nbytes = length


class View:
    """An array that something else holds, for kernels and copies, without CuPy's array over it.

    owner: what holds the memory. at: its first byte there; None where it is all of the owner.
    """

    __slots__ = ("at", "dtype", "owner", "ptr", "shape")

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: Any,
        at: int | None = None,
    ) -> None:
        self.ptr, self.shape, self.dtype, self.owner, self.at = address, shape, dtype, owner, at

    @property
    def size(self) -> int:
        """The number of items."""
        return math.prod(self.shape)

    @property
    def data(self) -> View:
        """Itself, which has an address as CuPy's memory does."""
        return self

    @property
    def nbytes(self) -> int:
        """The bytes of all items."""
        return self.size * self.dtype.itemsize


class Launch:
    """Launches of one kernel, without what CuPy does anew for each.

    Arguments are packed into memory of its own, from which the driver copies them: a word of 64
    bits for each, whose type is that of the first launch. Not for several threads at once.
    """

    def __init__(self, device: CuPyDevice, kernel: Any) -> None:
        self._device, self._kernel, self._arrays = device, kernel, (device.cupy.ndarray, View)
        self._pack: Any = None
        self._values: list[Any] = []

    def _lay_out(self, arguments: Sequence[Any]) -> None:
        self.function = self._kernel.kernel.ptr
        words = [
            "Q" if type(each) in (*self._arrays, Slot) else WORDS[np.dtype(type(scalar(each))).char]
            for each in arguments
        ]
        self._words = ctypes.create_string_buffer(8 * len(words))
        begin = ctypes.addressof(self._words)
        self._pointers = (ctypes.c_uint64 * len(words))(*range(begin, begin + 8 * len(words), 8))
        self._address = ctypes.addressof(self._pointers)
        self._pack = struct.Struct("<" + "".join(words)).pack_into

    def _packed_of(self, arguments: Sequence[Any]) -> list[Any]:
        """Return what is packed of each argument; see `Kernel` for what these are."""
        arrays = self._arrays
        return [each.data.ptr if type(each) in arrays else each for each in arguments]

    def packed(self, arguments: Sequence[Any]) -> list[int]:
        """Return the words of a launch; those of slots are their addresses and lengths."""
        if self._pack is None:
            self._lay_out(arguments)
        given = [each.address if type(each) is Slot else each for each in arguments]
        words = (ctypes.c_uint64 * len(given))()
        self._pack(words, 0, *self._packed_of(given))
        return list(words)

    def __call__(self, blocks: int, threads: int, *arguments: Any) -> None:
        """Queue a launch on the current stream; see `Kernel`."""
        device = self._device
        if device.noted is not None:
            device.noted.append((self, blocks, threads, arguments))
            return
        if self._pack is None:
            self._lay_out(arguments)
        values = self._packed_of(arguments)
        if values != self._values:
            self._pack(self._words, 0, *values)
            self._values = values
        stream = device.current_stream().ptr
        device.queue(self.function, blocks, 1, 1, threads, 1, 1, 0, stream, self._address, 0)


Noted = tuple[Launch, int, int, tuple[Any, ...]]  # a launch, its blocks and threads, its arguments


class Replay:
    """Launches that were noted once, queued with other arrays in the places of the slots.

    The driver reads each argument through a pointer, so all arguments that are one array share
    one word: a replay packs a word for each slot, and for the length of each slot that is read.
    """

    def __init__(self, device: CuPyDevice, noted: Sequence[Noted], slots: Sequence[Slot]) -> None:
        self._device = device
        given = [word for launch, _, _, arguments in noted for word in launch.packed(arguments)]
        self._measured = [number for number, slot in enumerate(slots) if slot.size in given]
        shared = [slot.address for slot in slots] + [slots[at].size for at in self._measured]
        words = [*shared, *(word for word in given if word not in shared)]
        self._words = (ctypes.c_uint64 * len(words))(*words)
        begin, fixed = ctypes.addressof(self._words), itertools.count(len(shared))
        places = [shared.index(word) if word in shared else next(fixed) for word in given]
        self._pointers = (ctypes.c_uint64 * len(given))(*(begin + 8 * place for place in places))
        self._pack = struct.Struct(f"<{len(shared)}Q").pack_into
        self._queued, address = [], ctypes.addressof(self._pointers)
        for launch, blocks, threads, arguments in noted:
            self._queued.append((launch.function, blocks, threads, address))
            address += 8 * len(arguments)

    def __call__(self, *arrays: Any) -> None:
        """Queue all launches on the current stream, with these arrays."""
        lengths = [arrays[number].size for number in self._measured]
        self._pack(self._words, 0, *[array.data.ptr for array in arrays], *lengths)
        queue, stream = self._device.queue, self._device.current_stream().ptr
        for function, blocks, threads, address in self._queued:
            queue(function, blocks, 1, 1, threads, 1, 1, 0, stream, address, 0)


def compile_to_cubin(nvrtc: Any, source: str, defines: list[str], architecture: str) -> bytes:
    """Compile kernels with NVRTC, given as CuPy's bindings, to machine code.

    Raises RuntimeError with the compiler's messages.
    """
    program = nvrtc.createProgram(source, "gpubench.cu", (), ())
    options = (f"-arch={architecture}", f"-I{kernel_folder()}", "--std=c++17", *defines)
    try:
        nvrtc.compileProgram(program, options)
        code: bytes = nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}:\n{nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)
    return code


@cache
def _sources(folder: Path) -> str:
    """Return a hash over all sources that a kernel can include."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".cu", ".cuh", ".h"):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
