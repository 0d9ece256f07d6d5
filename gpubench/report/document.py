"""A report as data: what the templates print, in the order in which they print it.

The front page and report.md go through machines; each study has a page for all machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpubench.evidence.calibration import Calibration
from gpubench.evidence.frame import command_of
from gpubench.evidence.physics_results import CheckResults
from gpubench.report import (
    answers,
    environment,
    formats,
    maps,
    overview,
    published,
    ranks,
    records,
    regimes,
    scaling_model,
    steps,
    tables,
    verdict,
)
from gpubench.report import calibrations as calibrated
from gpubench.report import checks as checked
from gpubench.report import simulations as simulated
from gpubench.report.answers import Answer
from gpubench.report.machines import Machine, StudyRun
from gpubench.report.pages import Collection, Part, Section, Table
from gpubench.report.rankings import Searches
from gpubench.report.study_charts import charts
from gpubench.report.vega import FigurePart, draw_all
from gpubench.studies.study import Study

_OTHER_PAGES = ("index", "simulations", "checks", "calibration")  # names that no study's page takes
_ANSWER_HEIGHT = 240  # pixels of a map on the front page


@dataclass(frozen=True)
class StudyPart:
    """What a report says about one study on one machine.

    stem: the name of the study's page without the ending. slug: the place there.
    gist: the verdict in one short sentence. findings: the rest of the verdict. sections: the
    first of them has the first figure.
    """

    stem: str
    slug: str
    run: StudyRun
    gist: str
    findings: Sequence[str]
    sections: Sequence[Section]

    @property
    def example_command(self) -> str:
        """The command that measures the first cell again."""
        return command_of(next(iter(self.run.cells.values())).record)


@dataclass(frozen=True)
class AnswerPart:
    """What the front page answers from one study; stem: of the study's page."""

    stem: str
    tasks: Sequence[tuple[str, Answer | None, FigurePart]]


@dataclass(frozen=True)
class MachinePart:
    """What a report says about one machine; overview: tables of its studies."""

    slug: str
    machine: Machine
    answers: Sequence[AnswerPart]
    overview: Sequence[Table]
    studies: Sequence[StudyPart]
    environment: Table
    runs: Table


@dataclass(frozen=True)
class StudyPage:
    """The page of a study: what each machine did."""

    stem: str
    of_machines: Sequence[tuple[MachinePart, StudyPart]]

    @property
    def study(self) -> Study:
        """The study, as the first machine has it."""
        return self.of_machines[0][1].run.study


@dataclass(frozen=True)
class Document:
    """A whole report."""

    machines: Sequence[MachinePart]
    studies: Sequence[StudyPage]
    collections: Sequence[Collection]


def stems(machines: Sequence[Machine]) -> dict[str, str]:
    """Return for each study, by its name, what the names of its files begin with."""
    found: dict[str, str] = {}
    taken = set(_OTHER_PAGES)
    for name in dict.fromkeys(run.study.name for machine in machines for run in machine.studies):
        own = formats.slug(name) or "study"
        tried = itertools.chain([own], (f"{own}-{number}" for number in itertools.count(2)))
        found[name] = next(stem for stem in tried if stem not in taken)
        taken.add(found[name])
    return found


def build(
    machines: Sequence[Machine],
    stems: Mapping[str, str],
    simulations: Sequence[Part],
    checks: Sequence[CheckResults],
    calibrations: Sequence[Calibration] = (),
) -> Document:
    """Work out everything that a report says; stems: see the function of that name."""
    parts: list[MachinePart] = []
    for machine in machines:
        slug = formats.slug(f"{machine.environment['machine']} {machine.backend}")
        taken = [part.slug for part in parts]
        if slug in taken:  # two devices of one machine under one back end
            slug = f"{slug}-{len(taken) + 1}"
        parts.append(_machine(machine, stems, slug))
    collections = [
        simulated.collection(simulations),
        checked.collection(checks),
        calibrated.collection(calibrations),
    ]
    return Document(
        parts,
        [
            StudyPage(stem, [(m, s) for m in parts for s in m.studies if s.stem == stem])
            for stem in stems.values()
        ],
        [collection for collection in collections if collection.parts],
    )


def _machine(machine: Machine, stems: Mapping[str, str], slug: str) -> MachinePart:
    studies, answered = [], []
    for run in machine.studies:
        stem = stems[run.study.name]
        searches = Searches(run) if run.study.views else None
        studies.append(_part(run, machine.studies, searches, stem, f"{slug}-{stem}"))
        answered += _answers(searches, stem, slug) if searches else []
    return MachinePart(
        slug,
        machine,
        answered,
        overview.tables([(s.run, s.gist, f"{s.stem}.html#{s.slug}") for s in studies]),
        studies,
        environment.environment(machine),
        environment.runs(machine),
    )


def _answers(searches: Searches, stem: str, slug: str) -> list[AnswerPart]:
    """Return what the front page answers from a study, if it is one that answers."""
    views = searches.run.study.views
    drawn = [
        (task, answers.answer(searches, task), figure)
        for task in (views.answers if views else ())
        if (figure := maps.figure(searches, task, f"{slug}-answer", _ANSWER_HEIGHT)) is not None
    ]
    return [AnswerPart(stem, drawn)] if drawn else []


def _sections(run: StudyRun, of_machine: Sequence[StudyRun], slug: str) -> list[Section]:
    """Return what the page of a study shows, unless it is one of neighbour searches."""
    table = run.study.published
    drawn = draw_all([*charts(run, slug), scaling_model.chart(run, of_machine, slug)])
    subjects, notes = tables.subjects(run)
    kind = tables.kind(run)
    first = [
        steps.workloads(run),
        tables.resorts(run),
        *tables.outcomes(run),
        ranks.comparison(run),
    ]
    beside = [published.as_published(table), *published.measured(run, table)] if table else []
    about = f"{run.study.table or 'The published table'}, published and measured"
    return [
        Section("", figures=drawn[:1], tables=[each for each in first if each]),
        Section(
            about,
            tables=beside,
            notes=[table.source] if table else [],
            sentences=["Nothing of this table was measured here."] if len(beside) == 1 else [],
            side_by_side=True,
        ),
        Section("More figures", figures=drawn[1:], in_text=False),
        Section(
            f"Every algorithm{f' ({kind})' if kind else ''}",
            tables=subjects,
            notes=notes,
            side_by_side=True,
        ),
    ]


def _part(
    run: StudyRun, of_machine: Sequence[StudyRun], searches: Searches | None, stem: str, slug: str
) -> StudyPart:
    """Tell a study; one of neighbour searches in its own way."""
    if searches is not None:
        gist, said = regimes.gist(searches), regimes.sentences(searches)
        sections = regimes.sections(searches, slug)
    else:
        gist, said = verdict.gist(run), verdict.sentences(run)
        sections = _sections(run, of_machine, slug)
    last = [
        Section(table.caption, tables=[table])
        for table in (records.oddities(run), records.troubles(run))
        if table is not None
    ]
    findings = [sentence for sentence in said if sentence not in gist]
    shown = [section for section in (*sections, *last) if not section.is_empty]
    return StudyPart(stem, slug, run, gist, findings, shown)
