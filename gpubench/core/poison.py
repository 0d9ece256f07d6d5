"""Overwrite answers, so that only a later launch can make them correct again."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpubench.devices.base import Device

INTEGERS = 0x80  # repeated byte: negative in every width, and not NULL
FLOATS = 0xFF  # repeated byte: NaN


def arrays_of(answer: Any) -> list[Any]:
    """Return the array fields of an answer, which is a dataclass."""
    values = (getattr(answer, field.name) for field in fields(answer))
    return [value for value in values if isinstance(getattr(value, "dtype", None), np.dtype)]


def poison(device: Device, *arrays: Any) -> None:
    """Queue fills of arrays with values that no correct answer contains: negative integers, NaN.

    arrays: device arrays, or NumPy arrays, which are filled immediately unless read-only.
    """
    for array in arrays:
        _fill(device, array, FLOATS if array.dtype.kind == "f" else INTEGERS)


def empty(device: Device, cells: Any) -> None:
    """Queue fills that empty a cell list: safe to traverse, but wrong if there are particles."""
    for array in arrays_of(cells):
        _fill(device, array, cells.empty_byte)


def _fill(device: Device, array: Any, byte: int) -> None:
    if not isinstance(array, np.ndarray):
        device.fill(array, byte)
    elif array.flags.writeable:
        array[...] = np.frombuffer(bytes([byte]) * array.dtype.itemsize, array.dtype)[0]
