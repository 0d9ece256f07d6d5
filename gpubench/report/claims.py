"""What the papers claim, and what the records say: one page, and rows on studies' pages."""

from __future__ import annotations

import math
import re
from collections import Counter
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
from gpubench.report.pages import Item, Row, Section, Table, words
from gpubench.report.vega import draw_all
from gpubench.studies.claims import OWED, WORDS, Claim, ClaimedValue, ClaimTest, Verdict, verdict
from gpubench.studies.study import Study, load_study

STEM, TITLE = "claims", "What the papers claimed, and what holds today"
LEAD = (
    "Each claim, the figure as published, the same measured here, and the verdict of the records."
)
_MODES = {"graph": ", graph", "hot": ", warm", "cold": ", cold"}
_HEADS = ("Source", "Claim", "Published", "The paper's variant", "Against today's best", "Verdict")
_NOTES = (
    "A test is the ratio of two measurements in one mode (graph: device time; warm: launched from"
    " Python), or one value, with its 95 % interval; counts and shares of a step have none. It is"
    " true above 1, or within the bounds beside it, which are ours; inconclusive if a bound lies in"
    " the interval. ᵒ: older code than this version.",
    "Verdict: on the paper's own variant. True or false if all its tests agree, only if some are"
    " true and others false; otherwise owed if one has no record, or inconclusive if one is.",
)
_SHARE = "share of "


class Tested(NamedTuple):
    """A test with its measured value, None without a record; how: the mode, and the code's age."""

    test: ClaimTest
    value: Ratio | None = None
    how: str = ""

    @property
    def outcome(self) -> str:
        """What the test says."""
        return self.test.outcome(self.value)

    @property
    def bounds(self) -> str:
        """The bounds that decide it, "; above 24"; empty for the usual one, above 1."""
        above, below = map(formats.plain, (self.test.above, self.test.below))
        if math.isinf(self.test.below):
            return f"; above {above}" if self.test.above != 1 else ""
        return f"; below {below}" if math.isinf(self.test.above) else f"; bounds {above} to {below}"

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.test.when}{self.bounds}: {OWED}"
        told, low, high = map(formats.significant, self.value)
        interval = f" ({low} to {high})" if low != high else ""
        how = f"{interval}{self.how}{self.bounds}"
        return f"{self.test.when}: {told}{self.test.unit}{how}: {self.outcome}"


class Judged(NamedTuple):
    """A claim of a study with its tests on one machine."""

    study: Study
    claim: Claim
    tests: Sequence[Tested]

    def of(self, is_today: bool) -> list[Tested]:
        """Return the tests against today's best, or those of the paper's own variant."""
        return [each for each in self.tests if each.test.is_today == is_today]

    @property
    def verdict(self) -> Verdict:
        """The verdict, on the paper's own variant."""
        return verdict([(each.test, each.outcome) for each in self.of(False)])

    @property
    def paper(self) -> str:
        """The paper in short: "Rozen 2008"."""
        name = self.study.paper or self.study.name
        return re.sub(r"(?<=\D)(?=\d)", " ", name, count=1).capitalize()


Device = tuple[str, Sequence[Judged]]  # its name, and all claims judged by its records


def studies() -> list[Study]:
    """Return the shipped studies that test claims, by paper."""
    found = [study for name in registry.studies() if (study := load_study(name)).claims]
    return sorted(found, key=lambda study: (study.paper or study.name, study.name))


def judge(machine: Machine, of: Sequence[Study]) -> list[Judged]:
    """Judge the claims of some studies by all records of a machine."""
    runs = {run.study.name: run for run in machine.studies}
    return [
        Judged(study, claim, [_tested(test, study, runs) for test in claim.tests])
        for study in of
        for claim in study.claims
    ]


def _tested(test: ClaimTest, study: Study, runs: Mapping[str, StudyRun]) -> Tested:
    rows = []
    for cell in test.cells:
        subject = Variant(cell.algorithm, cell.form, hashable(dict(cell.parameters)))
        run = runs.get(cell.study or study.name)
        rows.append(run.find(subject, **cell.axes) if run else None)
    for mode in MODES:  # the first in which all cells have the value asked for
        timed = [row.modes[mode] for row in rows if row and row.ok and row.is_timed(mode)]
        pairs = zip(test.cells, timed, strict=True) if len(timed) == len(rows) else ()
        values = [found for cell, row in pairs if (found := _value(cell, row)) is not None]
        if len(values) == len(rows) and (test.over is None or values[1].median):
            how = _MODES[mode] if any(cell.is_timed for cell in test.cells) else ""
            old = "ᵒ" if any(row.is_old for row in timed) else ""
            ratio = values[0].over(values[1]) if test.over else Ratio(*values[0])
            return Tested(test, ratio, how + old)
    return Tested(test)


