"""`gpubench.NeighbourList`: neighbours of the user's own particles."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np

from gpubench.base.arguments import number
from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.devices.base import Device
from gpubench.neighbours.arrays import Arrays, arrays_of, is_writable, uncompiled
from gpubench.neighbours.batch import Batch, BatchPlan
from gpubench.neighbours.box import (
    EXACT,
    OPEN,
    SearchBox,
    Unsound,
    box_given,
    box_of,
    measured,
    three,
    widened,
)
from gpubench.neighbours.cell import Cell, Space, images_of, space_of
from gpubench.neighbours.found import Found, Kept
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.method import chosen
from gpubench.neighbours.options import Options
from gpubench.neighbours.packing import Packing, packed
from gpubench.neighbours.plan import Plan
from gpubench.neighbours.refined import Refined
from gpubench.neighbours.rows import Limits, sort_rows, table_of
from gpubench.neighbours.tilted import tilted_plan

Order = Literal["input", "cells"]
AnyPlan = Plan | Refined | CellPlan | BatchPlan


class NeighbourList(Fixed):
    """Lists all pairs of particles within a cutoff.

    cutoff: in the unit of the positions; or a symmetric table of cutoffs by species, of which those
        of 0 list no pairs. box: three edges; a 3x3 matrix whose rows are vectors, of
        any length and tilt; or None for open space. cell: another name for box, also in calls.
        periodic: whether the box is periodic, for all axes or per axis. low: its lower corner.
    half: list each pair once, in either particle's row: one of (i, j, S) and (j, i, -S), where S is
        the shift, also for images of one particle. By default in both rows. order: number rows by
        particle ("input") or in cell order ("cells"; `Found.ids` maps rows to particles).
    skin: list pairs within cutoff + skin, so that `update` can reuse the list, also of a box that
        changes.
    capacity: fixed size of the neighbour array. A search then does not wait for the device, can be
        captured in a CUDA graph (with `out`), and reports errors in `Found.check`. By default the
        array is allocated to fit, and errors are raised immediately.
    method: how particles are sorted into cells, or "auto" for the fastest one measured.
    sort: rows ascend by neighbour, then by shift, and are the same in every run.

    Edges of 0 and vectors of zeros are open axes, whatever `periodic` says, and have no bounds. Of
    other open axes, the edge of an orthogonal box is a bound, and the vector of another is ignored.
    A cell that is shorter than three times cutoff + skin, or tilted with open axes, is searched
    with images of the particles. Neither it nor another tilted cell takes a capacity or
    order="cells".

    Positions have shape (n, 3) or (n, 4), where the fourth number is ignored, and type float32 or
    float64. Along periodic axes they may lie anywhere. Pairs whose distance differs from the cutoff
    by less than `bound`, 10^-5 of it, may be misclassified, all others are exact. With a capacity
    the bound grows with the box; a box for which it exceeds 10^-3 of the cutoff causes a warning. A
    `skin` longer than the bound guarantees that all pairs within the cutoff are listed.

    Host arrays (NumPy, PyTorch) are searched on a CPU through OpenCL; CUDA arrays (CuPy, PyTorch,
    anything with DLPack or __cuda_array_interface__) on their own GPU, on the current stream.
    Contiguous arrays are not copied. Results are the same kind of array as the positions.

    Threads may share an object; a lock serialises their calls. Copies and unpickled objects work
    independently, also in other processes. Attributes are read-only.

    Raises UserError for invalid input, DeviceUnavailable if a required package is missing.
    """

    cutoff: float
    skin: float
    reach: float
    """cutoff + skin."""
    chosen: str
    """The method that the last search used, and the reason."""
    searches: int
    """The number of searches so far; an `update` that reuses the list does not count."""

    def __init__(
        self,
        cutoff: Any,
        box: Any = None,
        periodic: Any = False,
        *,
        cell: Any = None,
        low: Any = (0.0, 0.0, 0.0),
        half: bool = False,
        order: Order = "input",
        skin: float = 0.0,
        capacity: int | None = None,
        method: str = "auto",
        sort: bool = False,
    ) -> None:
        self._table = table_of(cutoff)
        cutoff = cutoff if self._table is None else self._table.max()
        cutoff, skin = number("cutoff", cutoff, positive=True), number("skin", skin)
        vars(self).update(cutoff=cutoff, skin=skin, reach=cutoff + skin, chosen="", searches=0)
        self._corner, box = low, box_given(cell, box)
        self._periodic = three("periodic", periodic, bool, "True, False, or three of them")
        # A box may yet come with a call.
        self._given = space_of(box, low, periodic if box is not None else False, self.reach)
        self._matrix = None if box is None else np.asarray(box).astype(np.float64)
        self._options = Options.of(half, order, sort, capacity, method)
        self._require_plain(self._given)
        self._plan: tuple[Any, AnyPlan] | None = None
        self._last: Kept | None = None
        self._read: tuple[list[Any], int, Batch] | None = None  # what a batch was given as
        self._around: SearchBox | None = None  # the box of the last search
        if (why := self._why_coarse(self._given)) is not None:
            warnings.warn(why, stacklevel=2)

    def _require_plain(self, given: Space) -> None:
        """Raise UserError for an option that a search in this space does not have."""
        if isinstance(given, Cell):
            self._options.require_images()
        if self._options.capacity is not None and self._searched(given) is None:
            raise UserError("a search with a capacity does not wait to find the box: give it")

    def _why_coarse(self, given: Space) -> str | None:
        own = None if self._options.capacity is None else self._searched(given)
        return None if own is None else own.why_coarse(self.cutoff, self.skin)

    def _space(self, box: Any, arrays: Arrays) -> Space:
        """Return what a call describes: its own box, or that of the list."""
        if box is None and (self._matrix is not None or not any(self._periodic)):
            return self._given
        given = space_of(arrays.numbers("the box", box), self._corner, self._periodic, self.reach)
        self._require_plain(given)
        if (why := self._why_coarse(given)) is not None:
            warnings.warn(why, stacklevel=4)
        return given

    def _systems(self, batch: Any, box: Any, arrays: Arrays, particles: int) -> Batch:
        """Return the batch that a call describes."""
        self._options.require_batch(self.skin)
        cells = self._matrix if box is None else arrays.numbers("the box", box)
        given, last = (arrays.numbers("batch", batch), cells), self._read
        if last is None or last[1] != particles or not all(map(_is_same, given, last[0])):
            systems = Batch.of(given[0], particles, cells, self._periodic)
            self._read = last = [np.array(each) for each in given], particles, systems
        return last[2]

    def _searched(self, given: Space) -> SearchBox | None:
        """Return the box of every search; None if it depends on the positions."""
        box = given.region(self.reach) if isinstance(given, Cell) else given
        return box if box is not None and box.is_bounded else None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_plan": None, "_last": None}  # both hold device memory

    @uncompiled
    def __call__(
        self, positions: Any, out: Found | None = None, *, batch: Any = None, cell: Any = None,
        box: Any = None, queries: Any = None, radii: Any = None,
        combine: Literal["sum", "max"] = "sum", species: Any = None,
    ) -> Found:  # fmt: skip
        """List the neighbours of these particles.

        out: the result of an earlier search of the same number of particles, whose arrays are
            overwritten; only with a capacity.
        batch: many systems in one search, one after the other: the offsets of their particles, from
            0 to n, or the system of each particle, ascending. Rows and neighbours are numbered as
            the positions; pairs are within a system. For systems of up to about a thousand
            particles: all of a system are tried. Open axes have no bounds.
        cell, box: in place of the list's own, for this call; `periodic` and `low` stay. Of a batch,
            also a matrix for each system, shape (systems, 3, 3). Of a tensor that requires a
            gradient, vectors and distances have one in the cell too.
        queries: other points, an array like the positions, in place of the particles: rows are of
            queries, neighbours are particles, also at distance 0.
        radii: a number for each particle. Listed are pairs nearer than the sum of both, or with
            combine="max" than the larger one, and the skin; the cutoff must be as large.
        species: a row of the table of cutoffs, for each particle.
        """
        arrays, box = arrays_of(positions), box_given(cell, box)
        with arrays.lock, arrays.on_stream():
            taken, first, limits = arrays.take(positions), None, None
            n, is_plain = taken.shape[0], queries is radii is species is self._table is None
            if is_plain and combine == "sum":
                systems = None if batch is None else self._systems(batch, box, arrays, n)
                given = systems or self._space(box, arrays)
                return self._search(arrays, taken, given, positions, box, out)
            asked = {"queries": queries, "radii": radii, "species": species}
            self._options.require_selecting(self._table is not None, combine, out, batch, asked)
            given = self._space(box, arrays)
            if queries is not None:
                positions = arrays.joined("queries", queries, positions)
                taken = arrays.take(positions)
                first = taken.shape[0] - n
            if radii is not None:
                limits = Limits.of_radii(arrays, n, radii, combine, self.cutoff)
            if self._table is not None:
                limits = Limits.of_species(arrays, n, species, self._table)
            try:
                found = self._search(arrays, taken, given, positions, box, None)
            except Unsound as error:
                raise error.of_queries(first or 0) from None
            return found.selected(first, limits, self.skin)

    @uncompiled
    def count(
        self, positions: Any, out: Any = None, *, batch: Any = None, cell: Any = None,
        box: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        """Return the number of neighbours of each particle: int32, shape (n,).

        Like `Found.counts`, but without making a list, and always in the order of the input.
        out: the array from an earlier count of the same number of particles, to overwrite. With a
            capacity as well, nothing is allocated and the host does not wait.
        batch, cell, box: as in a search. more: queries, radii, combine, species, with which it
            makes a list.
        """
        box = box_given(cell, box)
        if more or self._table is not None:
            return self(positions, out, batch=batch, box=box, **more).counts
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            taken = arrays.take(positions)
            n = self._noted(taken)
            systems = None if batch is None else self._systems(batch, box, arrays, n)
            given = systems or self._space(box, arrays)
            counts = arrays.empty(n, "int32") if out is None else self._counts_in(out, arrays, n)
            plan = self._plan_for(arrays, taken, given)
            plan.count_only(taken, counts)
            if self._options.capacity is None:
                plan.require_sound()
            return out if out is not None and arrays.gives_once else arrays.give(counts)

    def _counts_in(self, out: Any, arrays: Arrays, n: int) -> Any:
        """Return the user's `out` as a kernel argument; UserError if it does not fit."""
        if isinstance(out, arrays.given) and arrays_of(out) is arrays and is_writable(out):
            counts = arrays.view(out)
            if (counts.shape, counts.dtype) == ((n,), np.int32):
                return counts
        raise UserError(f"out takes what an earlier count of {n} particles returned")

    @uncompiled
    def update(self, positions: Any, *, cell: Any = None, box: Any = None) -> Found:
        """Reuse the last list, or search again if a particle has moved by half the skin.

        Either way the list contains all pairs within the cutoff. cell, box: as in a search;
        how it deforms counts as movement, but for what moves particles alike.
        """
        if not self.skin:
            raise UserError("update needs a skin: NeighbourList(cutoff, ..., skin=0.2)")
        if self._table is not None:
            raise UserError("update is not for a table of cutoffs: search each time")
        arrays, box = arrays_of(positions), box_given(cell, box)
        with arrays.lock, arrays.on_stream():
            given, last = self._space(box, arrays), self._last
            taken = arrays.take(positions)
            if last is not None and last.serves(arrays, taken, given):
                return last.found_at(taken, given, positions, box)
            found = self._search(arrays, taken, given, positions, box, None)
            assert self._around is not None
            sure = self.reach - self._bound(self._around)
            self._last = Kept(found, given, self._corner, self.cutoff, sure)
            return found

    def bound(self, box: Any = None, *, cell: Any = None) -> float:
        """Return the rounding bound: pairs this close to the cutoff may be misclassified.

        box, cell: edges of a box, allowed only in open space; by default that of the last search.
        """
        if (box := box_given(cell, box)) is not None and self._given is not None:
            raise UserError("bound takes no box where the list has one of its own")
        own = box_of(box, (0, 0, 0), False) or self._around or self._searched(self._given)
        if own is None:
            edges = ", or give the edges of the box around the particles"
            raise UserError(
                "with open axes the bound is that of the last search, and none has succeeded yet:"
                f" search first{edges if self._given is None else ''}"
            )
        return self._bound(own)

    def _bound(self, box: SearchBox) -> float:
        most = math.inf if self._options.capacity is not None else EXACT * self.cutoff
        return min(most, box.bound(self.reach))

    def _noted(self, taken: Any) -> int:
        """Increment `searches`; return the number of particles."""
        vars(self)["searches"] += 1
        particles: int = taken.shape[0]
        return particles

    def _search(
        self,
        arrays: Arrays,
        taken: Any,
        given: Space | Batch,
        positions: Any,
        box: Any,
        out: Found | None,
    ) -> Found:
        n, options = self._noted(taken), self._options
        plan = self._plan_for(arrays, taken, given)
        if out is None:
            rows = plan.rows(arrays)
        elif options.capacity is None:
            raise UserError("out is for a list with a capacity")
        elif isinstance(out, Found) and (kept := out.rows_for(arrays, n, options.in_cells)):
            rows = kept
        else:
            raise UserError("out takes what an earlier search like this one found")
        pairs = plan.search(arrays, taken, rows)
        if isinstance(plan, CellPlan):
            vars(self)["chosen"] = plan.chosen  # again, as images may have needed more room
        if options.sort and not isinstance(plan, BatchPlan):
            sort_rows(arrays, plan, rows)
        return Found(arrays, plan, rows, taken, pairs, positions, box)

    def _plan_for(self, arrays: Arrays, taken: Any, given: Space | Batch) -> AnyPlan:
        """Return the plan of the last search if it fits, otherwise a new plan."""
        device, of = arrays.device, (arrays.device, taken.dtype, taken.shape, given)
        if isinstance(given, Batch):
            if self._plan is None or self._plan[0] != of:
                self._plan = None  # free its memory first
                self._plan = of, BatchPlan(device, taken, given, self.reach, self._options.half)
                vars(self)["chosen"] = "all pairs of each system in a batch"
            return self._plan[1]
        if isinstance(given, Cell):
            return self._cell_plan(device, taken, given)
        packing = None if self._plan is None else self._plan[1].packing
        if packing and self._plan and self._plan[0] == (*of, packing) and packing.serves(taken):
            return self._plan[1]
        box = self._box(arrays, taken, given)
        if self._plan is not None and self._plan[0] == (*of, box):
            return self._plan[1]
        if self._options.capacity is None:
            packing = packed(arrays, taken, box, self.reach)
        own = packing.box if packing else box
        if given is not None and not own.is_long(self._widened(own)):
            self._options.require_images()
            return self._cell_plan(device, taken, images_of(given))
        self._plan = None  # free its memory first
        self._plan = (*of, packing or box), self._made(device, taken, own, packing)
        self._around = box
        return self._plan[1]

    def _widened(self, box: SearchBox) -> float:
        if self._options.capacity is not None:
            return self.reach
        return widened(self.cutoff, self.skin, box.rounding(self.reach))

    def _made(
        self, device: Device, taken: Any, box: SearchBox, packing: Packing | None
    ) -> Plan | Refined:
        box.require_squares(self.reach)
        n, options = taken.shape[0], self._options
        grid = box.grid(n, reach := self._widened(box), in_steps=True)
        needs_sorted = options.half or options.in_cells
        search, why = chosen(options.method, device, n, grid, needs_sorted)
        vars(self)["chosen"] = why
        plan = Plan(
            device, search, taken, box, grid, reach, half=options.half,
            in_cells=options.in_cells, capacity=options.capacity, packing=packing,
        )  # fmt: skip
        return Refined(device, plan, taken, self.reach) if reach > self.reach else plan

    def _cell_plan(self, device: Device, taken: Any, cell: Cell) -> AnyPlan:
        options, (key, plan) = self._options, self._plan or (None, None)
        if key != (key := (device, taken.dtype, taken.shape, cell)):
            self._plan = plan = None  # free its memory first
            given = device, options.method, taken, cell, self.cutoff, self.skin, options.half
            plan = tilted_plan(*given) or CellPlan(*given)
            self._plan = key, plan
        assert plan is not None
        if isinstance(plan, CellPlan):
            plan.place(taken)
        vars(self).update(chosen=plan.chosen, _around=plan.box)
        return plan

    def _box(self, arrays: Arrays, taken: Any, given: SearchBox | None) -> SearchBox:
        if given is not None and given.is_bounded:
            return given
        low, high = arrays.bounds(taken) if taken.shape[0] else np.zeros((2, 3))
        last = None if self._plan is None or self._plan[0][3] != given else self._around
        return measured(given or OPEN, low, high, self.reach, last)


def _is_same(given: Any, last: Any) -> bool:
    """Whether arrays are the same; False for other sequences, which take longer to compare."""
    is_alike = isinstance(given, np.ndarray) and given.dtype == last.dtype
    return is_alike and np.array_equal(given, last)
