"""What only CUDA has: large inputs, graphs, libraries from nvcc, one context for two packages.

The conformance suites and contracts run on the GPU from test_algorithms.py and test_primitives.py.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from posed_meshes import posed_meshes

from gpubench import problems, registry
from gpubench.algorithms.brute_force import BruteForce
from gpubench.algorithms.cell_search import CellSearch
from gpubench.algorithms.loop_indexed import LoopIndexed, indexed
from gpubench.base import paths
from gpubench.base.errors import NotSupported
from gpubench.base.user_cache import usable_cache
from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.core.oracle import Oracle
from gpubench.core.recipe import Inputs
from gpubench.devices import Device, cuda
from gpubench.problems.cells.contract import CellListUpdate
from gpubench.problems.neighbours.contract import HostSearch
from gpubench.problems.neighbours.tasks import task_of
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import make

pytestmark = pytest.mark.cuda

FORMS = [(name, form) for name, cls in registry.algorithms().items() for form in cls.forms]
LARGE = [
    pytest.param(case, family, id=f"{family}: {case.name}")
    for family, problem in problems.own().items()
    for case in problem.large_cases()
]


def is_large(name: str, form: str) -> bool:
    """Say whether a form takes what is large: a look at all pairs does not, nor does a host."""
    cls = registry.find_algorithm(name)
    if cls.family != "neighbour-search":
        return True
    return issubclass(cls, CellSearch) and task_of(form) != "ten-counts"


CAPTURABLE = [
    (name, form)
    for name, form in FORMS
    for cls in [registry.find_algorithm(name)]
    if cls.forms[form].capturable
    and not cls.forms[form].allocates
    and not issubclass(cls, HostSearch)
]
UNBOUNDED = ("hash-grid", "unbounded-query")
BOX = Grid((16, 12, 20), (0.0,) * 3, (16.0, 12.0, 20.0), (True, False, True))


def made(device: Device, name: str, form: str, inputs: Inputs) -> Any:
    cls: Any = registry.find_algorithm(name)
    try:
        return cls(device, form=form, parameters=cls.conformance_parameters, **inputs.made_for)
    except NotSupported as lacking:
        pytest.skip(str(lacking))


def drawn(name: str, seed: int) -> Any:
    """Draw an input of an algorithm's kind; inputs of one problem have one size and one mesh."""
    cls = registry.find_algorithm(name)
    if cls.family == "mesh-collision":
        return posed_meshes(seed)
    axes: dict[str, Any] = {}
    if cls.family == "stream-filter":
        axes = {"kept": (0.5, 0.1, 1.0, 0.0)[seed], "record_bytes": 16, "nulls": "predicate"}
    elif issubclass(cls, ParticleAlgorithm):
        axes = {"per_cell": 4, "distribution": ("uniform", "clusters", "one-cell", "lattice")[seed]}
        if cls.family == "cell-list-update" or "update" in cls.forms:
            axes |= {"moved": 5000, "destination": "random"}
        if cls.family not in UNBOUNDED and getattr(cls, "finds_images", True):
            axes["periodic"] = True
    return problems.problems()[cls.family].sample(cls, 2**14, seed, **axes)


@pytest.mark.parametrize(("case", "family"), LARGE)
def test_past_2_to_the_24(cuda_device: Device, case: Case, family: str) -> None:
    """Every form on inputs past 2^24 in size, where float32 no longer counts."""
    inputs: Any = case.make()
    oracle: Oracle = problems.problems()[family].oracle(inputs, case.exact)
    tried = 0
    for name, form in FORMS:
        if registry.find_algorithm(name).family != family or not is_large(name, form):
            continue
        try:
            algorithm = made(cuda_device, name, form, inputs)
        except pytest.skip.Exception:  # a library that is not installed: one form of many
            continue
        algorithm.load(inputs)
        algorithm.launch()
        assert oracle.check(algorithm) is None, (name, form)
        if name == "bucket-sort":
            assert algorithm.outcome()["rounds"] == np.bincount(inputs.cell_of).max()
        tried += 1
    assert tried


