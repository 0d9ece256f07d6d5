"""The folder that `gpubench export` writes: a header for CUDA C++, an example, a file for CuPy."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from string import Template

from gpubench.algorithms import counting_sort
from gpubench.algorithms.cell_search import MOST_PARTS
from gpubench.base.errors import UserError
from gpubench.base.paths import PACKAGE
from gpubench.base.version import __version__
from gpubench.neighbours.export.source import with_kernels
from gpubench.neighbours.plan import STAGED_WORDS
from gpubench.primitives import cell_query, scan

SEARCH, TASK = "search-counting-sort", "list"
FILES = ("neighbours.cuh", "example.cu", "CMakeLists.txt", "cupy_neighbours.py")
HERE = Path(__file__).parent


def write(
    folder: Path,
    search: str = SEARCH,
    task: str = TASK,
    periodic: str = "",
    neighbours: float = 16.0,
) -> list[Path]:
    """Write the source of a search that counts and lists; return the paths of the files.

    periodic: the periodic axes, such as "xz". neighbours: approximate number per particle, used to
    tune the cell size and the number of marker bits per particle. Raises UserError for a search or
    task that cannot be exported, and if the folder already has one of the files.
    """
    if (search, task) != (SEARCH, TASK):
        raise UserError(f"only {SEARCH} --task {TASK} can be exported, not {search} --task {task}")
    if set(periodic) - set("xyz") or len(set(periodic)) != len(periodic):
        raise UserError(f"--periodic takes some of xyz, not {periodic!r}")
    if not 0 < neighbours < math.inf:
        raise UserError(f"--neighbours takes a number above 0, not {neighbours:g}")
    paths = [folder / name for name in FILES]
    if there := next((path for path in paths if path.exists()), None):
        raise UserError(f"{there} is there already: give another folder")
    texts = _texts(periodic, neighbours)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _texts(periodic: str, neighbours: float) -> list[str]:
    """Return the contents of the files, in the order of FILES."""
    in_cube = neighbours / (4 / 3 * math.pi)  # particles in a cube with the cutoff as its edge
    parts = max(1, min(round(in_cube), MOST_PARTS))
    # The factor 1.1: cells are on average about 10 % longer than the cutoff.
    words = cell_query.words_for(1.1 * (2 + 1 / parts) * in_cube, False)
    words = min(words, STAGED_WORDS - bool(periodic))
    constants = {
        "PERIODIC": int(bool(periodic)), "PARTS": parts, "WORDS": words,
        "SORT_BLOCK": counting_sort.BLOCK, "SORT_ITEMS": counting_sort.ITEMS,
        "SCAN_BLOCK": scan.BLOCK, "SCAN_ITEMS": scan.ITEMS,
        "QUERY_BLOCK": cell_query.LIST_BLOCK, "STEP": cell_query.LIST_STEP,
    }  # fmt: skip
    # In a checkout, the licence is beside the package, not inside it.
    licences = [folder / "LICENSE" for folder in (PACKAGE, PACKAGE.parent)]
    licence = next(path for path in licences if path.exists()).read_text(encoding="utf-8")
    said = {
        "AXES": ", ".join(periodic) or "none", "NEIGHBOURS": f"{neighbours:g}",
        "REPEATS": ", ".join(str(int(axis in periodic)) for axis in "xyz"),
        "VERSION": __version__,
        "LICENCE": textwrap.indent(licence.partition("\n\n")[2], "   "),
    }  # fmt: skip
    templates = [(HERE / f"{name}.in").read_text(encoding="utf-8") for name in FILES]
    header, *others = [Template(text).substitute(constants, **said) for text in templates]
    return [with_kernels(header, constants), *others]
