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

ROUND = 16  # the library rounds its estimates of row lengths up to multiples of this
METHODS = {
    "auto": "by the method that it chooses",
    "naive": "by all pairs",
    "cell-list": "by its cell list",
    "cluster-tile": "by its tiles of clusters",
}


class NvalchemiImages(LibraryImages):
    """`nvalchemiops.torch.neighbors.neighbor_list` in float32, of one system or a batch.

    Its state is prepared beforehand where it can be; rows fit the longest one, which it counts.
    """

    name = "nvalchemi-images"
    summary = "the lists of NVIDIA's ALCHEMI toolkit with images; a call for all systems"
    source = "nvalchemi-toolkit-ops, nvalchemiops.torch.neighbors"
    package, module, extra = "nvalchemi-toolkit-ops", "nvalchemiops.torch.neighbors", EXTRA
    forms: ClassVar[Mapping[str, Form]] = {
        f"{shape}-{method}": Form(f"{shape} with shifts, {how}", CUDA, allocates=True)
        for shape in ("rows", "matrix")
        for method, how in METHODS.items()
    }

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
        given = {
            "cutoff": inputs.cutoff,
            "cell": torch.tensor(inputs.vectors, dtype=torch.float32, **on),
        }
        given["pbc"] = torch.tensor([self.periodic] * self.systems, **on)
        if self.systems > 1:
            given["batch_ptr"] = torch.tensor(inputs.offsets, dtype=torch.int32, **on)
        self._how, self._begins = {**given, "method": "cell_list", "max_neighbors": ROUND}, None
        most = int(self.search()[1].max())
        self._how |= {
            "method": None if self._method == "auto" else self._method.replace("-", "_"),
            "max_neighbors": max(1, -(-most // ROUND)) * ROUND,
            "return_neighbor_list": self._shape == "rows",
        }
        prepared = self._library.prepare_neighbor_list(self.points, **self._how)
        whole, self._how = self._how, {"cell": given["cell"], "state": prepared}
        try:
            self.search()
        except ValueError:  # it refuses some cells that it finds neighbours in otherwise
            self._how = whole

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
