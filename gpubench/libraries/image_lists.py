"""Lists with images by libraries on the host, and by torch-sim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import HostPairs, LibraryPairs
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries.vesin import capacity
from gpubench.problems.images.inputs import SystemSet

MOST_PAIRS = 2**28  # for which vesin makes room: with images, few particles may have many


class VesinImages(HostPairs):
    """`vesin.NeighborList`: pairs as int64 and shifts as int32; those of one system not copied.

    On a GPU it takes tensors, and has room for the pairs, unless none is asked for.
    """

    name = "vesin-images"
    summary = "vesin's list with shifts; a call for each system"
    source = "Fraux and others, arXiv:2508.15704"
    package, module, extra = "vesin", "vesin", "rivals"
    call = """
from vesin import NeighborList
search = NeighborList(cutoff=cutoff, full_list=True)
pairs, shifts = search.compute(positions, cell, list(periodic), "PS")
i, j = pairs.T
"""
    forms: ClassVar[Mapping[str, Form]] = {
        **HostPairs.forms,
        "pairs-gpu": Form("list pairs and shifts, of tensors on a GPU", CUDA, allocates=True),
    }
    _room = 0

    def prepare(self) -> None:
        self.kind = "numpy" if self.form == "pairs" else "torch"
        super().prepare()

    def begin(self) -> None:
        self._separate()
        self._search = self._library.NeighborList(cutoff=self.inputs.cutoff, full_list=True)
        while self.torch:
            try:
                self.search()
                break
            except RuntimeError:  # more pairs than it has room for
                if self._room * self.particles > MOST_PAIRS:
                    raise
                self._room = 2 * (self._room or 128)

    def by_default(self) -> tuple[Any, ...]:
        self._room = 0
        return self.search()

    def change(self, inputs: SystemSet) -> None:
        self.hold(inputs)
        self._separate()

    def _separate(self) -> None:
        if self.torch is None:
            super().begin()
            self._cells: Any = self.inputs.vectors
            return
        self._systems = self.points.tensor_split(self.inputs.offsets[1:-1].tolist())
        on = {"dtype": self.points.dtype, "device": self.torch.device}
        self._cells = self.torch.torch.tensor(self.inputs.vectors, **on)

    def one(self, system: int, points: Any) -> tuple[Any, Any, Any]:
        given = points, self._cells[system], list(self.periodic)
        with capacity(self._room):
            pairs, shifts = self._search.compute(*given, "PS", copy=self.systems > 1)
        return pairs[:, 0], pairs[:, 1], shifts


class MatscipyImages(HostPairs):
    """`matscipy.neighbours.neighbour_list` of i, j and S, on one core; i ascends."""

    name = "matscipy-images"
    summary = "matscipy's list of i, j and S, on one core; a call for each system"
    source = "matscipy, matscipy.neighbours.neighbour_list"
    package, module = "matscipy", "matscipy.neighbours"
    call = """
from matscipy.neighbours import neighbour_list
i, j, shifts = neighbour_list("ijS", positions=positions, cell=cell, pbc=periodic, cutoff=cutoff)
"""


class MatscipyNeighboursImages(HostPairs):
    """The same call of matscipy's successor, another implementation, on all cores."""

    name = "matscipy-neighbours-images"
    summary = "matscipy-neighbours' list of i, j and S, on all cores; a call for each system"
    source = "matscipy-neighbours, matscipy_neighbours.neighbour_list"
    package, module = "matscipy-neighbours", "matscipy_neighbours"
    call = MatscipyImages.call.replace("matscipy.neighbours", "matscipy_neighbours")


class TorchSimImages(LibraryPairs):
    """`torch_sim.neighbors` in float32: its own functions, in PyTorch alone.

    Its default is nvalchemi's, with room for as many neighbours as atoms in angstroms have.
    """

    name = "torch-sim-images"
    summary = "torch-sim's lists with shifts; a call for all systems"
    source = "torch-sim-atomistic, torch_sim.neighbors"
    package, module = "torch-sim-atomistic", "torch_sim.neighbors"
    call = """
import torch
from torch_sim.neighbors import torch_nl_linked_cell
given = {"cell": torch.tensor(cell)[None], "pbc": torch.tensor(periodic)[None], "cutoff": cutoff}
pairs, _, shifts = torch_nl_linked_cell(
    positions=torch.tensor(positions), **given,
    system_idx=torch.zeros(len(positions), dtype=torch.int64))"""
    functions: ClassVar = {"pairs-cells": "torch_nl_linked_cell", "pairs-naive": "torch_nl_n2"}
    forms: ClassVar[Mapping[str, Form]] = {
        form: Form(f"list pairs and shifts, by {function}", allocates=True)
        for form, function in functions.items()
    }

    def begin(self) -> None:
        assert self.torch is not None
        torch, inputs, on = self.torch.torch, self.inputs, {"device": self.torch.device}
        system = np.repeat(np.arange(self.systems), np.diff(inputs.offsets))
        kind = torch.float64 if self.points.dtype == torch.float64 else torch.float32
        self._given = {
            "cell": torch.tensor(inputs.vectors, dtype=kind, **on),
            "pbc": torch.tensor([self.periodic] * self.systems, **on),
            "cutoff": float(inputs.cutoff),
            "system_idx": torch.tensor(system, **on),
        }

    def change(self, inputs: SystemSet) -> None:
        super().change(inputs)
        self.begin()  # which keeps nothing

    def search(self) -> tuple[Any, ...]:
        search = getattr(self._library, self.functions[self.form])
        pairs, _, shifts = search(positions=self.points, **self._given)
        return pairs[0], pairs[1], shifts