class TestGraphs:
    @pytest.mark.parametrize(("name", "form"), CAPTURABLE)
    def test_a_replay_computes_again(self, cuda_device: Device, name: str, form: str) -> None:
        family = registry.find_algorithm(name).family
        first, *others = (drawn(name, seed) for seed in range(4))
        algorithm = made(cuda_device, name, form, first)
        if algorithm.no_graph:
            pytest.skip(algorithm.no_graph)
        algorithm.load(first)
        algorithm.launch()
        graph = cuda_device.capture(algorithm.launch)
        check = problems.problems()[family].check
        for _ in range(2):
            self.spoil(cuda_device, algorithm)
            graph.launch()
            assert check(algorithm, first) is None
        # Cells belong to what was loaded, and so does the room for a list or a matrix.
        if family in ("neighbour-query", "unbounded-query", "sparse-product") or form.startswith(
            "list"
        ):
            return
        for inputs in others:
            self.overwrite(cuda_device, algorithm, inputs)
            self.spoil(cuda_device, algorithm)
            graph.launch()
            assert check(algorithm, inputs) is None

    @staticmethod
    def overwrite(device: Device, algorithm: Any, inputs: Any) -> None:
        """Write another input into the arrays that the graph reads."""
        match algorithm.family:
            case "stream-filter":
                device.write(algorithm.records, inputs.records)
                device.write(algorithm.keep, inputs.keep)
            case "key-sort":
                device.write(algorithm.keys, inputs.keys)
                device.write(algorithm.values, inputs.values)
                if inputs.starts is not None:
                    device.write(algorithm.starts, inputs.starts)
                if inputs.before is not None:
                    device.write(algorithm._before, inputs.before)
            case "surface-subdivision" if isinstance(algorithm, LoopIndexed):
                for array, new in zip(algorithm._mesh, indexed(inputs), strict=True):
                    device.write(array, new)
            case "surface-subdivision":
                device.write(algorithm._mesh, inputs.triangles)
            case "mesh-collision":
                device.write(algorithm._pose, inputs.pose)
            case "pair-noise":
                device.write(algorithm.i, inputs.i)
                device.write(algorithm.j, inputs.j)
                device.write(algorithm.clock, inputs.clock)
            case "neighbour-search" if isinstance(algorithm, CellSearch):
                states = inputs.history if algorithm.task == "update" else [inputs]
                for positions, state in zip(algorithm._positions, states, strict=True):
                    device.write(positions, state.positions)
                if algorithm.task == "update":  # a launch starts from the list that is there
                    algorithm._build()
            case "neighbour-search" if isinstance(algorithm, BruteForce):
                device.write(algorithm._positions, inputs.positions)
            case "neighbour-search":
                pytest.skip("where it keeps the positions is its own affair")
            case "hash-grid":
                device.write(algorithm.positions, inputs.positions)
            case "cell-list-update":
                for arrays, state in zip(algorithm.states, inputs.history, strict=True):
                    device.write(arrays[0], state.cell_of)
                    device.write(arrays[1], state.positions)
            case _:
                device.write(algorithm.cell_of, inputs.cell_of)
                device.write(algorithm.positions, inputs.positions)

    @staticmethod
    def spoil(device: Device, algorithm: Any) -> None:
        """Overwrite the last answer, so that only a replay can bring it back.

        The answer of an update is also what it starts from: that is built again.
        """
        arrays = [a for a in vars(algorithm.answer).values() if hasattr(a, "nbytes")]
        if any(isinstance(array, np.ndarray) for array in arrays):  # copies of a library's arrays
            algorithm.poison()
        else:
            for array in arrays:
                device.fill(array, 0x5A)
        if isinstance(algorithm, CellListUpdate):
            algorithm.build(*algorithm.states[0])

    def test_large_downloads_keep_their_own_memory(self, cuda_device: Device) -> None:
        """While page-locked memory goes back and is used again; no array, one row of none."""
        device = cuda_device
        host = np.arange(2**20, dtype=np.int32).reshape(-1, 4)
        arrays = [device.upload(host + turn) for turn in range(3)]
        kept = [device.download(array) for array in arrays]
        for _ in range(600):  # 2.4 GB: more than what is handed out before unused memory is freed
            assert device.download(arrays[0])[-1, -1] == 2**20 - 1
        for turn, found in enumerate(kept):
            np.testing.assert_array_equal(found, host + turn)
        assert device.download(device.empty((0, 4), np.float32)).shape == (0, 4)

    def test_capture_does_not_run(self, cuda_device: Device) -> None:
        array = cuda_device.upload(np.zeros(100, np.int32))
        graph = cuda_device.capture(lambda: cuda_device.fill(array, 0xFF))
        assert not cuda_device.download(array).any()
        graph.launch()
        np.testing.assert_array_equal(cuda_device.download(array), -1)

    def test_work_that_fails_leaves_a_device_that_works(self, cuda_device: Device) -> None:
        def work() -> None:
            raise KeyError("in the middle of a capture")

        with pytest.raises(KeyError, match="in the middle"):
            cuda_device.capture(work)
        self.test_capture_does_not_run(cuda_device)


