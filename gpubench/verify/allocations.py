"""During checks, fill allocated memory with garbage; compare its size with the declared size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.core.poison import FLOATS

if TYPE_CHECKING:
    from gpubench.devices.base import Device

# Garbage for integer arrays. As an index, it stays within an array plus ROOM: nothing crashes.
INTEGER = 3
ROOM = 2**20  # unused items behind each array


class UndeclaredMemory(Exception):
    """An algorithm's `workspace_bytes` is less than the bytes that it allocated."""


class Allocations:
    """Counts, in `total`, the bytes allocated by a device's `empty`, but not by its `upload`."""

    def __init__(self) -> None:
        self.total = 0

    def declared_by(self, make: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
        """Wrap a constructor; raises UndeclaredMemory if `workspace_bytes` is too small."""

        def made(**options: Any) -> Algorithm:
            before = self.total
            algorithm = make(**options)
            allocated = self.total - before
            if algorithm.workspace_bytes < allocated:
                raise UndeclaredMemory(
                    f"workspace_bytes is {algorithm.workspace_bytes:,}, but {allocated:,} bytes"
                    " were allocated: use self.allocate, and add the workspace_bytes of each"
                    " primitive"
                )
            return algorithm

        return made


@contextmanager
def soiled_memory(device: Device) -> Iterator[Allocations]:
    """Make `device.empty` fill its arrays with NaN or a small integer, and count their bytes.

    Fresh memory is often zero: without this, an algorithm that relies on zeros may pass by chance.
    """
    empty, found = device.empty, Allocations()

    def soiled(shape: Any, dtype: Any) -> Any:
        items = int(np.prod(shape, dtype=np.int64))
        if not items:
            return empty(shape, dtype)
        array = empty(items + ROOM, dtype)[:items].reshape(shape)
        found.total += array.nbytes
        if array.dtype.kind in "iu":
            device.write(array, np.full(array.shape, INTEGER, array.dtype))
        else:
            device.fill(array, FLOATS)
        return array

    def upload(host: Any) -> Any:
        array = empty(host.shape, host.dtype)
        device.write(array, host)
        return array

    replaced = {"empty": soiled, "upload": upload}
    vars(device).update(replaced)
    try:
        yield found
    finally:
        for name in replaced:
            del vars(device)[name]
