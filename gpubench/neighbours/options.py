"""Options of a list, and which of them do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpubench.base.arguments import shown, whole
from gpubench.base.errors import UserError


@dataclass(frozen=True)
class Options:
    """How lists are made. half, sort, capacity, method: as users pass them. in_cells: by order."""

    half: bool
    in_cells: bool
    sort: bool
    capacity: int | None
    method: str

    @classmethod
    def of(cls, half: Any, order: Any, sort: Any, capacity: Any, method: Any) -> Options:
        """Read what users pass; raise UserError for anything odd."""
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
        capacity = None if capacity is None else whole("capacity", capacity, 0)
        return cls(bool(half), order == "cells", bool(sort), capacity, method)

    def require_images(self) -> None:
        """Raise UserError for an option that a search with images does not have."""
        if self.capacity is not None or self.in_cells:
            option = "order='cells'" if self.in_cells else "capacity"
            raise UserError(
                f"{option} is not for a cell that is tilted, or shorter than three times the cutoff"
                " and skin: leave it out"
            )

    def require_batch(self, skin: float) -> None:
        """Raise UserError for an option that a search of a batch does not have."""
        self._refuse("a batch", {"method": self.method != "auto", "skin": skin > 0})

    def require_selecting(
        self, has_table: bool, combine: Any, out: Any, batch: Any, asked: Mapping[str, Any]
    ) -> None:
        """Raise UserError for options of a call that do not go together, or with the list's.

        has_table: whether the list has a table of cutoffs. asked: queries, radii and species.
        """
        if asked["radii"] is None and combine != "sum":
            raise UserError("combine is for radii: give radii, or leave it out")
        if asked["species"] is not None and not has_table:
            raise UserError("species need a table: NeighbourList(cutoff=table), one row for each")
        if asked["species"] is None and has_table:
            raise UserError("a table of cutoffs needs species=, a row of it for each particle")
        first, *others = (name for name, value in asked.items() if value is not None)
        if others:
            raise UserError(f"{first} and {others[0]} do not go together: leave one out")
        is_half = self.half and first == "queries"
        own = {"out": out is not None, "batch": batch is not None, "half=True": is_half}
        self._refuse(first, own)

    def _refuse(self, what: str, more: Mapping[str, bool]) -> None:
        own = {"capacity": self.capacity is not None, "order='cells'": self.in_cells}
        for option, is_set in {**own, **more}.items():
            if is_set:
                raise UserError(f"{option} is not for {what}: leave one out")
