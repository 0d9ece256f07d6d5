"""OpenCL through PyOpenCL: CPUs, and GPUs of any vendor."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpubench.base import install
from gpubench.base.errors import CompileError, DeviceUnavailable, OutOfMemory
from gpubench.base.plugins import kernel_folders
from gpubench.base.user_cache import keep, usable_cache
from gpubench.devices.base import Device, DeviceReport, Kernel, scalar
from gpubench.devices.program_cache import ProgramCache, mend_databases

INSTALL = install.hint("cpu")
_Unit = tuple[str, tuple[tuple[str, Any], ...]]  # a kernel file and its constants
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")

# Common short names of platforms.
ALIASES = {
    "amd-accelerated-parallel-processing": "amd",
    "intel-r-opencl": "intel",
    "nvidia-cuda": "nvidia",
    "portable-computing-language": "pocl",
}


@cache
def _opencl() -> Any:
    """Import PyOpenCL, and make the loader find the CPU runtime installed by pip.

    The `.icd` file of intel-opencl-rt does not contain the library's real path. So OCL_ICD_VENDORS,
    unless set by the user, is set to a folder with a corrected `.icd` file and copies of those of
    the system; or to the library itself, if no folder is writable.
    """
    folder = usable_cache()  # sets variables that PyOpenCL reads during its import
    if "OCL_ICD_VENDORS" not in os.environ and (library := _pip_runtime()) is not None:
        runtimes = {"pip-intel.icd": f"{library}\n".encode()}
        runtimes |= {icd.name: icd.read_bytes() for icd in sorted(SYSTEM_VENDORS.glob("*.icd"))}
        vendors = None if folder is None else _vendors(folder, runtimes)
        os.environ["OCL_ICD_VENDORS"] = str(vendors or library)
    if folder is not None:
        mend_databases()
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceUnavailable(f"PyOpenCL is missing ({error}): {INSTALL}") from None
    return pyopencl


def _vendors(cache_folder: Path, runtimes: Mapping[str, bytes]) -> Path | None:
    """Return a folder with the files `runtimes` (name to content); None if it is not writable.

    All processes share the folder: its name is a hash of its content, and it is never removed.
    """
    digest = hashlib.sha256(repr(sorted(runtimes.items())).encode()).hexdigest()
    folder = cache_folder / f"opencl-vendors-{digest[:16]}"
    if folder.is_file():
        folder.unlink()
    are_kept = [keep(folder / name, content) for name, content in runtimes.items()]
    return folder if all(are_kept) else None


def _pip_runtime() -> Path | None:
    """Return the OpenCL library of the pip package intel-opencl-rt, if it is installed."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    libraries = [Path(str(f.locate())).resolve() for f in files if f.name == "libintelocl.so"]
    return libraries[0] if libraries and libraries[0].exists() else None


def _devices() -> list[Any]:
    """Return all OpenCL devices: GPUs first, otherwise in the loader's order."""
    cl = _opencl()
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:
        platforms = []  # the loader raises this error if no runtime is installed
    found = [device for platform in platforms for device in platform.get_devices()]
    return sorted(found, key=lambda device: not device.type & cl.device_type.GPU)


def survey() -> list[DeviceReport]:
    """Return this machine's OpenCL devices, or one entry with the reason why there is none."""
    try:
        devices = _devices()
    except DeviceUnavailable as error:
        return [DeviceReport("opencl", "opencl", None, False, str(error))]
    if not devices:
        reason = f"no OpenCL runtime is installed: {INSTALL}, or your GPU maker's OpenCL driver"
        return [DeviceReport("opencl", "opencl", None, False, reason)]
    return [
        DeviceReport(_spec(d), "opencl", d.name.strip(), True, None, _details(d)) for d in devices
    ]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _spec(device: Any) -> str:
    platform = _slug(device.platform.name)
    return f"opencl:{ALIASES.get(platform, platform)}"


def _details(device: Any) -> dict[str, Any]:
    return {
        "platform": device.platform.name.strip(),
        "version": device.version.strip(),
        "driver": device.driver_version.strip(),
        "compute_units": device.max_compute_units,
        "memory_bytes": device.global_mem_size,
    }


def open_cpu() -> OpenCLDevice:
    """Open the first CPU device. Raises DeviceUnavailable if there is none."""
    cpu = _opencl().device_type.CPU
    for device in _devices():
        if device.type & cpu:
            return OpenCLDevice(device)
    raise DeviceUnavailable(f"OpenCL has no CPU here: {INSTALL}")


def open_opencl(which: str = "") -> OpenCLDevice:
    """Open the first device whose spec, platform name or device name contains `which`."""
    devices = _devices()
    if not devices:
        raise DeviceUnavailable(survey()[0].reason)
    wanted = _slug(which)
    for device in devices:
        if any(wanted in _slug(n) for n in (_spec(device), device.platform.name, device.name)):
            return OpenCLDevice(device)
    names = ", ".join(sorted({_spec(device) for device in devices}))
    raise DeviceUnavailable(f"no OpenCL platform or device matches {which!r}: there is {names}")


def _why_not_compiled(error: Exception) -> Exception:
    """Return a CompileError that starts with the compiler's first error, if any, or `error`."""
    first = re.search(r"^.*\berror:.*$", str(error), re.MULTILINE)
    if first is None:
        return error
    return CompileError(f"{first[0].strip().removeprefix('error: ')}\n{error}")


