"""Sorts of NumPy and pandas, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Form
from gpubench.core.host_work import HostWork
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version
from gpubench.problems.key_sort.contract import KeySort, SortedKeys
from gpubench.problems.key_sort.inputs import KeySet


class NumpySort(HostWork, KeySort):
    """`numpy.sort` for keys alone; otherwise `numpy.argsort` and two gathers. Uses one core.

    `argsort` gets keys of at most 16 significant bits as uint16, which NumPy sorts by radix.
    """

    name = "numpy-sort"
    summary = "numpy.sort on the host; pairs by a stable numpy.argsort; segments by numpy.lexsort"
    source = "NumPy"
    forms: ClassVar[Mapping[str, Form]] = {
        "host": Form(
            "keys alone: SIMD sort where the CPU has it; pairs: a stable argsort", capturable=False
        ),
        "segments": Form("a stable lexsort by segment and key", capturable=False),
    }
    segment_forms: ClassVar[tuple[str, ...]] = ("segments",)
    equal_zeros = True

    _answer: SortedKeys
    _segment: NDArray[np.int32]

    def prepare(self) -> None:
        self.library = name_with_version("numpy")

    def load(self, inputs: KeySet) -> None:
        """Keep the input on the host."""
        self.keys, self.values = inputs.keys, inputs.values
        if inputs.starts is not None:
            lengths = np.diff(inputs.starts)
            self._segment = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)

    def launch(self) -> None:
        """Wait until the device is idle, then sort."""
        self.device.synchronize()
        self._sort()

    def _sort(self) -> None:
        if self.form == "host" and self.values is None:
            self._answer = SortedKeys(np.sort(self.keys))
            return
        order = self._order()
        values = None if self.values is None else self.values[order]
        self._answer = SortedKeys(self.keys[order], values)

    def _order(self) -> NDArray[np.intp]:
        if self.form == "segments":
            return np.lexsort((self.keys, self._segment))
        short = self.bits <= 16
        return np.argsort(self.keys.astype(np.uint16) if short else self.keys, kind="stable")

    @property
    def answer(self) -> SortedKeys:
        return self._answer

    def peak_bytes(self) -> int | None:
        return peak_of(self._sort)


class PandasSort(NumpySort):
    """`DataFrame.sort_values` of a data frame with the columns `key` and `value`."""

    name = "pandas-sort"
    summary = "pandas.DataFrame.sort_values, stable, on the host"
    source = "pandas"
    forms: ClassVar[Mapping[str, Form]] = {"host": Form("stable", capturable=False)}
    segment_forms: ClassVar[tuple[str, ...]] = ()
    widths = (0, 4)

    def prepare(self) -> None:
        import pandas as pd

        self.library = name_with_version("pandas")
        self._pandas = pd

    def _sort(self) -> None:
        frame = self._pandas.DataFrame({"key": self.keys}, copy=False)
        if self.values is not None:
            frame["value"] = self.values
        frame = frame.sort_values("key", kind="stable")
        columns = [frame[name].to_numpy(copy=True) for name in frame]
        self._answer = SortedKeys(*columns)
