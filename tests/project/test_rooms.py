"""Imports run one way, from the command line down to the contracts."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import gpubench
from gpubench import problems, registry

PACKAGE = Path(gpubench.__file__).parent

# From the bottom up: a room imports itself and those below it, in functions and for type checkers
# too. Modules at the root are doors, which nothing imports.
ROOMS = [
    "base", "devices", "core", "physics", "problems", "problems/finder", "evidence", "measure",
    "distributed", "primitives", "algorithms", "workloads", "libraries", "decomposed", "steps",
    "registry", "verify", "studies", "simulate", "physics_checks", "report", "choose", "compare",
    "neighbours", "cli", "root",
]  # fmt: skip
LEVEL = {name: level for level, name in enumerate(ROOMS)}
DOORS = {"core/answers.py", "core/contracts.py", "core/errors.py", "core/tasks.py"}

# What a room may not import when it runs although it lies below.
RUNS = {"devices", "algorithms", "libraries", "primitives", "measure", "workloads", "distributed"}
RUNS |= {"decomposed", "steps"}
FORBIDDEN = {
    "report": {*RUNS, "physics_checks"},
    "studies": {"report", "physics_checks"},
    "simulate": {"report", "studies", "physics_checks"},
    "physics_checks": {"report", "studies"},
    "compare": {"report", "simulate", "physics_checks"},
    "choose": {*RUNS, "registry", "report", "studies", "simulate", "physics_checks", "compare"},
}
# The parts of a problem, each of which imports only those before it.
PARTS = ("axes", "inputs", "contract", "oracle", "cases")
# What `workloads` contracts and tests.
LACKING = {"steps": {"contract", "cases"}}
DEVICE_LIBRARIES = {"pycuda", "cupy", "pynvml", "pyopencl"}
CLOCKS = {"time", "timeit"}
CLOCK_METHODS = {"now", "utcnow", "today"}  # of datetime and date


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "kernels" not in path.parts]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def words_of(path: Path) -> tuple[str, ...]:
    """Return the name of a module below the package, in words; of a package, that of its folder."""
    words = path.relative_to(PACKAGE).with_suffix("").parts
    return words[:-1] if words[-1] == "__init__" else words


def room(words: Sequence[str]) -> str:
    """Return the room that a name below the package belongs to."""
    if words and words[0] == "problems":
        is_folder = len(words) > 1 and words[1] in FOLDERS
        return "problems" if is_folder else "problems/finder"
    return words[0] if words and words[0] in LEVEL else "root"


FOLDERS = sorted(path.parent.name for path in PACKAGE.glob("problems/*/__init__.py"))


@cache
def imported(path: Path, for_types: bool = True) -> list[str]:
    """Return the full names of what a module imports, inside functions too.

    for_types: with what it imports for type checkers alone.
    """
    tree, found = tree_of(path), []
    for_type_checkers = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_type_checkers and not for_types:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def own_imports(path: Path, for_types: bool = True) -> set[tuple[str, ...]]:
    """Return what a module imports of the package, in words below it."""
    found = (tuple(name.split(".")) for name in imported(path, for_types))
    return {words[1:] for words in found if words[0] == "gpubench"}


def test_every_room_has_its_place():
    folders = {room(words_of(path)) for path in modules()}
    assert folders == {*ROOMS}
    assert len(list(PACKAGE.glob("*.py"))) <= 7


def test_rooms_form_a_dag():
    upwards = [
        f"{path.relative_to(PACKAGE)} imports {'.'.join(words)}"
        for path in modules()
        for words in own_imports(path)
        if LEVEL[room(words)] > LEVEL[room(words_of(path))]
    ]
    assert upwards == []


def test_nothing_imports_a_door():
    doors = {tuple(door.removesuffix(".py").split("/")) for door in DOORS}
    assert doors <= {words_of(path) for path in modules()}
    found = [
        f"{path.relative_to(PACKAGE)} imports {'.'.join(words)}"
        for path in modules()
        for words in own_imports(path)
        if words[:2] in doors
    ]
    assert found == []


def test_no_module_imports_itself_by_way_of_others():
    known = {words_of(path): path for path in modules()}
    graph = {}
    for words, path in known.items():
        found = own_imports(path)
        nearest = (next(w for n in range(len(i), -1, -1) if (w := i[:n]) in known) for i in found)
        graph[words] = {each for each in nearest if each != words}
    order = tuple(TopologicalSorter(graph).static_order())  # raises CycleError
    assert len(order) == len(known)


def test_a_problem_imports_another_only_if_it_stands_on_it():
    for folder in FOLDERS:
        stands_on = getattr(importlib.import_module(f"gpubench.problems.{folder}"), "STANDS_ON", ())
        used = {
            words[1]
            for path in (PACKAGE / "problems" / folder).glob("*.py")
            for words in own_imports(path)
            if room(words) == "problems" and words[1] != folder
        }
        assert used == {*stands_on}, folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_problem_has_its_parts(folder):
    """Its own, or those of a folder that it stands on; each imports only those before it."""
    module = importlib.import_module(f"gpubench.problems.{folder}")
    folders = [folder, *getattr(module, "STANDS_ON", ())]
    declared = [
        each for each in problems.own().values() if type(each).__module__ == module.__name__
    ]
    if declared:
        for part in {*PARTS} - LACKING.get(folder, set()):
            homes = (PACKAGE / "problems" / each / f"{part}.py" for each in folders)
            assert any(path.is_file() for path in homes), part
    for index, part in enumerate(PARTS):
        path = PACKAGE / "problems" / folder / f"{part}.py"
        later = {*PARTS[index + 1 :]}
        if path.is_file():
            assert not {w[2] for w in own_imports(path) if len(w) > 2 and w[1] == folder} & later


def test_one_class_name_stands_for_one_class():
    found: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_equal_axes_of_two_kinds_have_equal_words_and_types():
    seen: dict[str, tuple[str, Any]] = {}
    for kind, axes in problems.axes_by_kind().items():
        for name, axis in axes.items():
            first, other = seen.setdefault(name, (kind, axis))
            words = problems.words_of(name, axis)
            # A number of triangles means that of one mesh, in whatever range.
            assert (words, axis.is_whole) == (problems.words_of(name, other), other.is_whole), (
                f"{name} of {first} and of {kind}"
            )


def test_no_room_imports_what_it_must_run_without():
    found = [
        f"{path.relative_to(PACKAGE)} imports {'.'.join(words)}"
        for path in modules()
        for words in own_imports(path, for_types=False)
        if room(words) in FORBIDDEN.get(room(words_of(path)), set())
    ]
    assert found == []


def test_the_tests_see_imports_of_every_kind(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "from typing import TYPE_CHECKING\n"
        "from gpubench.cli import app as cli\n"
        "def f():\n    import gpubench.report.page\n"
        "if TYPE_CHECKING:\n    from gpubench.devices import base\n"
    )
    running = {("cli", "app"), ("report", "page")}
    assert own_imports(module, for_types=False) == running
    assert own_imports(module) == running | {("devices", "base")}


def test_only_measure_reads_a_clock():
    found = []
    for path in modules():
        tree = tree_of(path)
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if {name.split(".")[0] for name in imported(path)} & CLOCKS or attributes & CLOCK_METHODS:
            found.append(room(words_of(path)))
    assert {*found} == {"measure"}


PHYSICS = sorted(f"gpubench.physics.{path.stem}" for path in (PACKAGE / "physics").glob("[!_]*.py"))


@pytest.mark.parametrize(
    "module",
    [
        "gpubench.report",
        "gpubench.choose.output",
        "gpubench.evidence.results",
        "gpubench.problems.cells.oracle",
        "gpubench.problems.neighbours.oracle",
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
report.write(sort_out(given), out)
"""


