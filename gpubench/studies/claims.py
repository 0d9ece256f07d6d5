"""Papers' claims about their own tables that a study file cannot express."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

# The ratio of two columns of a study's table along its rows: the formula, and its values.
CLAIMS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "horn2005-table36-1": ("0.5 log₂ n", lambda n: 0.5 * math.log2(n)),
}
