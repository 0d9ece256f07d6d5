"""NumPy's sorts, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.contracts import Form
from gpubench.core.key_sort import KeySort, SortedKeys
from gpubench.inputs.keys import KeySet
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version


class NumpySort(KeySort):
    """`numpy.sort` of keys alone; of pairs, `numpy.argsort` and two gathers. One core."""

    name = "numpy-sort"
    summary = "numpy.sort on the host; pairs by a stable numpy.argsort"
    source = "NumPy"
    forms: ClassVar[Mapping[str, Form]] = {
        "host": Form(
            "keys alone: SIMD sort where the CPU has it; pairs: a stable argsort", capturable=False
        )
    }

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

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer, which is on the host."""
        return np.asarray(array)

    @property
    def no_graph(self) -> str:
        """Why there is no graph."""
        return "it works on the host, which no CUDA graph can hold"

    def traffic_bytes(self) -> None:
        """No model: nothing moves through device memory."""

    def peak_bytes(self) -> int | None:
        return peak_of(self._sort)
