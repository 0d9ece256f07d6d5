"""What the searches that can be exported are made of: kernels in namespaces."""

from __future__ import annotations

from gpubench.algorithms import counting_sort, hash_grid, hash_query, radix_grid
from gpubench.neighbours.export.source import Constants, namespace
from gpubench.primitives import cell_query, digit_sorts, gather, scan
from gpubench.primitives.digit_sorts import OnesweepSort

# What its template calls a search, and what it is in a few words.
SEARCHES = {
    "search-counting-sort": ("COUNTING", "over cells, by a counting sort"),
    "search-radix-grid": ("RADIX", "over cells, by a radix sort"),
    "search-atomic-list": ("LINKED", "over linked lists of cells"),
    "hash-query": ("HASHED", "in open space, over a hash table of cells"),
}
SORT: Constants = {
    "BLOCK": counting_sort.BLOCK, "ITEMS": counting_sort.ITEMS, "REORDER": 0, "FROM_POSITIONS": 0,
}  # fmt: skip
ONCE: Constants = {"BLOCK": scan.BLOCK, "ITEMS": scan.ITEMS}
SCAN = ("common/lookback.h", "scan.cu")


def namespaces(kind: str, periodic: bool, parts: int, lists: bool, words: int) -> str:
    """Return the kernels of a search, each file with its constants in a namespace of its own."""
    detail = {"COUNTING": _counting, "RADIX": _radix, "LINKED": list, "HASHED": _hashed}[kind]()
    if kind != "HASHED":
        detail.insert(0, namespace("cells", ["cell_ids.cu"], {}))
    if lists:
        detail.append(namespace("scan_counts", SCAN, {**ONCE, "SUM": "int64", "CLEAR": 0}))
    if kind == "LINKED":
        detail += _linked(periodic)
    elif kind == "HASHED":
        for name, work in [("count_neighbours", 0), ("fill_neighbours", 1)][: 1 + lists]:
            constants = {"BLOCK": hash_query.BLOCK, "WORK": work}
            detail.append(namespace(name, ["hash_query.cu"], constants))
    else:
        detail += _sorted(periodic, parts, lists, words)
    own = "common/hash.h" if kind == "HASHED" else "common/grid.h"
    common = namespace("detail", ["prelude/cuda.h", own], {"BUCKETS": 0})
    return common.rstrip().removesuffix("}") + "\n" + "\n".join(detail) + "\n}\n"


def _counting() -> list[str]:
    return [
        namespace("counting_sort", ["counting_sort.cu"], SORT),
        namespace("scan_cells", SCAN, {**ONCE, "SUM": "int", "CLEAR": 1}),
        namespace("gather", ["gather.cu"], {"BLOCK": gather.BLOCK}),
    ]


def _radix() -> list[str]:
    bounds = {"BLOCK": radix_grid.BLOCK, "REORDER": 1}
    return [_radix_sort(), namespace("bounds", ["cell_bounds.cu"], bounds)]


def _radix_sort() -> str:
    """Return Onesweep, whose count is a template over what is known only with the cells."""
    block, items, blocks = OnesweepSort.shapes[4]
    constants: Constants = {
        **digit_sorts.key_constants("uint32"), "VALUES": 1, "SUM": "int",
        "DIGIT_BITS": OnesweepSort.digit_bits, "BLOCK": block, "ITEMS": items, "BLOCKS": blocks,
        "COUNT_BLOCK": digit_sorts.COUNT_BLOCK, "COUNT_ITEMS": digit_sorts.COUNT_ITEMS,
    }  # fmt: skip
    files = ["common/sort_keys.h", "common/lookback.h", "radix_onesweep.cu"]
    text = namespace("radix_sort", files, constants)
    text = text.replace("#define SUM int\n", "").replace("#undef SUM\n", "")
    count = "__global__ void __launch_bounds__(COUNT_BLOCK)"
    return text.replace(count, f"template <int PASSES>\n{count}")


def _linked(periodic: bool) -> list[str]:
    blocks = {"COUNT_BLOCK": cell_query.BLOCK, "FILL_BLOCK": cell_query.GROUP_BLOCK}
    constants = {"PERIODIC": int(periodic), "REACH": 1, **blocks}
    return [
        namespace("lists", ["atomic_list.cu"], {}),
        namespace("linked", ["common/stretch.h", "neighbour_linked.cu"], constants),
    ]


def _hashed() -> list[str]:
    return [_radix_sort(), namespace("buckets", ["hash_grid.cu"], {"BLOCK": hash_grid.BLOCK})]


def _sorted(periodic: bool, parts: int, lists: bool, words: int) -> list[str]:
    query: Constants = {"PERIODIC": int(periodic), "REACH": parts, "HALF": 0}
    if not lists:
        query = {**query, "BLOCK": cell_query.BLOCK, "STEP": cell_query.STEP}
        return [namespace("count_neighbours", ["common/stretch.h", "neighbour_count.cu"], query)]
    query = {**query, "BLOCK": cell_query.LIST_BLOCK, "STEP": cell_query.LIST_STEP, "WORDS": words}
    common = ["common/stretch.h", "common/marks.h"]
    return [
        namespace("count_neighbours", [*common, "neighbour_mark.cu"], query),
        namespace("fill_neighbours", [*common, "neighbour_fill.cu"], {**query, "STAGED": 1}),
    ]
