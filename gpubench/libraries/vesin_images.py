"""vesin's list with shifts, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostImageSearch
from gpubench.libraries._library import name_with_version, need
from gpubench.problems.images.inputs import SystemSet


class VesinImages(HostImageSearch):
    """`vesin.NeighborList`: pairs as int64 and shifts as int32, unsorted, read without a copy."""

    name = "vesin-images"
    summary = "vesin's list with shifts, on the host; one call for each system"
    source = "Fraux and others, arXiv:2508.15704"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def prepare(self) -> None:
        self._vesin = need("vesin", "vesin")
        self.library = name_with_version("vesin")

    def load(self, inputs: SystemSet) -> None:
        """Store the positions, and make an object for each system, which holds its pairs."""
        super().load(inputs)
        self._start_afresh()

    def _start_afresh(self) -> None:
        cutoff, make = self._inputs.cutoff, self._vesin.NeighborList
        self._searches = [make(cutoff=cutoff, full_list=True) for _ in range(self.systems)]

    def search(self, system: int, points: Any, vectors: Any) -> tuple[Any, Any, Any]:
        pairs, shifts = self._searches[system].compute(
            points, vectors, np.array(self._inputs.periodic), quantities="PS", copy=False
        )
        return *pairs.T, shifts

    def peak_bytes(self) -> int | None:
        self._start_afresh()
        return super().peak_bytes()
