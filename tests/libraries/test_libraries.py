"""The libraries of others: what is said where they are missing, and Warp on a CPU."""

from __future__ import annotations

import importlib
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice

from gpubench import problems, registry
from gpubench.base.errors import NotSupported
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.libraries import _library, cccl_sort
from gpubench.libraries._library import name_with_version, need
from gpubench.problems.particles.inputs import make
from gpubench.problems.sparse_product.inputs import of_particles
from gpubench.studies.bench import verdict_on

BOX = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 4.0, 6.0))
TORUS = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 4.0, 6.0), (True, False, False))

# Whose library is missing first, and what brings it.
RIVALS = {
    "warp-hash-grid": ("warp-lang", "rivals"),
    "warp-bvh": ("warp-lang", "rivals"),
    "torch-sort": ("torch", "rivals-cuda13"),
    "search-torch-sort": ("torch", "rivals-cuda13"),
    "cupy-argsort": ("CuPy", "cuda13"),
    "search-cupy-argsort": ("CuPy", "cuda13"),
    "cusparse-csr": ("CuPy", "cuda13"),
    "cuda-compute-sort": ("cuda-cccl", "rivals-cuda13"),
    "search-cuda-compute-sort": ("cuda-cccl", "rivals-cuda13"),
    "nvalchemi-cell-list": ("torch", "rivals-cuda13"),
}


class KernelDevice(FakeDevice):
    """Has kernels, which are never launched."""

    def kernel(self, file: str, name: str, **constants: Any) -> Any:
        return None


def made_for(cls: Any) -> dict[str, Any]:
    """Return what a class is made for, with ten particles or rows."""
    return (of_particles if cls.family == "sparse-product" else lambda p: p)(make(10, BOX)).made_for


@pytest.mark.parametrize("name", RIVALS)
def test_a_missing_library_is_skipped_with_what_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = importlib.import_module

    def missing(module: str) -> ModuleType:
        if module.startswith("gpubench"):
            return load(module)
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(_library.importlib, "import_module", missing)
    cls: Any = registry.find_algorithm(name)
    package, extra = RIVALS[name]
    device = KernelDevice()
    for form in cls.forms:
        with pytest.raises(NotSupported) as raised:
            cls(device, form=form, parameters={}, **made_for(cls))
        reason = f"{package} is not installed: pip install 'gpubench-particles[{extra}]'"
        assert verdict_on(raised.value, device) == ("skipped", reason)


def test_extras_that_are_named_exist() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in RIVALS.values()} <= extras.keys()


class TestNeed:
    def test_what_is_installed_is_imported(self) -> None:
        assert need("numpy", "numpy") is np

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (ModuleNotFoundError("", name="cuda"), "cuda-cccl is not installed"),
            (ModuleNotFoundError("", name="cuda.compute"), "cuda-cccl is not installed"),
            (ModuleNotFoundError("", name="cuda.core"), "cuda-cccl lacks cuda.core"),
            (ImportError("no libx.so\nmore"), r"cuda-cccl cannot be imported \(no libx.so\)"),
        ],
    )
    def test_what_is_missing_is_named(
        self, error: ImportError, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(module: str) -> ModuleType:
            raise error

        monkeypatch.setattr(_library.importlib, "import_module", fail)
        with pytest.raises(
            NotSupported, match=f"^{said}: pip install 'gpubench-particles\\[some\\]'$"
        ):
            need("cuda.compute", "cuda-cccl", "some")

    def test_what_no_extra_brings_is_installed_by_its_name(self) -> None:
        with pytest.raises(NotSupported, match=r"a-b is not installed: pip install a-b$"):
            need("no_such_module", "a-b", None)

    def test_names_with_versions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert name_with_version("numpy") == f"numpy {np.__version__}"

        def absent(package: str) -> str:
            raise PackageNotFoundError(package)

        monkeypatch.setattr(_library, "version", absent)
        assert name_with_version("numpy") == "numpy"


class TestCccl:
    """CUB of cuda-cccl's headers, where they are; with `toolkit` 1, the toolkit's."""

    def made(self, toolkit: int) -> Any:
        self.asked: dict[str, Any] = {}

        def library(file: str, headers: str = "", **constants: Any) -> Any:
            self.asked[file] = headers, constants.get("SORT_BY")
            return SimpleNamespace(sort_keys=lambda *_: 0, cub_version=lambda: 300_600)

        device: Any = FakeDevice()
        device.library, device.stream = library, SimpleNamespace(handle=0)
        cls: Any = registry.find_algorithm("cccl-sort")
        sizes = {"keys": 10, "value_bytes": 4, "segments": 2}
        return cls(device, form="segmented-radix", parameters={"toolkit": toolkit}, **sizes)

    def test_its_headers_are_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        headers = tmp_path / "cuda/cccl/headers/include"
        headers.mkdir(parents=True)
        monkeypatch.setattr(cccl_sort, "find_spec", lambda _: SimpleNamespace(
            submodule_search_locations=[str(headers.parents[1])]
        ))  # fmt: skip
        assert self.made(0).outcome() == {"cub": "3.6.0"}
        newest = str(headers)
        assert self.asked == {"cccl_key_sort.cu": (newest, 2), "cub_version.cu": (newest, None)}
        assert self.made(1).library is None and self.asked["cccl_key_sort.cu"] == ("", 2)

    def test_without_them_it_is_skipped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cccl_sort, "find_spec", lambda _: None)
        with pytest.raises(NotSupported, match="cuda-cccl is not installed: pip install"):
            self.made(0)


