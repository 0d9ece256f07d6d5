"""Papers' claims about their own tables that a study file cannot express."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

# The ratio of two columns of a study's table, row by row: the formula as text, and as a function.
CLAIMS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "horn2005-table36-1": ("0.5 log₂ n", lambda n: 0.5 * math.log2(n)),
}
