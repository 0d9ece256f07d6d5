"""CUB's radix sort through cuda.compute: cell lists, searches over them, and key sorts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._library_sort import CUDA, SEARCHES, LibrarySort, LibrarySortSearch
from gpubench.problems.key_sort.contract import KeySort
from gpubench.problems.neighbours.tasks import TASKS

BLOCK = 256


class _Stream:
    """Adds the CUDA stream protocol to our device's stream."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class CudaComputeSort(LibrarySort):
    """CUB's radix sort of (cell id, particle), over the bits that cell ids use.

    Then a kernel of our `radix-grid` finds the cell starts. The library's sorter is built once,
    with our own arrays and scratch memory, so that a launch allocates nothing.
    """

    name = "cuda-compute-sort"
    summary = "CUB's radix sort through cuda.compute, then cell bounds"
    source = "NVIDIA CUDA Core Compute Libraries, cuda.compute.make_radix_sort"
    forms: ClassVar[Mapping[str, Form]] = {"order": Form("indices only", CUDA)}

    def prepare(self) -> None:
        compute: Any = need("cuda.compute", "cuda-cccl", "rivals-cuda13")
        self.library = name_with_version("cuda-cccl")
        super().prepare()
        device, particles = self.device, self.particles
        self._keys, self._indices = (self.allocate(particles, "int32") for _ in range(2))
        device.write(self._indices, np.arange(particles, dtype=np.int32))
        self._bounds = device.kernel("cell_bounds.cu", "cell_bounds", BLOCK=BLOCK, REORDER=0)
        self._none = self.allocate((0, 4), "float32")
        self._pool = 0
        self._bits = max(1, (self.grid.count - 1).bit_length())
        self._stream = _Stream(device.stream.handle)  # type: ignore[attr-defined]  # of a CUDADevice
        if not particles:
            return
        self._sorter = compute.make_radix_sort(
            d_in_keys=self._keys,
            d_out_keys=self._keys,
            d_in_values=self._indices,
            d_out_values=self._order,
            order=compute.SortOrder.ASCENDING,
        )
        scratch = self._run(self._keys, None)
        self._scratch = self.allocate(max(1, scratch), "uint8")

    def _run(self, cell_of: Any, scratch: Any) -> int:
        """Sort; without scratch, only return the required bytes of scratch."""
        needed: int = self._sorter(
            temp_storage=scratch,
            d_in_keys=cell_of,
            d_out_keys=self._keys,
            d_in_values=self._indices,
            d_out_values=self._order,
            num_items=self.particles,
            begin_bit=0,
            end_bit=self._bits,
            stream=self._stream,
        )
        return needed

    def sort(self, cell_of: Any) -> None:
        self._run(cell_of, self._scratch)
        self._bounds(
            self.device.blocks(self.particles + 1, BLOCK), BLOCK, self._keys, self._order,
            self._start, self._none, self._none, self.grid.count, self.particles,
        )  # fmt: skip

    def measured(self, cell_of: Any) -> int:
        self.sort(cell_of)
        return 0

    def outcome(self) -> dict[str, int | float | str]:
        return {"bits": self._bits, "ties": "stable: particles of a cell keep their order"}


class CudaComputeSortSearch(LibrarySortSearch):
    """Search over cells sorted with CUB's radix sort through cuda.compute."""

    name = "search-cuda-compute-sort"
    summary = "positions to neighbours over cuda-compute-sort"
    source = "NVIDIA CUDA Core Compute Libraries, cuda.compute.make_radix_sort"
    cells = CudaComputeSort
    forms: ClassVar[Mapping[str, Form]] = {task: Form(TASKS[task], CUDA) for task in SEARCHES}


class CudaComputeKeySort(KeySort):
    """CUB's radix sort of keys through cuda.compute; sorts into our arrays, allocates nothing."""

    name = "cuda-compute-key-sort"
    summary = "CUB's radix sort of keys through cuda.compute"
    source = "NVIDIA CUDA Core Compute Libraries, cuda.compute.make_radix_sort"
    forms: ClassVar[Mapping[str, Form]] = {"radix": Form("stable", CUDA)}
    widths = (0, 4)
    equal_zeros = True

    def prepare(self) -> None:
        compute: Any = need("cuda.compute", "cuda-cccl", "rivals-cuda13")
        self.library = name_with_version("cuda-cccl")
        self.allocate_answer()
        self._stream = _Stream(self.device.stream.handle)  # type: ignore[attr-defined]  # CUDA's
        given = self.sorted_keys, self.sorted_values  # placeholders with the types of the inputs
        self._sorter = compute.make_radix_sort(
            **self._arrays(*given), order=compute.SortOrder.ASCENDING
        )
        self._scratch = self.allocate(max(1, self._run(*given, None)), "uint8")

    def _arrays(self, keys: Any, values: Any) -> dict[str, Any]:
        return {
            "d_in_keys": keys,
            "d_out_keys": self.sorted_keys,
            "d_in_values": values if self.value_bytes else None,
            "d_out_values": self.sorted_values if self.value_bytes else None,
        }

    def _run(self, keys: Any, values: Any, scratch: Any) -> int:
        """Sort; without scratch, only return the required bytes of scratch."""
        needed: int = self._sorter(
            temp_storage=scratch,
            num_items=self.size,
            begin_bit=0,
            end_bit=self.bits,
            stream=self._stream,
            **self._arrays(keys, values),
        )
        return needed

    def launch(self) -> None:
        """Sort the loaded keys."""
        self._run(self.keys, self.values, self._scratch)
