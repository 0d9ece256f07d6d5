"""Rankings of neighbour searches: races of equal work on one input, in the order of `rank`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gpubench.evidence.crossover import Ratio
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.scans import ANSWERS
from gpubench.report.verdict import Race


def question(cell: MeasurementRow) -> str:
    """Return the question a cell answers; "" without a task.

    Its task, its kind of answer, and whether particles have radii of their own.
    """
    answer = ANSWERS.get(cell.answer, cell.answer)
    own = "own radii" if getattr(cell.place, "radii", None) else None
    return ": ".join(filter(None, (cell.task, answer, own))) if cell.task else ""


class Contest(NamedTuple):
    """Our best algorithm and the best other in a race; ratio: the other's time over ours."""

    ours: MeasurementRow
    rival: MeasurementRow
    ratio: Ratio


@dataclass(frozen=True)
class Searches:
    """All searches of a study on one machine, ranked by device time."""

    run: StudyRun

    def of(self, name: str) -> StudyRun:
        """Return all measurements for a question."""
        return self.run.only(lambda cell: question(cell) == name)

    @cached_property
    def races(self) -> list[Race]:
        """All races, each algorithm in its fastest variant; tasks in `views.answers` come first."""
        asked = (race for race in self.run.races if question(race[0]))
        by_algorithm = (grouped(race, lambda cell: cell.subject.algorithm) for race in asked)
        races = [[own[0] for own in forms.values()] for forms in by_algorithm]
        first = self.run.study.views.answers if self.run.study.views else ()
        order = list(dict.fromkeys([*first, *TASKS]))
        return sorted(races, key=lambda race: order.index(race[0].task))

    @cached_property
    def by_question(self) -> dict[str, list[Race]]:
        """The races of each question."""
        return grouped(self.races, lambda race: question(race[0]))

    @cached_property
    def hybrids(self) -> set[str]:
        """Algorithms that combine a library's code with ours."""
        return {c.subject.algorithm for c in self.run.cells.values() if c.library_part}

    @cached_property
    def rivals(self) -> set[str]:
        """Algorithms implemented entirely by a library."""
        return {r.algorithm for r in self.run.records if r.library is not None} - self.hybrids

    def ours(self, race: Race) -> list[MeasurementRow]:
        """Return a race without libraries and hybrids, fastest first."""
        return [c for c in race if c.subject.algorithm not in self.rivals | self.hybrids]

    @cached_property
    def algorithms(self) -> list[str]:
        """All algorithms, most wins first, then in the study's order; the index sets the colour."""
        wins = Counter(race[0].subject.algorithm for race in self.races)
        named = dict.fromkeys(subject.algorithm for subject in self.run.subjects)
        raced = {cell.subject.algorithm for race in self.races for cell in race}
        return sorted(named, key=lambda name: (name not in raced, -wins[name]))

    def comparisons(self, names: Collection[str]) -> list[Contest]:
        """Return our best and the best named algorithm of each race that has both."""
        found = []
        for race in self.races:
            ours = self.ours(race)
            others = [cell for cell in race if cell.subject.algorithm in names]
            if ours and others and (ratio := others[0].over(ours[0])) is not None:
                found.append(Contest(ours[0], others[0], ratio))
        return found
