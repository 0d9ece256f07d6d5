"""matscipy's neighbour list, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostPairs
from gpubench.libraries._library import name_with_version, need


class MatscipyImages(HostPairs):
    """`matscipy.neighbours.neighbour_list` of i, j and S, on one core; i ascends."""

    name = "matscipy-images"
    summary = "matscipy's list of i, j and S, on one core; a call for each system"
    source = "matscipy, matscipy.neighbours.neighbour_list"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def prepare(self) -> None:
        super().prepare()
        self._library: Any = need("matscipy.neighbours", "matscipy", None)
        self.library = name_with_version("matscipy")

    def one(self, system: int, points: Any) -> tuple[Any, Any, Any]:
        cell, cutoff = self.inputs.vectors[system], self.inputs.cutoff
        found: tuple[Any, Any, Any] = self._library.neighbour_list(
            "ijS", positions=points, cell=cell, pbc=self.periodic, cutoff=cutoff
        )
        return found
