"""Bitonic sorts of keys: Batcher's network, and the adaptive sort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.primitives.adaptive_merge import AdaptiveMerge
from gpubench.primitives.bitonic_merge import BLOCK, TILE, BitonicMerge
from gpubench.primitives.digit_sorts import key_constants
from gpubench.problems.key_sort.contract import KeySort


class WordSort(KeySort):
    """Base class: sorts 64-bit words (key << 32 | index), then gathers the values."""

    key_types: ClassVar[tuple[str, ...]] = ("uint32", "int32", "float32")

    def prepare(self) -> None:
        self.allocate_answer()
        self._constants = {
            **key_constants(self.key_type), "BLOCK": BLOCK, "TILE": TILE,
            "VALUES": self.value_bytes // 4,
        }  # fmt: skip
        self._unpack_words = self.device.kernel("bitonic_sort.cu", "unpack", **self._constants)

    def unpack(self, words: Any) -> None:
        """Queue the kernel that unpacks sorted words, uint64, shape (size,), into the answer."""
        n, values = self.size, self.values if self.value_bytes else self.sorted_values
        arrays = words, values, self.sorted_keys, self.sorted_values
        self._unpack_words(self.device.blocks(n, BLOCK), BLOCK, *arrays, n)


class BitonicSort(WordSort):
    """Batcher's network over (key, index); values are gathered at the end."""

    name = "bitonic-sort"
    summary = "bitonic merge sort of (key, index), then a gather of the values"
    source = "Batcher 1968"
    forms: ClassVar[Mapping[str, Form]] = {"index": Form("stable: equal keys differ in the index")}

    def prepare(self) -> None:
        super().prepare()
        self._words = self.allocate(self.size, "uint64")
        self._merge = BitonicMerge(self.device, self.size)
        self._sort_tiles = self.device.kernel("bitonic_sort.cu", "sort_tiles", **self._constants)

    def launch(self) -> None:
        """Sort the loaded keys."""
        blocks = self.device.blocks(self.size, TILE)
        self._sort_tiles(blocks, BLOCK, self.keys, self._words, self.size)
        self._merge.launch(self._words)
        self.unpack(self._words)


class AdaptiveBitonicSort(WordSort):
    """Merges bitonic trees, or runs split by binary search, in O(n log n) comparisons."""

    name = "adaptive-bitonic-sort"
    summary = "adaptive bitonic sort of (key, index), then a gather of the values"
    source = "Bilardi and Nicolau 1989; Greß and Zachmann 2006 (GPU-ABiSort)"
    forms: ClassVar[Mapping[str, Form]] = {
        "trees": Form("stable; bitonic trees"),
        "intervals": Form("stable; runs cut by binary search in place of trees"),
    }
    defaults: ClassVar[Mapping[str, int]] = {"chunk": 2048}
    key_types = ("uint32",)

    def prepare(self) -> None:
        super().prepare()
        self._merge = AdaptiveMerge(
            self.device, self.size, has_trees=self.form == "trees", chunk=self.parameters["chunk"]
        )
        self.workspace_bytes += self._merge.workspace_bytes

    def launch(self) -> None:
        """Sort the loaded keys."""
        self.unpack(self._merge.launch(self.keys))
