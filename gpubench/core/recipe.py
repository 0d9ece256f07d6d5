"""The declaration of a kind of input: its axes, how to generate it, and its memory."""

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
    """Names and formatting of an axis in reports.

    heading: column heading in tables. label: axis label in figures. phrase: wording for its values
    in a sentence. scale: one of SCALES, see report.figures.Scale. names: its values in order, each
    with a display name for figures, or None to use the value. is_size: whether it is a size of the
    input, which titles always include. place: sort key; ties keep the order of declaration.
    tells_each: whether values that algorithms report are shown at each of its values, not at the
    last alone.
    """

    heading: str
    label: str
    phrase: str
    scale: str = "names"
    names: Mapping[Any, str | None] | None = None
    is_size: bool = False
    place: float = 1
    tells_each: bool = False


@dataclass(frozen=True)
class DeclaredAxis:
    """An axis: the JSON Schema of a value, its wording in reports, and its type in a record.

    recorded: the type; None if records omit the axis; "" to take the type from the schema.
    """

    schema: Mapping[str, Any]
    words: Words | None
    recorded: Any = ""

    @property
    def is_whole(self) -> bool:
        """Whether its values are integers."""
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
    """Return the schema of an integer of at least `least` and, if given, at most `most`."""
    found: dict[str, Any] = {"type": "integer", "minimum": least}
    return found if most is None else {**found, "maximum": most}


def among(values: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of an enumeration."""
    return {"enum": list(values)}


def like(kind: type[Recipe], name: str) -> Any:
    """Declare an axis as a copy of an axis of another kind of input."""
    found = next(each for each in dataclasses.fields(kind) if each.name == name)
    return field(default=found.default, metadata=found.metadata)


@dataclass(frozen=True)
class Recipe(ABC):
    """The description of an input to generate. Raises UserError if its axes are inconsistent.

    kind: the name of this kind of input. size_axis: the axis that gives the size of the input.
    named_by: the axis whose presence in a sweep selects this kind.
    derived: fields of records that are not axes.
    varied, fixed: values of other axes in benchmarks: several per axis in `varied`, one in `fixed`.
    """

    kind: ClassVar[str]
    size_axis: ClassVar[str]
    named_by: ClassVar[str]
    derived: ClassVar[Mapping[str, DeclaredAxis]] = {}
    varied: ClassVar[Mapping[str, Sequence[Any]]] = {}
    fixed: ClassVar[Mapping[str, Any]] = {}

    def make(self, seed: int) -> Inputs:
        """Generate the input by calling `draw` in the module `inputs` of the same package."""
        package = type(self).__module__.rpartition(".")[0]
        drawn: Inputs = import_module(f"{package}.inputs").draw(self, seed)
        return drawn

    @property
    def neighbours(self) -> int | None:
        """Approximate total number of neighbours; None if the input has no particles."""
        return None

    @property
    def too_small(self) -> str | None:
        """Why the box is too small for any search of neighbours, or None."""
        return None

    @property
    @abstractmethod
    def title(self) -> str:
        """The description shown in a progress bar."""

    @property
    def identity(self) -> dict[str, Any]:
        """The axes as fields of a record."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @property
    @abstractmethod
    def host_bytes(self) -> int:
        """Peak host memory for generating the input and checking an answer."""

    @property
    @abstractmethod
    def device_bytes(self) -> int:
        """The minimum device memory that any algorithm needs for this input."""


def declared_axes(kind: type[Recipe]) -> dict[str, DeclaredAxis]:
    """Return the axes of a kind, in order of declaration."""
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
        """SHA-256 over everything passed to an algorithm, first 16 hex digits.

        None if the input is not generated yet.
        """

    @property
    def made_for(self) -> dict[str, Any]:
        """The arguments, except device and form, to construct an algorithm for this input."""


MAX_PARTICLES = 2**31 - 1
