"""Updates sorted keys after some of them changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.primitives.digit_sorts import OnesweepSort, ThreeKernelSort, key_constants
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.key_sort.contract import KeySort
from gpubench.problems.key_sort.inputs import KeySet

BLOCK = 256


class KeyResort(KeySort):
    """Extracts the changed keys, sorts them alone, and merges them with the rest.

    As in particle updates, the old keys are part of the input. The sort of the changed keys
    allocates its memory when an input is loaded, since their number depends on the input.
    """

    name = "key-resort"
    summary = "of nearly sorted keys: those that changed are sorted alone and merged"
    source = "after the re-sort of rozen2008, section 2.2; merge by ranks"
    needs: ClassVar[Mapping[str, Any]] = {"key_order": "nearly-sorted", "keys_moved": 0.01}
    forms: ClassVar[Mapping[str, Form]] = {
        "merge": Form("not stable; keys that were sorted before", stable=False)
    }
    widths = (0, 4)

    def prepare(self) -> None:
        if not self.was_sorted:
            raise NotSupported(f"{self.name} sorts no keys that were not sorted before")
        self.allocate_answer()
        self._word = f"uint{8 * self.key_bytes}"
        length = self.size if self.value_bytes else 0
        self._kept, self._kept_values, self._moved, self._moved_values = (
            self.allocate(shape, dtype)
            for _ in range(2)
            for shape, dtype in ((self.size, self._word), (length, "int32"))
        )
        self._changed = self.allocate(self.size, "int32")
        self._ranks = self.allocate(self.size + 1, "int32")
        self._scan = ExclusiveScan(self.device, self.size)
        self.workspace_bytes += self._scan.workspace_bytes
        constants = {
            **key_constants(self.key_type), "BLOCK": BLOCK, "VALUES": self.value_bytes // 4,
        }  # fmt: skip
        self._mark, self._split, self._merge = (
            self.device.kernel("key_resort.cu", name, **constants)
            for name in ("mark", "split", "merge_runs")
        )
        self._workspace, self._moves = self.workspace_bytes, -1

    def load(self, inputs: KeySet) -> None:
        """Upload the new and the old keys, and prepare the sort of the changed keys."""
        super().load(inputs)
        assert inputs.before is not None  # the constructor refuses inputs without old keys
        self._before = self.device.upload(inputs.before)
        changed = inputs.keys.view(self._word) != inputs.before.view(self._word)
        moves = int(np.count_nonzero(changed))
        if moves == self._moves:
            return
        sort = OnesweepSort if "cuda" in self.device.features else ThreeKernelSort
        self._sort = sort(self.device, moves, self._word, has_values=self.value_bytes > 0)
        self.workspace_bytes, self._moves = self._workspace + self._sort.workspace_bytes, moves

    def launch(self) -> None:
        """Sort the loaded keys."""
        n, grid = self.size, (self.device.blocks(self.size, BLOCK), BLOCK)
        values = self.values if self.value_bytes else self.sorted_values
        runs = self._kept, self._kept_values, self._moved, self._moved_values
        self._mark(*grid, self.keys, self._before, self._changed, n)
        self._scan.launch(self._changed, self._ranks)
        self._split(*grid, self.keys, values, self._ranks, *runs, n)
        if self._moves:
            self._sort.launch(self._moved, self._moved_values)
        self._merge(
            *grid, *runs[:2], self._sort.keys, self._sort.values, self.sorted_keys,
            self.sorted_values, self._moves, n,
        )  # fmt: skip

    def outcome(self) -> dict[str, int | float | str]:
        return {**super().outcome(), "moved": self._moves}
