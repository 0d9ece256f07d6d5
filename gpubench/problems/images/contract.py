"""Contract of searches for neighbours and their images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.devices.base import Device


@dataclass(frozen=True)
class Images:
    """Neighbours strictly nearer than the cutoff, each pair from both sides, with their images.

    offsets: int64, shape (particles + 1,), the start of each particle's row.
    neighbours: int32, shape (pairs,), numbered over all systems, in any order within a row; a
        particle's own images are its neighbours, but not the particle itself.
    shifts: int32, shape (pairs, 3): positions[j] - positions[i] + shifts @ vectors is the vector
        from i to j.
    """

    offsets: Any
    neighbours: Any
    shifts: Any


class ImageSearch(Algorithm):
    """A search for neighbours and images, from an array of positions to a list of the library.

    `load` keeps positions and cells where the library expects them. `answer` converts its list.
    """

    family: ClassVar[str] = "image-search"

    def __init__(
        self,
        device: Device,
        particles: int,
        systems: int,
        form: str,
        parameters: Mapping[str, int],
    ) -> None:
        super().__init__(device, form, parameters)
        self.particles, self.systems = particles, systems
        self.prepare()

    @property
    @abstractmethod
    def answer(self) -> Images:
        """The list of the last launch."""

    def traffic_bytes(self) -> int | None:
        """Return None: the library determines the traffic."""
        return None
