"""Sorting of keys: what an algorithm is given and must answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.contracts import Algorithm

if TYPE_CHECKING:
    from gpubench.devices.base import Device
    from gpubench.inputs.keys import KeySet


@dataclass(frozen=True)
class SortedKeys:
    """Keys in rising order, each with its value.

    keys: 32 bits each, shape (keys,), read as unsigned.
    values: int32, shape (keys,), or None where keys have no values.
    """

    keys: Any
    values: Any = None


class KeySort(Algorithm):
    """An algorithm that sorts unsigned 32-bit keys, alone or with a 32-bit value each.

    The input stays as it is. A form that is `stable` keeps the values of equal keys in order.

    size: number of keys. value_bytes: 0 or 4.
    keys: uint32, shape (size,), on the device. values: int32, shape (size,), or None.
    """

    family: ClassVar[str] = "key-sort"

    keys: Any
    values: Any

    def __init__(
        self,
        device: Device,
        form: str,
        parameters: Mapping[str, int],
        *,
        keys: int,
        value_bytes: int,
    ) -> None:
        super().__init__(device, form, parameters)
        self.size, self.value_bytes = keys, value_bytes
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """No task; a stable sort answers more than one that is not."""
        return None, "stable" if cls.forms[form].stable else "unstable"

    def load(self, inputs: KeySet) -> None:
        """Upload the keys, and their values if they have any."""
        self.keys = self.device.upload(inputs.keys)
        self.values = None if inputs.values is None else self.device.upload(inputs.values)

    def traffic_bytes(self) -> int | None:
        """Return the bytes of reading the input and writing the answer once."""
        return 2 * (4 + self.value_bytes) * self.size
