"""One class for each algorithm of the registry, over its forms, sizes and occupancies."""

from __future__ import annotations

from typing import Any

from ._measure import Case, benchmarks, sizes
from ._suite import suite

ON_CPU, ON_GPU = (2**14, 2**16), (2**20, 2**22)
SIZES, SIZES_HERE = sizes(ON_CPU, ON_GPU)
# What varies beside the size, by the kind of input; what does not; and what a family needs besides.
AXES: dict[str, dict[str, list[Any]]] = {
    "particles": {"per_cell": [1, 16]},
    "records": {"kept": [0.1, 0.9]},
    "pairs": {},
    "matrix": {"order": ["cell", "random"]},
    "surfaces": {},
    "keys": {},
    "meshes": {},
}
FIXED: dict[str, dict[str, Any]] = {
    "particles": {"distribution": "uniform", "order": "random"},
    "records": {"record_bytes": 4, "nulls": "infinity"},
    "pairs": {},
    "matrix": {"matrix": "density-gradient", "per_cell": 8, "distribution": "uniform"},
    "surfaces": {"surface": "torus", "depth": 1},
    "keys": {"value_bytes": 4, "key_order": "uniform"},
    "meshes": {"mesh": "sphere", "pose": "deep"},
}
OF_FAMILY: dict[str, dict[str, Any]] = {
    "cell-list-update": {"periodic": True, "destination": "step"},
}
# And what an algorithm needs that sorts keys of one kind alone.
OF_ALGORITHM: dict[str, dict[str, Any]] = {
    "counting-key-sort": {"key_bits": 16},
    "key-resort": {"key_order": "nearly-sorted", "keys_moved": 0.01},
    "segment-sort": {"segment_keys": 64},
}


def _class_of(name: str, about: dict[str, Any]) -> type:
    axes = AXES[about["kind"]]
    names = [about["size_axis"], *axes]

    def make_case(form: str, *values: Any) -> Case:
        along = dict(zip(names, values, strict=True))
        along |= FIXED[about["kind"]] | OF_FAMILY.get(about["family"], {})
        along |= OF_ALGORITHM.get(name, {})
        return Case(name, form, values[0], SIZES_HERE, along, about["parameters"])

    forms = list(about["forms"])
    params = {"form": forms, about["size_axis"]: SIZES, **axes}
    few = {axis: values[:1] for axis, values in axes.items()}
    large = {"form": forms, about["size_axis"]: [max(ON_CPU), max(ON_GPU)], **few}
    return benchmarks(name, about["summary"], make_case, params, large)


for _name, _about in suite()["algorithms"].items():
    _class = _class_of(_name, _about)
    globals()[_class.__name__] = _class
