"""Which sort of keys to use: times between the sizes that were measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubench.choose.evidence import LOCAL, MODE, Machine, machine
from gpubench.core import paths
from gpubench.core.errors import UserError
from gpubench.core.key_sort import KEY_TYPES, VALUE_BYTES
from gpubench.core.numbers import digits, listing
from gpubench.core.roles import study_for
from gpubench.evidence import results
from gpubench.evidence.crossover import Timed
from gpubench.evidence.files import load_results
from gpubench.evidence.pooling import pool
from gpubench.evidence.ranking import Subject
from gpubench.evidence.records import Ok

TASK = "sort"
STUDY = study_for("choose-sort")


@dataclass(frozen=True)
class SortQuestion:
    """How many uniform keys of which type are to be sorted, and how long their values are."""

    keys: int
    value_bytes: int = 4
    key_type: str = KEY_TYPES[0]

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise UserError(f"--keys takes a count of at least 1, not {self.keys}")
        if self.value_bytes not in VALUE_BYTES:
            known = ", ".join(map(str, VALUE_BYTES))
            raise UserError(f"--value-bytes takes one of {known}, not {self.value_bytes}")
        if self.key_type not in KEY_TYPES:
            raise UserError(f"--key-type takes one of {', '.join(KEY_TYPES)}, not {self.key_type}")


@dataclass(frozen=True)
class SortAnswer:
    """Sorts with their times for the keys asked for, fastest first.

    tied: how many of the first the intervals cannot tell apart.
    """

    question: SortQuestion
    machine: Machine
    times: Sequence[tuple[str, Timed]]
    tied: int

    @property
    def is_known(self) -> bool:
        """Whether one is the fastest."""
        return self.tied == 1

    @property
    def sentences(self) -> list[str]:
        """The answer, and a line for each sort."""
        asked = self.question
        where = (
            f"{asked.keys:,} keys of {asked.key_type}, values of {asked.value_bytes} bytes"
            f" on {self.machine.device}"
        )
        if not self.times:
            return [f"inconclusive: no two sizes about {where} were measured"]
        (name, best), *others = self.times
        first = f"use {name}: about {digits(best.median)} ms at {where}"
        if self.tied > 1:
            tied = listing([other for other, _ in others[: self.tied - 1]])
            first += f"; inconclusive: {tied} may be as fast"
        return [
            first,
            *(
                f"  {name}: {digits(time.median)} ms ({digits(time.low)} to {digits(time.high)})"
                + (f", {digits(time.median / best.median)} times as long" if rank else "")
                for rank, (name, time) in enumerate(self.times)
            ),
        ]

    @property
    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "schema": 1,
            "question": dataclasses.asdict(self.question) | {"task": TASK},
            "machine": dataclasses.asdict(self.machine),
            "verdict": "chosen" if self.is_known else "cannot tell",
            "candidates": [{"sort": n} | dataclasses.asdict(time) for n, time in self.times],
        }


def choose(question: SortQuestion, given: Sequence[Path], backend: str | None) -> SortAnswer:
    """Answer from results, by default those measured here, else those that came along.

    Between two sizes the logarithm of a time, and of either end of its interval, is a line over
    that of the size. Raises UserError where there are no results, or of several machines.
    """
    found = [
        each for each in _files(given) if backend in (None, each.environment["device"]["backend"])
    ]
    if not found:
        raise UserError(f"there are no such results: `gpubench run {STUDY}` makes some")
    where, of_machine = machine(found)
    by_subject: dict[str, dict[int, Timed]] = {}
    for measured in pool(of_machine):
        record = measured.record
        if isinstance(record, Ok) and _answers(record, question):
            times = by_subject.setdefault(Subject.of(record).label, {})
            times[record.key_count or 0] = Timed(
                record.median_ms, record.ci95_low_ms, record.ci95_high_ms
            )
    known = {label: _between(times, question.keys) for label, times in by_subject.items()}
    ranked = sorted(
        ((label, time) for label, time in known.items() if time), key=lambda each: each[1].median
    )
    tied = sum(time.over(ranked[0][1]).is_open for _, time in ranked[1:]) + 1 if ranked else 0
    return SortAnswer(question, where, ranked, tied)


def _files(given: Sequence[Path]) -> list[results.Results]:
    if given:
        return load_results(given, f"gpubench run {STUDY}")
    for folder in (LOCAL, paths.measured_folder()):
        files = (results.files_of(place, STUDY) for place in sorted(folder.glob("*")))
        if found := [results.load(path) for of_place in files for path in of_place]:
            return found
    return []


def _answers(record: Ok, question: SortQuestion) -> bool:
    """Say whether a measurement is of plain keys as they are asked for."""
    plain = (record.key_order, record.key_entropy, record.key_bits, record.segment_keys)
    return (
        record.mode == MODE
        and (record.value_bytes, record.key_type) == (question.value_bytes, question.key_type)
        and plain == ("uniform", 1, None, None)
    )


def _between(times: dict[int, Timed], keys: int) -> Timed | None:
    """Return the time of a size, None beyond those that were measured."""
    below = max((size for size in times if size <= keys), default=None)
    above = min((size for size in times if size >= keys), default=None)
    if below is None or above is None:
        return None
    share = math.log(keys / below) / math.log(above / below) if above > below else 0.0

    def ends() -> Iterator[float]:
        for one, two in zip(*(dataclasses.astuple(times[s]) for s in (below, above)), strict=True):
            yield math.exp((1 - share) * math.log(one) + share * math.log(two))

    return Timed(*ends())
