"""Contract of searches for neighbours and their images."""

from __future__ import annotations

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
    neighbours: int32, shape (pairs,), numbered over all systems, in any order within a row. A
        particle is no neighbour of itself, but its images are.
    shifts: int32, shape (pairs, 3): positions[j] - positions[i] + shifts @ vectors is the vector
        from i to j.
    """

    offsets: Any
    neighbours: Any
    shifts: Any


class ImageSearch(Algorithm):
    """A search for neighbours and images, whose `answer` is `Images`."""

    family: ClassVar[str] = "image-search"

    def __init__(
        self, device: Device, particles: int, systems: int, periodic: tuple[bool, bool, bool],
        form: str, parameters: Mapping[str, int],
    ) -> None:  # fmt: skip
        super().__init__(device, form, parameters)
        self.particles, self.systems, self.periodic = particles, systems, periodic
        self.prepare()
