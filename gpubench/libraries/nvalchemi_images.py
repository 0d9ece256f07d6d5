"""The lists of NVIDIA's ALCHEMI toolkit in cells of any shape, through its PyTorch interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.libraries._image_lists import LibraryImages, rows_of
from gpubench.libraries._library import need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries._torch import EXTRA
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import SystemSet

ROUND = 16  # the library rounds its estimates of row lengths up to multiples of this
METHODS = {
    "auto": "by the method that it chooses",
    "naive": "by all pairs",
    "cell-list": "by its cell list",
    "cluster-tile": "by its tiles of clusters",
}


class NvalchemiImages(LibraryImages):
    """`nvalchemiops.torch.neighbors.neighbor_list` in float32, of one system or a batch.

    Its state is prepared beforehand, if `prepared` is 1, where it can be; rows fit the longest one,
    which it counts.
    """

    name = "nvalchemi-images"
    summary = "the lists of NVIDIA's ALCHEMI toolkit with images; a call for all systems"
    source = "nvalchemi-toolkit-ops, nvalchemiops.torch.neighbors"
    package, module, extra = "nvalchemi-toolkit-ops", "nvalchemiops.torch.neighbors", EXTRA
    call = """
import torch
from nvalchemiops.torch.neighbors import neighbor_list
given = torch.tensor(positions), cutoff, torch.tensor(cell)[None], torch.tensor(periodic)[None]
matrix, counts, shifts = neighbor_list(*given)"""
    forms: ClassVar[Mapping[str, Form]] = {
        f"{shape}-{method}": Form(
            f"{shape} with shifts, {how}",
            CUDA if method == "cluster-tile" else frozenset(),
            allocates=True,
        )
        for shape in ("rows", "matrix")
        for method, how in METHODS.items()
    }
    defaults: ClassVar[Mapping[str, int]] = {"prepared": 1}

    _begins: Any  # of the pairs of each system, if they are in segments

    def prepare(self) -> None:
        super().prepare()
        need("warp", "warp-lang", EXTRA)
        self._shape, _, self._method = self.form.partition("-")
        if self._method == "cluster-tile" and not all(self.periodic):
            raise NotSupported("tiles of clusters are for periodic systems")

    def begin(self) -> None:
        assert self.torch is not None
        torch, inputs, on = self.torch.torch, self.inputs, {"device": self.torch.device}
        # The guard by which the library's own choice leaves out this method; asked for by name, it
        # lists the nearest image of a pair alone.
        apart = 1 / np.linalg.norm(np.linalg.inv(inputs.vectors), axis=1).max()
        if self._method == "cluster-tile" and inputs.cutoff > apart / 2:
            raise NotSupported(
                "tiles of clusters are for cutoffs up to half the least distance between faces"
                " (the library's guard cluster_tile_image_multiplicity)"
            )
        given = {"cutoff": inputs.cutoff, "cell": self._cell}
        given["pbc"] = torch.tensor([self.periodic] * self.systems, **on)
        if self.systems > 1:
            given["batch_ptr"] = torch.tensor(inputs.offsets, dtype=torch.int32, **on)
        method = None if self._method == "auto" else self._method.replace("-", "_")
        self._plain = {**given, "method": method}
        self._how, self._begins = {**given, "method": "cell_list", "max_neighbors": ROUND}, None
        most = int(self.search()[1].max()) if self.particles else 0
        self._how |= {
            "method": method,
            "max_neighbors": max(1, -(-most // ROUND)) * ROUND,
            "return_neighbor_list": self._shape == "rows",
        }
        if not self.parameters["prepared"]:
            return
        prepared = self._library.prepare_neighbor_list(self.points, **self._how)
        whole, self._how = self._how, {"cell": given["cell"], "state": prepared}
        try:
            self.search()
        except ValueError:  # it refuses some cells that it finds neighbours in otherwise
            self._how = whole

    @property
    def _cell(self) -> Any:
        assert self.torch is not None
        torch = self.torch.torch
        kind = torch.float64 if self.points.dtype == torch.float64 else torch.float32
        return torch.tensor(self.inputs.vectors, dtype=kind, device=self.torch.device)

    def by_default(self) -> tuple[Any, ...]:
        self._how = self._plain | {"return_neighbor_list": self._shape == "rows"}
        return self.search()

    def change(self, inputs: SystemSet) -> None:
        super().change(inputs)
        self._how["cell"] = self._cell

    def search(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._library.neighbor_list(self.points, **self._how)
        if len(found) == 4:  # tiles of a batch, whose pairs are grouped by system
            neighbours, self._begins, *rest = found  # its own, not an answer
            return neighbours, *rest
        return found

    def rows(self, *found: Any) -> Images:
        neighbours, second, shifts = found
        if self._begins is not None:
            begins = self._to_host(self._begins)[:-1]
            k = np.arange(neighbours.shape[1])
            system = np.searchsorted(begins, k, side="right") - 1
            listed = k - begins[system] < second[system]
            i, j = neighbours[:, listed]
            return rows_of(i, j, shifts[listed], self.particles)
        if self._shape == "rows":
            return Images(second.astype(np.int64), neighbours[1].copy(), shifts)
        filled = np.arange(neighbours.shape[1]) < second[:, None]
        offsets = np.concatenate(([0], np.cumsum(second, dtype=np.int64)))
        return Images(offsets, neighbours[filled], shifts[filled])
