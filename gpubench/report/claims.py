"""What the papers claim, and what the records say to it: one page, and rows on studies' pages."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import registry
from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.pooling import hashable
from gpubench.evidence.ranking import MODES, Variant
from gpubench.report import formats
from gpubench.report.cells import MeasurementRow
from gpubench.report.figures import BarChart, StackedBar
from gpubench.report.machines import Machine, StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Section, Table, words
from gpubench.report.vega import draw_all
from gpubench.studies.claims import OWED, Cell, Claim, Test, Verdict, verdict
from gpubench.studies.study import Study, load_study

STEM, TITLE = "claims", "What the papers claimed, and what holds today"
LEAD = (
    "Each claim, the figure as published, the same measured here, and a verdict from the records."
)
_MODES = {"graph": "device time", "hot": "warm, launched", "cold": "cold"}
_COLUMNS = (
    "Source",
    "Claim",
    "Published",
    "The paper's variant",
    "Against today's best",
    "Verdict",
)
_NOTES = (
    "A test is the ratio of two measurements in one mode, or one value, with its 95 % interval. It"
    " is inconclusive if the interval includes the bound that it tests. A claim is true or false if"
    " all tests of the paper's own variant agree, \u201conly if\u201d names those that are true"
    " where others are false, and owed is one without a record.",
    "Against today's best: the same question with the fastest variant or rival measured here. The"
    " verdict does not depend on it.",
)
_OLD = "older code"
_SHARE = "share of "


class Finding(NamedTuple):
    """A test with its measured value, None without a record; how: mode, and whether code is old."""

    test: Test
    value: Ratio | None
    how: str

    @property
    def outcome(self) -> str:
        """What the test says."""
        return self.test.outcome(self.value)

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.test.when}: {OWED}"
        told = [formats.significant(each) for each in self.value]
        interval = f" ({told[1]} to {told[2]})" if told[1] != told[2] else ""
        return f"{self.test.when}: {told[0]}{self._unit}{interval}{self.how}, {self.outcome}"

    @property
    def _unit(self) -> str:
        unit = self.test.unit
        return unit if unit == "\N{MULTIPLICATION SIGN}" else f" {unit}".rstrip()


class Judged(NamedTuple):
    """A claim of a study with its findings on one machine."""

    study: Study
    claim: Claim
    findings: Sequence[Finding]

    def of(self, is_today: bool) -> list[Finding]:
        """Return the findings against today's best, or those of the paper's own variant."""
        return [each for each in self.findings if each.test.is_today == is_today]

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other claims."""
        return self.study.name, self.claim.says

    @property
    def verdict(self) -> Verdict:
        """The verdict on the paper's own variant."""
        return verdict([(each.test, each.outcome) for each in self.of(False)])

    @property
    def source(self) -> str:
        """The paper in short, and where it says so: "Rozen 2008, Table 1"."""
        paper = re.sub(r"(?<=\D)(?=\d)", " ", self.study.paper or self.study.name, count=1)
        return f"{paper.capitalize()}, {self.claim.where}"


def studies() -> list[Study]:
    """Return the shipped studies that test claims, in the order of their names."""
    return [study for name in registry.studies() if (study := load_study(name)).claims]


def judge(machine: Machine, of: Sequence[Study]) -> list[Judged]:
    """Judge the claims of some studies by all records of a machine."""
    runs = {run.study.name: run for run in machine.studies}
    return [
        Judged(study, claim, [_finding(test, study, runs) for test in claim.tests])
        for study in of
        for claim in study.claims
    ]


