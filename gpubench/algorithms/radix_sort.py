"""Our radix sort of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.core.algorithm import Form
from gpubench.primitives.digit_sorts import DigitSort, OnesweepSort, ThreeKernelSort
from gpubench.primitives.gather import Gather
from gpubench.problems.key_sort.contract import KeySort


class RadixSort(KeySort):
    """Sorts by the significant bits, least significant digit first.

    Values of 16 bytes move only once: their indices are sorted, and the values gathered at the end.
    """

    name = "radix-sort"
    summary = "least-significant-digit radix sort"
    source = "Adinolfi and Merrill 2022 (Onesweep); Zagha and Blelloch 1991"
    forms: ClassVar[Mapping[str, Form]] = {
        "onesweep": Form("stable; one sweep a digit of 8 bits", frozenset({"cuda"})),
        "three-kernels": Form("stable; count, scan and scatter for each digit"),
    }

    def prepare(self) -> None:
        sorts: dict[str, type[DigitSort]]
        sorts = {"onesweep": OnesweepSort, "three-kernels": ThreeKernelSort}
        has_payload = self.value_bytes == 16
        self._sort = sorts[self.form](
            self.device, self.size, self.key_type, self.bits,
            has_values=self.value_bytes > 0, makes_index=has_payload,
        )  # fmt: skip
        self._gather = Gather(self.device, self.size) if has_payload else None
        self.workspace_bytes += self._sort.workspace_bytes
        self.sorted_keys, self.sorted_values = self._sort.keys, self._sort.values
        if self._gather:
            self.workspace_bytes += self._gather.workspace_bytes
            self.sorted_values = self._gather.sorted

    def launch(self) -> None:
        """Sort the loaded keys."""
        self._sort.launch(self.keys, None if self._gather else self.values)
        if self._gather:
            self._gather.launch(self._sort.values, self.values)
