"""One class for each workload of the registry, over a few of the cell lists that keep its cells."""

from __future__ import annotations

from typing import Any

from ._measure import Case, benchmarks, sizes
from ._suite import suite

SIZES, SIZES_HERE = sizes((2**14,), (2**20,))
# One that reorders its particles, one of linked lists, one that is re-sorted, one that is hashed.
CELLS = [
    "counting-sort reorder",
    "atomic-list one-pass",
    "counting-resort order",
    "hash-grid original",
]


def _class_of(name: str, about: dict[str, Any]) -> type:
    def make_case(cells: str, particles: int) -> Case:
        algorithm, form = cells.split()
        axes = {"workload": name, "particles": particles}
        return Case(algorithm, form, particles, SIZES_HERE, axes, workload=name)

    params: dict[str, list[Any]] = {"cells": CELLS, "particles": SIZES}
    return benchmarks(
        name, about["summary"], make_case, params, {"cells": CELLS[:1], "particles": SIZES}
    )


for _name, _about in suite()["workloads"].items():
    _class = _class_of(_name, _about)
    globals()[_class.__name__] = _class
