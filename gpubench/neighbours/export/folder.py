"""The folder that `gpubench export` writes: a header for CUDA C++, an example, a file for CuPy."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from string import Template

import gpubench
from gpubench.algorithms import counting_sort
from gpubench.algorithms.cell_search import MOST_PARTS
from gpubench.core.errors import UserError
from gpubench.core.paths import PACKAGE
from gpubench.neighbours.export.source import resolved, with_kernels
from gpubench.primitives import cell_query, scan

SEARCH = "search-counting-sort"
TASKS = ("count", "list")
FILES = ("neighbours.cuh", "example.cu", "CMakeLists.txt", "cupy_neighbours.py")
HERE = Path(__file__).parent
HEADER = """\
/* Neighbours of particles within a cutoff, over cells, by a counting sort. CUDA runtime alone.

   Task: {task}. Axes that repeat: {axes}. Made for about {neighbours:g} neighbours of a particle.
   Written by gpubench {version} from the kernels that it measures; each part names its source.

{licence}*/
#ifndef GPUBENCH_NEIGHBOURS_CUH
#define GPUBENCH_NEIGHBOURS_CUH

{kernels}
#ifndef __CUDACC_RTC__

{host}
#endif

#endif
"""


def write(
    folder: Path,
    search: str = SEARCH,
    task: str = "list",
    periodic: str = "",
    neighbours: float = 16.0,
) -> list[Path]:
    """Write the source of a search for one task; return the files.

    periodic: the axes that repeat, some of xyz. neighbours: of a particle, about; cells are as
    short as is best for so many, and so many get bits that mark them. Raises UserError for another
    search, and for a folder with files of these names.
    """
    if search != SEARCH:
        raise UserError(f"{search} cannot be exported, only {SEARCH} can")
    if task not in TASKS:
        raise UserError(f"--task takes {' or '.join(TASKS)}, not {task!r}")
    if set(periodic) - set("xyz") or len(set(periodic)) != len(periodic):
        raise UserError(f"--periodic takes some of xyz, not {periodic!r}")
    paths = [folder / name for name in FILES]
    if there := next((path for path in paths if path.exists()), None):
        raise UserError(f"{there} is there already: give another folder")
    texts = _texts(task, periodic, neighbours)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _texts(task: str, periodic: str, neighbours: float) -> list[str]:
    """Return what the files hold."""
    lists = task == "list"
    in_cube = neighbours / (4 / 3 * math.pi)  # whose edge is the cutoff
    parts = max(1, min(round(in_cube), MOST_PARTS))
    # Cells are about a tenth longer than the cutoff.
    words = cell_query.words_for(1.1 * (2 + 1 / parts) * in_cube, bool(periodic))
    chosen = {
        "LISTS": int(lists), "PERIODIC": int(bool(periodic)), "PARTS": parts, "WORDS": words,
        "SORT_BLOCK": counting_sort.BLOCK, "SORT_ITEMS": counting_sort.ITEMS,
        "SCAN_BLOCK": scan.BLOCK, "SCAN_ITEMS": scan.ITEMS,
        "QUERY_BLOCK": cell_query.LIST_BLOCK if lists else cell_query.BLOCK,
        "STEP": cell_query.LIST_STEP if lists else cell_query.STEP,
    }  # fmt: skip
    repeats = ", ".join(str(int(axis in periodic)) for axis in "xyz")

    def filled(name: str) -> str:
        text = resolved((HERE / name).read_text(encoding="utf-8"), chosen)
        return Template(text).substitute(chosen, REPEATS=repeats)

    # What else conditions in the kernels are over, as nvcc and the harness have it.
    of_kernels = {**chosen, "__CUDACC__": 1, "FROM_POSITIONS": 1, "STAGED": 1}
    # A checkout has its licence beside the package.
    licences = [folder / "LICENSE" for folder in (PACKAGE, PACKAGE.parent)]
    licence = next(path for path in licences if path.exists()).read_text(encoding="utf-8")
    header = HEADER.format(
        task=task, axes=", ".join(periodic) or "none", neighbours=neighbours,
        version=gpubench.__version__, licence=textwrap.indent(licence.partition("\n\n")[2], "   "),
        kernels=with_kernels(filled("kernels.cuh"), of_kernels), host=filled("host.cuh"),
    )  # fmt: skip
    return [header, *map(filled, ("example.cu", "CMakeLists.txt", "cupy_neighbours.py.in"))]
