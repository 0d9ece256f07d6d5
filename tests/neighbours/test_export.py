"""`gpubench export`: source that compiles by itself, and finds the neighbours."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.core.grid import Grid
from gpubench.neighbours.export.folder import FILES, write
from gpubench.neighbours.export.source import resolved, with_kernels
from gpubench.problems.neighbours.pairs import NeighbourOracle

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SEARCH = "search-counting-sort"
# Axes that repeat, neighbours.
VARIANTS = [("xyz", 16), ("", 4), ("y", 100), ("z", 400), ("xz", 1)]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")


def test_conditions_are_resolved():
    text = (
        "#if A && !B\n1\n#else\n#if defined(C)\n2\n#else\n3\n#endif\n#endif\n"
        "#ifdef D\n4\n#else\n5\n#endif\n#ifndef A\n6\n#endif\n"
        "#if A && B == 2 /* why */\n7\n#if 0\n8\n#endif\n#endif\n"
    )
    found = {(a, b): resolved(text, {"A": a, "B": b}).split() for a, b in ((1, 0), (1, 2), (0, 0))}
    assert found == {(1, 0): ["1", "5"], (1, 2): ["3", "5", "7"], (0, 0): ["3", "5"]}


def test_kernels_are_included_without_their_dialect():
    text = '#define OWN 1\n#include "counting_sort.cu"\n#undef MACROS\n'
    found = with_kernels(text, {})
    assert "__shfl_up_sync" in found and "cell_of_position(grid, positions[i])" in found
    assert not re.search(r"GLOBAL|#if|#include", found)
    assert found.endswith("#undef FIRST_OF_WARP\n") and "#undef CELL_OF\n" in found


def test_writes_what_it_says(tmp_path):
    arguments = ["export", SEARCH, "--task", "list", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [str(tmp_path / "new" / name) for name in FILES]
    for name in FILES:  # nothing of the templates is left
        text = (tmp_path / "new" / name).read_text()
        assert not re.search(r"\$|noqa|^#(if|el|endif) ", text.split("__CUDACC_RTC__")[-1])
    head = (tmp_path / "new" / FILES[0]).read_text().split("*/")[0]
    assert (ROOT / "LICENSE").read_text().split()[2:] == head[head.index("Copyright") :].split()
    with pytest.raises(UserError, match=r"neighbours.cuh is there already"):
        write(tmp_path / "new")


def test_marks_of_long_rows_leave_room_in_shared_memory(tmp_path):
    for neighbours, words in ((300, 7), (400, 8), (600, 8)):  # 9 would not fit
        write(tmp_path / str(neighbours), periodic="xyz", neighbours=neighbours)
        text = (tmp_path / str(neighbours) / FILES[0]).read_text()
        assert int(re.search(r"WORDS = (\d+)", text)[1]) == words


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"search": "search-bitonic"}, f"only {SEARCH} --task list can be exported, not search-b"),
        ({"task": "count"}, "can be exported, not search-counting-sort --task count"),
        ({"periodic": "xx"}, "some of xyz"),
        ({"neighbours": 0.0}, "--neighbours takes a number above 0, not 0"),
        ({"neighbours": float("inf")}, "above 0, not inf"),
        ({"neighbours": float("nan")}, "above 0, not nan"),
    ],
)
def test_what_it_cannot_write_is_one_line(asked, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write(tmp_path / "new", **asked)
    assert not (tmp_path / "new").exists()


def built(folder, variant):
    """Write the search; compile its example, and a program that reads particles."""
    write(folder, SEARCH, "list", *variant)
    flags = ["-Werror", "all-warnings", "-std=c++14", "-arch=sm_80"]
    for source, name in (("example.cu", "example"), (HERE / "export_main.cu", "main")):
        subprocess.run(["nvcc", *flags, "-I.", "-o", name, source], cwd=folder, check=True)
    return folder / "main"


@needs_nvcc
@pytest.mark.long
@pytest.mark.parametrize(
    "variant",
    # These three have all branches: axes that repeat or do not, few neighbours and many.
    [v if v in VARIANTS[:3] else pytest.param(v, marks=pytest.mark.thorough) for v in VARIANTS],
)
def test_compiles_without_a_warning(variant, tmp_path):
    main = built(tmp_path / "it", variant)
    # Particles, edge and cutoff; a search is initialized before anything asks for a GPU.
    refused = [("0", "9", "1"), ("10", "9", "nan")]
    refused += [("10", "-1", "1"), ("10", "inf", "1"), ("10", "1e19", "1e18")]
    for arguments in refused + [("10", "9", "4")] * bool(variant[0]):
        done = subprocess.run([main, *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "invalid argument\n"), arguments


OTHER = """#include "other/neighbours.cuh"
size_t other() { return gpubench::NeighbourList().workspace_bytes(); }
"""


@pytest.mark.long
@needs_nvcc
def test_several_files_include_headers_and_cpp_calls_them(tmp_path):
    """Two files with one header, one with another export's, and C++ that calls the first."""
    write(tmp_path)
    write(tmp_path / "other", periodic="xyz")
    code = (ROOT / "docs/use.md").read_text(encoding="utf-8")
    (unit,) = re.findall(r"^```cuda\n(.*?)^```$", code, re.MULTILINE | re.DOTALL)
    (main,) = re.findall(r"^```cpp\n(.*?)^```$", code, re.MULTILINE | re.DOTALL)
    texts = {"search.cu": unit, "again.cu": '#include "neighbours.cuh"\n', "other.cu": OTHER}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cpp").write_text(main)
    flags = ["-Werror", "all-warnings", "-std=c++14", "-arch=sm_80", "-I.", "-o", "main"]
    subprocess.run(["nvcc", *flags, *texts, "main.cpp"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(r"[1-9]\d+ bytes of workspace\n", done.stdout)


@needs_nvcc
def test_a_cpp_file_is_told_how_to_use_the_header(tmp_path):
    write(tmp_path)
    (tmp_path / "main.cpp").write_text('#include "neighbours.cuh"\n')
    done = subprocess.run(["nvcc", "-c", "main.cpp"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "include it in a .cu file" in done.stderr


@pytest.fixture(params=VARIANTS, ids=lambda v: f"{v[0] or 'open'}-{v[1]}")
def case(request, tmp_path):
    """A variant, particles for it, and the oracle of their neighbours."""
    periodic, neighbours = request.param
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
def test_the_header_finds_the_neighbours(case):
    folder, variant, positions, edge, cutoff, grid = case
    main = built(folder, variant)
    subprocess.run([folder / "example"], check=True)
    positions.tofile(folder / "positions")
    n = len(positions)
    subprocess.run(
        [main, str(n), repr(edge), repr(float(np.float32(cutoff))), "positions", "found"],
        cwd=folder, check=True,
    )  # fmt: skip
    found = (folder / "found").read_bytes()
    counts = np.frombuffer(found, np.int32, n)
    oracle = NeighbourOracle(positions, grid, float(np.float32(cutoff)))
    offsets = np.frombuffer(found, np.int64, n + 1, 4 * n)
    neighbours = np.frombuffer(found, np.int32, int(offsets[-1]), 4 * n + 8 * (n + 1))
    assert oracle.check_list(counts, offsets, neighbours) is None


@pytest.mark.cuda
def test_the_file_for_cupy_finds_the_neighbours(case):
    cupy = pytest.importorskip("cupy")
    folder, variant, positions, edge, cutoff, grid = case
    write(folder, SEARCH, "list", *variant)
    spec = importlib.util.spec_from_file_location("taken", folder / "cupy_neighbours.py")
    taken = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(taken)
    cutoff = float(np.float32(cutoff))
    search = taken.NeighbourList(len(positions), (0, 0, 0), (edge,) * 3, cutoff)
    oracle = NeighbourOracle(positions, grid, cutoff)
    for _ in range(2):
        counts = search.count(cupy.asarray(positions)).get()
        assert oracle.check_counts(counts) is None
        offsets, found = (array.get() for array in search.list(cupy.asarray(positions)))
        assert oracle.check_list(counts, offsets, found) is None