def test_writing_a_report_imports_no_device_and_no_algorithm(tmp_path):
    measured = PACKAGE.parent / "results" / "measured" / "nvidia-h200"
    given = [next(measured.glob("*table3.json.gz"))]
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


def test_reading_records_imports_no_numpy():
    loaded = modules_after("import gpubench.evidence.records, gpubench.evidence.results")
    assert not {"numpy", "scipy", "pandas"} & loaded


@pytest.mark.parametrize("door", ["core.contracts", "core.answers", "core.tasks", "inputs"])
def test_what_was_written_before_finds_what_it_imported(door):
    """Plug-ins and asv's files of earlier commits."""
    held = importlib.import_module(f"gpubench.{door}")
    home = importlib.import_module("gpubench.contracts")
    for name in home.__all__:
        assert getattr(held, name) is getattr(home, name)
    assert importlib.import_module("gpubench.core.errors").UserError is home.UserError
    kind = importlib.import_module("gpubench.families").FAMILIES["cell-list"].kind
    assert (kind.kind, kind.size_axis) == ("particles", "particles")


NAMELESS = ("evidence", "report", "choose", "compare", "cli")
# Which names of axes, kinds and problems stand quoted above the problems: views of searches and
# steps, advice about searches, keys of files. It may only shrink.
ALLOWED = {
    "evidence/bounds.py": "records",
    "evidence/declared.py": "destination ranks simulation workload workload-step",
    "evidence/files.py": "records",
    "evidence/frame.py": "per_cell ranks",
    "evidence/inputs.py": "simulation",
    "evidence/records.py": "destination distribution kept moved nulls order particles per_cell"
    " periodic ranks record_bytes records",
    "report/cells.py": "moved periodic ranks workload",
    "report/maps.py": "contrast distribution moved order particles per_cell radii",
    "report/rankings.py": "radii",
    "report/scans.py": "decomposition moved ranks time_step workload",
    "report/search_pages.py": "contrast moved particles per_cell radii skin time_step",
    "report/spreadsheets.py": "periodic",
    "report/steps.py": "decomposition particles skin time_step workload",
    "report/study_charts.py": "ranks",
    "report/tables.py": "decomposition moved ranks workload",
    "choose/chooser.py": "distribution order",
    "choose/evidence.py": (
        "contrast destination distribution moved order particles per_cell periodic radii"
    ),
    "choose/output.py": "moved particles per_cell",
    "choose/question.py": "destination distribution order",
    "choose/sorts.py": "key_bits key_count key_entropy key_order key_type segment_keys value_bytes",
    "compare/files.py": "periodic",
    "compare/pairs.py": "records",
    "compare/worker.py": "records workload",
    "cli/listing.py": "workload",
    "cli/measured.py": "records",
    "cli/simulate.py": "particles simulation workload",
    "cli/tune.py": "skin",
}


def test_names_of_axes_stay_below():
    named = {*problems.axes(), *problems.own_kinds(), *problems.own()}
    found = {}
    for part in NAMELESS:
        for path in sorted((PACKAGE / part).rglob("*.py")):
            tree = tree_of(path)
            described = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                and isinstance(node.body[0], ast.Expr)
            }
            quoted = {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and id(node) not in described
            }
            if own := sorted(each for each in quoted if isinstance(each, str) and each in named):
                found[path.relative_to(PACKAGE).as_posix()] = " ".join(own)
    assert found == ALLOWED


def test_what_reads_results_names_no_algorithm_study_or_library():
    """What it needs to know, classes and studies declare and records carry."""
    named = {*registry.algorithms(), *registry.workloads(), *registry.studies()}
    named -= problems.RESERVED  # the study and the field of records `cells`
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
