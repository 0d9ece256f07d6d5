"""Searches of many systems at once: which particles are in which, and the cell of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown
from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays, Layout
from gpubench.neighbours.box import LARGEST_LENGTH, OPEN, SMALLEST_LENGTH
from gpubench.neighbours.cell import FLAT, dependent
from gpubench.neighbours.plan import PairKernels, ResultArrays
from gpubench.primitives.scan import ExclusiveScan

MOST_REACH = 1000  # cells that the cutoff may reach along an axis
MOST_IMAGES = 2**21  # of a pair, which float32 counts
MOST_WORDS = 2**26  # of bits that are kept; more are found a second time
BLOCK = 128
LANES, LANES_CPU = 16, 1  # threads that share a row, of a block
STAGE = 640  # pairs of a block in shared memory

# The layout of `struct System` in kernels/batch_pairs.cu.
SYSTEM_DTYPE = np.dtype(
    [
        *((name, np.float64, 9) for name in ("cell", "dual")),
        *(("vectors", np.float32, 9), ("near", np.float32, 3), ("span", np.float32)),
        ("number", np.int32, 3),
        *((name, np.int32) for name in ("images", "first", "end")),
    ],
    align=True,
)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Batch:
    """Systems of particles, one after the other.

    offsets: int64, (systems + 1,), where their particles begin. cells: float64, (systems, 3, 3); 0
    along open axes.
    """

    offsets: Array
    cells: Array

    @classmethod
    def of(cls, batch: Any, particles: int, box: Any, repeats: Sequence[bool]) -> Batch:
        """Read what users pass; raise UserError for anything else."""
        offsets = _offsets(_array("batch", batch), particles)
        return cls(offsets, _cells(box, len(offsets) - 1, repeats))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batch) and all(
            map(np.array_equal, (self.offsets, self.cells), (other.offsets, other.cells))
        )


class BatchPlan(PairKernels):
    """Buffers and kernels of a search in many systems, whose rows are sorted.

    half: whether each pair is listed once. Raises UserError for a cell whose vectors are
    dependent, or that is too short for the cutoff.
    """

    def __init__(self, device: Device, positions: Any, of: Batch, reach: float, half: bool) -> None:
        super().__init__(device, positions, OPEN)
        offsets, cells, n = of.offsets, of.cells, self.particles
        packed, lanes = _packed(offsets, cells, reach), lanes_on(device)
        self.status, self._blocks = device.status(3), device.blocks(n * lanes, BLOCK)
        device.fill(self.status, 0)
        threads, words = self._blocks * BLOCK, _words(packed, lanes)
        keeps = words * threads <= MOST_WORDS
        kernel = partial(
            NamedKernel, device, "batch_pairs.cu", **self.kernel.keywords, HALF=int(half),
            BLOCK=BLOCK, LANES=lanes, STAGE=STAGE, KEPT=int(keeps),
        )  # fmt: skip
        self._place, self._count_pairs, self._write_pairs = map(
            kernel, ("place", "count_pairs", "write_pairs")
        )
        self._note = self.kernel("note_pairs")
        self._scan = ExclusiveScan(device, n, sum_type="int64")
        systems = np.repeat(np.arange(len(cells), dtype=np.int32), np.diff(offsets))
        self._of_results, self._shared = {"systems": systems, "cells": cells}, dict[str, Any]()
        self._given = {
            "systems": device.upload(packed.view("uint8")), "particles": n,
            "system_of": device.upload(systems), "reach": np.float64(reach),
            "placed": device.empty((n, 4), "float32"), "moves": device.empty((n, 4), "int32"),
            "fractions": device.empty((n, 4), "float32"), "before": device.empty(threads, "int32"),
            "words": device.empty(words * threads if keeps else 0, "uint32"),
        }  # fmt: skip
        self._layout = Layout((n, "int32"), (n + 1, "int64"))
        self._replayed("_count", 3)

    def rows(self, arrays: Arrays) -> ResultArrays:
        """Allocate the arrays of a result whose size is known."""
        for name, host in ({} if self._shared else self._of_results).items():
            self._shared[name] = arrays.empty(host.shape, host.dtype.name)  # which pickling needs
            self._device.write(self._shared[name], host)
        counts, offsets = arrays.empty_each(self._layout)
        return ResultArrays(counts, offsets, None, **self._shared)

    def search(self, arrays: Arrays, positions: Any, rows: ResultArrays) -> int:
        """List the pairs of all systems, and return their number; waits for it."""
        self._queue("_count", positions, rows.counts, rows.offsets)
        pairs = self.require_sound()
        rows.neighbours = arrays.empty(pairs, "int32")
        rows.shifts = arrays.empty((pairs, 3), "int32")
        given = {"given": positions, "offsets": rows.offsets, "counts": rows.counts}
        given |= {"neighbours": rows.neighbours, "shifts": rows.shifts}
        self._write_pairs.launch_from(self._blocks, BLOCK, self._given | given)
        return pairs

    def _count(self, positions: Any, counts: Any, offsets: Any) -> None:
        self.count_only(positions, counts)
        self._scan.launch(counts, offsets)
        given = {"offsets": offsets, "particles": self.particles, "status": self.status}
        self._note(1, 32, keeps_most=0, **given)

    def count_only(self, positions: Any, counts: Any) -> None:
        """Count the pairs of each particle."""
        given = self._given | {"given": positions, "counts": counts, "status": self.status}
        self._place.launch_from(self._device.blocks(self.particles, BLOCK), BLOCK, given)
        self._count_pairs.launch_from(self._blocks, BLOCK, given)


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        raise UserError(f"{name} takes an array of numbers, not {shown(value)}") from None


def _offsets(given: Array, particles: int) -> Array:
    """Return where the particles of each system begin, and their number: int64, (systems + 1,).

    given: these offsets; or the system of each particle, ascending, each of at least one. They
    differ in their last number. Raises UserError for anything else.
    """
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        of = "offsets, or the system of each particle: whole numbers"
        raise UserError(f"batch takes {of}, not {shown(given)}")
    given = given.astype(np.int64)
    if len(falls := np.flatnonzero(np.diff(given) < 0)):
        raise UserError(
            "batch takes systems one after the other: sort the particles by system, as number"
            f" {falls[0] + 1} is less than the one before"
        )
    if len(given) and given[0] == 0 and given[-1] == particles:
        return given
    if len(given) != particles:
        raise UserError(
            f"batch takes offsets from 0 to {particles:,}, or {particles:,} systems, one for each"
            f" particle, not {len(given):,} numbers to {given[-1] if len(given) else 'none'}"
        )
    steps = np.diff(given, prepend=-1)
    if (steps > 1).any():
        skipped = int(given[steps > 1][0]) - 1
        raise UserError(
            f"batch has no particle in system {skipped}: number systems from 0 without gaps, or"
            " give offsets"
        )
    return np.append(np.flatnonzero(steps), particles)


def _cells(box: Any, systems: int, repeats: Sequence[bool]) -> Array:
    """Return the vectors of each system that repeat: float64, (systems, 3, 3); others are 0.

    box: a 3x3 matrix or three edges for all, one matrix each, or None. Raises UserError for
    anything else.
    """
    given = np.zeros((3, 3)) if box is None else _array("box", box)
    if box is None and any(repeats):
        raise UserError("a periodic batch needs its cells: cell=, a matrix for each system or all")
    has_shape = given.shape in ((3,), (3, 3), (systems, 3, 3))
    if not has_shape or given.dtype.kind not in "iuf" or not np.isfinite(given).all():
        wanted = f"3 edges, a 3x3 matrix, or {systems:,} matrices, of finite numbers"
        raise UserError(f"the box of a batch takes {wanted}, not {shown(box)}")
    given = given.astype(np.float64)
    given = np.diag(given) if given.ndim == 1 else given
    return np.where(np.array(repeats)[:, None], np.broadcast_to(given, (systems, 3, 3)), 0.0)


def _packed(offsets: Array, cells: Array, reach: float) -> Array:
    """Return the systems as an array of SYSTEM_DTYPE."""
    scale = np.abs(cells).max(axis=(1, 2), initial=np.finfo(float).tiny)
    if not SMALLEST_LENGTH <= reach <= LARGEST_LENGTH or (scale > LARGEST_LENGTH).any():
        raise UserError("cutoff and cells are too long or too short: take another unit")
    lengths, scaled = np.linalg.norm(cells, axis=2), cells / scale[:, None, None]
    rank = (np.linalg.svd(scaled, compute_uv=False) > FLAT).sum(axis=1)
    if len(flat := np.flatnonzero(rank != (lengths > 0).sum(axis=1))):
        raise dependent(f"the cell of system {flat[0]}")
    dual = np.linalg.pinv(scaled, rcond=FLAT / 2) / scale[:, None, None]
    dual *= (lengths > 0)[:, None]  # 0 along open axes, but for rounding
    packed = np.zeros(len(cells), SYSTEM_DTYPE)
    packed["cell"], packed["dual"] = cells.reshape(-1, 9), dual.reshape(-1, 9)
    reaches = reach * np.linalg.norm(dual, axis=1)
    if len(short := np.flatnonzero((reaches > MOST_REACH).any(axis=1))):
        raise UserError(
            f"the cutoff and skin reach over {MOST_REACH:,} images of the cell of system"
            f" {short[0]}: take a shorter cutoff, or reduce its vectors"
        )
    packed["vectors"] = packed["cell"]
    packed["near"] = np.where(reaches, reaches * (1 + 1e-6) + 1e-5, 0.0)
    packed["number"] = np.floor(2 * packed["near"].astype(np.float64)) + 1
    images = packed["number"].astype(np.int64).prod(axis=1)
    if len(many := np.flatnonzero(images > MOST_IMAGES)):
        raise UserError(
            f"the cutoff and skin reach {images[many[0]]:,} images of each particle of system"
            f" {many[0]}, and at most {MOST_IMAGES:,} are searched: take a shorter cutoff"
        )
    packed["images"] = images
    packed["span"] = (lengths * (reaches + 2)).sum(axis=1)
    packed["first"], packed["end"] = offsets[:-1], offsets[1:]
    return packed


def lanes_on(device: Device) -> int:
    """Return the number of threads that share a row."""
    return LANES_CPU if device.is_cpu else LANES


def _words(packed: Array, lanes: int) -> int:
    """Return the most words of bits of a thread: of several particles, or several of each."""
    each, images = -(-(packed["end"] - packed["first"]) // lanes), packed["images"]
    words = np.where(images < 32, -(-each // np.maximum(1, 32 // images)), each * -(-images // 32))
    return int(words.max(initial=0))
