"""Work on parts of large arrays in threads: NumPy lets others run while it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

ROWS = 2**16  # of a part: with a few columns, it stays in a core's cache


def between(edges: Sequence[int], work: Callable[[int, int], Result]) -> list[Result]:
    """Call `work` with each edge and the next; return what it returns, in order."""
    parts = edges[:-1], edges[1:]
    if len(edges) <= 2:
        return list(map(work, *parts))
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, *parts))


def over(rows: int, work: Callable[[int, int], Result]) -> list[Result]:
    """Call `work` with the first row and the end of parts of ROWS rows."""
    return between([*range(0, rows, ROWS), rows], work)
