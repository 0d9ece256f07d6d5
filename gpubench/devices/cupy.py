"""CUDA through CuPy alone: kernels compiled by NVRTC, on the caller's current stream.

It needs CuPy's wheels from pip, no nvcc, no C++ compiler and no PyCUDA. `devices/cuda.py` is what
measures; this is for arrays that the user's own code holds.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import struct
import tempfile
from collections.abc import Mapping, Sequence
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

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        try:
            return self.cupy.empty(shape, np.dtype(dtype))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemory(f"{self.name} has too little memory left: {error}") from None

    def write(self, array: Any, host: NDArray[Any]) -> None:
        if host.size:
            array.set(np.ascontiguousarray(host))
            self.synchronize()  # the host array may be gone after this

    def download(self, array: Any) -> NDArray[Any]:
        if array.size == 0 or not array.flags.c_contiguous:
            given: NDArray[Any] = array.get()
            return given
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream().ptr
        host = np.empty(array.shape, array.dtype)
        address, _ = host.__array_interface__["data"]
        runtime.memcpyAsync(
            address, array.data.ptr, host.nbytes, runtime.memcpyDeviceToHost, stream
        )
        runtime.streamSynchronize(stream)
        return host

    def fill(self, array: Any, byte: int) -> None:
        if array.size:
            array.data.memset_async(byte, array.nbytes)

    def copy(self, source: Any, target: Any) -> None:
        if source.size:
            target.data.copy_from_device_async(source.data, source.nbytes)

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        key = file, tuple(sorted(constants.items()))
        if key not in self._modules:
            self._modules[key] = self._module(file, [f"-D{k}={v}" for k, v in key[1]])
        return Launch(self.cupy, self._modules[key].get_function(name))

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


class Launch:
    """Launches of one kernel, without what CuPy does anew for each.

    Arguments are packed into memory of its own, from which the driver copies them: a word of 64
    bits for each, whose type is that of the first launch. Not for several threads at once.
    """

    def __init__(self, cupy: Any, kernel: Any) -> None:
        self._kernel, self._array = kernel, cupy.ndarray
        self._queue, self._stream = cupy.cuda.driver.launchKernel, cupy.cuda.get_current_stream
        self._pack: Any = None
        self._values: list[Any] = []

    def _lay_out(self, arguments: Sequence[Any]) -> None:
        self._function = self._kernel.kernel.ptr
        arrays = [type(each) is self._array for each in arguments]
        words = [
            "Q" if is_array else WORDS[np.dtype(type(scalar(each))).char]
            for each, is_array in zip(arguments, arrays, strict=True)
        ]
        number = len(words)
        self._words = ctypes.create_string_buffer(8 * number)
        begin = ctypes.addressof(self._words)
        self._pointers = (ctypes.c_uint64 * number)(*range(begin, begin + 8 * number, 8))
        self._address = ctypes.addressof(self._pointers)
        self._pack = struct.Struct("<" + "".join(words)).pack_into

    def __call__(self, blocks: int, threads: int, *arguments: Any) -> None:
        """Queue a launch on the current stream; see `Kernel`."""
        if self._pack is None:
            self._lay_out(arguments)
        array = self._array
        values = [each.data.ptr if type(each) is array else each for each in arguments]
        if values != self._values:
            self._pack(self._words, 0, *values)
            self._values = values
        self._queue(
            self._function, blocks, 1, 1, threads, 1, 1, 0, self._stream().ptr, self._address, 0
        )


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
