"""What every kind of input declares: its axes, how to draw it, and the memory it needs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpubench.inputs.sets import Inputs


def axis(default: Any = dataclasses.MISSING, **schema: Any) -> Any:
    """Declare an axis: its default, and the JSON Schema of a value."""
    return field(default=default, metadata={"schema": schema})


@dataclass(frozen=True)
class Recipe(ABC):
    """One input before it is drawn. Making a recipe raises UserError where its axes disagree.

    kind: the kind's name. size_axis: the axis whose value is the size of the input.
    named_by: the axis by which a sweep says that its inputs are of this kind.
    """

    kind: ClassVar[str]
    size_axis: ClassVar[str]
    named_by: ClassVar[str]

    @abstractmethod
    def make(self, seed: int) -> Inputs:
        """Draw the input."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its description in a progress bar."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The fields of a record that identify the input, except seed and hash."""

    @property
    @abstractmethod
    def host_bytes(self) -> int:
        """Memory on the host to draw it and to check an answer, at their peak."""

    @property
    @abstractmethod
    def device_bytes(self) -> int:
        """The least memory on the device that any algorithm needs for it."""
