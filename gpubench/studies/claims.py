"""Claims of papers, as a study's file holds them, and the rule of their verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpubench.evidence.crossover import Ratio

TRUE, FALSE, ONLY_IF, INCONCLUSIVE, OWED = "true", "false", "only if", "inconclusive", "owed"
WORDS = (TRUE, ONLY_IF, FALSE, INCONCLUSIVE, OWED)
_TIMES = "\N{MULTIPLICATION SIGN}"
_OWN = ("use", "study", "value", "per", "parameters")  # keys of a cell; all others are axes


@dataclass(frozen=True)
class ClaimedValue:
    """One measurement that tests a claim.

    study: to which it belongs; empty for the claim's own.
    axes: values on some axes of its input; on the others the study's usual ones.
    value: "" for its time, "frame" with a picture, "bound", "share of PHASE", "memory_mb", or the
        name of what the algorithm reports.
    per: the axis by whose value it is divided; empty for none.
    """

    algorithm: str
    form: str
    axes: Mapping[str, Any]
    parameters: Mapping[str, int] = field(default_factory=dict)
    study: str = ""
    value: str = ""
    per: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether its value is a time or follows from one."""
        return self.value in ("", "frame", "bound")


@dataclass(frozen=True)
class ClaimTest:
    """A measured value that must lie between two bounds.

    It is that of one cell in `unit`, or, with `over`, the ratio of two cells in one mode.
    when: under which condition it says that the claim holds. is_today: it compares with the best of
    today, beside the verdict on the paper's own variant.
    """

    when: str
    of: ClaimedValue
    over: ClaimedValue | None = None
    above: float = -math.inf
    below: float = math.inf
    unit: str = _TIMES
    is_today: bool = False

    @property
    def cells(self) -> list[ClaimedValue]:
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
    number, None if it is no speed-up. figure: its label in a figure.
    """

    says: str
    where: str
    published: str
    tests: tuple[ClaimTest, ...]
    speed_up: float | None = None
    figure: str = ""


class Verdict(NamedTuple):
    """What holds of a claim; when: the conditions under which it is true, unless it always is."""

    word: str
    when: Sequence[str] = ()

    def __str__(self) -> str:
        if not self.when:
            return self.word
        told = self.word if self.word == ONLY_IF else f"{self.word}; true if"
        return f"{told} {' or '.join(self.when)}"


def verdict(outcomes: Sequence[tuple[ClaimTest, str]]) -> Verdict:
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
        published = f"{speed_up:.3g}{_TIMES} ({published[0]:g} / {published[1]:g})"
    tests = tuple(_test(each, data.get("at", {})) for each in data["tests"])
    return Claim(data["says"], data["where"], published, tests, speed_up, data.get("figure", ""))


def _test(data: Mapping[str, Any], at: Mapping[str, Any]) -> ClaimTest:
    of = at | data["of"]
    over = _cell(of | data["over"]) if "over" in data else None
    bounds = {key: data[key] for key in ("above", "below") if key in data}
    unit = f" {data['unit']}" if "unit" in data else "" if over is None else _TIMES
    return ClaimTest(data["when"], _cell(of), over, unit=unit, is_today="today" in data, **bounds)


def _cell(data: Mapping[str, Any]) -> ClaimedValue:
    algorithm, form = data.get("use", " ").split(" ")  # `check_names` refuses none
    own = {key: data[key] for key in _OWN[1:] if key in data}
    return ClaimedValue(algorithm, form, {k: v for k, v in data.items() if k not in _OWN}, **own)


def cells(claims: Sequence[Claim]) -> Iterator[ClaimedValue]:
    """Yield the cells of some claims."""
    return (cell for claim in claims for test in claim.tests for cell in test.cells)