class TestForms:
    @pytest.mark.parametrize("name", ["torch-sort", "cupy-argsort", "nvalchemi-cell-list"])
    def test_no_graph_holds_what_a_library_allocates(self, name: str) -> None:
        cls: Any = registry.find_algorithm(name)
        algorithm = cls.__new__(cls)
        for algorithm.form in cls.forms:
            assert "allocates while it works" in algorithm.no_graph

    def test_who_finds_no_images_refuses_periodic_boxes(self) -> None:
        for name in RIVALS:
            cls: Any = registry.find_algorithm(name)
            if getattr(cls, "finds_images", True):
                continue
            form = next(iter(cls.forms))
            with pytest.raises(NotSupported, match=f"{name} finds no images across periodic walls"):
                cls(KernelDevice(), form=form, parameters={}, **make(10, TORUS).made_for)


class TestWarp:
    """Warp's hash grid and BVH on the host, beside any OpenCL device."""

    @pytest.fixture(autouse=True, params=["warp-hash-grid", "warp-bvh"])
    def cls(self, request: pytest.FixtureRequest) -> Any:
        return registry.find_algorithm(request.param)

    def made(self, cls: Any, device: Device, form: str, inputs: Any) -> Any:
        return cls(device, form=form, parameters={}, **inputs.made_for)

    @pytest.mark.parametrize("form", ["build", "count", "ten-counts", "list"])
    def test_it_finds_what_the_oracle_finds(
        self, cls: Any, opencl_device: Device, form: str
    ) -> None:
        for inputs in (make(0, BOX), make(1, BOX), make(3000, BOX), make(700, BOX, "one-cell")):
            algorithm = self.made(cls, opencl_device, form, inputs)
            algorithm.load(inputs)
            algorithm.launch()
            assert problems.problems()["neighbour-search"].check(algorithm, inputs) is None

    def test_it_says_what_it_is(self, cls: Any, opencl_device: Device) -> None:
        inputs = make(100, BOX)
        algorithm = self.made(cls, opencl_device, "list", inputs)
        algorithm.load(inputs)
        algorithm.launch()
        assert algorithm.library.startswith("warp-lang 1.")
        assert "works on the host" in algorithm.no_graph
        assert algorithm.peak_bytes() is None
        said = algorithm.outcome()
        assert {"overflow", "wrapping", "order", "self_pairs", "ties"} <= said.keys()
        assert said["pairs"] == algorithm.answer.neighbours.shape[0] > 0

    def test_lost_neighbours_are_seen(
        self, cls: Any, opencl_device: Device, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer that is checked is Warp's: with a cell too narrow it would be wrong."""
        inputs = make(2000, BOX)
        algorithm = self.made(cls, opencl_device, "count", inputs)
        monkeypatch.setattr(algorithm, "cutoff", 0.7)
        algorithm.load(inputs)
        algorithm.launch()
        monkeypatch.undo()
        problem = problems.problems()["neighbour-search"].check(algorithm, inputs)
        assert problem is not None
        assert "neighbours, expected" in problem


class TestLibrarySort:
    """CuPy's sort with NumPy in the place of CuPy: the cell list around it."""

    class Hook:
        def __enter__(self) -> Any:
            self.malloc_postprocess(mem_size=600)
            self.malloc_postprocess(mem_size=300)
            self.free_postprocess(mem_size=600)
            self.malloc_postprocess(mem_size=500)
            return self

        def __exit__(self, *_: object) -> None:
            pass

    @pytest.fixture
    def sort(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        cupy: Any = ModuleType("cupy")
        vars(cupy).update({name: getattr(np, name) for name in ("argsort", "searchsorted")})
        vars(cupy).update(arange=np.arange, copyto=np.copyto, __version__="0")
        cupy.cuda = SimpleNamespace(MemoryHook=self.Hook)
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        cls: Any = registry.find_algorithm("cupy-argsort")
        return cls(FakeDevice(), form="order", parameters={}, **make(500, BOX).made_for)

    def test_it_sorts_into_cells(self, sort: Any) -> None:
        for distribution in ("uniform", "one-cell"):
            inputs = make(500, BOX, distribution)
            sort.cell_of = inputs.cell_of
            sort.build(inputs.cell_of, inputs.positions)
            assert problems.problems()["cell-list"].check(sort, inputs) is None

    def test_it_tells_the_most_that_the_library_held_at_once(self, sort: Any) -> None:
        cells = BOX.count + 1
        assert sort.workspace_bytes == 4 * (500 + 2 * cells)
        sort.build(make(500, BOX).cell_of, None)
        assert sort.peak_bytes() == sort.workspace_bytes + 900
        assert sort.library == "cupy 0"
