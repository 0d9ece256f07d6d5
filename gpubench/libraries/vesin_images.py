"""vesin's list with shifts, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostPairs
from gpubench.libraries._library import name_with_version, need


class VesinImages(HostPairs):
    """`vesin.NeighborList`: pairs as int64 and shifts as int32; those of one system not copied."""

    name = "vesin-images"
    summary = "vesin's list with shifts, on the host; a call for each system"
    source = "Fraux and others, arXiv:2508.15704"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def prepare(self) -> None:
        super().prepare()
        self._vesin = need("vesin", "vesin")
        self.library = name_with_version("vesin")

    def begin(self) -> None:
        super().begin()
        self._search = self._vesin.NeighborList(cutoff=self.inputs.cutoff, full_list=True)

    def one(self, system: int, points: Any) -> tuple[Any, Any, Any]:
        vectors, periodic, copy = self.inputs.vectors[system], list(self.periodic), self.systems > 1
        pairs, shifts = self._search.compute(points, vectors, periodic, "PS", copy=copy)
        return pairs[:, 0], pairs[:, 1], shifts
