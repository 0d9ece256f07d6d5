"""Counting sort of keys with few significant bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.grid import Grid
from gpubench.problems.key_sort.contract import KeySort

BLOCK = 256
MOST_BITS = 22


class CountingKeySort(KeySort):
    """The counting sort of particles, with one cell per key value, followed by a gather."""

    name = "counting-key-sort"
    summary = "histogram with rank, scan, scatter of indices, then a gather"
    source = "Knuth, The Art of Computer Programming 3, Algorithm 5.2D; with atomics for the ranks"
    needs: ClassVar[Mapping[str, Any]] = {"key_bits": 16}
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form(f"not stable; keys of at most {MOST_BITS} bits", stable=False)
    }
    key_types = ("uint32",)

    def prepare(self) -> None:
        if self.bits > MOST_BITS:
            raise NotSupported(f"{self.name} sorts no keys of more than {MOST_BITS} bits")
        cells = 1 << self.bits
        grid = Grid((cells, 1, 1), (0.0,) * 3, (float(cells), 1.0, 1.0))
        self._counting = CountingSort(self.device, self.size, grid, "order", {})
        self.workspace_bytes += self._counting.workspace_bytes
        self.allocate_answer()
        self._take = self.device.kernel(
            "counting_key_sort.cu", "take", BLOCK=BLOCK, VALUES=self.value_bytes // 4
        )

    def launch(self) -> None:
        """Sort the loaded keys."""
        self._counting.build(self.keys, self.keys)
        values = self.values if self.value_bytes else self.sorted_values
        self._take(
            self.device.blocks(self.size, BLOCK), BLOCK, self._counting.answer.order, self.keys,
            values, self.sorted_keys, self.sorted_values, self.size,
        )  # fmt: skip
