"""Many small sorts of keys: one for each segment, as cells are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.contracts import Form
from gpubench.core.errors import NotSupported
from gpubench.core.key_sort import KeySort
from gpubench.inputs.keys import KeySet
from gpubench.primitives.digit_sorts import key_constants

TILE = 4096  # keys that the shared memory of a block holds


class SegmentSort(KeySort):
    """A block sorts a segment in shared memory, by Batcher's network over (key, index)."""

    name = "segment-sort"
    summary = f"a block sorts each segment, of at most {TILE} keys, by the bitonic network"
    source = "Batcher 1968"
    forms: ClassVar[Mapping[str, Form]] = {"bitonic": Form("stable: keys differ in the index")}
    segment_forms = ("bitonic",)
    key_types = ("uint32", "int32", "float32")

    def prepare(self) -> None:
        self.allocate_answer()
        self._kernels = {
            (block, tile): self.device.kernel(
                "bitonic_sort.cu", "sort_segments", **key_constants(self.key_type), BLOCK=block,
                TILE=tile, VALUES=self.value_bytes // 4,
            )
            for block, tile in ((32, 256), (128, 1024), (512, TILE))
        }  # fmt: skip

    def load(self, inputs: KeySet) -> None:
        """Upload the keys, and take as many threads as the longest segment asks for."""
        super().load(inputs)
        assert inputs.starts is not None  # else the constructor refused
        longest = int(np.diff(inputs.starts).max())
        if longest > TILE:
            raise NotSupported(f"{self.name} sorts no segments of more than {TILE} keys: {longest}")
        self._shape = min(shape for shape in self._kernels if shape[1] >= longest)

    def launch(self) -> None:
        """Sort the segments."""
        values: Any = self.values if self.value_bytes else self.sorted_values
        self._kernels[self._shape](
            self.segments, self._shape[0], self.starts, self.keys, values, self.sorted_keys,
            self.sorted_values,
        )  # fmt: skip
