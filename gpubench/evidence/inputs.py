"""A record's description of its input: for each kind, a struct with the declared axes as fields.

Kinds defined by other packages are read from their description in the results file.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from gpubench import problems
from gpubench.core.recipe import DeclaredAxis, Words, required_axes
from gpubench.evidence.bounds import HOOKS, Amount, Exact, Line, Name, Real, Scalar

INPUTS = "inputs"  # number of alternating inputs: an axis of every kind

_LATE = "simulation"  # this kind was added later: its axes come last


class Input(ABC):
    """The type of a record's field `input`: the axes of any kind of input, see `Axes`."""

    kind: str
    told: dict[str, Any]
    size: int | None


class Axes(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The requested value on each axis of an input; its tag is the kind. Nulls are not written."""

    def __reduce__(self) -> Any:
        return read, (msgspec.to_builtins(self),)  # the class itself cannot be pickled

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return str(self.__struct_config__.tag)

    @property
    def told(self) -> dict[str, Any]:
        """The value on each axis, with tuples as lists."""
        return {
            name: list(value) if isinstance(value := getattr(self, name), tuple) else value
            for name in self.__struct_fields__
        }

    @property
    def size(self) -> int | None:
        """The number of particles, records, ...: the value of its first size axis."""
        known = problems.axes_by_kind()[self.kind]
        sizes = (n for n, each in known.items() if each.words and each.words.is_size)
        return next((getattr(self, name) for name in sizes), None)


Input.register(Axes)


class DescribedAxis(Struct, forbid_unknown_fields=True):
    """An axis defined by another package, as described in a results file."""

    heading: Line
    label: Line
    phrase: Line
    scale: Line = "names"
    is_size: bool = False


def read(value: Any) -> Axes:
    """Convert plain JSON to axes; raises ValueError if that is impossible."""
    if not isinstance(value, dict) or not isinstance(kind := value.get("kind"), str):
        raise ValueError("Expected an object with its `kind`")
    made = struct_of(kind) if kind in problems.own_kinds() else _foreign(kind, tuple(sorted(value)))
    return msgspec.convert(value, made)


HOOKS[Input] = read


@cache
def struct_of(kind: str) -> type[Axes]:
    """Return the struct for a kind that this package defines."""
    cls = problems.own_kinds()[kind]
    required = required_axes(cls)
    types = {name: type_of(each) for name, each in problems.recorded(cls).items()}
    fields = [(n, of) if n in required else (n, of | None, None) for n, of in types.items()]
    return _struct(kind, sorted(fields, key=len))


@lru_cache(maxsize=256)
def _foreign(kind: str, names: tuple[str, ...]) -> type[Axes]:
    axes = [name for name in names if name != "kind"]
    problems.learn(kind, {name: DeclaredAxis({}, None) for name in axes})
    return _struct(kind, [(name, Scalar, None) for name in axes])


def _struct(kind: str, fields: Iterable[tuple[Any, ...]]) -> type[Axes]:
    made: Any = msgspec.defstruct(
        kind.title().replace("-", ""), fields, bases=(Axes,), tag=kind, tag_field="kind",
        frozen=True, omit_defaults=True, forbid_unknown_fields=True,
    )  # fmt: skip
    return cast(type[Axes], made)


def type_of(declared: DeclaredAxis) -> Any:
    """Return the type of an axis in a record.

    It accepts more than the study schema: names and sizes may be added later.
    """
    schema = declared.schema
    if declared.recorded != "":
        return declared.recorded
    if "enum" in schema:
        kinds = {type(value) for value in schema["enum"]}
        return Name if str in kinds else Amount if kinds == {int} else Real
    match schema.get("type"):
        case "integer":
            return Annotated[int, Meta(ge=schema.get("minimum", 0), le=Exact)]
        case "number":
            bounds = {"ge": schema.get("minimum"), "gt": schema.get("exclusiveMinimum")}
            return Annotated[float, Meta(**bounds, le=schema.get("maximum", 1e12))]
        case "boolean":
            return bool
        case _:
            return Name


def names() -> tuple[str, ...]:
    """Return all axes of records in column order."""
    return _names(problems.learnt())


@lru_cache(maxsize=8)
def _names(learnt: int) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for kind, axes in problems.axes_by_kind().items():
        if kind == _LATE:
            found.setdefault(INPUTS)
        found |= dict.fromkeys(axes)
    return tuple(found)


def learn(described: Mapping[str, Mapping[str, DescribedAxis]]) -> None:
    """Register another package's kinds as described by a results file."""
    for kind, axes in described.items():
        told = {name: msgspec.structs.asdict(each) for name, each in axes.items()}
        problems.learn(kind, {name: DeclaredAxis({}, Words(**of)) for name, of in told.items()})


def description(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the description, for a results file, of kinds that this package lacks."""
    known = problems.kinds()
    found: dict[str, dict[str, Any]] = {}
    for kind in sorted({*kinds} & known.keys() - problems.own_kinds().keys()):
        for name, axis in problems.recorded(known[kind]).items():
            words = problems.words_of(name, axis)
            told = msgspec.convert(words, DescribedAxis, from_attributes=True)
            found.setdefault(kind, {})[name] = msgspec.to_builtins(told)
    return found


@lru_cache(maxsize=256)
def kind_of(axes: tuple[str, ...]) -> str | None:
    """Return the kind whose `named_by` is in `axes`; if several, the one that has all of these."""
    named = [k for k in problems.own_kinds().values() if k.named_by in axes]
    own = {k.kind: problems.recorded(k).keys() for k in named}
    found = [k.kind for k in named if all(o.named_by in own[k.kind] for o in named)]
    return found[0] if len(found) == 1 else None
