"""Segmented sort of keys: many small segments, such as cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.primitives.digit_sorts import key_constants
from gpubench.problems.key_sort.contract import KeySort

TILE = 4096  # keys that fit in the shared memory of a block
SHAPES = ((32, 256), (128, 1024), (512, TILE))  # threads per block, maximum keys per segment


class SegmentSort(KeySort):
    """One block sorts each segment in shared memory, by Batcher's network over (key, index)."""

    name = "segment-sort"
    summary = f"a block sorts each segment, of at most {TILE} keys, by the bitonic network"
    source = "Batcher 1968"
    needs: ClassVar[Mapping[str, Any]] = {"segment_keys": 64}
    forms: ClassVar[Mapping[str, Form]] = {"bitonic": Form("stable: keys differ in the index")}
    segment_forms = ("bitonic",)
    key_types = ("uint32", "int32", "float32")

    def prepare(self) -> None:
        longest = self.longest or 0
        if longest > TILE:
            raise NotSupported(f"{self.name} sorts no segments of more than {TILE} keys: {longest}")
        self.allocate_answer()
        self._block, tile = next(shape for shape in SHAPES if shape[1] >= longest)
        self._sort = self.device.kernel(
            "bitonic_sort.cu", "sort_segments", **key_constants(self.key_type), BLOCK=self._block,
            TILE=tile, VALUES=self.value_bytes // 4,
        )  # fmt: skip

    def launch(self) -> None:
        """Sort the segments."""
        values: Any = self.values if self.value_bytes else self.sorted_values
        self._sort(
            self.segments, self._block, self.starts, self.keys, values, self.sorted_keys,
            self.sorted_values,
        )  # fmt: skip
