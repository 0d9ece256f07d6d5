"""Compare GPU neighbour-search and sorting algorithms: checked, timed, and explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__version__ = "0.1.0"


def load(*paths: str | Path) -> pd.DataFrame:
    """Return what results files hold, and those in folders, as a data frame.

    A row is a measurement; `gpubench.evidence.frame.frame` says what the columns are. Times are in
    milliseconds. Raises UserError for what cannot be read, and where there is no results file.
    """
    from gpubench.evidence import frame  # pandas is slow to import

    return frame.load(*paths)


def __getattr__(name: str) -> Any:
    if name == "tune":  # imports all algorithms
        from gpubench.neighbours.tune import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
