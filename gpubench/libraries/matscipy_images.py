"""matscipy's neighbour list, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostImageSearch
from gpubench.libraries._library import name_with_version, need


class MatscipyImages(HostImageSearch):
    """`matscipy.neighbours.neighbour_list` of i, j and S, on one core; rows ascend."""

    name = "matscipy-images"
    summary = "matscipy's list of i, j and S, on the host; one call for each system"
    source = "matscipy, matscipy.neighbours.neighbour_list"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def prepare(self) -> None:
        self._library: Any = need("matscipy.neighbours", "matscipy", None)
        self.library = name_with_version("matscipy")

    def search(self, system: int, points: Any, vectors: Any) -> tuple[Any, Any, Any]:
        inputs = self._inputs
        found: tuple[Any, Any, Any] = self._library.neighbour_list(
            "ijS", positions=points, cell=vectors, pbc=inputs.periodic, cutoff=inputs.cutoff
        )
        return found
