"""Bitonic merge sort of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.contracts import Form
from gpubench.core.key_sort import KeySort, SortedKeys
from gpubench.primitives.bitonic_merge import BLOCK, TILE, BitonicMerge
from gpubench.primitives.digit_sorts import key_constants


class BitonicSort(KeySort):
    """Batcher's network over (key, index); values are gathered at the end."""

    name = "bitonic-sort"
    summary = "bitonic merge sort of (key, index), then a gather of the values"
    source = "Batcher 1968"
    forms: ClassVar[Mapping[str, Form]] = {"index": Form("stable: equal keys differ in the index")}
    key_types = ("uint32", "int32", "float32")

    def prepare(self) -> None:
        self._words = self.allocate(self.size, "uint64")
        self._sorted = self.allocate(self.size, self.key_type)
        shape = (self.size, 4) if self.value_bytes == 16 else self.size
        self._gathered = self.allocate(shape if self.value_bytes else 0, "int32")
        self._merge = BitonicMerge(self.device, self.size)
        constants = {
            **key_constants(self.key_type), "BLOCK": BLOCK, "TILE": TILE,
            "VALUES": self.value_bytes // 4,
        }  # fmt: skip
        self._sort_tiles, self._unpack = (
            self.device.kernel("bitonic_sort.cu", name, **constants)
            for name in ("sort_tiles", "unpack")
        )

    def launch(self) -> None:
        """Sort the loaded keys."""
        n, blocks = self.size, self.device.blocks
        self._sort_tiles(blocks(n, TILE), BLOCK, self.keys, self._words, n)
        self._merge.launch(self._words)
        values: Any = self.values if self.value_bytes else self._gathered
        self._unpack(blocks(n, BLOCK), BLOCK, self._words, values, self._sorted, self._gathered, n)

    @property
    def answer(self) -> SortedKeys:
        return SortedKeys(self._sorted, self._gathered if self.value_bytes else None)

    def traffic_bytes(self) -> int:
        # Words are read and written once a pass, made from the keys, and unpacked.
        gather = 2 * self.value_bytes
        return (12 + 16 * self._merge.passes + 12 + gather) * self.size
