"""Versions of what is timed: they change with what decides a time, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubench import registry
from gpubench.base import paths
from gpubench.core.version import SourceTree, version_of
from gpubench.devices import Device
from gpubench.evidence.declared import version_of as version_of_record
from gpubench.evidence.pooling import pool
from gpubench.studies import runner
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


def test_records_hold_the_version(opencl_device: Device, tmp_path: Path) -> None:
    selection = Selection(quick=True, algorithms=("counting-sort",), particles=(65536,))
    found = runner.run(load_study("rozen2008-table1"), opencl_device, tmp_path, selection).results
    assert {each.version for each in found.records} == {version_of("counting-sort", None, "opencl")}
    assert {m.version for m in pool([found])} == {
        version_of_record(each, found.environment) for each in found.records
    }
