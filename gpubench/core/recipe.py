"""What every kind of input declares: its axes, how to draw it, and the memory it needs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Protocol

SCALES = ("names", "size", "number", "with zero", "linear")


@dataclass(frozen=True)
class Words:
    """How people are told of an axis.

    heading: what heads its values in a table. label: what stands below it in a figure.
    phrase: one value or several in a sentence. scale: one of SCALES, see report.figures.Scale.
    names: its values in their order, and how a figure writes those that it writes otherwise.
    is_size: whether it is one of the sizes of an input, which titles always tell.
    place: axes of a lower one are told first, those of one in the order of their kind.
    """

    heading: str
    label: str
    phrase: str
    scale: str = "names"
    names: Mapping[Any, str | None] | None = None
    is_size: bool = False
    place: float = 1


@dataclass(frozen=True)
class DeclaredAxis:
    """An axis: the JSON Schema of a value, the words for it, and its type in a record.

    recorded: None where a record does not have it; "" where the schema says the type.
    """

    schema: Mapping[str, Any]
    words: Words | None
    recorded: Any = ""

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        enum = self.schema.get("enum", (None,))
        return self.schema.get("type") == "integer" or all(type(value) is int for value in enum)


def axis(
    words: Words | None,
    schema: Mapping[str, Any],
    default: Any = dataclasses.MISSING,
    recorded: Any = "",
) -> Any:
    """Declare an axis of a recipe; see `DeclaredAxis`."""
    return field(default=default, metadata={"axis": DeclaredAxis(schema, words, recorded)})


def whole(least: int, most: int | None = None) -> dict[str, Any]:
    """Return the schema of a whole number."""
    found: dict[str, Any] = {"type": "integer", "minimum": least}
    return found if most is None else {**found, "maximum": most}


def among(values: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of one of several values."""
    return {"enum": list(values)}


def like(kind: type[Recipe], name: str) -> Any:
    """Declare an axis as another kind has it."""
    found = next(each for each in dataclasses.fields(kind) if each.name == name)
    return field(default=found.default, metadata=found.metadata)


@dataclass(frozen=True)
class Recipe(ABC):
    """One input before it is drawn. Making a recipe raises UserError where its axes disagree.

    kind: the kind's name. size_axis: the axis whose value is the size of the input.
    named_by: the axis by which a sweep says that its inputs are of this kind.
    derived: what records have beside the axes of the recipe.
    varied, fixed: what benchmarks measure beside the size: axes with several values, and with one.
    """

    kind: ClassVar[str]
    size_axis: ClassVar[str]
    named_by: ClassVar[str]
    derived: ClassVar[Mapping[str, DeclaredAxis]] = {}
    varied: ClassVar[Mapping[str, Sequence[Any]]] = {}
    fixed: ClassVar[Mapping[str, Any]] = {}

    def make(self, seed: int) -> Inputs:
        """Draw the input, by `draw` of the module `inputs` beside the one that has its axes."""
        package = type(self).__module__.rpartition(".")[0]
        drawn: Inputs = import_module(f"{package}.inputs").draw(self, seed)
        return drawn

    @property
    def neighbours(self) -> int | None:
        """About how many neighbours all particles have together; None of what has no particles."""
        return None

    @property
    @abstractmethod
    def title(self) -> str:
        """Its description in a progress bar."""

    @property
    def identity(self) -> dict[str, Any]:
        """Its axes as a record has them."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @property
    @abstractmethod
    def host_bytes(self) -> int:
        """Memory on the host to draw it and to check an answer, at their peak."""

    @property
    @abstractmethod
    def device_bytes(self) -> int:
        """The least memory on the device that any algorithm needs for it."""


def declared_axes(kind: type[Recipe]) -> dict[str, DeclaredAxis]:
    """Return the axes of a kind, in its order."""
    return {each.name: each.metadata["axis"] for each in dataclasses.fields(kind)}


def axes(kind: type[Recipe]) -> dict[str, Mapping[str, Any]]:
    """Return the axes of a kind, each with the JSON Schema of its values."""
    return {name: each.schema for name, each in declared_axes(kind).items()}


def required_axes(kind: type[Recipe]) -> set[str]:
    """Return the axes that have no default."""
    return {each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING}


class Inputs(Protocol):
    """An input of any kind."""

    @property
    def hash(self) -> str | None:
        """SHA-256 over all that an algorithm is given, first 16 hex digits.

        None where it is not drawn yet.
        """

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of an algorithm for it, apart from device and form."""


MAX_PARTICLES = 2**31 - 1