def _value(cell: ClaimedValue, row: MeasurementRow) -> Timed | None:
    """Return the value of a cell with its interval; without one for what is no time."""
    ends = (row.median_ms, row.low_ms, row.high_ms)
    found: Sequence[float] | None = ends
    if cell.value == "frame":
        found = [each + row.frame_ms - ends[0] for each in ends] if row.frame_ms else None
    elif cell.value == "bound":
        found = [row.bound * ends[0] / ends[at] for at in (0, 2, 1)] if row.bound else None
    elif cell.value:
        told = row.reported.get(cell.value)
        if cell.value.startswith(_SHARE):
            told = row.phase_share(cell.value.removeprefix(_SHARE))
        found = [told] * 3 if isinstance(told, int | float) else None
    per = getattr(row.place, cell.per) if cell.per else 1
    return Timed(*(each / per for each in found)) if found and per else None


def elsewhere(index: int, others: Sequence[Device]) -> tuple[str, Judged] | None:
    """Return the first device with a verdict on a claim, by its index, and that claim there."""
    there = ((name, judged[index]) for name, judged in others)
    return next((each for each in there if each[1].verdict.word != OWED), None)


def table(
    judged: Sequence[Judged],
    stems: Mapping[str, str],
    title: str = TITLE,
    others: Sequence[Device] = (),
) -> Table:
    """Return a row for each claim, owed ones last. others: the claims judged on other devices."""
    rows, owed = [], [each.verdict.word == OWED for each in judged]
    for index, each in sorted(enumerate(judged), key=lambda pair: owed[pair[0]]):  # else by paper
        own, today = ("\n".join(map(str, each.of(which))) for which in (False, True))
        found = elsewhere(index, others) if owed[index] else None
        there = f"on {found[0]}: {found[1].verdict}" if found else ""
        items = [words(each.claim.says), words(each.claim.published), words(own)]
        items += [words(today or formats.DASH)]
        items += [Item(str(each.verdict), "words", there, strong=True)]
        link = f"{stems[each.study.name]}.html" if each.study.name in stems else ""
        rows.append(Row(f"{each.paper}, {each.claim.where}", items, link))
    return Table(title, _HEADS, rows, _NOTES)


def speed_ups(judged: Sequence[Judged], slug: str) -> BarChart:
    """Draw each published speed-up beside the first test of either kind."""
    bars = []
    for each in judged:
        if each.claim.speed_up is not None:
            parts = {"published": each.claim.speed_up}
            for name, which in (("the paper's variant", False), ("against today's best", True)):
                value = next((tested.value for tested in each.of(which)), None)
                parts |= {} if value is None else {name: value.value}
            bars.append(StackedBar(f"{each.paper}: {each.claim.figure}", parts))
    title = "Published speed-ups and today's"
    caption = "Left of 1 it is a slow-down. Intervals and modes are in the table."
    panels = {"": bars} if bars else {}
    return BarChart(f"{slug}-speed-ups", title, caption, "times as fast", panels, True)


def sections(machines: Sequence[Machine], stems: Mapping[str, str]) -> list[Section]:
    """Return the part of the page of each machine whose records test a claim."""
    known = studies()
    judged = [(machine.device.name, judge(machine, known)) for machine in machines]
    found = []
    for machine, (name, own) in zip(machines, judged, strict=True):
        slug = formats.slug(f"{machine.device.machine} {machine.device.backend} {STEM}")
        others = [each for each in judged if each[1] is not own]
        if any(each.verdict.word != OWED for each in own):
            section = Section(
                title=name,
                measured=machine.environments,
                level=2,
                slug=slug,
                verdict=summary(own),
                figures=draw_all([speed_ups(own, slug)]),
                tables=[table(own, stems, others=others)],
            )
            found.append(section)
    return found


def summary(judged: Sequence[Judged]) -> str:
    """Count the verdicts: "3 claims: 2 true, 1 owed."."""
    counts = Counter(each.verdict.word for each in judged)
    told = ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
    return f"{len(judged)} claims: {told}."
