"""The folder that `gpubench export` writes: a header for CUDA C++, an example, a file for CuPy."""

from __future__ import annotations

import re
from pathlib import Path

import gpubench
from gpubench.algorithms import counting_sort
from gpubench.core.errors import UserError
from gpubench.neighbours.export.source import Constants, namespace, resolved
from gpubench.primitives import cell_query, gather, scan
from gpubench.primitives.cell_query import lanes_in

SEARCH = "search-counting-sort"
TASKS = ("count", "list")
FILES = ("neighbours.cuh", "example.cu", "CMakeLists.txt", "cupy_neighbours.py")
HERE = Path(__file__).parent
SORT: Constants = {"BLOCK": counting_sort.BLOCK, "ITEMS": counting_sort.ITEMS, "REORDER": 0}
GATHER: Constants = {"BLOCK": gather.BLOCK}
HEAD = """\
/* Neighbours of particles within a cutoff, over cells, by a counting sort. CUDA runtime alone.

   {choices}
   Written by gpubench {version} from the kernels that it measures; each part names its source.

{licence}*/
"""


def write(
    folder: Path,
    search: str = SEARCH,
    task: str = "list",
    periodic: str = "",
    parts: int = 3,
    neighbours: float = 16.0,
) -> list[Path]:
    """Write the source of a search for one task; return the files.

    periodic: the axes that repeat, some of xyz. parts: cells along x to a cutoff, 1 to 5: about as
    many as there are particles in a cube of the cutoff. neighbours: of a particle, about; many are
    listed by several threads. Raises UserError for another search, and for a folder with files of
    these names.
    """
    if search != SEARCH:
        raise UserError(f"only {SEARCH} can be exported, not {search}")
    if task not in TASKS:
        raise UserError(f"--task takes {' or '.join(TASKS)}, not {task!r}")
    if set(periodic) - set("xyz") or len(set(periodic)) != len(periodic):
        raise UserError(f"--periodic takes some of xyz, not {periodic!r}")
    if not 1 <= parts <= 5:
        raise UserError(f"--parts takes 1 to 5, not {parts}")
    paths = [folder / name for name in FILES]
    if there := next((path for path in paths if path.exists()), None):
        raise UserError(f"{there} is there already: give another folder")
    lanes = lanes_in(neighbours) if task == "list" else 0
    texts = (
        _header(task, periodic, parts, lanes),
        resolved(_text("example.cu"), {"LISTS": int(task == "list")}),
        _text("CMakeLists.txt"),
        _for_cupy(task, periodic, parts, lanes),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _header(task: str, periodic: str, parts: int, lanes: int) -> str:
    lists = task == "list"
    query: Constants = {"PERIODIC": int(bool(periodic)), "REACH": parts, "HALF": 0}
    counted = "neighbour_mark.cu" if lists and not lanes else "neighbour_count.cu"
    once: Constants = {"BLOCK": scan.BLOCK, "ITEMS": scan.ITEMS}
    scans, sorts = ("common/lookback.h", "scan.cu"), ("counting_sort.cu",)
    detail = [
        namespace("cells", ["cell_ids.cu"], {}),
        namespace("counting_sort", sorts, SORT),
        namespace("scan_cells", scans, {**once, "SUM": "int", "CLEAR": 1}),
        namespace("gather", ["gather.cu"], GATHER),
        namespace(
            "count_neighbours", ["common/stretch.h", counted],
            {**query, "BLOCK": cell_query.BLOCK},
        ),
    ]  # fmt: skip
    if lists:
        filled = "neighbour_fill_wide.cu" if lanes else "neighbour_fill.cu"
        own = {"BLOCK": cell_query.FILL_BLOCK, "STAGED": cell_query.STAGED, "LANES": lanes}
        constants = {**query, **own}
        detail += [
            namespace("scan_counts", scans, {**once, "SUM": "int64", "CLEAR": 0}),
            namespace("fill_neighbours", ["common/stretch.h", filled], constants),
        ]
    common = namespace("detail", ["prelude/cuda.h", "common/grid.h"], {})
    inner = common.rstrip().removesuffix("}") + "\n" + "\n".join(detail) + "\n}\n"
    chosen = {"LISTS": int(lists), "LANES": lanes, "HAS_MASKS": int(lists and not lanes)}
    host = resolved(_text("host.cuh"), chosen)
    values = {
        "REPEATS": _repeats(periodic),
        "CELLS_PER_CUTOFF": str(parts),
        "HAS_MASKS": str(int(lists and not lanes)),
        "LANES": str(lanes),
    }
    for name, value in values.items():
        host = host.replace(name, value)
    choices = f"Task: {task}. Axes that repeat: {', '.join(periodic) or 'none'}."
    head = HEAD.format(choices=choices, version=gpubench.__version__, licence=_licence())
    return (
        f"{head}#ifndef GPUBENCH_NEIGHBOURS_CUH\n#define GPUBENCH_NEIGHBOURS_CUH\n\n"
        f"namespace gpubench {{\n{inner}\n}}\n\n"
        f"#ifndef __CUDACC_RTC__\n\n{host}\n#endif\n\n#endif\n"
    )


def _for_cupy(task: str, periodic: str, parts: int, lanes: int) -> str:
    text = _text("cupy_neighbours.py.in")
    values = {
        "(REPEATS_HERE,)": f"({_repeats(periodic).title()})",
        "PARTS_HERE": str(parts),
        "LANES_HERE": str(lanes),
        "LISTS_HERE": str(task == "list"),
        "BLOCKS_HERE": ", ".join(map(str, _blocks())),
    }
    for name, value in values.items():
        text = text.replace(name, value)
    return re.sub("  # noqa: F821(  # filled in by the export)?", "", text)


def _blocks() -> tuple[int, int, int, int]:
    """Return the threads of a block, and items of one: of a sort, a scan, a count."""
    (threads,) = {counting_sort.BLOCK, gather.BLOCK, scan.BLOCK, cell_query.FILL_BLOCK}
    sort = counting_sort.BLOCK * counting_sort.ITEMS
    return threads, sort, scan.BLOCK * scan.ITEMS, cell_query.BLOCK


def _repeats(periodic: str) -> str:
    return ", ".join(str(axis in periodic).lower() for axis in "xyz")


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _licence() -> str:
    return _text("licence.txt")
