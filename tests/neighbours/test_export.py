"""`gpubench export`: source that compiles by itself, and finds the neighbours."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpubench.cli.app import app
from gpubench.core.errors import UserError
from gpubench.core.grid import Grid
from gpubench.neighbours.export.folder import FILES, write
from gpubench.neighbours.export.source import namespace, resolved
from gpubench.verify.neighbour_oracle import NeighbourOracle

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = [
    ("list", "xyz", 3, 16), ("list", "", 1, 16), ("list", "y", 2, 100), ("list", "", 5, 400),
    ("count", "xz", 4, 16), ("count", "", 1, 16),
]  # fmt: skip
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")


def test_conditions_are_resolved():
    text = (
        "#if A && !B\n1\n#elif defined(C)\n2\n#else\n3\n#endif\n"
        "#ifdef D\n4\n#else\n5\n#endif\n#ifndef A\n6\n#endif\n"
        "#if A \\\n  && B == 2\n7\n#if 0\n8\n#endif\n#endif\n"
    )
    found = {(a, b): resolved(text, {"A": a, "B": b}).split() for a, b in ((1, 0), (1, 2), (0, 0))}
    assert found == {(1, 0): ["1", "5"], (1, 2): ["3", "5", "7"], (0, 0): ["3", "5"]}


def test_constants_that_are_read_stay_as_constants():
    text = namespace("sort", ["counting_sort.cu"], {"BLOCK": 64, "ITEMS": 4, "REORDER": 0, "N": 1})
    assert "constexpr int BLOCK = 64;" in text and "N = 1" not in text
    assert "__shfl_up_sync" in text and "GLOBAL" not in text and "#if" not in text


def test_the_licence_is_that_of_the_project():
    ours = (ROOT / "gpubench/neighbours/export/licence.txt").read_text().split()
    assert ours == (ROOT / "LICENSE").read_text().split()[2:]


def test_writes_what_it_says(tmp_path):
    arguments = ["export", "search-counting-sort", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [str(tmp_path / "new" / name) for name in FILES]
    with pytest.raises(UserError, match=r"neighbours.cuh is there already"):
        write(tmp_path / "new")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"search": "search-bitonic"}, "only search-counting-sort can be exported"),
        ({"task": "build"}, "count or list"),
        ({"periodic": "xx"}, "some of xyz"),
        ({"parts": 6}, "1 to 5"),
    ],
)
def test_what_it_cannot_write_is_one_line(asked, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write(tmp_path / "new", **asked)
    assert not (tmp_path / "new").exists()


def built(folder, task, periodic, parts, neighbours):
    write(folder, task=task, periodic=periodic, parts=parts, neighbours=neighbours)
    subprocess.run(
        ["nvcc", "-Werror", "all-warnings", "-std=c++14", "-arch=sm_80", "-o", "example",
         "example.cu"],
        cwd=folder, check=True,
    )  # fmt: skip
    return folder / "example"


@needs_nvcc
@pytest.mark.parametrize(
    "variant", [VARIANTS[0], *(pytest.param(v, marks=pytest.mark.long) for v in VARIANTS[1:])]
)
def test_compiles_without_a_warning(variant, tmp_path):
    example = built(tmp_path / "it", *variant)
    repeats = bool(variant[1])
    # Particles, edge and cutoff; the example initializes the search before it asks for a GPU.
    refused = [("0", "9", "1"), ("10", "-1", "1"), ("10", "9", "nan"), ("10", "inf", "1")]
    for arguments in refused + [("10", "9", "4")] * repeats:
        done = subprocess.run([example, *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "invalid argument\n"), arguments


@pytest.fixture(params=VARIANTS, ids=lambda v: f"{v[0]}-{v[1] or 'open'}-{v[3]}")
def case(request, tmp_path):
    """A variant, particles for it, and the oracle of their neighbours."""
    _, periodic, _, neighbours = request.param
    edge, n = 9.0, 3000
    cutoff = (neighbours * edge**3 / n / (4 / 3 * np.pi)) ** (1 / 3)
    positions = np.zeros((n, 4), np.float32)
    positions[:, :3] = np.random.default_rng(4).random((n, 3)) * edge
    positions[:5, :3] = 0.0
    positions[5] = edge
    repeats = tuple(axis in periodic for axis in "xyz")
    grid = Grid((3, 3, 3), (0.0,) * 3, (edge,) * 3, repeats)
    return tmp_path / "it", request.param, positions, edge, cutoff, grid


@pytest.mark.cuda
@needs_nvcc
def test_the_example_finds_the_neighbours(case):
    folder, variant, positions, edge, cutoff, grid = case
    example = built(folder, *variant)
    positions.tofile(folder / "positions")
    n = len(positions)
    subprocess.run(
        [example, str(n), repr(edge), repr(float(np.float32(cutoff))), "positions", "found"],
        cwd=folder, check=True,
    )  # fmt: skip
    found = (folder / "found").read_bytes()
    counts = np.frombuffer(found, np.int32, n)
    oracle = NeighbourOracle(positions, grid, float(np.float32(cutoff)))
    if variant[0] == "count":
        assert oracle.check_counts(counts) is None
        return
    offsets = np.frombuffer(found, np.int64, n + 1, 4 * n)
    neighbours = np.frombuffer(found, np.int32, int(offsets[-1]), 4 * n + 8 * (n + 1))
    assert oracle.check_list(counts, offsets, neighbours) is None


@pytest.mark.cuda
def test_the_file_for_cupy_finds_the_neighbours(case):
    cupy = pytest.importorskip("cupy")
    folder, (task, periodic, parts, neighbours), positions, edge, cutoff, grid = case
    write(folder, task=task, periodic=periodic, parts=parts, neighbours=neighbours)
    spec = importlib.util.spec_from_file_location("taken", folder / "cupy_neighbours.py")
    taken = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(taken)
    cutoff = float(np.float32(cutoff))
    search = taken.NeighbourList(len(positions), (0, 0, 0), (edge,) * 3, cutoff)
    oracle = NeighbourOracle(positions, grid, cutoff)
    for _ in range(2):
        counts = search.count(cupy.asarray(positions)).get()
        assert oracle.check_counts(counts) is None
        if task == "list":
            offsets, found = (array.get() for array in search.list(cupy.asarray(positions)))
            assert oracle.check_list(counts, offsets, found) is None
