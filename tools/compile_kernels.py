"""Compile every CUDA kernel that the algorithms use, on a machine without a GPU.

The kernels are found by making the algorithms on a recording device, so constants are those of a
GPU and no list is needed. Modules in GPUBENCH_ADD are included. Needs nvcc.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from kernel_units import Unit, is_like, wanted_units, without_repeats

from gpubench.base import plugins
from gpubench.base.paths import kernel_folder

T = TypeVar("T")

# Every kernel is compiled for the first; for the others, one set of constants per file.
ARCHITECTURES = ("sm_80", "sm_90")
JOBS = 2
TOGETHER = 40  # units per compilation
OPTIONS = ["-O3", "-Werror", "all-warnings"]
# Without optimization, a compilation takes a quarter of the time.
QUICK = ["-ptx", "-Xcicc", "-O0"]


def include_options(unit: Unit) -> list[str]:
    """Return the include options for a kernel file and its constants."""
    return [
        *(f"-I{folder}" for folder in plugins.kernel_folders(unit.file)),
        *(f"-D{name}={value}" for name, value in unit.constants),
    ]


def compile_kernels(unit: Unit, architecture: str, folder: Path) -> str | None:
    """Compile a unit to PTX as PyCUDA would; return the error, or None."""
    source, ptx = folder / "unit.cu", folder / "unit.ptx"
    source.write_text(f'extern "C" {{\n#include "prelude/cuda.h"\n#include "{unit.file}"\n}}\n')
    return _nvcc(
        "-ptx", *include_options(unit), f"-arch={architecture}", "-o", str(ptx), str(source)
    )


def compile_library(unit: Unit, architecture: str, folder: Path) -> str | None:
    """Compile a unit to a shared library as the CUDA device would; return the error, or None."""
    built = folder / "unit.so"
    return _nvcc(
        "-shared", "-Xcompiler", "-fPIC", *include_options(unit), f"-arch={architecture}",
        "-o", str(built), str(plugins.kernel_folders(unit.file)[0] / unit.file),
    )  # fmt: skip


def check_device_code(unit: Unit, architecture: str) -> str | None:
    """Compile only the device code of a library, which takes a third of the time."""
    source = plugins.kernel_folders(unit.file)[0] / unit.file
    return _nvcc(*QUICK, *include_options(unit), f"-arch={architecture}", "-o", os.devnull,
                 str(source))  # fmt: skip


def _nvcc(*arguments: str) -> str | None:
    return _run("nvcc", *OPTIONS, *arguments)


def _run(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()


def check(unit: Unit, names: set[str], architecture: str) -> str | None:
    """Compile a unit and look for the requested names; return the error, or None."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if unit.is_library:
            if problem := compile_library(unit, architecture, folder):
                return problem
            library = ctypes.CDLL(str(folder / "unit.so"))
            missing = {name for name in names if not hasattr(library, name)}
        else:
            if problem := compile_kernels(unit, architecture, folder):
                return problem
            entries = re.findall(r"\.entry (\w+)\(", (folder / "unit.ptx").read_text())
            missing = names - set(entries)
    return f"has no {', '.join(sorted(missing))}" if missing else None


def check_together(wanted: dict[Unit, set[str]], architecture: str) -> dict[Unit, str | None]:
    """Check units in a single compilation, which takes a third of the time.

    Each is preprocessed with its own constants, and gets its own namespace. If there is an error,
    each is checked separately.
    """
    with tempfile.TemporaryDirectory() as name:
        if are_right_together(wanted, architecture, Path(name)):
            return dict.fromkeys(wanted)
    return {unit: check(unit, names, architecture) for unit, names in wanted.items()}


