"""Type aliases for arrays of one dtype and any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Words = NDArray[np.uint32]
