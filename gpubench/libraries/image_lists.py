"""Lists with images by libraries on the host, and by torch-sim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostPairs, LibraryPairs
from gpubench.libraries._library_sort import CUDA


class VesinImages(HostPairs):
    """`vesin.NeighborList`: pairs as int64 and shifts as int32; those of one system not copied."""

    name = "vesin-images"
    summary = "vesin's list with shifts, on the host; a call for each system"
    source = "Fraux and others, arXiv:2508.15704"
    package, module, extra = "vesin", "vesin", "rivals"

    def begin(self) -> None:
        super().begin()
        self._search = self._library.NeighborList(cutoff=self.inputs.cutoff, full_list=True)

    def one(self, system: int, points: Any) -> tuple[Any, Any, Any]:
        vectors, periodic, copy = self.inputs.vectors[system], list(self.periodic), self.systems > 1
        pairs, shifts = self._search.compute(points, vectors, periodic, "PS", copy=copy)
        return pairs[:, 0], pairs[:, 1], shifts


class MatscipyImages(HostPairs):
    """`matscipy.neighbours.neighbour_list` of i, j and S, on one core; i ascends."""

    name = "matscipy-images"
    summary = "matscipy's list of i, j and S, on one core; a call for each system"
    source = "matscipy, matscipy.neighbours.neighbour_list"
    package, module = "matscipy", "matscipy.neighbours"

    def one(self, system: int, points: Any) -> tuple[Any, Any, Any]:
        cell, cutoff = self.inputs.vectors[system], self.inputs.cutoff
        found: tuple[Any, Any, Any] = self._library.neighbour_list(
            "ijS", positions=points, cell=cell, pbc=self.periodic, cutoff=cutoff
        )
        return found


class TorchSimImages(LibraryPairs):
    """`torch_sim.neighbors` in float32: its own functions, in PyTorch alone.

    Its default is nvalchemi's, with room for as many neighbours as atoms in angstroms have.
    """

    name = "torch-sim-images"
    summary = "torch-sim's lists with shifts; a call for all systems"
    source = "torch-sim-atomistic, torch_sim.neighbors"
    package, module = "torch-sim-atomistic", "torch_sim.neighbors"
    functions: ClassVar = {"pairs-cells": "torch_nl_linked_cell", "pairs-naive": "torch_nl_n2"}
    forms: ClassVar[Mapping[str, Form]] = {
        form: Form(f"list pairs and shifts, by {function}", CUDA, allocates=True)
        for form, function in functions.items()
    }

    def begin(self) -> None:
        assert self.torch is not None
        torch, inputs, on = self.torch.torch, self.inputs, {"device": self.torch.device}
        system = np.repeat(np.arange(self.systems), np.diff(inputs.offsets))
        self._given = (
            torch.tensor(inputs.vectors, dtype=torch.float32, **on),
            torch.tensor([self.periodic] * self.systems, **on),
            torch.tensor(inputs.cutoff, dtype=torch.float32, **on),
            torch.tensor(system, **on),
        )

    def search(self) -> tuple[Any, ...]:
        search = getattr(self._library, self.functions[self.form])
        pairs, _, shifts = search(self.points, *self._given)
        return pairs[0], pairs[1], shifts
