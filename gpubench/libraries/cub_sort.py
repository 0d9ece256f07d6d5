"""CUB's radix sort of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gpubench.core.contracts import Form
from gpubench.core.key_sort import KeySort, SortedKeys
from gpubench.inputs.keys import KeySet
from gpubench.primitives.radix_sort import RadixSort


class CubSort(KeySort):
    """CUB's DeviceRadixSort::SortPairs."""

    name = "cub-sort"
    summary = "CUB's least-significant-digit radix sort of pairs"
    source = "NVIDIA CUB, cub::DeviceRadixSort::SortPairs"
    forms: ClassVar[Mapping[str, Form]] = {
        "pairs": Form("stable; keys with a value only", frozenset({"cuda"}))
    }

    key_types = ("uint32",)
    widths = (4,)

    def prepare(self) -> None:
        self._sort = RadixSort(self.device, self.size, self.bits)
        self.workspace_bytes += self._sort.workspace_bytes

    def load(self, inputs: KeySet) -> None:
        """Upload keys and values; CUB reads the bits of int32 keys as unsigned."""
        self.keys = self.device.upload(inputs.keys.view(np.int32))
        assert inputs.values is not None  # else the constructor refused
        self.values = self.device.upload(inputs.values)

    def launch(self) -> None:
        """Sort the loaded pairs."""
        self._sort.launch(self.keys, self.values)

    @property
    def answer(self) -> SortedKeys:
        return SortedKeys(self._sort.keys, self._sort.values)
