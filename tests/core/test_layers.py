"""Imports run one way, from the command line down to the contracts."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import gpubench
from gpubench import registry

PACKAGE = Path(gpubench.__file__).parent

# From the bottom up; a part may import its own layer and those below. A part is a folder, or a
# module that has a layer of its own.
LAYERS = [
    {"core.poison"},
    {"__init__", "core", "inputs"},
    {
        "verify.oracle",
        "verify.neighbour_oracle",
        "verify.neighbour_rows",
        "verify.arrays",
        "physics",
    },
    {"problems"},
    {"verify", "evidence"},
    {"devices"},
    {"measure", "distributed"},
    {"algorithms", "libraries", "primitives"},
    {"workloads", "distributed.domain_decomposition"},
    {"core.registry"},
    {"report", "studies", "simulate", "physics_checks", "compare", "choose"},
    {"neighbours"},
    {"cli"},
    {"__main__", "contracts", "families", "registry"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# What a part may not import although it lies below.
RUNS = {"devices", "algorithms", "libraries", "primitives", "measure", "workloads", "distributed"}
FORBIDDEN = {
    "report": {*RUNS, "physics_checks"},
    "studies": {"report", "physics_checks"},
    "simulate": {"report", "studies", "physics_checks"},
    "physics_checks": {"report", "studies"},
    "compare": {"report", "simulate", "physics_checks"},
    "choose": {
        *RUNS,
        "core.registry",
        "report",
        "studies",
        "simulate",
        "physics_checks",
        "compare",
    },
}
DEVICE_LIBRARIES = {"pycuda", "cupy", "pynvml", "pyopencl"}
CLOCKS = {"time", "timeit"}
CLOCK_METHODS = {"now", "utcnow", "today"}  # of datetime and date


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "kernels" not in path.parts]


def part_of(path: Path) -> str:
    """Return the part that a file belongs to."""
    return part(path.relative_to(PACKAGE).with_suffix("").parts)


def part(words: Sequence[str]) -> str:
    """Return the part that the name of a module, below the package, belongs to."""
    whole = ".".join(words[:2])
    if whole in LEVEL:
        return whole
    return words[0] if words and words[0] in LEVEL else "__init__"


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of what a module imports when it runs, inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_type_checkers = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_type_checkers:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(path: Path) -> set[str]:
    """Return which parts of the package a module imports."""
    words = (name.split(".") for name in imported(path))
    return {part(word[1:]) for word in words if word[0] == "gpubench"}


def test_every_part_has_a_layer():
    folders = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert folders <= LEVEL.keys()


def test_few_files_stand_at_the_root():
    assert len(list(PACKAGE.glob("*.py"))) <= 6


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    own = part_of(path)
    found = parts_imported(path)
    upwards = {name for name in found if LEVEL[name] > LEVEL[own]}
    if path == PACKAGE / "core" / "contracts.py":  # CellList.load computes cell ids on the device
        upwards -= {"primitives"}
    if path == PACKAGE / "__init__.py":  # the public face
        upwards -= {"evidence", "neighbours"}
    if path == PACKAGE / "problems" / "unmoved.py":  # a scaffold
        upwards -= {"verify"}
    assert not upwards
    assert not found & FORBIDDEN.get(own, set())


def test_the_test_sees_imports_of_every_kind(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "from typing import TYPE_CHECKING\n"
        "from gpubench.cli import app as cli\n"
        "def f():\n    import gpubench.report.page\n"
        "if TYPE_CHECKING:\n    from gpubench.devices import base\n"
    )
    assert parts_imported(module) == {"cli", "report"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_measure_reads_a_clock(path):
    if part_of(path) == "measure":
        return
    assert not {name.split(".")[0] for name in imported(path)} & CLOCKS
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & CLOCK_METHODS


PHYSICS = sorted(f"gpubench.physics.{path.stem}" for path in (PACKAGE / "physics").glob("[!_]*.py"))


@pytest.mark.parametrize(
    "module",
    [
        "gpubench.report",
        "gpubench.choose.output",
        "gpubench.evidence.results",
        "gpubench.verify.oracle",
        "gpubench.verify.conformance",
        ", ".join(PHYSICS),
    ],
)
def test_needs_no_device(module):
    loaded = modules_after(f"import {module}")
    assert not DEVICE_LIBRARIES & {name.split(".")[0] for name in loaded}
    assert not {name for name in loaded if name.startswith(("gpubench.devices", "gpubench.algor"))}


FORBIDDEN_AT_RUN_TIME = """
import sys
from pathlib import Path
class Refuse:
    def find_spec(self, name, path=None, target=None):
        forbidden = ("algorithms", "libraries", "devices", "primitives", "distributed")
        if name.startswith(tuple(f"gpubench.{part}" for part in forbidden)):
            raise ImportError(f"{name} is imported")
sys.meta_path.insert(0, Refuse())
from gpubench import report
from gpubench.report.sources import sort_out
out, *given = map(Path, sys.argv[1:])
report.write(sort_out(given).results, out)
"""


def test_writing_a_report_imports_no_device_and_no_algorithm(tmp_path):
    measured = PACKAGE.parent / "results" / "measured" / "nvidia-h200"
    given = [next(measured.glob("*table3.json"))]
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN_AT_RUN_TIME, str(tmp_path), *map(str, given)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rozen2008-table3.html").is_file()


def test_reading_a_study_needs_no_device():
    loaded = modules_after(
        "from gpubench.studies.study import load_study; load_study('rozen2008-table1')"
    )
    assert not {name for name in loaded if name.startswith(("gpubench.devices", "gpubench.algor"))}


def modules_after(code: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after the code."""
    code += "; import sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("door", "home"),
    [
        ("gpubench.registry", "gpubench.registry"),
        ("gpubench.families", "gpubench.verify.problems"),
    ],
)
def test_an_old_import_path_is_the_moved_module(door, home):
    assert importlib.import_module(door) is importlib.import_module(home)


def test_outside_plug_ins_find_what_the_contracts_held():
    door = importlib.import_module("gpubench.contracts")
    for name in ("Algorithm", "CellList", "Form", "LinkedCells", "SortedCells", "TASKS", "task_of"):
        assert hasattr(door, name)


NAMELESS = ("evidence", "report", "choose", "compare", "cli")


def test_what_reads_results_names_no_algorithm_study_or_library():
    """What it needs to know, classes and studies declare and records carry."""
    named = {*registry.algorithms(), *registry.workloads(), *registry.studies()}
    texts = re.compile(rf"""["'`]({"|".join(map(re.escape, sorted(named, key=len)))})["'`]""")
    found = [
        f"{path.relative_to(PACKAGE)}: {match[1]}"
        for part in NAMELESS
        for path in sorted((PACKAGE / part).rglob("*"))
        if path.suffix in (".py", ".j2", ".js")
        for match in texts.finditer(path.read_text(encoding="utf-8"))
    ]
    # The end of a file's name, which stays as it is.
    assert [each for each in found if each != "report/spreadsheets.py: rivals"] == []
