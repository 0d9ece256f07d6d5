"""NumPy's sorts, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gpubench.core.contracts import Form
from gpubench.core.host_work import HostWork
from gpubench.core.key_sort import KeySort, SortedKeys
from gpubench.inputs.keys import KeySet
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version


class NumpySort(HostWork, KeySort):
    """`numpy.sort` of keys alone; of pairs, `numpy.argsort` and two gathers. One core."""

    name = "numpy-sort"
    summary = "numpy.sort on the host; pairs by a stable numpy.argsort"
    source = "NumPy"
    forms: ClassVar[Mapping[str, Form]] = {
        "host": Form(
            "keys alone: SIMD sort where the CPU has it; pairs: a stable argsort", capturable=False
        )
    }

    equal_zeros = True

    _answer: SortedKeys

    def prepare(self) -> None:
        self.library = name_with_version("numpy")

    def load(self, inputs: KeySet) -> None:
        """Keep the input on the host."""
        self.keys, self.values = inputs.keys, inputs.values

    def launch(self) -> None:
        """Wait until the device has nothing left to do, then sort."""
        self.device.synchronize()
        self._sort()

    def _sort(self) -> None:
        if self.values is None:
            self._answer = SortedKeys(np.sort(self.keys))
            return
        order = np.argsort(self.keys, kind="stable")
        self._answer = SortedKeys(self.keys[order], self.values[order])

    @property
    def answer(self) -> SortedKeys:
        return self._answer

    def peak_bytes(self) -> int | None:
        return peak_of(self._sort)