class TestLibraries:
    """Host code that nvcc compiles into the user's cache folder."""

    SOURCE = 'extern "C" int answer() { return 42; }\n'

    @pytest.fixture
    def kernels(self, cuda_device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        kernels = tmp_path / "kernels"
        kernels.mkdir()
        (kernels / "prelude").symlink_to(paths.kernel_folder() / "prelude")
        monkeypatch.setattr(paths, "kernel_folder", lambda: kernels)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(cuda_device, "_modules", {})  # other tests' files have these names too
        return kernels

    @pytest.fixture
    def compilations(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        commands: list[list[str]] = []
        run: Callable[..., Any] = subprocess.run

        def counted(command: list[str], *arguments: Any, **options: Any) -> Any:
            if "-shared" in command:
                commands.append(command)
            return run(command, *arguments, **options)

        monkeypatch.setattr(subprocess, "run", counted)
        return commands

    def test_compile_once(
        self, cuda_device: Any, kernels: Path, compilations: list[list[str]]
    ) -> None:
        (kernels / "answer.cu").write_text(self.SOURCE)
        for _ in range(3):
            assert cuda_device.library("answer.cu").answer() == 42
        assert len(compilations) == 1
        (kernels / "answer.cu").write_text(self.SOURCE.replace("42", "43"))
        assert cuda_device.library("answer.cu").answer() == 43
        assert len(compilations) == 2
        # Nothing else stays behind.
        assert [path.suffix for path in usable_cache().iterdir()] == [".code", ".code"]

    def test_cub_is_kept(self, cuda_device: Any, compilations: list[list[str]]) -> None:
        cuda_device.library("cub_radix_sort.cu")
        compilations.clear()
        made(cuda_device, "radix-grid", "order", make(1000, BOX))
        assert compilations == []

    def test_what_does_not_compile_says_what_and_where(
        self, cuda_device: Any, kernels: Path
    ) -> None:
        (kernels / "broken.cu").write_text('extern "C" int answer() { return voodoo; }\n')
        with pytest.raises(RuntimeError, match=r"nvcc could not compile broken\.cu") as error:
            cuda_device.library("broken.cu")
        assert 'broken.cu(1): error: identifier "voodoo" is undefined' in str(error.value)
        assert list(usable_cache().iterdir()) == []

    def test_kernels_compile_once(
        self, cuda_device: Any, kernels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = "__global__ void fill(int *out) { *out = WHAT; }\n"
        (kernels / "fill.cu").write_text(source)
        compiled = []
        compiler, plain = cuda_device._compiler, cuda_device._compiler.compile
        monkeypatch.setattr(
            compiler, "compile", lambda *a, **o: compiled.append(a) or plain(*a, **o)
        )

        def filled(what: int) -> int:
            cuda_device._modules.clear()  # as in another process
            out = cuda_device.empty(1, np.int32)
            cuda_device.kernel("fill.cu", "fill", WHAT=what)(1, 1, out)
            return int(cuda_device.download(out)[0])

        assert [filled(42), filled(42), filled(43), filled(42)] == [42, 42, 43, 42]
        assert len(compiled) == 2
        (kernels / "fill.cu").write_text(source.replace("WHAT", "2 * WHAT"))
        assert filled(42) == 84
        (kernels / "other.h").write_text("// any file could be included\n")
        assert filled(42) == 84
        assert len(compiled) == 4

    def test_kernels_can_compile_side_by_side(
        self, cuda_device: Any, kernels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (kernels / "fill.cu").write_text("__global__ void fill(int *out) { *out = WHAT; }\n")
        compiler, plain = cuda_device._compiler, cuda_device._compiler.compile
        both = threading.Barrier(2, timeout=60)  # one after the other would break it

        def waiting(*given: Any, **options: Any) -> Any:
            both.wait()
            return plain(*given, **options)

        monkeypatch.setattr(compiler, "compile", waiting)
        with cuda_device.compiled_together():
            fills = [cuda_device.kernel("fill.cu", "fill", WHAT=what) for what in (42, 43, 42)]
        out = cuda_device.empty(3, np.int32)
        for at, fill in enumerate(fills):
            fill(1, 1, out[at:])
        assert cuda_device.download(out).tolist() == [42, 43, 42]

    def test_of_kernels_compiled_side_by_side_one_that_cannot_be_is_told_and_tried_again(
        self, cuda_device: Any, kernels: Path
    ) -> None:
        (kernels / "late.cu").write_text("__global__ void late(int *out) { *out = voodoo; }\n")
        with pytest.raises(Exception, match="voodoo"), cuda_device.compiled_together():
            cuda_device.kernel("late.cu", "late")
        (kernels / "late.cu").write_text("__global__ void late(int *out) { *out = 7; }\n")
        out = cuda_device.empty(1, np.int32)
        cuda_device.kernel("late.cu", "late")(1, 1, out)
        assert int(cuda_device.download(out)[0]) == 7

    def test_kernels_that_do_not_compile_say_what_and_where(
        self, cuda_device: Device, kernels: Path
    ) -> None:
        (kernels / "broken.cu").write_text("__global__ void broken(int *out) { *out = voodoo; }\n")
        with pytest.raises(Exception, match='identifier "voodoo" is undefined') as error:
            cuda_device.kernel("broken.cu", "broken")
        assert "broken.cu(1)" in str(error.value)


class TestOneContext:
    """CuPy's arrays, PyCUDA's kernels: the same primary context and the same stream."""

    def test_both_use_the_primary_context(self, cuda_device: Any) -> None:
        import cupy

        driver = ctypes.CDLL("libcuda.so.1")
        primary, current = ctypes.c_void_p(), ctypes.c_void_p()
        number = int(cuda_device.spec.partition(":")[2])
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), number) == 0
        try:
            for work in (lambda: cupy.arange(10).sum(), cuda_device.record):
                work()
                assert driver.cuCtxGetCurrent(ctypes.byref(current)) == 0
                assert current.value == primary.value
            assert cupy.cuda.runtime.getDevice() == number
        finally:
            driver.cuDevicePrimaryCtxRelease_v2(number)

    def test_arrays_go_both_ways_in_order(self, cuda_device: Any) -> None:
        import cupy

        grid = Grid.with_count(64)
        inputs = make(100_000, grid)
        algorithm = made(cuda_device, "counting-sort", "order", inputs)
        algorithm.load(inputs)
        for shift in range(1, 4):  # no synchronisation between CuPy's work and PyCUDA's
            algorithm.cell_of[...] = (algorithm.cell_of + 1) % 64
            algorithm.build(algorithm.cell_of, algorithm.positions)
            counts = cupy.diff(algorithm.answer.start)
            expected = np.bincount((inputs.cell_of + shift) % 64, minlength=64)
            np.testing.assert_array_equal(cuda_device.download(counts), expected)

    @pytest.mark.parametrize("captures", [False, True])
    def test_cupy_works_on_the_devices_stream(self, cuda_device: Any, captures: bool) -> None:
        import cupy

        array = cuda_device.upload(np.zeros(100, np.int32))
        if captures:
            cuda_device.capture(lambda: cuda_device.fill(array, 0xFF))
        assert cupy.cuda.get_current_stream().ptr == cuda_device.stream.handle

    @pytest.mark.parametrize("closes", [True, False])
    def test_the_interpreter_exits_cleanly(self, cuda_device: Device, closes: bool) -> None:
        code = (
            "from gpubench import problems, registry\n"
            "from gpubench.devices import open_device\n"
            "from gpubench.problems.particles import inputs\n"
            "from gpubench.core.grid import Grid\n"
            "device = open_device('cuda')\n"
            "particles = inputs.make(1000, Grid.with_count(64))\n"
            "cls = registry.find_algorithm('radix-grid')\n"
            "algorithm = cls(device, 1000, particles.grid, 'reorder', {})\n"
            "algorithm.load(particles)\n"
            "graph = device.capture(algorithm.launch)\n"
            "graph.launch()\n"
            "print(problems.problems()['cell-list'].check(algorithm, particles))\n"
            f"if {closes}: device.close()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def test_the_device_describes_itself(cuda_device: Device) -> None:
    described = cuda_device.environment()
    assert described["compute_capability"].count(".") == 1
    assert described["multiprocessors"] == cuda_device.compute_units > 0
    assert "release" in described["nvcc"] or "cuda_" in described["nvcc"]
    assert cuda_device.cache_bytes > 2**20
    reports = {report.spec: report for report in cuda.survey()}
    assert reports[cuda_device.spec].usable
    assert reports[cuda_device.spec].name == cuda_device.name
    assert reports[cuda_device.spec].details["uuid"] == described["uuid"]
