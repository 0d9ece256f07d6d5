"""The folder that `gpubench export` writes: a header for CUDA C++, an example, a file for CuPy."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import gpubench
from gpubench.core.errors import UserError
from gpubench.core.paths import PACKAGE
from gpubench.neighbours.export.launches import rendered
from gpubench.neighbours.export.parts import SEARCHES, Part, in_namespaces, parts_of
from gpubench.neighbours.export.source import Constants, resolved
from gpubench.primitives.cell_query import words_for

TASKS = ("count", "list")
FILES = ("neighbours.cuh", "example.cu", "CMakeLists.txt", "cupy_neighbours.py")
HERE = Path(__file__).parent
HEAD = """\
/* Neighbours of particles within a cutoff, {way}. CUDA runtime alone.

   {choices}
   Written by gpubench {version} from the kernels that it measures; each part names its source.

{licence}*/
"""


def write(
    folder: Path,
    search: str = "search-counting-sort",
    task: str = "list",
    periodic: str = "",
    parts: int = 3,
    neighbours: float = 16.0,
) -> list[Path]:
    """Write the source of a search for one task; return the files.

    periodic: the axes that repeat, some of xyz. Of sorted cells, parts: cells along x to a cutoff,
    1 to 5: about as many as there are particles in a cube of the cutoff; neighbours: of a
    particle, about; many are listed by several threads. Raises UserError for another search, and
    for a folder with files of these names.
    """
    if search not in SEARCHES:
        raise UserError(f"{search} cannot be exported, but these can: {', '.join(SEARCHES)}")
    kind, way = SEARCHES[search]
    if task not in TASKS:
        raise UserError(f"--task takes {' or '.join(TASKS)}, not {task!r}")
    if set(periodic) - set("xyz") or len(set(periodic)) != len(periodic):
        raise UserError(f"--periodic takes some of xyz, not {periodic!r}")
    if not 1 <= parts <= 5:
        raise UserError(f"--parts takes 1 to 5, not {parts}")
    paths = [folder / name for name in FILES]
    if there := next((path for path in paths if path.exists()), None):
        raise UserError(f"{there} is there already: give another folder")
    texts = _texts(kind, way, task, periodic, parts, neighbours)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _texts(
    kind: str, way: str, task: str, periodic: str, parts: int, neighbours: float
) -> tuple[str, ...]:
    """Return what the files hold."""
    lists, is_sorted = task == "list", kind in ("COUNTING", "RADIX")
    # Cells are about a tenth longer than the cutoff.
    in_row = 1.1 * (2 + 1 / parts) * neighbours / (4 / 3 * math.pi)
    words = words_for(in_row, bool(periodic))
    chosen = {kind: 1, "LISTS": int(lists), "SORTED": int(is_sorted)}
    repeats = tuple(axis in periodic for axis in "xyz")
    in_cuda, in_python = rendered(_filled("search.in", chosen, {}))
    in_cuda["REPEATS_HERE"] = ", ".join(str(each).lower() for each in repeats)
    in_python["(AXES_HERE,)"] = str(repeats)
    in_cuda["PARTS_HERE"] = in_python["PARTS_HERE"] = str(parts)
    kernels = parts_of(kind, bool(periodic), parts, lists, words)
    inner = in_namespaces(kernels)
    header = (
        f"{_head(way, task, periodic)}#ifndef GPUBENCH_NEIGHBOURS_CUH\n"
        f"#define GPUBENCH_NEIGHBOURS_CUH\n\nnamespace gpubench {{\n{inner}\n}}\n\n"
        f"#ifndef __CUDACC_RTC__\n\n{_filled('host.cuh', chosen, in_cuda)}\n#endif\n\n#endif\n"
    )
    example, cmake = (_filled(name, chosen, {}) for name in ("example.cu", "CMakeLists.txt"))
    cupy = _with_constants(_filled("cupy_neighbours.py.in", chosen, in_python), kernels)
    return header, example, cmake, cupy


def _head(way: str, task: str, periodic: str) -> str:
    choices = f"Task: {task}. Axes that repeat: {', '.join(periodic) or 'none'}."
    # A checkout has its licence beside the package.
    paths = [folder / "LICENSE" for folder in (PACKAGE, PACKAGE.parent)]
    licence = next(path for path in paths if path.exists()).read_text(encoding="utf-8")
    return HEAD.format(
        way=way, choices=choices, version=gpubench.__version__,
        licence=textwrap.indent(licence.partition("\n\n")[2], "   "),
    )  # fmt: skip


def _with_constants(text: str, parts: Sequence[Part]) -> str:
    """Fill in the kernels that a file for CuPy launches, and constants such as `gather::BLOCK`."""
    constants = {name: given for name, _, given in parts}
    names = re.findall(r'"(\w+::\w+)"', text)
    if "radix_sort" in constants:
        names += [f"radix_sort::count_digits<{passes}>" for passes in range(1, 5)]
    listed = "".join(f'    "{name}",\n' for name in names)
    text = re.sub(r"\b(\w+)::([A-Z_]+)\b", lambda at: str(constants[at[1]][at[2]]), text)
    return text.replace("(KERNELS_HERE,)", f"(\n{listed})")


def _filled(name: str, chosen: Constants, values: Mapping[str, str]) -> str:
    """Return a template with its conditions resolved and these words replaced."""
    text = resolved((HERE / name).read_text(encoding="utf-8"), chosen)
    for word, value in values.items():
        text = text.replace(word, value)
    return text
