"""Choice of the search behind a neighbour list: by name, or by measurements on similar devices."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpubench.algorithms import cell_search
from gpubench.algorithms.cell_search import CellSearch
from gpubench.base.errors import UserError
from gpubench.choose.question import PYTHON, Question
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.cells.contract import LinkedCells
from gpubench.registry import classes_in

if TYPE_CHECKING:
    from gpubench.choose.chooser import Chooser

PREFIX = "search-"
TASK = "list"
DEFAULT = "counting-sort"  # runs on every device without further dependencies


@cache
def methods() -> dict[str, type[CellSearch]]:
    """Return our cell-based searches that list neighbours, by the names that users pass.

    Searches built on a library's sort are excluded: the library brings its own arrays and streams.
    """
    # Not from the registry: importing every algorithm would dominate the time of the first call.
    searches = classes_in(cell_search, CellSearch)
    return {each.name.removeprefix(PREFIX): each for each in searches if TASK in each.forms}


def chosen(
    method: str, device: Device, particles: int, grid: Grid, needs_sorted: bool
) -> tuple[type[CellSearch], str]:
    """Return the search to use, and the reason.

    method: a name, or `auto` to choose by measurements. needs_sorted: whether the search must use
    sorted cells, not linked lists.
    """
    known = methods()
    if method != "auto":
        if method not in known:
            raise UserError(f"method takes auto, {', '.join(known)}, not {method!r}")
        return known[method], f"{method}, as asked"
    if needs_sorted:
        known = {name: of for name, of in known.items() if of.cells.shape() is not LinkedCells}
    order, why = _measured(device, particles, grid)
    name = next((each for each in order if each in known), DEFAULT)
    return known[name], f"{name}: {why}"


@cache
def _chooser(backend: str) -> Chooser | None:
    """Return the chooser for the results of a backend, or None if there are none."""
    from gpubench.choose.chooser import chooser_for  # only `auto` needs it

    try:
        return chooser_for(TASK, PYTHON, [], backend)
    except UserError:
        return None


def _measured(device: Device, particles: int, grid: Grid) -> tuple[list[str], str]:
    """Return the measured methods, fastest first, and a description of the measurements."""
    none = f"nothing was measured nearby through {device.backend}"
    if (chooser := _chooser(device.backend)) is None:
        return [], none
    particles = max(1, particles)  # there are no measurements with 0 particles
    question = Question(particles, particles / grid.count, task=TASK, called_from=PYTHON)
    answer = chooser.choose(question, with_changes=False)
    if answer.best is None:
        return [], f"{none}: {answer.reason}"
    subjects = [answer.best.subject, *(margin.other.subject for margin in answer.margins)]
    near = answer.nearest[0].place
    where = f"{near.particles:,} particles, {near.per_cell:g} per cell"
    how = "fastest" if answer.margins else "the only one measured"
    here = "" if answer.machine.device == device.name else f", not on {device.name}"
    return (
        [subject.algorithm.removeprefix(PREFIX) for subject in subjects],
        f"{how} on {answer.machine.device}{here}, measured nearest at {where}",
    )