def are_right_together(wanted: dict[Unit, set[str]], architecture: str, folder: Path) -> bool:
    """Return whether units compile together, and each defines the requested names."""
    source, ptx, text = folder / "all.cu", folder / "all.ptx", folder / "unit.cu"
    seen = f"-D__CUDA_ARCH__={architecture.removeprefix('sm_')}0"
    with source.open("w") as file:
        for number, unit in enumerate(wanted):
            one = folder / "one.cu"
            one.write_text(f'#include "prelude/cuda.h"\n#include "{unit.file}"\n')
            options = ["-x", "c++", "-D__CUDACC__", seen, *include_options(unit)]
            if _run("gcc", "-E", *options, "-o", str(text), str(one)):
                return False
            file.write(f"namespace unit{number}_ {{\n{text.read_text()}\n}}\n")
    if _nvcc(*QUICK, f"-arch={architecture}", "-o", str(ptx), str(source)):
        return False
    entries: dict[int, set[str]] = defaultdict(set)
    for number, length, rest in re.findall(
        r"\.entry _ZN\d+unit(\d+)_(\d+)(\w+)\(", ptx.read_text()
    ):
        entries[int(number)].add(rest[: int(length)])
    return all(names <= entries[number] for number, names in enumerate(wanted.values()))


def check_all(
    wanted: dict[Unit, set[str]], architectures: Sequence[str]
) -> Iterator[tuple[Unit, str, str | None]]:
    """Check every unit for the first architecture, and one per file for the others.

    Yields a unit, an architecture, and the error or None. For the first architecture, one unit per
    file is compiled as the CUDA device does; the other kernels are compiled together, and of the
    other libraries only the device code.
    """
    main, *others = architectures
    first = set({unit.file: unit for unit in wanted}.values())
    libraries = [unit for unit in wanted if unit.is_library]
    kernels = {unit: names for unit, names in wanted.items() if not unit.is_library}
    with ThreadPoolExecutor(JOBS) as pool:
        # Libraries take longest.
        alone = [
            (unit, architecture, pool.submit(check, unit, wanted[unit], architecture))
            if unit in first and architecture == main
            else (unit, architecture, pool.submit(check_device_code, unit, architecture))
            for unit in libraries
            for architecture in (architectures if unit in first else [main])
        ]
        alone += [
            (unit, main, pool.submit(check, unit, names, main))
            for unit, names in kernels.items()
            if unit in first
        ]
        rest = [(main, {u: names for u, names in kernels.items() if u not in first})]
        rest += [(other, {u: kernels[u] for u in kernels if u in first}) for other in others]
        together = [
            (architecture, pool.submit(check_together, dict(some), architecture))
            for architecture, units in rest
            for some in batches(list(units.items()), TOGETHER)
        ]
        for unit, architecture, problem in alone:
            yield unit, architecture, problem.result()
        for architecture, problems in together:
            for unit, found in problems.result().items():
                yield unit, architecture, found


def batches(items: list[T], most: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `most`."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def main() -> int:
    """Compile everything, print a line for each file, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES, help="GPU architectures")
    parser.add_argument("--only", default="", help="files or algorithms with this in their name")
    given = parser.parse_args()
    if shutil.which("nvcc") is None:
        print("nvcc is missing: install the CUDA toolkit and put its bin folder on PATH")
        return 1
    wanted = without_repeats(wanted_units(given.only))
    folders = [kernel_folder()]
    folders += [folder for addition in plugins.additions() for folder in addition.kernel_folders]
    files = {file.name for folder in folders for file in folder.glob("*.cu")}
    files = {file for file in files if is_like(file, given.only)}
    files |= {unit.file for unit in wanted}
    if not files:
        print(f"no algorithm and no file has {given.only!r} in its name")
        return 1
    problems: dict[str, list[str]] = {file: [] for file in files}
    units: dict[str, int] = defaultdict(int)
    for unit, architecture, problem in check_all(wanted, given.arch):
        units[unit.file] += 1
        if problem:
            constants = " ".join(f"-D{name}={value}" for name, value in unit.constants)
            problems[unit.file].append(f"{architecture} {constants}: {problem}")
    for file in sorted(problems):
        if not units[file]:
            problems[file].append("no algorithm compiles this file")
        verdict = "FAILED" if problems[file] else "ok"
        print(f"{file:24} {units[file]:3} compilations  {verdict}")
        for problem in problems[file]:
            print(f"    {problem}", file=sys.stderr)
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
