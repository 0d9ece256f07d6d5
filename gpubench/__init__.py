"""Compare GPU neighbour-search and sorting algorithms: checked, timed, and explained."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpubench.base.version import __version__ as __version__

if TYPE_CHECKING:
    import pandas as pd

    from gpubench.neighbours.found import Found as Found
    from gpubench.neighbours.search import NeighbourList as NeighbourList
    from gpubench.neighbours.tune import tune as tune


# Imported only on use, since these modules import all algorithms.
_LATER = {
    "tune": "gpubench.neighbours.tune",
    "NeighbourList": "gpubench.neighbours.search",
    "Found": "gpubench.neighbours.found",
}


def load(*paths: str | Path) -> pd.DataFrame:
    """Return the measurements in results files, and in folders of them, as a data frame.

    A row is a measurement; `gpubench.evidence.frame.frame` describes the columns. Times are in
    milliseconds. Raises UserError if a file cannot be read, or if there is no results file.
    """
    from gpubench.evidence import frame  # pandas is slow to import

    return frame.load(*paths)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
