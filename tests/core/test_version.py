"""Versions of what is timed: they change with what decides a time, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fluid_steps import step
from report_pages import results, run_of

from gpubench import registry
from gpubench.base import paths
from gpubench.core.version import RANKS, SHARED, SourceTree, version_of
from gpubench.devices import Device
from gpubench.evidence.declared import subject_of
from gpubench.evidence.declared import version_of as version_of_record
from gpubench.evidence.pooling import pool
from gpubench.studies import runner
from gpubench.studies.plan import plan
from gpubench.studies.selection import Selection
from gpubench.studies.study import load_study

ALGORITHM = '''"""Sorts."""
from typing import ClassVar

from gpubench.core.algorithm import Form
from gpubench.primitives import helpers
from gpubench.primitives.scan import Scan

BLOCK = 256


class Sort(Base):
    """A sort."""

    name = "some-sort"
    summary: ClassVar[str] = "sorts"

    def prepare(self, items: int) -> None:
        """Compile."""
        if items < 0:
            raise UserError(f"{items} are too few")
        self.kernel = self.device.kernel("sort.cu", "sort", BLOCK=BLOCK)
        self.scan = Scan(helpers.rounded(items))  # as the sort needs it


class Other(Base):
    name = "other-sort"
'''
SCAN = """class Scan:
    def __init__(self, items):
        self.kernel = "scan.cu" if items > 9 else "small.cu"


class Unused:
    LIMIT = 3
