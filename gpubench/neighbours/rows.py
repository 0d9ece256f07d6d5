"""What is done with the rows of a list on the device, after a search."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown, without_gradient
from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.plan import BLOCK, PairKernels, ResultArrays
from gpubench.primitives.scan import ExclusiveScan


def kernel(
    device: Device, name: str, has_images: bool = False, limits: int = 0, real: str = "float"
) -> NamedKernel:
    """Return a kernel of this module's file."""
    constants: dict[str, int | str] = {"IMAGES": int(has_images), "LIMITS": limits, "REAL": real}
    return NamedKernel(device, "neighbour_rows.cu", name, **constants)


@dataclass(frozen=True)
class Limits:
    """What the distances of listed pairs must be below, beside the cutoff of a search.

    by: "sum" or "max" of two radii, or "species". sizes: radii, or a table by species, float64.
    species: int32, of each particle.
    """

    by: str
    sizes: Any
    species: Any = None

    @classmethod
    def of_radii(cls, arrays: Arrays, n: int, radii: Any, combine: Any, cutoff: float) -> Limits:
        """Read the radii of n particles; raise UserError if two may reach beyond the cutoff."""
        if not isinstance(combine, str) or combine not in ("sum", "max"):
            raise UserError(f"combine takes sum or max, not {shown(combine)}")
        sizes = arrays.each("radii", radii, n, "float64")
        least, most = (float(sizes.owner.min()), float(sizes.owner.max())) if n else (0.0, 0.0)
        most *= 2 if combine == "sum" else 1
        if not 0 <= least <= most < math.inf:
            raise UserError("radii take finite numbers of at least 0")
        if most > cutoff:
            raise UserError(f"the largest radii reach {most:.9g}: they need a cutoff of that")
        return cls(combine, sizes)

    @classmethod
    def of_species(cls, arrays: Arrays, n: int, species: Any, table: NDArray[np.float64]) -> Limits:
        """Read the species of n particles; raise UserError for one without a row in the table."""
        kinds = arrays.each("species", species, n, "int32")
        if n and not 0 <= int(kinds.owner.min()) <= int(kinds.owner.max()) < len(table):
            raise UserError(f"species take whole numbers from 0 to {len(table) - 1}, as the table")
        return cls("species", arrays.device.upload(table), kinds)


def table_of(cutoff: Any) -> NDArray[np.float64] | None:
    """Return a symmetric table of cutoffs; None for anything without two dimensions."""
    without_gradient("cutoff", cutoff)
    with suppress(TypeError, ValueError):
        table = np.asarray(cutoff)
        if table.ndim != 2:
            return None
        is_table = table.dtype.kind in "iuf" and len(table) > 0 and table.shape == table.T.shape
        if is_table and (table == table.T).all() and table.min() >= 0 and 0 < table.max() < np.inf:
            return table.astype(np.float64)
        raise UserError(
            f"a table of cutoffs is symmetric, of numbers of at least 0, not {shown(cutoff)}"
        )
    return None


def keep_pairs(
    arrays: Arrays, found: ResultArrays, rows: int, first: int,
    distances: Any, limits: Limits | None, skin: float,
) -> ResultArrays:  # fmt: skip
    """Return the first rows of a list, with those neighbours from `first` on that are near enough.

    found: is overwritten. distances: of its pairs, if there are limits. Waits.
    """
    device, counts, neighbours = arrays.device, arrays.empty(rows, "int32"), found.neighbours
    way = 0 if limits is None else 1 + ("sum", "max", "species").index(limits.by)
    given = {
        "offsets": found.offsets, "neighbours": neighbours, "rows": rows, "first": first,
        "skin": np.float64(skin), "counts": counts, "kinds": 0,
        "distances": distances if way else neighbours,
        "sizes": limits.sizes if limits else neighbours, "species": neighbours,
        "images": neighbours if found.images is None else found.images,
    }  # fmt: skip
    if limits and limits.species is not None:
        given |= {"species": limits.species, "kinds": limits.sizes.shape[0]}
    real = "double" if way and distances.dtype == np.float64 else "float"
    has_images, blocks = found.images is not None, device.blocks(rows, BLOCK)
    kernel(device, "keep_pairs", has_images, way, real).launch_from(blocks, BLOCK, given)
    offsets = arrays.empty(rows + 1, "int64")
    ExclusiveScan(device, rows, sum_type="int64").launch(counts, offsets)
    pairs = int(device.download(offsets)[-1])
    given |= {"to": offsets, "packed": (packed := arrays.empty(pairs, "int32"))}
    images = arrays.empty(pairs, "int32") if has_images else packed
    given["packed_images"] = images
    kernel(device, "pack_pairs", has_images).launch_from(blocks, BLOCK, given)
    arrays.give(packed)  # waits on the host, where what was found is free from here on
    return ResultArrays(counts, offsets, packed, None, images if has_images else None, found.moves)


def sort_rows(arrays: Arrays, plan: PairKernels, rows: ResultArrays) -> None:
    """Sort the pairs of each row of the plan's last search, by neighbour and then by shift.

    A library sorts keys, of 8 bytes for each pair.
    """
    device, n, found = arrays.device, rows.counts.shape[0], rows.neighbours
    given = {
        "offsets": rows.offsets, "rows": n, "particles": plan.particles, "neighbours": found,
        "keys": arrays.empty(found.shape, "int64"),
    } | dict.fromkeys(("listed", "images", "ranks", "order", "sources"), found)  # fmt: skip
    if isinstance(plan, CellPlan):
        given |= {"listed": rows.images, "images": rows.images, **plan.ranked(rows.moves)}
    has_images = isinstance(plan, CellPlan)
    kernel(device, "write_keys", has_images).launch_from(device.blocks(n, BLOCK), BLOCK, given)
    given["keys"] = arrays.sorted(given["keys"])
    kernel(device, "read_keys", has_images).launch_from(device.blocks(n, BLOCK), BLOCK, given)
    arrays.give(found)  # waits on the host, whose memory of the keys is free from here on
