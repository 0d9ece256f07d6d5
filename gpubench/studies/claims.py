"""Claims of papers, as a study's file holds them, and the rule of their verdicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpubench.evidence.crossover import Ratio

TRUE, FALSE, ONLY_IF, INCONCLUSIVE, OWED = "true", "false", "only if", "inconclusive", "owed"
_OWN = ("use", "study", "value", "per", "parameters")  # keys of a cell; all others are axes


@dataclass(frozen=True)
class Cell:
    """One measurement that tests a claim.

    study: to which it belongs; empty for the claim's own.
    axes: values on some axes of its input; on the others the study's usual ones.
    value: "" for its time, "frame" with a picture, "bound", "share of PHASE", or the name of
        what the algorithm reports.
    per: the axis by whose value it is divided; empty for none.
    """

    algorithm: str
    form: str
    axes: Mapping[str, Any]
    parameters: Mapping[str, int] = field(default_factory=dict)
    study: str = ""
    value: str = ""
    per: str = ""


@dataclass(frozen=True)
class Test:
    """A measured value that must lie between two bounds.

    It is that of one cell in `unit`, or, with `over`, the ratio of two cells in one mode.
    when: under which condition it says that the claim holds. is_today: it compares with the best of
    today, beside the verdict on the paper's own variant.
    """

    when: str
    of: Cell
    over: Cell | None = None
    above: float = -math.inf
    below: float = math.inf
    unit: str = "\N{MULTIPLICATION SIGN}"
    is_today: bool = False

    @property
    def cells(self) -> list[Cell]:
        """The cells that it needs."""
        return [self.of] if self.over is None else [self.of, self.over]

    def outcome(self, measured: Ratio | None) -> str:
        """Return TRUE, FALSE, INCONCLUSIVE if a bound lies in the interval, or OWED for None."""
        if measured is None:
            return OWED
        if self.above < measured.low and measured.high < self.below:
            return TRUE
        if measured.high <= self.above or measured.low >= self.below:
            return FALSE
        return INCONCLUSIVE


@dataclass(frozen=True)
class Claim:
    """A claim of a paper in our words.

    where: section or table. published: the value as published, or "prose". speed_up: the same as a
    number, for a figure; None if it is none.
    """

    says: str
    where: str
    published: str
    tests: tuple[Test, ...]
    speed_up: float | None = None


class Verdict(NamedTuple):
    """What holds of a claim; when: the conditions under which it is true, unless it always is."""

    word: str
    when: Sequence[str] = ()

    def __str__(self) -> str:
        if not self.when:
            return self.word
        told = self.word if self.word == ONLY_IF else f"{self.word}; true if"
        return f"{told} {' or '.join(self.when)}"


def verdict(outcomes: Sequence[tuple[Test, str]]) -> Verdict:
    """Return the verdict, given the outcome of each test.

    TRUE or FALSE if all tests agree. ONLY_IF one is true and another false. Otherwise OWED if one
    lacks records, else INCONCLUSIVE.
    """
    found = {outcome for _, outcome in outcomes}
    word = next((each for each in (OWED, INCONCLUSIVE, TRUE, FALSE) if each in found), OWED)
    if {TRUE, FALSE} <= found:
        word = ONLY_IF
    when = [test.when for test, outcome in outcomes if outcome == TRUE]
    return Verdict(word, () if word == TRUE else when)


def parse(data: Sequence[Mapping[str, Any]]) -> tuple[Claim, ...]:
    """Make claims from the tables of a study's file, which its schema has validated."""
    return tuple(_claim(each) for each in data)


def _claim(data: Mapping[str, Any]) -> Claim:
    published, speed_up = data["published"], data.get("speed_up")
    if isinstance(published, list):
        speed_up = published[0] / published[1]
        published = f"{speed_up:.3g}\N{MULTIPLICATION SIGN} ({published[0]:g} / {published[1]:g})"
    tests = tuple(_test(each, data.get("at", {})) for each in data["tests"])
    return Claim(data["says"], data["where"], published, tests, speed_up)


def _test(data: Mapping[str, Any], at: Mapping[str, Any]) -> Test:
    of = at | data["of"]
    rest = {key: value for key, value in data.items() if key not in ("of", "over", "today")}
    return Test(
        of=_cell(of),
        over=_cell(of | data["over"]) if "over" in data else None,
        is_today=data.get("today", False),
        **rest,
    )


def _cell(data: Mapping[str, Any]) -> Cell:
    algorithm, form = data.get("use", " ").split(" ")  # `check_names` refuses none
    own = {key: data[key] for key in _OWN[1:] if key in data}
    return Cell(algorithm, form, {k: v for k, v in data.items() if k not in _OWN}, **own)


def cells(claims: Sequence[Claim]) -> Iterator[Cell]:
    """Yield the cells of some claims."""
    every = itertools.chain.from_iterable(claim.tests for claim in claims)
    return itertools.chain.from_iterable(test.cells for test in every)
