"""A mixin for algorithms that run on the host, such as CPU libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class HostWork:
    """Mixin; it precedes the contract among the bases of a class."""

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer, which is already on the host."""
        return np.asarray(array)

    @property
    def no_graph(self) -> str:
        """Return the reason why no graph can be captured."""
        return "a launch works or waits on the host, which no CUDA graph can hold"

    def traffic_bytes(self) -> None:
        """No model: nothing moves through device memory."""
