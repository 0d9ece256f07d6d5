"""The cell list of NVIDIA's ALCHEMI toolkit, through its PyTorch interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._library import LibrarySearch, name_with_version, need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries._matrix import neighbour_counts, rows_of_matrix
from gpubench.libraries._torch import EXTRA, Torch
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.inputs import ParticleSet

ROUND = 16  # the library rounds its estimates of row lengths up to multiples of this


class NvalchemiCellList(LibrarySearch):
    """`nvalchemiops.torch.neighbors.cell_list` in float32; a matrix row fits the longest list.

    The library assumes that the box starts at the origin, so positions are shifted beforehand. It
    also returns the periodic image of each neighbour, which is part of the timing.
    """

    name = "nvalchemi-cell-list"
    summary = "the cell list of NVIDIA's ALCHEMI toolkit"
    source = "nvalchemi-toolkit-ops, nvalchemiops.torch.neighbors.cell_list"
    forms: ClassVar[Mapping[str, Form]] = {
        "build": Form(f"{TASKS['build']}; into arrays that are kept", CUDA, allocates=True),
        "list-matrix": Form(
            f"{TASKS['list']}, in a matrix; as the library does by default", CUDA, allocates=True
        ),
        "list-matrix-kept": Form(
            f"{TASKS['list']}, in a matrix that is kept; with as many cells as the cutoff allows",
            CUDA,
            allocates=True,
        ),
        "list-pairs": Form(f"{TASKS['list']}, as pairs", CUDA, allocates=True),
    }

    def prepare(self) -> None:
        self._torch = Torch(self.device)
        need("warp", "warp-lang", EXTRA)
        self._library: Any = need(
            "nvalchemiops.torch.neighbors.cell_list", "nvalchemi-toolkit-ops", EXTRA
        )
        self._utils: Any = need(
            "nvalchemiops.torch.neighbors.neighbor_utils", "nvalchemi-toolkit-ops", EXTRA
        )
        self.library = name_with_version("nvalchemi-toolkit-ops")
        torch, on = self._torch.torch, self._torch.device
        with self._torch.on_stream():
            edges = torch.tensor(self.grid.size, dtype=torch.float32, device=on)
            self._box = torch.diag(edges).reshape(1, 3, 3)
            self._periodic = torch.tensor(self.grid.periodic, dtype=torch.bool, device=on)
        self._keeps = self.form in ("build", "list-matrix-kept")
        self._found: Any = None
        self._row = self._pool = 0

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions, find the longest row, allocate the output, and launch once."""
        if not self.particles:
            return
        self._found = None
        most = int(neighbour_counts(self.device, self.grid, inputs).max(initial=1))
        self._row = -(-most // ROUND) * ROUND
        xyz = inputs.positions[:, :3].astype(np.float64) - np.asarray(self.grid.low)
        self._xyz = self.device.upload(np.ascontiguousarray(xyz, np.float32))
        self._positions = self._torch.view(self._xyz)
        self._pool = self._torch.peak_of(self._first)

    def _first(self) -> None:
        with self._torch.on_stream():
            if self._keeps:
                cells, reach = self._library.estimate_cell_list_sizes(
                    self._box, self._periodic, self.cutoff, max_nbins=2 * self.grid.count + 64
                )
                self._cells = self._utils.allocate_cell_list(
                    self.particles, cells, reach, self._torch.device
                )
            if self.form == "list-matrix-kept":
                self._matrix = self._make_matrix()
        self.launch()

    def _make_matrix(self) -> tuple[Any, Any, Any]:
        """Allocate a matrix of neighbours, a matrix of their images, and zeroed counts."""
        torch, n, row = self._torch.torch, self.particles, self._row
        how = {"dtype": torch.int32, "device": self._torch.device}
        return torch.empty((n, row), **how), torch.empty((n, row, 3), **how), torch.zeros(n, **how)

    @property
    def _given(self) -> tuple[Any, ...]:
        return self._positions, self.cutoff, self._box, self._periodic

    def launch(self) -> None:
        """Run the library's function for the task."""
        if not self.particles:
            return
        with self._torch.on_stream():
            if self.task == "build":
                self._library.build_cell_list(*self._given, *self._cells)
            elif self._keeps:
                self._found = self._kept()
            else:
                self._found = None  # frees the last answer into PyTorch's pool
                self._found = self._library.cell_list(
                    *self._given,
                    max_neighbors=self._row,
                    return_neighbor_list=self.form == "list-pairs",
                )

    def _kept(self) -> Any:
        matrix, shifts, numbers = self._matrix
        cells, reach, images, coordinates, counts, starts, members = self._cells
        return self._library.cell_list(
            *self._given,
            neighbor_matrix=matrix,
            neighbor_matrix_shifts=shifts,
            num_neighbors=numbers,
            cells_per_dimension=cells,
            neighbor_search_radius=reach,
            atom_periodic_shifts=images,
            atom_to_cell_mapping=coordinates,
            atoms_per_cell_count=counts,
            cell_atom_start_indices=starts,
            cell_atom_list=members,
        )

    def neighbours(self) -> Neighbours:
        if not self.particles:
            lists = self.task == "list"
            none = np.zeros(0, np.int32)
            return Neighbours(none, np.zeros(1, np.int64), none) if lists else Neighbours(none)
        with self._torch.on_stream():
            if self.task == "build":
                matrix = self._make_matrix()
                self._library.query_cell_list(*self._given, *self._cells, *matrix)
                return Neighbours(matrix[-1].cpu().numpy())
            first, second, _ = self._found
            if self.form != "list-pairs":
                return rows_of_matrix(self._torch.torch, second, first)
            first, second = first.cpu().numpy(), second.cpu().numpy()
        # The library sorts pairs by their first particle; `second` holds the row offsets.
        offsets = second.astype(np.int64)
        return Neighbours(np.diff(second), offsets, np.ascontiguousarray(first[1]))

    def poison(self) -> None:
        if not self.particles:
            return
        with self._torch.on_stream():
            if self._keeps:
                # The last three: particles per cell, cell starts, and particles in cell order.
                for array in self._cells[-3:]:
                    array.zero_()
            if self._found is not None:
                neighbours, numbers, _ = self._found
                neighbours.fill_(-1)
                numbers.zero_()

    def outcome(self) -> dict[str, int | float | str]:
        return {
            "row": self._row,
            "overflow": "counts go on and neighbours are dropped; as pairs it raises an error."
            " Rows are made long enough by counting first, by us",
            "wrapping": "finds images across periodic walls, wraps positions itself",
            "order": "neighbours come unordered",
            "self_pairs": "leaves a particle itself out",
            "ties": "strictly nearer",
        }

    def peak_bytes(self) -> int:
        """Return the peak growth of PyTorch's memory in the first launch."""
        return self._pool
