"""What is done with the rows of a list on the device, after a search."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.plan import BLOCK, Plan, ResultArrays

FILE = "neighbour_rows.cu"


def sort_rows(arrays: Arrays, plan: Plan | CellPlan, rows: ResultArrays) -> None:
    """Sort the pairs of each row of the plan's last search, by neighbour and then by shift.

    A library sorts keys, of 8 bytes for each pair.
    """
    device, n, found = arrays.device, rows.counts.shape[0], rows.neighbours
    given = {
        "offsets": rows.offsets, "rows": n, "particles": plan.particles, "neighbours": found,
        "keys": arrays.empty(found.shape, "int64"),
    } | dict.fromkeys(("listed", "images", "ranks", "order", "sources"), found)  # fmt: skip
    if isinstance(plan, CellPlan):
        given |= {"listed": rows.images, "images": rows.images, **plan.ranked()}
    kernels = partial(NamedKernel, device, FILE, IMAGES=int(isinstance(plan, CellPlan)))
    kernels("write_keys").launch_from(device.blocks(n, BLOCK), BLOCK, given)
    given["keys"] = arrays.sorted(given["keys"])
    kernels("read_keys").launch_from(device.blocks(n, BLOCK), BLOCK, given)
    arrays.give(found)  # waits on the host, whose memory of the keys is free from here on


def write_matrix(device: Device, rows: ResultArrays, fill: int, out: Any) -> None:
    """Queue the writing of a list to a matrix, int32, shape (n, width), with rows filled up."""
    n, width = out.shape
    NamedKernel(device, FILE, "write_matrix", IMAGES=0)(
        device.blocks(n * width, BLOCK), BLOCK, offsets=rows.offsets,
        neighbours=rows.neighbours, rows=n, width=width, fill=fill, out=out,
    )  # fmt: skip
