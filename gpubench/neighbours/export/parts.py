"""What the searches that can be exported are made of: kernels in namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.algorithms import counting_sort, radix_grid
from gpubench.neighbours.export.source import Constants, namespace
from gpubench.primitives import cell_query, digit_sorts, gather, scan
from gpubench.primitives.digit_sorts import OnesweepSort

# What its template calls a search, and what it is in a few words.
SEARCHES = {
    "search-counting-sort": ("COUNTING", "over cells, by a counting sort"),
    "search-radix-grid": ("RADIX", "over cells, by a radix sort"),
    "search-atomic-list": ("LINKED", "over linked lists of cells"),
}
# A namespace, the files in it, and their constants.
Part = tuple[str, Sequence[str], Constants]
ONCE: Constants = {"BLOCK": scan.BLOCK, "ITEMS": scan.ITEMS}
SCAN = ("common/lookback.h", "scan.cu")
ROWS, MARKS = "common/stretch.h", "common/marks.h"


def parts_of(kind: str, periodic: bool, along_x: int, lists: bool, words: int) -> list[Part]:
    """Return the kernels of a search.

    along_x: cells along x to a cutoff. words: that mark the candidates of a row.
    """
    found: list[Part] = [("cells", ["cell_ids.cu"], {})]
    query: Constants = {"PERIODIC": int(periodic), "REACH": 1 if kind == "LINKED" else along_x}
    if lists:
        found.append(("scan_counts", SCAN, {**ONCE, "SUM": "int64", "CLEAR": 0}))
    if kind == "COUNTING":
        sort = {"BLOCK": counting_sort.BLOCK, "ITEMS": counting_sort.ITEMS, "REORDER": 0}
        sort["FROM_POSITIONS"] = 0
        found.append(("counting_sort", ["counting_sort.cu"], sort))
        found.append(("scan_cells", SCAN, {**ONCE, "SUM": "int", "CLEAR": 1}))
        found.append(("gather", ["gather.cu"], {"BLOCK": gather.BLOCK}))
    elif kind == "RADIX":
        bounds = {"BLOCK": radix_grid.BLOCK, "REORDER": 1}
        found += [_radix_sort(), ("bounds", ["cell_bounds.cu"], bounds)]
    else:
        query = {**query, "COUNT_BLOCK": cell_query.BLOCK, "FILL_BLOCK": cell_query.GROUP_BLOCK}
        found.append(("lists", ["atomic_list.cu"], {}))
        found.append(("linked", [ROWS, "neighbour_linked.cu"], query))
    if kind in ("COUNTING", "RADIX") and lists:
        query = {**query, "HALF": 0, "BLOCK": cell_query.LIST_BLOCK, "STEP": cell_query.LIST_STEP}
        query = {**query, "WORDS": words, "STAGED": 1}
        found.append(("count_neighbours", [ROWS, MARKS, "neighbour_mark.cu"], query))
        found.append(("fill_neighbours", [ROWS, MARKS, "neighbour_fill.cu"], query))
    elif kind in ("COUNTING", "RADIX"):
        query = {**query, "HALF": 0, "BLOCK": cell_query.BLOCK, "STEP": cell_query.STEP}
        found.append(("count_neighbours", [ROWS, "neighbour_count.cu"], query))
    return found


def _radix_sort() -> Part:
    """Return Onesweep."""
    block, items, blocks = OnesweepSort.shapes[4]
    constants: Constants = {
        **digit_sorts.key_constants("uint32"), "VALUES": 1, "SUM": "int",
        "DIGIT_BITS": OnesweepSort.digit_bits, "BLOCK": block, "ITEMS": items, "BLOCKS": blocks,
        "COUNT_BLOCK": digit_sorts.COUNT_BLOCK, "COUNT_ITEMS": digit_sorts.COUNT_ITEMS,
    }  # fmt: skip
    files = ["common/sort_keys.h", "common/lookback.h", "radix_onesweep.cu"]
    return "radix_sort", files, constants


def in_namespaces(parts: Sequence[Part]) -> str:
    """Return kernels, each file with its constants in a namespace of its own."""
    inner = "\n".join(namespace(*part) for part in parts)
    inner = inner.replace("#define SUM int\n", "").replace("#undef SUM\n", "")
    # Of Onesweep, what is known only with the cells is the parameter of a template.
    count = "__global__ void __launch_bounds__(COUNT_BLOCK)"
    inner = inner.replace(count, f"template <int PASSES>\n{count}")
    common = namespace("detail", ["prelude/cuda.h", "common/grid.h"], {})
    return f"{common.rstrip().removesuffix('}')}\n{inner}\n}}\n"
