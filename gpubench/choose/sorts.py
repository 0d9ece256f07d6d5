"""Which sort of keys to use: times between the sizes that were measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpubench.base.errors import UserError
from gpubench.base.numbers import digits, listing
from gpubench.base.roles import study_for
from gpubench.choose.evidence import MODE, MachineName, files, machine
from gpubench.choose.question import require_known
from gpubench.evidence.crossover import Timed
from gpubench.evidence.pooling import pool
from gpubench.evidence.ranking import Variant, may_rank, timed
from gpubench.evidence.records import AnyRecord
from gpubench.problems.key_sort.axes import KEY_TYPES, VALUE_BYTES

TASK = "sort"
STUDY = study_for("choose-sort")
PLAIN = {"key_order": "uniform", "key_entropy": 1, "key_bits": None, "segment_keys": None}


@dataclass(frozen=True)
class SortQuestion:
    """How many uniform keys of which type are to be sorted, and how long their values are."""

    keys: int
    value_bytes: int = 4
    key_type: str = KEY_TYPES[0]

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise UserError(f"--keys takes a count of at least 1, not {self.keys}")
        require_known("value-bytes", self.value_bytes, VALUE_BYTES)
        require_known("key-type", self.key_type, KEY_TYPES)


@dataclass(frozen=True)
class SortAnswer:
    """Sorts with their times for the keys asked for, fastest first.

    tied: how many of the first the intervals cannot tell apart; 1 where one is the fastest.
    """

    question: SortQuestion
    machine: MachineName
    times: Sequence[tuple[str, Timed]]
    tied: int

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
        name, best = self.times[0]
        lines = [f"use {name}: about {digits(best.median)} ms at {where}"]
        if self.tied > 1:
            tied = listing(other for other, _ in self.times[1 : self.tied])
            lines[0] += f"; inconclusive: {tied} may be as fast"
        for name, time in self.times:
            text = f"  {name}: {digits(time.median)} ms ({digits(time.low)} to {digits(time.high)})"
            longer = f", {digits(time.median / best.median)} times as long"
            lines.append(text if time is best else text + longer)
        return lines

    @property
    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "schema": 1,
            "question": dataclasses.asdict(self.question) | {"task": TASK},
            "machine": dataclasses.asdict(self.machine),
            "verdict": "chosen" if self.tied == 1 else "cannot tell",
            "candidates": [{"sort": n} | dataclasses.asdict(time) for n, time in self.times],
        }


def choose(question: SortQuestion, given: Sequence[Path], backend: str | None) -> SortAnswer:
    """Answer from results, by default those measured here, else those that came along.

    Between two sizes the logarithm of a time, and of either end of its interval, is a line over
    that of the size. Raises UserError where there are no results, or of several machines.
    """
    where, found = machine(files(given, backend, STUDY))
    by_subject: dict[str, dict[int, Timed]] = {}
    for measured in pool(found):
        record = measured.record
        if may_rank(record) and _answers(record, question):
            times = by_subject.setdefault(Variant.of(record).label, {})
            times[record.at("key_count") or 0] = timed(record)
    known = [(label, _between(times, question.keys)) for label, times in by_subject.items()]
    ranked = sorted(((n, time) for n, time in known if time), key=lambda each: each[1].median)
    tied = sum(time.over(ranked[0][1]).is_open for _, time in ranked[1:]) + 1 if ranked else 0
    return SortAnswer(question, where, ranked, tied)


def _answers(record: AnyRecord, question: SortQuestion) -> bool:
    """Say whether a measurement is of plain keys as they are asked for."""
    asked = {**PLAIN, "value_bytes": question.value_bytes, "key_type": question.key_type}
    return record.mode == MODE and all(record.at(axis) == asked[axis] for axis in asked)


def _between(times: Mapping[int, Timed], keys: int) -> Timed | None:
    """Return the time of a size, None beyond those that were measured."""
    sizes = sorted(times)
    if not sizes[0] <= keys <= sizes[-1]:
        return None
    ends = np.log([dataclasses.astuple(times[size]) for size in sizes]).T
    at = math.log(keys), np.log(sizes)
    return Timed(*(math.exp(np.interp(*at, logs)) for logs in ends))
