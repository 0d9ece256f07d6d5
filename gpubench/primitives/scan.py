"""Exclusive prefix sums on the device."""

from __future__ import annotations

from typing import Any

from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel

BLOCK = 256
ITEMS = 8
ITEMS_CPU = 64  # more than ITEMS, as a CPU core runs a block's threads in sequence


class ExclusiveScan:
    """Exclusive prefix sums of counts, followed by their total.

    On CUDA, one pass with decoupled look-back (Merrill and Garland 2016). Other back ends do not
    guarantee forward progress, so there are three passes: tiles, tile sums, offsets.

    sum_type: "int" for int32 sums, "int64" if they may exceed 2^31 - 1.
    clear: whether the scan zeroes the counts after reading, ready for the next histogram.
    """

    def __init__(
        self, device: Device, items: int, *, sum_type: str = "int", clear: bool = False
    ) -> None:
        self._device, self._items = device, items
        self._single_pass = "cuda" in device.features
        self._items_per_thread = ITEMS_CPU if device.is_cpu else ITEMS
        self.form = "single-pass" if self._single_pass else "three-pass"
        self._tiles = device.blocks(items, BLOCK * self._items_per_thread)
        constants: dict[str, int | str] = {
            "SUM": sum_type, "BLOCK": BLOCK, "ITEMS": self._items_per_thread, "CLEAR": int(clear),
        }  # fmt: skip
        if self._single_pass:
            self._status = device.empty(self._tiles + 1, "uint64")
            device.fill(self._status, 0x00)
            self._lookback = NamedKernel(device, "scan.cu", "scan_lookback", **constants)
        else:
            self._status = device.empty(self._tiles, "int64" if sum_type == "int64" else "int32")
            self._scan_tiles = NamedKernel(device, "scan.cu", "scan_tiles", **constants)
            self._scan_sums = NamedKernel(device, "scan.cu", "scan_tile_sums", **constants)
            self._add_offsets = NamedKernel(device, "scan.cu", "add_tile_offsets", **constants)

    @property
    def workspace_bytes(self) -> int:
        """Device memory in addition to the arguments."""
        return int(self._status.nbytes)

    def launch(self, counts: Any, sums: Any) -> None:
        """Queue sums[i] = counts[0] + ... + counts[i - 1].

        counts: int32, shape (items,). sums: int32 or int64, shape (items + 1,); the total is last.
        """
        if self._single_pass:
            self._lookback(
                self._tiles, BLOCK,
                counts=counts, sums=sums, status=self._status, items=self._items,
            )  # fmt: skip
            return
        of = {"sums": sums, "tile_sums": self._status, "items": self._items}
        self._scan_tiles(self._tiles, BLOCK, counts=counts, **of)
        self._scan_sums(1, BLOCK, tiles=self._tiles, **of)
        self._add_offsets(self._tiles, BLOCK, **of)
