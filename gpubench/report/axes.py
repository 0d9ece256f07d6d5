"""Format the axes of inputs for a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpubench import problems
from gpubench.core.recipe import Words
from gpubench.evidence.inputs import INPUTS
from gpubench.report import formats


@dataclass(frozen=True)
class Axis(Words):
    """An axis of an input, with the wording declared by the kind of input; see `Words`."""

    def say(self, *values: Any) -> str:
        """Format values for a sentence: "4 and 16 per cell"."""
        return self.phrase.format(formats.listing(self.write(value) for value in values))

    def write(self, value: Any) -> str:
        """Format a value: sizes that are powers of two as such, anything else unchanged."""
        if isinstance(value, tuple):  # periodicity of each axis
            return "periodic box" if any(value) else "open box"
        return formats.power(int(value)) if self.scale == "size" and value else formats.plain(value)

    def count(self, value: Any) -> str:
        """Format a value in long form: a size as a power of two and as a plain number."""
        return formats.count(int(value)) if self.scale == "size" and value else self.write(value)

    def order(self, values: Sequence[Any]) -> list[Any]:
        """Sort numbers ascending, and names as in `names`; keep the order of other values."""
        if all(isinstance(value, int | float) for value in values):
            return sorted(set(values))
        known = [value for value in self.names or () if value in values]
        return known + [value for value in dict.fromkeys(values) if value not in known]


_INPUTS = Words("Inputs", "inputs that take turns", "{} inputs in turn", names={None: "1"}, place=9)


class _Axes(Mapping[str, Axis]):
    """The declared axes of all kinds of input, in the order of table columns."""

    def __getitem__(self, name: str) -> Axis:
        return _known(problems.learnt())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_known(problems.learnt()))

    def __len__(self) -> int:
        return len(_known(problems.learnt()))


@lru_cache(maxsize=8)
def _known(learnt: int) -> dict[str, Axis]:
    words = {INPUTS: _INPUTS} | {n: problems.words_of(n, of) for n, of in problems.axes().items()}
    in_order = sorted(words.items(), key=lambda item: item[1].place)
    return {name: Axis(**vars(own)) for name, own in in_order}


AXES = _Axes()


def sizes() -> list[str]:
    """Return the axes that are sizes of an input; titles always include them."""
    return [name for name, axis in AXES.items() if axis.is_size]


def counts() -> list[str]:
    """Return the size axes of all kinds of input; each input has exactly one of them."""
    return [name for name, axis in AXES.items() if axis.scale == "size"]


def between(places: Iterable[Any], names: Iterable[str]) -> str:
    """Describe the values of inputs or records on some axes: a range of sizes, a list of names."""
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
    """Describe an input by some of its axes, without None: "2¹⁸ particles, 4 per cell"."""
    found = ((AXES[name], getattr(place, name)) for name in names)
    return ", ".join(axis.say(value) for axis, value in found if value is not None)


def varying(places: Iterable[Any]) -> list[str]:
    """Return the axes on which the given inputs differ."""
    known = list(places)
    return [name for name in AXES if len({getattr(place, name) for place in known}) > 1]
