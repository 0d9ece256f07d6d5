"""CUDA through PyCUDA, with arrays and memory pool from CuPy, in the same primary context."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpubench.base import install
from gpubench.base.errors import DeviceUnavailable, OutOfMemory
from gpubench.base.plugins import kernel_folders
from gpubench.base.user_cache import kept, machine_code, sources_digest, usable_cache
from gpubench.devices.base import Device, DeviceReport, Graph, Kernel, scalar
from gpubench.devices.streams import as_cupy_stream

LARGE_BYTES = 2**20  # smaller downloads go to ordinary pageable memory
POOLED_BYTES = 2**31  # after allocating this much page-locked memory, unused blocks are freed
# The NVML clock event reasons (nvmlClocksEventReasons) that slow down measurements; those for an
# idle GPU and for clocks set by the user are omitted.
THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal limit in software",
    0x40: "thermal limit in hardware",
    0x80: "power brake",
}
INSTALL = f"{install.hint('cuda13')} (or [cuda12], to match `nvidia-smi`)"

ModuleKey = tuple[str, tuple[tuple[str, Any], ...]]  # a kernel file and its constants


@cache
def _driver() -> Any:
    """Import PyCUDA and initialize the driver; raise DeviceUnavailable if something is missing."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceUnavailable(
            "the NVIDIA driver is missing (no libcuda.so.1): install it, then see `nvidia-smi`"
        ) from None
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as error:
        raise DeviceUnavailable(f"PyCUDA is missing ({error}): {INSTALL}") from None
    try:
        importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceUnavailable(f"CuPy is missing ({error}): {INSTALL}") from None
    if shutil.which("nvcc") is None:
        raise DeviceUnavailable(
            "nvcc is missing: install the CUDA toolkit and put its bin folder on PATH"
        )
    try:
        driver.init()
    except driver.Error as error:
        raise DeviceUnavailable(f"the NVIDIA driver does not start: {error}") from None
    if driver.Device.count() == 0:
        raise DeviceUnavailable("the NVIDIA driver sees no GPU: see `nvidia-smi`")
    return driver


def survey() -> list[DeviceReport]:
    """Return this machine's NVIDIA GPUs, or one entry with the reason why none is usable."""
    try:
        driver = _driver()
    except DeviceUnavailable as error:
        return [DeviceReport("cuda", "cuda", None, False, str(error))]
    return [
        DeviceReport(
            f"cuda:{i}",
            "cuda",
            device.name(),
            True,
            None,
            {
                "compute_capability": ".".join(map(str, device.compute_capability())),
                "multiprocessors": device.multiprocessor_count,
                "memory_bytes": device.total_memory(),
                "pci_bus_id": device.pci_bus_id(),
                "uuid": _uuid(device),
            },
        )
        for i, device in enumerate(map(driver.Device, range(driver.Device.count())))
    ]


def _uuid(device: Any) -> str | None:
    """Return the UUID of a GPU, in the form of `nvidia-smi -L`, or None without NVML."""
    handle = _nvml_handle(device)
    if handle is None:
        return None
    import pynvml

    return str(pynvml.nvmlDeviceGetUUID(handle))


def open_cuda(number: int = 0) -> CUDADevice:
    """Open one NVIDIA GPU by its number."""
    driver = _driver()
    if number >= driver.Device.count():
        raise DeviceUnavailable(
            f"there is no cuda:{number}: {driver.Device.count()} GPU(s), numbered from 0"
        )
    return CUDADevice(driver, number)


class CUDAGraph(Graph):
    """A CUDA graph captured on the device's stream."""

    def __init__(self, graph: Any, stream: Any) -> None:
        self._graph, self._stream = graph, stream

    def launch(self) -> None:
        """Queue one replay on the stream from which the graph was captured."""
        self._graph.launch(self._stream)


