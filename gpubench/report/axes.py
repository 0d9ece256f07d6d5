"""How a report writes the axes along which inputs differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpubench import problems
from gpubench.core.recipe import Words
from gpubench.evidence.inputs import INPUTS, names
from gpubench.report import formats


@dataclass(frozen=True)
class Axis(Words):
    """One axis of an input, with the words that its kind declares; see `Words`."""

    def say(self, *values: Any) -> str:
        """Write values in a sentence: "4 and 16 per cell"."""
        return self.phrase.format(formats.listing(self.write(value) for value in values))

    def write(self, value: Any) -> str:
        """Write a value: a size as a power of two where it is one, all else as it is."""
        if isinstance(value, tuple):  # periodicity of each axis
            return "periodic box" if any(value) else "open box"
        return formats.power(int(value)) if self.scale == "size" and value else formats.plain(value)

    def count(self, value: Any) -> str:
        """Write a value where there is room: a size with its plain number beside the power."""
        return formats.count(int(value)) if self.scale == "size" and value else self.write(value)

    def order(self, values: Sequence[Any]) -> list[Any]:
        """Return numbers in ascending order, or values of `names` in its, others as they come."""
        if all(isinstance(value, int | float) for value in values):
            return sorted(set(values))
        known = [value for value in self.names or () if value in values]
        return known + [value for value in dict.fromkeys(values) if value not in known]


_INPUTS = Words("Inputs", "inputs that take turns", "{} inputs in turn", names={None: "1"}, place=9)


class _Axes(Mapping[str, Axis]):
    """The axes of inputs in the order in which tables show them, as their kinds declare them."""

    def __getitem__(self, name: str) -> Axis:
        return _known(problems.learnt())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_known(problems.learnt()))

    def __len__(self) -> int:
        return len(_known(problems.learnt()))


@lru_cache(maxsize=8)
def _known(learnt: int) -> dict[str, Axis]:
    declared = problems.axes()
    words = {
        name: _INPUTS if name == INPUTS else problems.words_of(name, declared[name])
        for name in names()
    }
    in_order = sorted(words.items(), key=lambda item: item[1].place)
    return {name: Axis(**vars(own)) for name, own in in_order}


AXES = _Axes()


def sizes() -> list[str]:
    """Return the axes that are sizes of an input, which titles always tell."""
    return _sizes(problems.learnt())


@lru_cache(maxsize=8)
def _sizes(learnt: int) -> list[str]:
    return [name for name, axis in _known(learnt).items() if axis.is_size]


def counts() -> list[str]:
    """Return the axes of which an input has one, its size."""
    return [name for name, axis in AXES.items() if axis.scale == "size"]


def between(places: Iterable[Any], names: Iterable[str]) -> str:
    """Say where places or records lie along some axes: between which sizes, and at which names."""
    said = []
    for axis, found in ((AXES[name], [getattr(p, name) for p in places]) for name in names):
        values = [value for value in found if value is not None]
        if values and axis.scale in ("size", "number"):
            ends = dict.fromkeys(map(axis.write, (min(values), max(values))))
            said.append(axis.phrase.format(" to ".join(ends)))
        elif values:
            said.append(axis.say(*axis.order(values)))
    return ", ".join(said)


def describe(place: Any, names: Iterable[str]) -> str:
    """Write a place by some of its axes: "2¹⁸ particles, 4 per cell"; leaves out what is None."""
    found = ((AXES[name], getattr(place, name)) for name in names)
    return ", ".join(axis.say(value) for axis, value in found if value is not None)


def varying(places: Iterable[Any]) -> list[str]:
    """Return the axes along which some places differ."""
    known = list(places)
    return [name for name in AXES if len({getattr(place, name) for place in known}) > 1]
