"""`gpubench.NeighbourList`: neighbours of the user's own particles."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from gpubench.base.arguments import number, shown, whole
from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.neighbours.arrays import Arrays, arrays_of, is_writable, uncompiled
from gpubench.neighbours.box import OPEN, SearchBox, Unsound, box_of, measured
from gpubench.neighbours.cell import Cell, space_of
from gpubench.neighbours.found import Found, Kept
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.method import chosen
from gpubench.neighbours.plan import Plan
from gpubench.neighbours.rows import Limits, sort_rows, table_of

Order = Literal["input", "cells"]


class NeighbourList(Fixed):
    """Lists all pairs of particles within a cutoff.

    cutoff: in the unit of the positions; or a symmetric table of cutoffs by species, of which those
        of 0 list no pairs. box: three edges; a 3x3 matrix whose rows are vectors, of
        any length and tilt; or None for open space. periodic: whether the box is periodic, for all
        axes or per axis. low: the lower corner of the box.
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
    A cell that is tilted, or shorter than three times cutoff + skin, is searched with images of the
    particles; such a search takes no capacity and no order="cells".

    Positions have shape (n, 3) or (n, 4), where the fourth number is ignored, and type float32 or
    float64. Along periodic axes they may lie anywhere. They are wrapped into the box in double
    precision and searched in single precision: pairs whose distance differs from the cutoff by
    less than `bound` may be misclassified, all others are exact. If the bound exceeds 10^-3 of the
    cutoff, a box passed by the user causes a warning; in open space it is an error. A `skin`
    longer than the bound guarantees that all pairs within the cutoff are listed.

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
        self._given = given = space_of(box, low, periodic, self.reach)
        self._corner, self._periodic = low, periodic
        if not isinstance(order, str) or order not in ("input", "cells"):
            raise UserError(f"order takes input or cells, not {shown(order)}")
        for name, value in (("half", half), ("sort", sort)):
            if not isinstance(value, bool | np.bool_):
                raise UserError(f"{name} takes True or False, not {shown(value)}")
        if sort and (half or order == "cells"):
            option = "half=True" if half else "order='cells'"
            raise UserError(f"sort is not for {option}, whose rows may differ between runs")
        if sort and capacity is not None:
            raise UserError("sort is not for a capacity, since it allocates memory: leave one out")
        if not isinstance(method, str):
            raise UserError(f"method takes auto or the name of a search, not {shown(method)}")
        self._half, self._in_cells, self._method = bool(half), order == "cells", method
        self._sort = bool(sort)
        self._capacity = None if capacity is None else whole("capacity", capacity, 0)
        self._require_plain(given)
        self._plan: tuple[Any, Plan | CellPlan] | None = None
        self._last: Kept | None = None
        self._around: SearchBox | None = None  # the box of the last search
        if (why := self._why_coarse(given)) is not None:
            warnings.warn(why, stacklevel=2)

    def _require_plain(self, given: SearchBox | Cell | None) -> None:
        """Raise UserError for an option that a search in this space does not have."""
        capacity = self._capacity
        if isinstance(given, Cell) and (capacity is not None or self._in_cells):
            option = "order='cells'" if self._in_cells else "capacity"
            raise UserError(
                f"{option} is not for a cell that is tilted, or shorter than three times the cutoff"
                " and skin: leave it out"
            )
        if capacity is not None and self._searched(given) is None:
            raise UserError("a search with a capacity does not wait to find the box: give it")

    def _why_coarse(self, given: SearchBox | Cell | None) -> str | None:
        own = self._searched(given)
        return None if own is None else own.why_coarse(self.cutoff, self.skin)

    def _space(self, box: Any, arrays: Arrays) -> SearchBox | Cell | None:
        """Return what a call describes: its own box, or that of the list."""
        if box is None:
            return self._given
        given = space_of(arrays.numbers("box", box), self._corner, self._periodic, self.reach)
        self._require_plain(given)
        if (why := self._why_coarse(given)) is not None:
            warnings.warn(why, stacklevel=4)
        return given

    def _searched(self, given: SearchBox | Cell | None) -> SearchBox | None:
        """Return the box of every search; None if it depends on the positions."""
        box = given.region(self.reach) if isinstance(given, Cell) else given
        return box if box is not None and box.is_bounded else None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_plan": None, "_last": None}  # both hold device memory

    @uncompiled
    def __call__(
        self, positions: Any, out: Found | None = None, *, box: Any = None, queries: Any = None,
        radii: Any = None, combine: Literal["sum", "max"] = "sum", species: Any = None,
    ) -> Found:  # fmt: skip
        """List the neighbours of these particles.

        out: the result of an earlier search of the same number of particles, whose arrays are
            overwritten; only with a capacity.
        box: in place of the list's own, for this call; `periodic` and `low` stay. Of a tensor that
            requires a gradient, vectors and distances have one in the box too.
        queries: other points, an array like the positions, in place of the particles: rows are of
            queries, neighbours are particles, also at distance 0.
        radii: a number for each particle. Listed are pairs nearer than the sum of both, or with
            combine="max" than the larger one, and the skin; the cutoff must be as large.
        species: a row of the table of cutoffs, for each particle.
        """
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            if queries is radii is species is self._table is None and combine == "sum":
                given = self._space(box, arrays)
                return self._search(arrays, arrays.take(positions), given, positions, box, out)
            if radii is None and combine != "sum":
                raise UserError("combine is for radii: give radii, or leave it out")
            self._require_selecting(out, queries, radii, species)
            taken, given = arrays.take(positions), self._space(box, arrays)
            n, first, limits = taken.shape[0], None, None
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

    def _require_selecting(self, out: Any, queries: Any, radii: Any, species: Any) -> None:
        """Raise UserError for options of a call that do not go together, or with the list's."""
        if species is not None and self._table is None:
            raise UserError("species need a table: NeighbourList(cutoff=table), one row for each")
        if species is None and self._table is not None:
            raise UserError("a table of cutoffs needs species=, a row of it for each particle")
        names = {"queries": queries, "radii": radii, "species": species}
        asked = [name for name, value in names.items() if value is not None]
        if len(asked) > 1:
            raise UserError(f"{asked[0]} and {asked[1]} do not go together: leave one out")
        options = {
            "out": out is not None, "capacity": self._capacity is not None,
            "order='cells'": self._in_cells, "half=True": self._half and queries is not None,
        }  # fmt: skip
        for option, is_set in options.items():
            if is_set:
                raise UserError(f"{option} is not for {asked[0]}: leave one out")

    @uncompiled
    def count(self, positions: Any, out: Any = None, *, box: Any = None, **more: Any) -> Any:
        """Return the number of neighbours of each particle: int32, shape (n,).

        Like `Found.counts`, but without making a list, and always in the order of the input.
        out: the array from an earlier count of the same number of particles, to overwrite. With a
            capacity as well, nothing is allocated and the host does not wait.
        box: as in a search. more: queries, radii, combine, species, with which it makes a list.
        """
        if more or self._table is not None:
            return self(positions, out, box=box, **more).counts
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            taken = arrays.take(positions)
            n, given = self._noted(taken), self._space(box, arrays)
            counts = arrays.empty(n, "int32") if out is None else self._counts_in(out, arrays, n)
            plan = self._plan_for(arrays, taken, given)
            plan.count_only(taken, counts)
            if self._capacity is None:
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
    def update(self, positions: Any, *, box: Any = None) -> Found:
        """Reuse the last list, or search again if a particle has moved by half the skin.

        Either way the list contains all pairs within the cutoff. box: as in a search; how it
        deforms counts as movement, but for what moves particles alike.
        """
        if not self.skin:
            raise UserError("update needs a skin: NeighbourList(cutoff, ..., skin=0.2)")
        if self._table is not None:
            raise UserError("update is not for a table of cutoffs: search each time")
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            given, last = self._space(box, arrays), self._last
            taken = arrays.take(positions)
            if last is not None and last.serves(arrays, taken, given):
                return last.found_at(taken, given, positions, box)
            found = self._search(arrays, taken, given, positions, box, None)
            assert self._around is not None
            sure = self.reach - self._around.bound(self.reach)
            self._last = Kept(found, given, self._corner, self.cutoff, sure)
            return found

    def bound(self, box: Any = None) -> float:
        """Return the rounding bound: pairs this close to the cutoff may be misclassified.

        box: edges of a box, allowed only in open space; by default the box of the last search.
        """
        if box is not None and self._given is not None:
            raise UserError("bound takes no box where the list has one of its own")
        own = box_of(box, (0, 0, 0), False) or self._around or self._searched(self._given)
        if own is None:
            edges = ", or give the edges of the box around the particles"
            raise UserError(
                "with open axes the bound is that of the last search, and none has succeeded yet:"
                f" search first{edges if self._given is None else ''}"
            )
        return own.bound(self.reach)

    def _noted(self, taken: Any) -> int:
        """Increment `searches`; return the number of particles."""
        vars(self)["searches"] += 1
        particles: int = taken.shape[0]
        return particles

    def _search(
        self, arrays: Arrays, taken: Any, given: SearchBox | Cell | None,
        positions: Any, box: Any, out: Found | None,
    ) -> Found:  # fmt: skip
        n = self._noted(taken)
        plan = self._plan_for(arrays, taken, given)
        if out is None:
            rows = plan.rows(arrays)
        elif self._capacity is None:
            raise UserError("out is for a list with a capacity")
        elif isinstance(out, Found) and (kept := out.rows_for(arrays, n, self._in_cells)):
            rows = kept
        else:
            raise UserError("out takes what an earlier search like this one found")
        pairs = plan.search(arrays, taken, rows)
        if self._sort:
            sort_rows(arrays, plan, rows)
        return Found(arrays, plan, rows, taken, pairs, positions, box)

    def _plan_for(
        self, arrays: Arrays, taken: Any, given: SearchBox | Cell | None
    ) -> Plan | CellPlan:
        """Return the plan of the last search if it fits, otherwise a new plan."""
        if isinstance(given, Cell):
            return self._cell_plan(arrays, taken, given)
        box = self._box(arrays, taken, given)
        key = (arrays.device, taken.dtype, taken.shape, given, box)
        if self._plan is None or self._plan[0] != key:
            self._plan = None  # free its memory first
            n, grid = taken.shape[0], box.grid(taken.shape[0], self.reach)
            needs_sorted = self._half or self._in_cells
            search, why = chosen(self._method, arrays.device, n, grid, needs_sorted)
            vars(self)["chosen"] = why
            self._plan = key, Plan(
                arrays.device, search, taken, box, grid, self.reach,
                half=self._half, in_cells=self._in_cells, capacity=self._capacity,
            )  # fmt: skip
            self._around = box
        return self._plan[1]

    def _cell_plan(self, arrays: Arrays, taken: Any, cell: Cell) -> CellPlan:
        device, (key, plan) = arrays.device, self._plan or (None, None)
        if key != (key := (device, taken.dtype, taken.shape, cell)):
            self._plan = plan = None  # free its memory first
            plan = CellPlan(device, self._method, taken, cell, self.cutoff, self.skin, self._half)
            self._plan = key, plan
        assert isinstance(plan, CellPlan)
        plan.place(taken)
        vars(self).update(chosen=plan.chosen, _around=plan.box)
        return plan

    def _box(self, arrays: Arrays, taken: Any, given: SearchBox | None) -> SearchBox:
        if given is not None and given.is_bounded:
            return given
        low, high = arrays.bounds(taken) if taken.shape[0] else np.zeros((2, 3))
        last = None if self._plan is None or self._plan[0][3] != given else self._plan[1].box
        around = measured(given or OPEN, low, high, self.reach, last)
        if why := around.why_coarse(self.cutoff, self.skin):
            raise UserError(f"{why}; or with this box given, which is warned of")
        return around