class OpenCLDevice(Device):
    """An OpenCL device with one in-order profiling queue."""

    backend = "opencl"
    features = frozenset({"opencl"})

    def __init__(self, device: Any) -> None:
        self._cl = cl = _opencl()
        import pyopencl.array

        self._array = pyopencl.array
        self._device = device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(
            self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self.spec = _spec(device)
        self.name = device.name.strip()
        self.is_cpu = bool(device.type & cl.device_type.CPU)
        self.compute_units = device.max_compute_units
        # CPUs report one core's cache or none: assume at least 32 MiB, as in a server.
        self.cache_bytes = max(device.global_mem_cache_size, 32 << 20 if self.is_cpu else 0)
        self.memory_bytes = device.global_mem_size
        self.shared_bytes = device.local_mem_size
        self._programs: dict[_Unit, Any] = {}
        self._kernels: dict[tuple[_Unit, str], Kernel] = {}
        self._cache = ProgramCache(self.context)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        with self.memory_errors(shape, dtype):
            return self._array.empty(self.queue, shape, np.dtype(dtype))

    def write(self, array: Any, host: NDArray[Any]) -> None:
        if host.size:
            array.set(np.ascontiguousarray(host), queue=self.queue)

    def download(self, array: Any) -> NDArray[Any]:
        if array.size == 0:
            return np.empty(array.shape, array.dtype)
        host: NDArray[Any] = array.get(queue=self.queue)
        return host

    def over(self, host: NDArray[Any]) -> Any:
        """Return an array that uses host memory, without a copy on a CPU, and keeps it alive.

        host: contiguous, not empty. After kernels have written to it, call `complete`.
        """
        flags = self._cl.mem_flags
        access = flags.READ_WRITE if host.flags.writeable else flags.READ_ONLY
        with self.memory_errors(host.shape, host.dtype):
            buffer = self._cl.Buffer(self.context, access | flags.USE_HOST_PTR, hostbuf=host)
        return self._array.Array(self.queue, host.shape, host.dtype, data=buffer)

    def complete(self, array: Any, host: NDArray[Any]) -> None:
        """Wait until all queued work is done and its results are visible in `host`; see `over`."""
        mapped, _ = self._cl.enqueue_map_buffer(
            self.queue, array.base_data, self._cl.map_flags.READ, 0, host.shape, host.dtype
        )
        mapped.base.release(self.queue).wait()

    def fill(self, array: Any, byte: int) -> None:
        if array.size:
            self._cl.enqueue_fill_buffer(
                self.queue, array.base_data, np.uint8(byte), array.offset, array.nbytes
            )

    def copy(self, source: Any, target: Any) -> None:
        if source.size:
            self._cl.enqueue_copy(
                self.queue, target.base_data, source.base_data, byte_count=source.nbytes,
                src_offset=source.offset, dst_offset=target.offset,
            )  # fmt: skip

    def read_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        at = array.offset + first * self.row_bytes(array)
        copied = self._cl.enqueue_copy(
            self.queue, host, array.base_data, src_offset=at, is_blocking=False
        )
        self.queue.flush()  # otherwise the copy might not start until something waits for it
        return cast(Callable[[], None], copied.wait)

    def write_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        at = array.offset + first * self.row_bytes(array)
        copied = self._cl.enqueue_copy(
            self.queue, array.base_data, host, dst_offset=at, is_blocking=False
        )
        return cast(Callable[[], None], copied.wait)

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        key = file, tuple(sorted(constants.items()))
        if key not in self._programs:
            options = ["-cl-std=CL1.2"]
            options += [word for folder in kernel_folders(file) for word in ("-I", str(folder))]
            options += [f"-D{constant}={value}" for constant, value in constants.items()]
            source = f'#include "prelude/opencl.h"\n#include "{file}"\n'
            program = self._cl.Program
            try:
                self._programs[key] = self._cache.build(
                    lambda: program(self.context, source).build(options)
                )
            except self._cl.RuntimeError as error:
                raise _why_not_compiled(error) from None
        if (key, name) not in self._kernels:
            self._kernels[key, name] = self._launcher(self._programs[key], name)
        return self._kernels[key, name]

    def _launcher(self, program: Any, name: str) -> Kernel:
        kernel = self._cl.Kernel(program, name)
        queue, enqueue = self.queue, self._cl.enqueue_nd_range_kernel

        def launch(blocks: int, threads: int, *arguments: Any) -> None:
            kernel.set_args(
                *(
                    a.data if hasattr(a, "data") and hasattr(a, "queue") else scalar(a)
                    for a in arguments
                )
            )
            enqueue(queue, kernel, (blocks * threads,), (threads,))

        return launch

    def record(self) -> Any:
        return self._cl.enqueue_marker(self.queue)

    def elapsed_ms(self, start: Any, end: Any) -> float:
        end.wait()
        return float(end.profile.end - start.profile.end) * 1e-6

    def synchronize(self) -> None:
        self.queue.finish()

    def environment(self) -> dict[str, Any]:
        own = {**_details(self._device), "cache_bytes": self.cache_bytes}
        return super().environment() | own

    def close(self) -> None:
        self.queue.finish()

    @contextmanager
    def memory_errors(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Iterator[None]:
        """Return a context for one allocation, which raises OutOfMemory if the array won't fit."""
        wanted = math.prod((shape,) if isinstance(shape, int) else shape) * np.dtype(dtype).itemsize
        message = (
            f"{wanted / 2**30:.2f} GiB for one array are more than {self.name} gives"
            f" ({self._device.max_mem_alloc_size / 2**30:.2f} GiB): use fewer particles"
        )
        if wanted > self._device.max_mem_alloc_size:
            raise OutOfMemory(message)
        try:
            yield
        except (self._cl.MemoryError, MemoryError):
            raise OutOfMemory(message) from None
