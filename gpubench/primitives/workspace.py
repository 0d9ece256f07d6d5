"""Device memory that a primitive allocates for itself."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from gpubench.devices.base import Device


class Workspace:
    """Base class that counts, in `workspace_bytes`, the bytes that it allocates."""

    def __init__(self, device: Device) -> None:
        self._device, self.workspace_bytes = device, 0

    def _allocate(
        self, shape: int | tuple[int, ...], dtype: DTypeLike, byte: int | None = None
    ) -> Any:
        """Allocate an array; set every byte to `byte`, if given."""
        array = self._device.empty(shape, dtype)
        if byte is not None:
            self._device.fill(array, byte)
        self.workspace_bytes += array.nbytes
        return array