def _finding(test: Test, study: Study, runs: Mapping[str, StudyRun]) -> Finding:
    found = [_row(cell, runs.get(cell.study or study.name)) for cell in test.cells]
    rows = [row for row in found if row is not None]
    if len(rows) < len(found):
        return Finding(test, None, "")
    are_times = all(not cell.value or cell.value in ("frame", "bound") for cell in test.cells)
    common = (mode for mode in MODES if all(row.is_timed(mode) for row in rows))
    if (mode := next(common, None)) is None and are_times:
        return Finding(test, None, "")
    chosen = [row.modes[mode] if mode else row for row in rows]
    values = [_value(cell, row) for cell, row in zip(test.cells, chosen, strict=True)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Finding(test, None, "")
    how = [_MODES[mode]] if mode and are_times else []
    how += [_OLD] if any(row.is_old for row in rows) else []
    first, *others = known
    value = first.over(others[0]) if others else Ratio(*first)
    return Finding(test, value, f" [{', '.join(how)}]" if how else "")


def _row(cell: Cell, run: StudyRun | None) -> MeasurementRow | None:
    if run is None:
        return None
    subject = Variant(cell.algorithm, cell.form, hashable(dict(cell.parameters)))
    found = run.find(subject, **cell.axes)
    return found if found is not None and found.ok else None


def _value(cell: Cell, row: MeasurementRow) -> Timed | None:
    """Return what a cell tells, with its interval: of what is no time, none."""
    time = Timed(row.median_ms, row.low_ms, row.high_ms)
    if cell.value == "frame" and row.frame_ms is not None:
        time = Timed(*(each + row.frame_ms - row.median_ms for each in time))
    elif cell.value == "bound" and row.bound is not None:
        time = Timed(*(row.bound * row.median_ms / each for each in (time[0], time[2], time[1])))
    elif cell.value:
        share = row.phase_share(cell.value.removeprefix(_SHARE))
        told = share if cell.value.startswith(_SHARE) else row.reported.get(cell.value)
        if not isinstance(told, int | float):
            return None
        time = Timed(told, told, told)
    return Timed(*(each / getattr(row.place, cell.per) for each in time)) if cell.per else time


def table(
    judged: Sequence[Judged],
    elsewhere: Mapping[tuple[str, str], str],
    stems: Mapping[str, str],
    title: str = TITLE,
) -> Table:
    """Return a row for each claim. elsewhere: verdicts on claims that are owed here."""
    rows = []
    for each in judged:
        own, today = ("; ".join(map(str, each.of(which))) for which in (False, True))
        items = [words(each.claim.says), words(each.claim.published), words(own)]
        items += [words(today) if today else NOTHING._replace(kind="words")]
        there = elsewhere.get(each.key, "") if each.verdict.word == OWED else ""
        items += [Item(str(each.verdict), "words", there, strong=True)]
        stem = stems.get(each.study.name)
        rows.append(Row(each.source, items, f"{stem}.html" if stem else ""))
    return Table(title, _COLUMNS, rows, _NOTES)


def speed_ups(judged: Sequence[Judged], slug: str) -> BarChart:
    """Draw each published speed-up beside those measured in the first test of either kind."""
    bars = []
    for claim in judged:
        if claim.claim.speed_up is None:
            continue
        parts = {"published": claim.claim.speed_up}
        for name, which in (("the paper's variant", False), ("against today's best", True)):
            value = next((each.value for each in claim.of(which)), None)
            parts |= {} if value is None else {name: value.value}
        bars.append(StackedBar(f"{claim.source}: {claim.claim.says}", parts))
    title = "Published speed-ups and today's"
    caption = "To the right of 1 the claim's first is faster; each pair in one mode, see the table."
    label = "times as fast"
    return BarChart(f"{slug}-claims", title, caption, label, {"": bars} if bars else {}, True)


def sections(
    machines: Sequence[Machine], stems: Mapping[str, str]
) -> list[tuple[Machine, Section]]:
    """Return the part of the page of each machine that measured a study with claims."""
    known = studies()
    own = {study.name for study in known}
    able = [m for m in machines if own & {run.study.name for run in m.studies}]
    by_machine = {machine.device: judge(machine, known) for machine in able}
    verdicts = {
        device: {
            each.key: f"on {device.name}: {each.verdict}"
            for each in judged
            if each.verdict.word != OWED
        }
        for device, judged in by_machine.items()
    }
    shown = []
    for machine in able:
        here, slug = by_machine[machine.device], formats.slug(f"{machine.device.machine} {STEM}")
        others = ChainMap(*(verdicts[m.device] for m in able if m is not machine))
        section = Section(
            title=machine.device.name,
            level=2,
            slug=slug,
            verdict=summary(here),
            figures=draw_all([speed_ups(here, slug)]),
            tables=[table(here, others, stems)],
        )
        shown.append((machine, section))
    return shown


def summary(judged: Sequence[Judged]) -> str:
    """Count the verdicts: "Of 3 claims 2 are true, 1 is owed"."""
    counts = Counter(each.verdict.word for each in judged)
    told = (f"{count} {word}" for word, count in counts.most_common())
    return f"Of {len(judged)} claims: {', '.join(told)}"
