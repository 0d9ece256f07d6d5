"""torch-cluster's radius graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._library import LibrarySearch, name_with_version, need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries._matrix import neighbour_counts, rows_of_pairs
from gpubench.libraries._torch import Torch
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.inputs import ParticleSet


class TorchClusterRadius(LibrarySearch):
    """`torch_cluster.radius_graph`, which tests all pairs on a GPU.

    Its limit on neighbours per particle, 32 by default, is set to the maximum, counted in advance.
    """

    name = "torch-cluster-radius"
    summary = "torch-cluster's radius graph"
    source = "torch-cluster, torch_cluster.radius_graph"
    finds_images = False
    forms: ClassVar[Mapping[str, Form]] = {
        "list-pairs": Form(f"{TASKS['list']}, as pairs", CUDA, allocates=True)
    }

    def prepare(self) -> None:
        self._torch = Torch(self.device)
        self._cluster: Any = need("torch_cluster", "torch-cluster", None)
        self.library = name_with_version("torch-cluster")
        self._most = self._pool = 0
        self._pairs: Any = None

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions, find the largest number of neighbours, and launch once."""
        self._pairs = None
        self._most = int(neighbour_counts(self.device, self.grid, inputs).max(initial=1))
        if self.particles:
            xyz = np.ascontiguousarray(inputs.positions[:, :3])
            self._positions = self._torch.view(self.device.upload(xyz))
            self._pool = self._torch.peak_of(self.launch)

    def launch(self) -> None:
        """List the neighbours."""
        if self.particles:
            self._pairs = None  # frees the last answer into PyTorch's pool
            with self._torch.on_stream():
                self._pairs = self._cluster.radius_graph(
                    self._positions, self.cutoff, loop=False, max_num_neighbors=self._most
                )

    def neighbours(self) -> Neighbours:
        pairs = np.zeros((2, 0), np.int64)
        if self._pairs is not None:
            with self._torch.on_stream():
                pairs = self._pairs.cpu().numpy()
        # Edges go from source to target: the first particle is a neighbour of the second.
        return rows_of_pairs(self.particles, pairs[1], pairs[0])

    def poison(self) -> None:
        if self._pairs is not None:
            with self._torch.on_stream():
                self._pairs.zero_()  # particle 0 paired with itself

    def outcome(self) -> dict[str, int | float | str]:
        return {
            "max_num_neighbors": self._most,
            "overflow": "neighbours beyond the limit are dropped silently; the limit is"
            " counted first, by us",
            "wrapping": "none: it finds no images",
            "order": "neighbours come in the order of their ids",
            "ties": "strictly nearer",
            "self_pairs": "leaves a particle itself out",
        }

    def peak_bytes(self) -> int:
        """Return the peak growth of PyTorch's memory in the first launch."""
        return self._pool
