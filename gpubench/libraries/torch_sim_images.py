"""torch-sim's neighbour lists, for batches of systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import LibraryPairs
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._library_sort import CUDA

PACKAGE = "torch-sim-atomistic"
FUNCTIONS = {"pairs-cells": "torch_nl_linked_cell", "pairs-naive": "torch_nl_n2"}


class TorchSimImages(LibraryPairs):
    """`torch_sim.neighbors` in float32: its own functions, in PyTorch alone.

    Its default is nvalchemi's, with room for as many neighbours as atoms in angstroms have.
    """

    name = "torch-sim-images"
    summary = "torch-sim's lists with shifts; a call for all systems"
    source = f"{PACKAGE}, torch_sim.neighbors"
    forms: ClassVar[Mapping[str, Form]] = {
        form: Form(f"list pairs and shifts, by {function}", CUDA, allocates=True)
        for form, function in FUNCTIONS.items()
    }

    def prepare(self) -> None:
        super().prepare()
        self._library = need("torch_sim.neighbors", PACKAGE, None)
        self.library = name_with_version(PACKAGE)

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
        search = getattr(self._library, FUNCTIONS[self.form])
        pairs, _, shifts = search(self.points, *self._given)
        return pairs[0], pairs[1], shifts