"""
FILES = {
    "gpubench/algorithms/sort.py": ALGORITHM,
    "gpubench/primitives/scan.py": SCAN,
    "gpubench/primitives/helpers.py": "def rounded(items):\n    return items + 1\n",
    "gpubench/core/algorithm.py": "class Form:\n    pass\n",
    "kernels/sort.cu": '// a sort\n#include "common/part.h"\nvoid sort() { part(); }\n',
    "kernels/scan.cu": "void scan() {}\n",
    "kernels/small.cu": "void small() {}\n",
    "kernels/common/part.h": "void part() { /* nothing */ }\n",
    "kernels/prelude/cuda.h": "#define KERNEL __global__\n",
    "kernels/prelude/opencl.h": "#define KERNEL __kernel\n",
}


def version(folder: Path, changes: dict[str, str], name: str = "some-sort") -> str | None:
    """Return a version where files differ from FILES; an empty text leaves a file out."""
    for file, text in (FILES | changes).items():
        if text:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return SourceTree(folder / "gpubench", folder / "kernels").version([name], "cuda")


def swapped(file: str, old: str, new: str) -> dict[str, str]:
    assert old in FILES[file]
    return {file: FILES[file].replace(old, new)}


SORT, PYTHON = "kernels/sort.cu", "gpubench/algorithms/sort.py"
SAME = {
    "a comment in a kernel": swapped(SORT, "// a sort", "/* the\n sort */ // it is"),
    "a comment in Python": swapped(PYTHON, "# as the sort needs it", "# why"),
    "a docstring": swapped(PYTHON, '"""A sort."""', '"""The sort."""'),
    "an annotation": swapped(PYTHON, "items: int", "items: float"),
    "a message": swapped(PYTHON, "are too few", "is too few"),
    "a summary": swapped(PYTHON, '"sorts"', '"sorts well"'),
    "what is seen of it": swapped(
        PYTHON, "    def prepare", "    def snapshot(self):\n        return 1\n\n    def prepare"
    ),
    "another class": swapped(PYTHON, '"other-sort"', '"another-sort"'),
    "what is not reached": swapped("gpubench/primitives/scan.py", "LIMIT = 3", "LIMIT = 4"),
    "a contract": {"gpubench/core/algorithm.py": "class Form:\n    changed = 1\n"},
    "the other back end": {"kernels/prelude/opencl.h": "#define KERNEL kernel\n"},
    "a module's name": {
        "gpubench/primitives/scan.py": "",
        "gpubench/primitives/prefix_sum.py": SCAN,
        **swapped(PYTHON, "primitives.scan", "primitives.prefix_sum"),
    },
    "a kernel's name": {
        SORT: "",
        "kernels/new_sort.cu": FILES[SORT],
        **swapped(PYTHON, "sort.cu", "new_sort.cu"),
    },
    "a class's name": {
        **swapped("gpubench/primitives/scan.py", "class Scan", "class PrefixSum"),
        PYTHON: ALGORITHM.replace("Scan", "PrefixSum"),
    },
}
DIFFERENT = {
    "a kernel": swapped(SORT, "part();", "part(); part();"),
    "what a kernel includes": swapped("kernels/common/part.h", "nothing */", "nothing */;"),
    "the prelude": {"kernels/prelude/cuda.h": "#define KERNEL __global__ static\n"},
    "a kernel that a part names": swapped("kernels/small.cu", "{}", "{;}"),
    "a constant": swapped(PYTHON, "BLOCK = 256", "BLOCK = 128"),
    "the work": swapped(PYTHON, "items)", "items + 1)"),
    "a part": swapped("gpubench/primitives/helpers.py", "items + 1", "items + 2"),
    "which of two kernels": swapped(
        "gpubench/primitives/scan.py",
        '"scan.cu" if items > 9 else "small.cu"',
        '"small.cu" if items > 9 else "scan.cu"',
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_what_decides_no_time_ages_nothing(change: str, tmp_path: Path) -> None:
    assert version(tmp_path / "after", SAME[change]) == version(tmp_path / "before", {})


@pytest.mark.parametrize("change", DIFFERENT)
def test_what_decides_the_time_makes_another_version(change: str, tmp_path: Path) -> None:
    assert version(tmp_path / "after", DIFFERENT[change]) != version(tmp_path / "before", {})


def test_a_version_is_the_same_in_every_version_of_python(tmp_path: Path) -> None:
    """As computed by Python 3.11, 3.12 and 3.13, whose syntax trees differ."""
    assert version(tmp_path, {}) == "1.851702d41a55"


def test_a_name_that_the_package_does_not_have_has_no_version(tmp_path: Path) -> None:
    assert version(tmp_path, {}, "of-a-plug-in") is None


def test_every_algorithm_and_workload_has_a_version_of_its_own() -> None:
    names = [*registry.algorithms(), *registry.workloads()]
    found = {name: version_of(name, None, "cuda") for name in names}
    assert None not in found.values()
    assert len(set(found.values())) == len(names)


def test_a_version_does_not_hang_on_what_was_asked_before() -> None:
    """One statement may define what several algorithms use, each by another name."""
    names = sorted([*registry.algorithms(), *registry.workloads()])
    folders = paths.PACKAGE, paths.kernel_folder()
    one, other = SourceTree(*folders), SourceTree(*folders)
    forth = {name: one.version([name], "cuda") for name in names}
    back = {name: other.version([name], "cuda") for name in reversed(names)}
    assert forth == back


def test_a_step_has_the_version_of_its_workload_and_its_cells() -> None:
    one, other, cells = (
        version_of(algorithm, workload, "cuda")
        for algorithm, workload in (
            ("counting-sort", "dpd-standard"), ("radix-grid", "dpd-standard"),
            ("counting-sort", None),
        )
    )  # fmt: skip
    assert len({one, other, cells, version_of("dpd-standard", None, "cuda")}) == 4


def of_one_and_several(folder: Path) -> tuple[str | None, str | None]:
    sources = SourceTree(folder / "gpubench", folder / "kernels")
    names = ["counting-sort", "sph-dam-break"]
    return sources.version(names, "cuda"), sources.version([*names, RANKS], "cuda")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None, str | None]:
    """Return a folder with a copy of the code, and its versions of one rank and of several."""
    folder = tmp_path_factory.mktemp("tree")
    for source, name in ((paths.PACKAGE, "gpubench"), (paths.kernel_folder(), "kernels")):
        others = shutil.ignore_patterns("*.json*", "*.toml", "*.js", "__pycache__")
        shutil.copytree(source, folder / name, ignore=others)
    return folder, *of_one_and_several(folder)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kernels/slabs.cu", "+ shift;", "+ shift + 0;"),
        ("gpubench/decomposed/rows.py", "LOW, HIGH = 0, 1", "LOW, HIGH = 1, 0"),
        ("gpubench/distributed/team.py", "self.comm.bcast(None)", "self.comm.bcast(0)"),
        ("gpubench/distributed/transport.py", "size // 2", "size // 3"),
    ],
)
def test_what_ranks_share_work_by_is_of_the_version_of_several(
    file: str, old: str, new: str, tree: tuple[Path, str | None, str | None]
) -> None:
    folder, one, several = tree
    before = (folder / file).read_text(encoding="utf-8")
    assert old in before
    (folder / file).write_text(before.replace(old, new), encoding="utf-8")
    changed = of_one_and_several(folder)
    (folder / file).write_text(before, encoding="utf-8")
    assert changed[0] == one and len({one, several, changed[1]}) == 3


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kernels/neighbour_geometry.cu", "size_t j = ids[second];", "size_t j = ids[second] + 0;"),
        ("kernels/counting_sort.cu", "return;", "{ return; }"),
        ("gpubench/neighbours/plan.py", "BLOCK = 256", "BLOCK = 128"),
    ],
)
def test_what_neighbour_list_runs_is_of_the_version_of_its_calls(
    file: str, old: str, new: str, tree: tuple[Path, str | None, str | None]
) -> None:
    names = ("neighbour-list", "neighbour-list-images", "vesin-images")
    folder, text = tree[0], (tree[0] / file).read_text(encoding="utf-8")
    assert old in text
    before = [version_of(name, None, "cuda") for name in names]
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    sources = SourceTree(folder / "gpubench", folder / "kernels")
    ours, images, theirs = (sources.version([name], "cuda") for name in names)
    (folder / file).write_text(text, encoding="utf-8")
    assert ours != before[0] and images != before[1] and theirs == before[2]


def test_the_code_of_several_ranks_begins_where_it_is_said_to() -> None:
    sources = SourceTree(paths.PACKAGE, paths.kernel_folder())
    assert [place for place in SHARED if sources.has(*place)] == [*SHARED[:3]]


def test_records_of_several_ranks_have_the_version_of_several() -> None:
    one, two = (version_of("counting-sort", "sph-dam-break", "cuda", ranks) for ranks in (None, 2))
    for version, is_old in ((one, True), (two, False)):
        made = step(shares=2, decomposition="slab", version=version)
        [row] = run_of([made]).cells.values()
        assert row.is_old == is_old
    [record] = results([made]).records
    assert subject_of(record) == ("cuda", "counting-sort", "sph-dam-break", RANKS)
    [record] = results([step()]).records
    assert subject_of(record) == ("cuda", "counting-sort", "sph-dam-break")
    device = SimpleNamespace(backend="cuda")
    planned = {
        (group.ranks, group.described(device, *item)["version"])
        for group in plan(load_study("silva2012-scaling"))
        for item in group.items
        if item[0].algorithm == "counting-sort" and group.ranks in (None, 2)
    }
    assert planned == {(None, one), (2, two)}


def test_records_hold_the_version(opencl_device: Device, tmp_path: Path) -> None:
    selection = Selection(quick=True, algorithms=("counting-sort",), particles=(65536,))
    found = runner.run(load_study("rozen2008-table1"), opencl_device, tmp_path, selection).results
    assert {each.version for each in found.records} == {version_of("counting-sort", None, "opencl")}
    assert {m.version for m in pool([found])} == {
        version_of_record(each, found.environment) for each in found.records
    }
