"""Finding and opening devices, and saying in one line why one cannot be used."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpubench.base import paths
from gpubench.base.errors import DeviceUnavailable, UserError
from gpubench.devices import Device, cuda, open_device, opencl, survey

pytestmark = pytest.mark.second_runtime


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with warnings as errors.

    The option that tests compile with makes PoCL warn.
    """
    own = "OCL_ICD_VENDORS", "PYOPENCL_BUILD_OPTIONS"
    inherited = {k: v for k, v in os.environ.items() if k not in own}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(code: str, **environment: str) -> str:
    """Return what Python code prints; it must end well and print nothing on standard error."""
    done = run(code, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


OPENCL_SURVEY = """
from gpubench.devices import opencl
for report in opencl.survey():
    print(report.spec, report.usable, report.reason)
"""


class TestOpen:
    def test_opencl_by_names(self, opencl_device: Device) -> None:
        with open_device(opencl_device.spec) as device:
            assert device.spec == opencl_device.spec
            assert device.name == opencl_device.name
            assert device.backend == "opencl"
        with open_device(f"opencl:{opencl_device.name[:6].upper()}") as device:
            assert device.backend == "opencl"

    def test_any_opencl(self) -> None:
        with open_device("opencl") as device:
            assert device.backend == "opencl"
            assert device.compute_units > 0
            assert device.memory_bytes > 2**20
            assert device.cache_bytes > 0
            assert device.shared_bytes >= 2**14
            assert "opencl" in device.features

    def test_auto_is_opencl_without_cuda(self, no_cuda: None) -> None:
        with open_device() as device:
            assert device.backend == "opencl"

    def test_auto_says_why_there_is_neither(
        self, no_cuda: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(which: str = "") -> Any:
            raise DeviceUnavailable("no OpenCL either")

        monkeypatch.setattr(opencl, "open_opencl", none)
        with pytest.raises(DeviceUnavailable) as error:
            open_device("auto")
        assert str(error.value) == "no usable device: no CUDA in this test; no OpenCL either"

    @pytest.mark.parametrize(
        "spec", ["", "gpu", "auto:1", "CUDA", "metal", "cuda0", ":", "opencl;pocl"]
    )
    def test_unknown_names(self, spec: str) -> None:
        with pytest.raises(UserError) as error:
            open_device(spec)
        assert str(error.value) == (
            f"no device {spec!r}: cuda, cuda:1, opencl, opencl:NAME, or auto"
        )

    @pytest.mark.parametrize("which", ["x", "-1", "1.5", "0x1", "\u00b2", " 1"])
    def test_cuda_is_named_by_number(self, which: str) -> None:
        with pytest.raises(UserError) as error:
            open_device(f"cuda:{which}")
        assert str(error.value) == f"no CUDA device {which!r}: name it by number, as in cuda:0"

    def test_opencl_that_is_not_there(self) -> None:
        with pytest.raises(DeviceUnavailable) as error:
            open_device("opencl:voodoo")
        message = str(error.value)
        assert message.startswith(
            "no OpenCL platform or device matches 'voodoo': there is opencl:intel"
        )
        assert "\n" not in message

    def test_two_at_once(self) -> None:
        with open_device("opencl:intel") as one, open_device("opencl:intel") as other:
            assert one.context != other.context

    def test_environment(self, device: Device) -> None:
        described = device.environment()
        assert {"backend", "name", "is_cpu", "driver"} <= described.keys()
        assert described["backend"] == device.backend
        assert described["name"] == device.name
        state = device.state()
        assert state is None or isinstance(state, dict)


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int = 0) -> Any:
        raise DeviceUnavailable("no CUDA in this test")

    monkeypatch.setattr(cuda, "open_cuda", none)


class FakeDriver:
    """PyCUDA's driver module, as far as `cuda._driver` looks."""

    class Error(Exception):
        pass

    def __init__(self, gpus: int = 1, broken: str | None = None) -> None:
        self.Device = SimpleNamespace(count=lambda: gpus)
        self._broken = broken

    def init(self) -> None:
        if self._broken:
            raise self.Error(self._broken)


class TestWhyNoCuda:
    """Each thing that CUDA needs, missing while all the others are there."""

    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
        """A machine on which everything is there; tests take things away."""
        there: dict[str, Any] = {
            "libcuda.so.1": object(),
            "pycuda.driver": FakeDriver(),
            "cupy": object(),
            "nvcc": "/usr/local/cuda/bin/nvcc",
        }

        def load(name: str, *_: Any, **__: Any) -> Any:
            if there.get(name) is None:
                raise OSError(f"{name}: cannot open shared object file")
            return there[name]

        def import_module(name: str) -> Any:
            if there.get(name) is None:
                raise ModuleNotFoundError(f"No module named '{name.split('.')[0]}'")
            return there[name]

        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(importlib, "import_module", import_module)
        monkeypatch.setattr(shutil, "which", lambda name: there.get(name))
        cuda._driver.cache_clear()
        yield there
        cuda._driver.cache_clear()

    @staticmethod
    def reason() -> str:
        (report,) = cuda.survey()
        assert (report.spec, report.backend, report.usable) == ("cuda", "cuda", False)
        assert report.name is None
        assert report.reason is not None
        assert "\n" not in report.reason
        with pytest.raises(DeviceUnavailable) as error:
            cuda.open_cuda()
        assert str(error.value) == report.reason
        return report.reason

    def test_nothing_is_missing(self, machine: dict[str, Any]) -> None:
        assert cuda._driver() is machine["pycuda.driver"]

    @pytest.mark.parametrize(
        ("missing", "says", "advises"),
        [
            ("libcuda.so.1", "the NVIDIA driver is missing (no libcuda.so.1)", "install it"),
            ("pycuda.driver", "PyCUDA is missing (No module named 'pycuda')", "pip install"),
            ("cupy", "CuPy is missing (No module named 'cupy')", "pip install"),
            ("nvcc", "nvcc is missing", "install the CUDA toolkit"),
        ],
    )
    def test_missing(self, machine: dict[str, Any], missing: str, says: str, advises: str) -> None:
        machine[missing] = None
        reason = self.reason()
        assert reason.startswith(says)
        assert advises in reason

    def test_no_gpu(self, machine: dict[str, Any]) -> None:
        machine["pycuda.driver"] = FakeDriver(gpus=0)
        assert self.reason() == "the NVIDIA driver sees no GPU: see `nvidia-smi`"

    def test_a_driver_that_does_not_start(self, machine: dict[str, Any]) -> None:
        machine["pycuda.driver"] = FakeDriver(broken="cuInit failed: unknown error")
        assert self.reason() == "the NVIDIA driver does not start: cuInit failed: unknown error"

    def test_a_gpu_past_the_last(self, machine: dict[str, Any]) -> None:
        machine["pycuda.driver"] = FakeDriver(gpus=2)
        with pytest.raises(DeviceUnavailable, match=r"no cuda:2: 2 GPU\(s\), numbered from 0"):
            open_device("cuda:2")


class TestSurvey:
    def test_both_back_ends(self) -> None:
        reports = survey()
        assert {report.backend for report in reports} == {"cuda", "opencl"}
        for report in reports:
            assert report.usable == (report.reason is None) == (report.name is not None)
            assert report.spec.startswith(report.backend)

    def test_every_usable_device_opens_by_its_spec(self) -> None:
        for report in opencl.survey():
            with open_device(report.spec) as device:
                assert device.spec == report.spec


class TestRuntimes:
    """How the OpenCL loader is led to runtimes: a process each, for it looks only once."""

    def test_the_pip_runtime_is_found_by_itself(self) -> None:
        assert "opencl:intel True None" in printed(OPENCL_SURVEY).splitlines()

    def test_the_systems_runtimes_are_still_there(self, opencl_device: Device) -> None:
        assert f"{opencl_device.spec} True None" in printed(OPENCL_SURVEY).splitlines()

    def test_vendors_set_by_the_user_are_obeyed(self, tmp_path: Path) -> None:
        library = opencl._pip_runtime()
        assert library is not None
        (tmp_path / "mine.icd").write_text(f"{library}\n")
        assert printed(OPENCL_SURVEY, OCL_ICD_VENDORS=str(tmp_path)) == "opencl:intel True None"

    def test_no_runtime(self, tmp_path: Path) -> None:
        assert printed(OPENCL_SURVEY, OCL_ICD_VENDORS=str(tmp_path)) == (
            "opencl False no OpenCL runtime is installed: pip install 'gpubench-particles[cpu]',"
            " or your GPU maker's OpenCL driver"
        )
        done = run(
            "from gpubench.devices import open_device; open_device('opencl')",
            OCL_ICD_VENDORS=str(tmp_path),
        )
        assert "DeviceUnavailable: no OpenCL runtime is installed" in done.stderr

    def test_no_pyopencl(self) -> None:
        hidden = "import sys; sys.modules['pyopencl'] = None\n"
        found = printed(hidden + OPENCL_SURVEY)
        assert found.startswith("opencl False PyOpenCL is missing (")
        assert found.endswith("): pip install 'gpubench-particles[cpu]'")
        assert "\n" not in found

    def test_no_pip_runtime(self) -> None:
        found = printed(
            "from gpubench.devices import opencl\nopencl._pip_runtime = lambda: None\n"
            + OPENCL_SURVEY
        )
        assert "opencl:intel" not in found

    def test_the_loaders_folder_is_one_for_all_processes(self, tmp_path: Path) -> None:
        code = (
            "import os, signal; from gpubench.devices import opencl; opencl.survey();"
            "print(os.environ['OCL_ICD_VENDORS'], flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        )
        temporary, cache = tmp_path / "temporary", tmp_path / "cache"
        temporary.mkdir()
        places = {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(cache)}
        first, second = (run(code, **places).stdout for _ in range(2))
        assert first == second
        assert Path(first.strip()).parent == cache / "gpubench"
        assert list(temporary.iterdir()) == []

    @pytest.mark.parametrize("closes", [True, False])
    def test_the_interpreter_exits_cleanly(self, opencl_device: Device, closes: bool) -> None:
        assert (
            printed(
                "from gpubench import problems, registry\n"
                "from gpubench.devices import open_device\n"
                "from gpubench.problems.particles import inputs\n"
                "from gpubench.core.grid import Grid\n"
                f"device = open_device({opencl_device.spec!r})\n"
                "particles = inputs.make(1000, Grid.with_count(64))\n"
                "cls = registry.find_algorithm('radix-grid')\n"
                "algorithm = cls(device, 1000, particles.grid, 'reorder', {})\n"
                "algorithm.load(particles)\n"
                "algorithm.launch()\n"
                "print(problems.problems()['cell-list'].check(algorithm, particles))\n"
                f"if {closes}: device.close()\n"
            )
            == "None"
        )


class TestKernel:
    def test_constants_and_arguments(self, device: Device, kernels: Path) -> None:
        (kernels / "mark.cu").write_text(
            "__global__ void mark(GLOBAL int *out, int first, float scale, int64 large, int n) {\n"
            "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
            "    if (i < n) out[i] = first + (int)(scale * STEP * i) + (int)(large >> 40);\n"
            "}\n"
        )
        out = device.empty(100, np.int32)
        for step in (2, 3):
            device.fill(out, 0xFF)
            mark = device.kernel("mark.cu", "mark", STEP=step)
            mark(device.blocks(90, 64), 64, out, 5, 0.5, np.int64(1 << 41), 90)
            expected = np.full(100, -1)
            expected[:90] = 5 + (np.float32(0.5) * step * np.arange(90)).astype(int) + 2
            np.testing.assert_array_equal(device.download(out), expected)

    def test_the_same_constants_compile_once(
        self, opencl_device: Device, kernels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import pyopencl

        built: list[Any] = []
        build = pyopencl.Program.build

        def counted(program: Any, options: Any, *more: Any, **others: Any) -> Any:
            built.append(options)
            return build(program, options, *more, **others)

        monkeypatch.setattr(pyopencl.Program, "build", counted)
        (kernels / "once.cu").write_text("__global__ void once(GLOBAL int *out) { out[0] = N; }\n")
        for n in (1, 2, 1, 2):
            opencl_device.kernel("once.cu", "once", N=n)
        assert len(built) == 2

    def test_what_does_not_compile_says_where(self, device: Device, kernels: Path) -> None:
        (kernels / "broken.cu").write_text(
            "__global__ void broken(GLOBAL int *out) { out[0] = voodoo; }"
        )
        with pytest.raises(Exception, match="voodoo"):
            device.kernel("broken.cu", "broken")

    def test_a_reciprocal_root_does_not_depend_on_the_kernel_around_it(
        self, device: Device, kernels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some compilers estimate OpenCL's rsqrt in vectors, and forces differ by their kernel."""
        (kernels / "roots.cu").write_text(
            "__global__ void roots(GLOBAL const float *x, GLOBAL float *out)"
            "{ int i = blockIdx.x * 256 + threadIdx.x;"
            " out[2 * i] = rsqrtf(x[i]); out[2 * i + 1] = rsqrt_of_normal(x[i]); }"
        )
        monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "")  # vectors, as users have them
        x = np.exp(np.random.default_rng(1).uniform(-40, 40, 2**16)).astype(np.float32)
        out, right = device.empty((len(x), 2), "float32"), np.float32(1) / np.sqrt(x)
        device.kernel("roots.cu", "roots")(256, 256, device.upload(x), out)
        off = np.abs(device.download(out) - right[:, None]) / np.spacing(right)[:, None]
        assert off.max() <= (2 if device.backend == "cuda" else 0)

    @pytest.fixture
    def kernels(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder of kernels of the test's own, with the package's preludes."""
        (tmp_path / "prelude").symlink_to(paths.kernel_folder() / "prelude")
        monkeypatch.setattr(paths, "kernel_folder", lambda: tmp_path)
        return tmp_path

    @pytest.mark.parametrize(
        ("items", "per_block", "blocks"), [(0, 256, 1), (1, 256, 1), (256, 256, 1), (257, 256, 2)]
    )
    def test_blocks_cover_the_items(self, items: int, per_block: int, blocks: int) -> None:
        assert Device.blocks(items, per_block) == blocks
