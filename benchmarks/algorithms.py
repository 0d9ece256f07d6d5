"""One class for each algorithm of the registry, over its forms, sizes and occupancies."""

from __future__ import annotations

from typing import Any

from ._measure import Case, benchmarks, sizes
from ._suite import suite

ON_CPU, ON_GPU = (2**14, 2**16), (2**20, 2**22)
SIZES, SIZES_HERE = sizes(ON_CPU, ON_GPU)


def _class_of(name: str, about: dict[str, Any]) -> type:
    axes = about["varied"]
    names = [about["size_axis"], *axes]

    def make_case(form: str, *values: Any) -> Case:
        along = dict(zip(names, values, strict=True)) | about["fixed"]
        return Case(name, form, values[0], SIZES_HERE, along, about["parameters"])

    forms = list(about["forms"])
    params = {"form": forms, about["size_axis"]: SIZES, **axes}
    few = {axis: values[:1] for axis, values in axes.items()}
    large = {"form": forms, about["size_axis"]: [max(ON_CPU), max(ON_GPU)], **few}
    return benchmarks(name, about["summary"], make_case, params, large)


for _name, _about in suite()["algorithms"].items():
    _class = _class_of(_name, _about)
    globals()[_class.__name__] = _class
