"""A mixin for algorithms that run on the host, such as CPU libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class HostWork:
    """Mixin; must precede the contract in a class's list of bases."""

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer, which is already on the host."""
        return np.asarray(array)

    @property
    def no_graph(self) -> str:
        """The reason why a launch cannot be captured in a CUDA graph."""
        return "a launch works or waits on the host, which no CUDA graph can hold"

    def traffic_bytes(self) -> None:
        """Return None: nothing moves through device memory."""
