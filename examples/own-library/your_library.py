"""Your library beside gpubench's searches."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from gpubench.contracts import Form, HostSearch, Neighbours, NeighbourSearch


def rows(particles: int, pairs: Any) -> Neighbours:
    """Return pairs from both sides, integers of shape (pairs, 2), as compressed rows."""
    first, second = pairs[np.argsort(pairs[:, 0])].T
    counts = np.bincount(first, minlength=particles).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    return Neighbours(counts, offsets, second.astype(np.int32))


class YourHostLibrary(HostSearch):
    """A search on the CPU."""

    name = "your-library"
    summary = "a k-d tree on the host"
    source = "your paper or address"
    finds_images = False  # True, the default, if it searches periodic boxes
    forms: ClassVar[Mapping[str, Form]] = {"list-pairs": Form("build, then list the pairs")}

    def prepare(self) -> None:
        from scipy.spatial import cKDTree

        self._build = cKDTree
        self.library = f"scipy {version('scipy')}"

    def work(self) -> None:  # timed
        tree = self._build(self.xyz)
        pairs = tree.query_pairs(np.nextafter(self.cutoff, 0), output_type="ndarray")
        self._pairs = np.concatenate((pairs, pairs[:, ::-1]))

    def neighbours(self) -> Neighbours:  # not timed
        return rows(self.particles, self._pairs)

    def poison(self) -> None:  # a launch that does nothing must then be wrong
        self._pairs[...] = 0


class YourGpuLibrary(NeighbourSearch):
    """A search on the GPU."""

    name = "your-gpu-library"
    summary = "all pairs, by array operations"
    source = "your paper or address"
    finds_images = False
    tests_all_pairs = True  # leave this out if yours does not: it keeps large inputs away
    forms: ClassVar[Mapping[str, Form]] = {
        "list-pairs": Form(
            "build, then list the pairs", requires=frozenset({"cuda"}), allocates=True
        )
    }

    def prepare(self) -> None:
        import cupy

        self._cupy = cupy
        self.library = f"cupy {cupy.__version__}"

    def load(self, inputs: Any) -> None:
        self._xyz = self.device.upload(inputs.positions)[:, :3]  # a CuPy array

    def launch(self) -> None:  # timed, on CuPy's current stream
        found = [self._cupy.zeros((0, 2), "int64")]
        for begin in range(0, self.particles, 256):
            apart = self._xyz[begin : begin + 256, None] - self._xyz
            near = (apart**2).sum(axis=2) < self.cutoff**2
            first, second = self._cupy.nonzero(near)
            pairs = self._cupy.stack((first + begin, second), axis=1)
            found.append(pairs[pairs[:, 0] != pairs[:, 1]])
        self._pairs = self._cupy.concatenate(found)

    def neighbours(self) -> Neighbours:
        return rows(self.particles, self._pairs.get())

    def download(self, array: Any) -> Any:  # the answer is on the host already
        return array

    def poison(self) -> None:
        self._pairs[...] = 0

    def traffic_bytes(self) -> None:
        """No model: the library decides what is moved."""