class CUDADevice(Device):
    """One NVIDIA GPU: PyCUDA's kernels and events, CuPy's arrays, one stream."""

    backend = "cuda"
    is_cpu = False
    features = frozenset({"cuda", "graphs"})

    def __init__(self, driver: Any, number: int) -> None:
        import cupy
        import pycuda.compiler

        self._driver, self._cupy, self._compiler = driver, cupy, pycuda.compiler
        self._device = device = driver.Device(number)
        self._context = device.retain_primary_context()
        self._context.push()
        # PyCUDA aborts at interpreter exit if a context is still current: always pop it.
        self._open = True
        atexit.register(self.close)
        cupy.cuda.Device(number).use()
        self.stream = driver.Stream()
        self._outer_stream = cupy.cuda.get_current_stream()
        self._cupy_stream = as_cupy_stream(cupy, self.stream)
        self._cupy_stream.use()
        self.spec = f"cuda:{number}"
        self.name = device.name()
        attribute = driver.device_attribute
        self.compute_units = device.get_attribute(attribute.MULTIPROCESSOR_COUNT)
        self.cache_bytes = device.get_attribute(attribute.L2_CACHE_SIZE)
        self.memory_bytes = device.total_memory()
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.shared_bytes = properties["sharedMemPerBlockOptin"]
        self.architecture = "sm_{}{}".format(*device.compute_capability())
        self._modules: dict[ModuleKey, Any] = {}
        self._compilers: ThreadPoolExecutor | None = None
        self._codes: dict[ModuleKey, Future[bytes]] = {}
        self._unfinished: list[Callable[[], Any]] = []
        self._nvml = _nvml_handle(device)
        self._locked = 0

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        try:
            return self._cupy.empty(shape, np.dtype(dtype))
        except self._cupy.cuda.memory.OutOfMemoryError:
            wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            free, total = self._driver.mem_get_info()
            raise OutOfMemory(
                f"{wanted / 2**30:.2f} GiB for one array are more than {self.name} has left"
                f" ({free / 2**30:.2f} of {total / 2**30:.2f} GiB): use fewer particles"
            ) from None

    def write(self, array: Any, host: NDArray[Any]) -> None:
        if host.size:
            array.set(np.ascontiguousarray(host), stream=self._cupy_stream)
            self.stream.synchronize()  # the host array may be freed after this

    def download(self, array: Any) -> NDArray[Any]:
        memory = self._page_locked(array.nbytes)
        host: NDArray[Any] = memory.view(array.dtype).reshape(array.shape)
        if host.size:
            self._driver.memcpy_dtoh_async(host, array.data.ptr, self.stream)
        self.stream.synchronize()
        return host

    def _page_locked(self, size: int) -> NDArray[np.uint8]:
        """Return host memory: page-locked and from CuPy's pool if at least LARGE_BYTES.

        The pool avoids page faults, which make writes several times slower. It reuses a block only
        for the same size, so sizes are rounded up. After POOLED_BYTES, unused blocks are freed.
        """
        if size < LARGE_BYTES:
            return np.empty(size, np.uint8)
        pool = self._cupy.get_default_pinned_memory_pool()
        if self._locked > POOLED_BYTES:
            pool.free_all_blocks()
            self._locked = 0
        step = 2 ** (size.bit_length() - 4)
        unused = pool.n_free_blocks()
        memory = self.host_buffer(-(-size // step) * step)
        self._locked += memory.nbytes if pool.n_free_blocks() == unused else 0
        return memory[:size]

    def fill(self, array: Any, byte: int) -> None:
        if array.size:
            self._driver.memset_d8_async(array.data.ptr, byte, array.nbytes, self.stream)

    def copy(self, source: Any, target: Any) -> None:
        if source.size:
            self._driver.memcpy_dtod_async(
                target.data.ptr, source.data.ptr, source.nbytes, self.stream
            )

    def host_buffer(self, size: int) -> NDArray[np.uint8]:
        # Page-locked: copies to and from pageable memory would block until the stream is done.
        memory = self._cupy.cuda.alloc_pinned_memory(size)
        return np.frombuffer(memory, np.uint8, size)

    def read_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        source = array.data.ptr + first * self.row_bytes(array)
        self._driver.memcpy_dtoh_async(host, source, self.stream)
        return self._waiter()

    def write_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        target = array.data.ptr + first * self.row_bytes(array)
        self._driver.memcpy_htod_async(target, host, self.stream)
        return self._waiter()

    def _waiter(self) -> Callable[[], None]:
        event = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        event.record(self.stream)
        return cast(Callable[[], None], event.synchronize)

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        key = file, tuple(sorted(constants.items()))
        if self._compilers is not None and key not in self._modules and key not in self._codes:
            self._codes[key] = self._compilers.submit(self._cubin, *key)
        shared = int(constants.get("SHARED_BYTES", 0))
        prepared: Callable[..., None] | None = None

        @cache
        def function() -> Any:
            found = self._module(key).get_function(name)
            if shared:
                most = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                found.set_attribute(most, shared)
            return found

        if self._compilers is None:
            function()
        else:
            self._unfinished.append(function)

        def launch(blocks: int, threads: int, *arguments: Any) -> None:
            nonlocal prepared
            if prepared is None:
                function().prepare([_code(argument) for argument in arguments])
                prepared = function().prepared_async_call
            prepared(
                (blocks, 1),
                (threads, 1, 1),
                self.stream,
                *(
                    a.data.ptr if hasattr(a, "data") and hasattr(a.data, "ptr") else a
                    for a in arguments
                ),
                shared_size=shared,
            )

        return launch

    @contextmanager
    def compiled_together(self) -> Iterator[None]:
        with ThreadPoolExecutor() as self._compilers:
            try:
                yield
                for finish in self._unfinished:
                    finish()
            finally:
                self._compilers, self._unfinished, self._codes = None, [], {}

    def _module(self, key: ModuleKey) -> Any:
        """Compile a kernel file with its constants, and load it."""
        if key not in self._modules:
            code = self._codes[key].result() if key in self._codes else self._cubin(*key)
            self._modules[key] = self._driver.module_from_buffer(code)
        return self._modules[key]

    def _cubin(self, file: str, constants: tuple[tuple[str, Any], ...]) -> bytes:
        """Return the machine code of a kernel file, from the user's cache folder if possible.

        PyCUDA's own cache is slow: it detects changes by running nvcc's preprocessor on every file
        with includes, about 0.4 s per file. Here, the cache key includes a hash of all sources in
        the kernel folders instead.
        """
        folders = kernel_folders(file)
        options = ["-O3", *(f"-D{constant}={value}" for constant, value in constants)]
        source = f'#include "prelude/cuda.h"\n#include "{file}"\n'
        what = source, options, self.architecture, _nvcc_version(), sources_digest(folders)

        def compiled() -> bytes:
            code: bytes = self._compiler.compile(
                source,
                options=options,
                include_dirs=[str(folder) for folder in folders],
                arch=self.architecture,
                cache_dir=False,
            )
            return code

        return machine_code(file, what, compiled)

    def library(self, file: str, headers: str = "", **constants: int | str) -> ctypes.CDLL:
        """Compile a kernel file to a shared library of host functions, and load it.

        For code that is only available as host-side templates, such as CUB. Libraries are kept in
        the user's cache folder, by a hash of source, constants, compiler version and architecture.
        headers: a folder that nvcc searches before its own, if any; its last change counts too.
        """
        source = kernel_folders(file)[0] / file
        defines = [f"-D{constant}={value}" for constant, value in sorted(constants.items())]
        defines += [f"-I{headers}", f"-DOF={Path(headers).stat().st_mtime_ns}"] if headers else []
        what = "".join((_nvcc_version(), self.architecture, *defines))
        key = hashlib.sha256(source.read_bytes() + what.encode())
        folder = usable_cache()
        path = folder and folder / f"{source.stem}-{key.hexdigest()[:16]}.code"
        with tempfile.TemporaryDirectory() as temporary:
            built = Path(temporary, f"{source.stem}.so")

            def compiled() -> bytes:
                command = ["nvcc", "-O3", "-shared", "-Xcompiler", "-fPIC"]
                command += [*defines, f"-arch={self.architecture}", "-o", str(built), str(source)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise RuntimeError(f"nvcc could not compile {file}:\n{done.stderr}")
                return built.read_bytes()

            built.write_bytes(kept(path, compiled))
            return ctypes.CDLL(str(built))  # once loaded, its file may be removed

    def record(self) -> Any:
        event = self._driver.Event()
        event.record(self.stream)
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.time_till(end))

    def synchronize(self) -> None:
        self.stream.synchronize()

    def capture(self, work: Callable[[], None]) -> Graph:
        # CuPy's current stream belongs to the device opened last. Restore it by hand: CuPy's `with`
        # would restore the default stream, not the one set by `use`.
        before = self._cupy.cuda.get_current_stream()
        self._cupy_stream.use()
        try:
            self._cupy_stream.begin_capture()
            try:
                with self.team.noted() if self.team else nullcontext() as shared_steps:
                    work()
            finally:
                graph = self._cupy_stream.end_capture()
        finally:
            before.use()
        if shared_steps:
            return cast(Graph, self.team.graph(shared_steps))
        graph.upload(self._cupy_stream)
        return CUDAGraph(graph, self._cupy_stream)

    def environment(self) -> dict[str, Any]:
        device, driver = self._device, self._driver
        described = {
            "backend": self.backend,
            "spec": self.spec,
            "name": self.name,
            "is_cpu": False,
            "compute_capability": ".".join(map(str, device.compute_capability())),
            "multiprocessors": self.compute_units,
            "memory_bytes": self.memory_bytes,
            "cache_bytes": self.cache_bytes,
            "cuda_driver_api": driver.get_driver_version(),
            "cuda_toolkit": ".".join(map(str, driver.get_version())),
            "nvcc": _nvcc_version().splitlines()[-1],
            "uuid": None,
            "driver": None,
            "ecc": None,
            "clocks_locked": None,
        }
        if self._nvml is not None:
            import pynvml

            described["uuid"] = pynvml.nvmlDeviceGetUUID(self._nvml)
            described["driver"] = pynvml.nvmlSystemGetDriverVersion()
            described["ecc"] = _nvml_try(lambda: bool(pynvml.nvmlDeviceGetEccMode(self._nvml)[0]))
        return described

    def state(self) -> dict[str, Any] | None:
        if self._nvml is None:
            return None
        import pynvml as nvml

        gpu, clock, heat = self._nvml, nvml.nvmlDeviceGetClockInfo, nvml.nvmlDeviceGetTemperature
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return {
            "clocks_sm_mhz": _nvml_try(lambda: clock(gpu, nvml.NVML_CLOCK_SM)),
            "clocks_mem_mhz": _nvml_try(lambda: clock(gpu, nvml.NVML_CLOCK_MEM)),
            "power_w": _nvml_try(lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
            "temperature_c": _nvml_try(lambda: heat(gpu, nvml.NVML_TEMPERATURE_GPU)),
            "throttle_reasons": _nvml_try(lambda: reasons(gpu)),
        }

    def energy_j(self) -> float | None:
        if self._nvml is None:
            return None
        import pynvml

        read = pynvml.nvmlDeviceGetTotalEnergyConsumption
        joules: float | None = _nvml_try(lambda: read(self._nvml) / 1000)
        return joules

    def throttled_by(self, state: Mapping[str, Any] | None) -> tuple[str, ...]:
        reasons = (state or {}).get("throttle_reasons") or 0
        return tuple(words for bit, words in THROTTLES.items() if reasons & bit)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            self._driver.Context.synchronize()
            # If a device opened later is still open, the current stream belongs to it: keep it.
            if self._cupy.cuda.get_current_stream().ptr == self._cupy_stream.ptr:
                self._outer_stream.use()
            self._cupy.get_default_memory_pool().free_all_blocks()
        finally:
            self._context.pop()


def _code(argument: Any) -> str:
    """Return the type code of a kernel argument for PyCUDA."""
    if hasattr(argument, "data") and hasattr(argument.data, "ptr"):
        return "P"
    return str(np.dtype(type(scalar(argument))).char)


@cache
def _nvcc_version() -> str:
    """Return nvcc's version text."""
    done = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _nvml_handle(device: Any) -> Any | None:
    """Return NVML's handle of a GPU, or None if NVML is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id())


def _nvml_try(read: Callable[[], Any]) -> Any:
    """Return a reading, or None if this GPU does not support it or permission is missing."""
    import pynvml

    try:
        return read()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission):
        return None
