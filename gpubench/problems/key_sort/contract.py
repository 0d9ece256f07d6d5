"""Contract of key sorts: the input and the answer of algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm
from gpubench.problems.key_sort.axes import KEY_TYPES, VALUE_BYTES
from gpubench.problems.key_sort.inputs import KeySet

if TYPE_CHECKING:
    from gpubench.devices.base import Device


@dataclass(frozen=True)
class SortedKeys:
    """Keys in ascending order, each with its value.

    keys: the bits of the keys, in any type of their width, shape (keys,).
    values: 4 bytes each, shape (keys,), or 16 bytes each, shape (keys, 4); None if there are none.
    """

    keys: Any
    values: Any = None


class KeySort(Algorithm):
    """An algorithm that sorts keys, alone or with a value each, as a whole or in segments.

    The input is left unchanged. A `stable` form keeps the values of equal keys in their order.

    size: the number of keys. key_type: one of KEY_TYPES. value_bytes: one of VALUE_BYTES.
    bits: the number of significant low bits of the keys; the others are zero. segments: the number
    of segments to sort separately, or None to sort all keys together. longest: the length of the
    longest segment. was_sorted: whether the input includes sorted keys, of which some then changed.
    keys, values, starts: the loaded input on the device, see `KeySet`.
    sorted_keys, sorted_values: the arrays of the answer.
    key_types, widths: the supported types and value sizes; the constructor refuses others.
    segment_forms: the forms that sort segments and cannot sort whole inputs.
    equal_zeros: whether -0.0 equals 0.0; otherwise -0.0 comes first. NaNs come last; inputs contain
        no NaN with its sign bit set, whose order is unspecified.
    """

    family: ClassVar[str] = "key-sort"
    key_types: ClassVar[tuple[str, ...]] = KEY_TYPES
    widths: ClassVar[tuple[int, ...]] = VALUE_BYTES
    segment_forms: ClassVar[tuple[str, ...]] = ()
    equal_zeros: ClassVar[bool] = False

    keys: Any
    values: Any
    starts: Any
    sorted_keys: Any
    sorted_values: Any

    def __init__(
        self,
        device: Device,
        form: str,
        parameters: Mapping[str, int],
        *,
        keys: int,
        value_bytes: int,
        key_type: str = "uint32",
        bits: int | None = None,
        segments: int | None = None,
        longest: int | None = None,
        was_sorted: bool = False,
    ) -> None:
        super().__init__(device, form, parameters)
        self.size, self.value_bytes, self.key_type = keys, value_bytes, key_type
        self.key_bytes = np.dtype(key_type).itemsize
        self.bits = bits or 8 * self.key_bytes
        self.segments, self.longest, self.was_sorted = segments, longest, was_sorted
        if key_type not in self.key_types:
            raise NotSupported(f"{self.name} sorts no keys of {key_type}")
        if value_bytes not in self.widths:
            raise NotSupported(f"{self.name} sorts no keys with values of {value_bytes} bytes")
        if (segments is not None) != (form in self.segment_forms):
            what = "segments" if segments is not None else "keys that are not in segments"
            raise NotSupported(f"{self.name} sorts no {what} in the form {form}")
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, and the kind of answer: stable or unstable."""
        return None, "stable" if cls.forms[form].stable else "unstable"

    def load(self, inputs: KeySet) -> None:
        """Upload `keys`, and `values` and the segments' `starts`, which may be None."""
        self.keys = self.device.upload(inputs.keys)
        self.values = None if inputs.values is None else self.device.upload(inputs.values)
        self.starts = None if inputs.starts is None else self.device.upload(inputs.starts)

    def traffic_bytes(self) -> int | None:
        """Return a lower bound: the bytes if the input is read and the answer written once."""
        return 2 * (self.key_bytes + self.value_bytes) * self.size

    def allocate_answer(self) -> None:
        """Allocate sorted_keys and sorted_values; the latter is empty if there are no values."""
        length = self.size if self.value_bytes else 0
        shape = (length, 4) if self.value_bytes == 16 else length
        self.sorted_keys = self.allocate(self.size, self.key_type)
        self.sorted_values = self.allocate(shape, "int32")

    @property
    def answer(self) -> SortedKeys:
        """Return the result of the last launch; overwritten by the next."""
        return SortedKeys(self.sorted_keys, self.sorted_values if self.value_bytes else None)

    def outcome(self) -> dict[str, int | float | str]:
        """Return how -0.0 is ordered, for float keys."""
        if self.key_type != "float32":
            return {}
        return {"zeros": "-0.0 equals 0.0" if self.equal_zeros else "-0.0 before 0.0"}
