"""The neighbour list of ASE and matscipy, over `gpubench.NeighbourList`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown, without_gradient
from gpubench.base.errors import UserError
from gpubench.neighbours.search import NeighbourList

SKIN = 1e-3  # part of the cutoff; pairs are searched within it, then selected in float64
QUANTITIES = "ijdDS"


def neighbor_list(
    quantities: str,
    a: Any = None,
    cutoff: Any = None,
    self_interaction: bool = False,
    *,
    positions: Any = None,
    cell: Any = None,
    pbc: Any = None,
    numbers: Any = None,
) -> Any:
    """Return quantities of all pairs nearer than a cutoff, as `ase.neighborlist.neighbor_list`.

    quantities: a string of letters: i, j: the atoms, int64, shape (pairs,); d: the distance; D: the
        vector from i to j, shape (pairs, 3); S: the shift, int64, shape (pairs, 3), so that
        D = positions[j] - positions[i] + S @ cell. The answer is one array for each letter, or the
        array alone for a single one. Pairs are in the order of i; both directions are listed.
    a: ASE's atoms, or anything with positions, cell, pbc and numbers; or these, as matscipy takes
        them: positions, shape (atoms, 3); cell, a 3x3 matrix whose rows are vectors; pbc, one or
        three booleans; numbers, the atomic numbers.
    cutoff: one for all pairs; a radius for each atom, whose sum is the cutoff; or those of pairs of
        elements, as {("H", "O"): 1.6} or {(1, 8): 1.6}: other pairs are not listed.
    self_interaction: whether an atom is its own neighbour, at distance 0.

    Runs on a CPU, through OpenCL. Pairs are decided in float64. Raises UserError for invalid input.
    """
    if not isinstance(quantities, str) or not quantities or set(quantities) - {*QUANTITIES}:
        raise UserError(f"quantities take letters of {QUANTITIES}, not {quantities!r}")
    x, vectors, repeats, elements = (
        getattr(a, name, None) if given is None else given
        for name, given in (
            ("positions", positions), ("cell", cell), ("pbc", pbc), ("numbers", numbers),
        )
    )  # fmt: skip
    if x is None:
        raise UserError("neighbor_list takes atoms, or positions=")
    x = _array("positions", x, "numbers of shape (atoms, 3)", (None, 3))
    x = np.ascontiguousarray(x, np.float64)
    repeats = False if repeats is None else repeats
    repeats = _array("pbc", repeats, "one or three booleans", (), (3,)).astype(bool)
    repeats = np.broadcast_to(repeats, 3)
    vectors = np.zeros((3, 3)) if vectors is None else vectors
    vectors = _array("cell", vectors, "a 3x3 matrix of numbers", (3, 3), (3,)).astype(np.float64)
    vectors = np.diag(vectors) if vectors.shape == (3,) else vectors
    vectors = np.where(repeats[:, None], vectors, 0.0)  # open axes have no bounds
    limit, most = _limits(cutoff, elements, len(x))
    found: list[NDArray[Any]] = []
    if most > 0:
        search = NeighbourList(most, vectors, repeats, skin=SKIN * most)(x)
        i, j = search.pairs().astype(np.int64).T
        found = [i, j, search.distances(), search.vectors(), search.shifts.astype(np.int64)]
        near = found[2] < limit(i, j)
        found = [each[near] for each in found]
    if most <= 0 or self_interaction:
        own = np.arange(len(x) if self_interaction else 0)
        own = own[np.broadcast_to(limit(own, own) > 0, own.shape)]
        none = np.zeros((len(own), 3))
        alone = [own, own, none[:, 0], none, none.astype(np.int64)]
        found = [np.concatenate(pair) for pair in zip(found or alone, alone, strict=True)]
        order = np.argsort(found[0], kind="stable")
        found = [each[order] for each in found]
    asked = [found[QUANTITIES.index(letter)] for letter in quantities]
    return asked[0] if len(asked) == 1 else tuple(asked)


def _limits(cutoff: Any, numbers: Any, atoms: int) -> tuple[Any, float]:
    """Return a function from atoms i and j to the cutoffs of their pairs, and the largest one."""
    is_table = isinstance(cutoff, Mapping)
    try:
        given = np.asarray([*cutoff.values()] if is_table else cutoff, np.float64)
    except (TypeError, ValueError):
        given = np.array(np.nan)
    if not (np.isfinite(given) & (given >= 0)).all() or (is_table and given.ndim != 1):
        raise UserError("cutoff takes finite numbers of at least 0")
    if is_table:
        if numbers is None:
            raise UserError("cutoffs of pairs of elements need atoms with elements, or numbers=")
        wanted = f"an atomic number for each of {atoms} atoms"
        numbers = _array("numbers", numbers, wanted, (atoms,), kinds="iu")
        kinds, kind = np.unique(numbers, return_inverse=True)
        place = {int(number): index for index, number in enumerate(kinds)}
        table = np.zeros((len(kinds) + 1,) * 2)  # the last row is of elements that are not there
        for pair, value in zip(cutoff, given.tolist(), strict=True):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise UserError(f"cutoffs are of pairs such as ('H', 'O'), not {shown(pair)}")
            first, second = (place.get(_number(each), len(kinds)) for each in pair)
            table[first, second] = table[second, first] = value
        return lambda i, j: table[kind[i], kind[j]], float(table[:-1, :-1].max(initial=0.0))
    if given.ndim == 0:
        return lambda i, j: given, float(given)
    if given.shape != (atoms,):
        raise UserError(f"cutoff takes a number, a radius for each of {atoms} atoms, or a table")
    return lambda i, j: given[i] + given[j], float(2 * given.max(initial=0.0))


def _array(
    name: str, given: Any, wanted: str, *shapes: tuple[int | None, ...], kinds: str = "biuf"
) -> NDArray[Any]:
    """Return an array of one of some shapes, None for any size; kinds: codes of element types."""
    without_gradient(name, given)
    with suppress(TypeError, ValueError):
        found = np.asarray(given)
        sizes = {found.shape, (None, *found.shape[1:])}
        if sizes & {*shapes} and (found.dtype.kind in kinds or not found.size):
            return found
    raise UserError(f"{name} takes {wanted}, not {shown(given)}")


def _number(element: Any) -> int:
    """Return the atomic number of a symbol or a number."""
    if not isinstance(element, str):
        with suppress(TypeError):
            return operator.index(element)
        raise UserError(f"an element is a symbol or an atomic number, not {shown(element)}")
    try:
        from ase.data import atomic_numbers
    except ImportError:
        raise UserError("symbols of elements need ASE: pip install ase, or give numbers") from None
    if element not in atomic_numbers:
        raise UserError(f"there is no element {element!r}")
    return int(atomic_numbers[element])
