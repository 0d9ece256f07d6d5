"""A report as data: what the templates print, in the order in which they print it.

The front page and report.md go through machines; each study has a page for all machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpubench.evidence.calibration import Calibration
from gpubench.evidence.physics_results import CheckResults
from gpubench.report import answers, formats, maps, overview, ranks, regimes, steps, tables, verdict
from gpubench.report import calibrations as calibrated
from gpubench.report import checks as checked
from gpubench.report import simulations as simulated
from gpubench.report.answers import Answer
from gpubench.report.cells import Machine, StudyRun
from gpubench.report.pages import Collection, Part, Section
from gpubench.report.rankings import Field
from gpubench.report.study_charts import charts
from gpubench.report.tables import Table
from gpubench.report.vega import FigurePart, draw_all

MEASUREMENTS = "-measurements"  # follows the stem in the name of the page of all measurements
_OTHER_PAGES = ("index", "simulations", "checks", "calibration")  # names that no study's page takes
_MOST_RECORDS = 500  # of a study of regimes; more rows are left to the CSV
_ANSWER_HEIGHT = 240  # pixels of a map on the front page


@dataclass(frozen=True)
class StudyPart:
    """What a report says about one study on one machine.

    stem: the name of the study's page without the ending. slug: the place there.
    gist: the verdict in one short sentence. sections: what is told in its own way, before the
    rest. every_record: None where there are too many for a page.
    """

    stem: str
    slug: str
    run: StudyRun
    gist: str
    verdict: Sequence[str]
    fastest: Table | None
    printed: Table | None
    measured: Table | None
    resorts: Table | None
    crossovers: Table | None
    outcomes: Table | None
    subjects: Sequence[Table]
    subject_notes: Sequence[str]
    kind: str
    cells: Table | None
    phases: Sequence[Table]
    ranks: Sequence[Table]
    figures: Sequence[FigurePart]
    oddities: Table | None
    troubles: Table | None
    every_record: Table | None
    example_command: str
    sections: Sequence[Section] = ()

    @property
    def findings(self) -> list[str]:
        """The sentences of the verdict that its gist does not say."""
        return [sentence for sentence in self.verdict if sentence not in self.gist]

    @property
    def drawn(self) -> list[FigurePart]:
        """The figures that stand in Markdown too: the first of each section, and of the study."""
        of_sections = [each for section in self.sections for each in section.figures[:1]]
        return [*of_sections, *self.figures[:1]]


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
    """The page of a study: what each machine did, and the machines compared."""

    stem: str
    title: str
    question: str
    comparison: Table | None
    of_machines: Sequence[tuple[MachinePart, StudyPart]]

    @property
    def has_measurements(self) -> bool:
        """Whether there is a page of all its measurements."""
        return any(study.every_record is not None for _, study in self.of_machines)


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
        found[name] = next(s for s in tried if not {s, f"{s}{MEASUREMENTS}"} & taken)
        taken |= {found[name], f"{found[name]}{MEASUREMENTS}"}
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
        studies = [
            _study(run, machine, stem, f"{slug}-{stem}")
            for run in machine.studies
            for stem in [stems[run.study.name]]
        ]
        parts.append(
            MachinePart(
                slug,
                machine,
                [part for run in machine.studies for part in _answers(run, stems, slug)],
                overview.tables([(s.run, s.gist, f"{s.stem}.html#{s.slug}") for s in studies]),
                studies,
                tables.environment(machine),
                tables.runs(machine),
            )
        )
    collections = [
        simulated.collection(simulations),
        checked.collection(checks),
        calibrated.collection(calibrations),
    ]
    return Document(
        parts,
        [_page(name, stem, parts) for name, stem in stems.items()],
        [collection for collection in collections if collection.parts],
    )


def _answers(run: StudyRun, stems: Mapping[str, str], slug: str) -> list[AnswerPart]:
    """Return what the front page answers from a study, if it is one that answers."""
    if run.study.views is None:
        return []
    field = Field.of(run)
    stem = stems[run.study.name]
    drawn = [
        (task, answers.answer(field, task), figure)
        for task in run.study.views.answers
        for figure in [maps.figure(field, task, f"{slug}-answer", _ANSWER_HEIGHT)]
        if figure is not None
    ]
    return [AnswerPart(stem, drawn)] if drawn else []


def _page(name: str, stem: str, machines: Sequence[MachinePart]) -> StudyPage:
    own = [(part, study) for part in machines for study in part.studies if study.stem == stem]
    run = own[0][1].run
    study = run.study
    comparison = None
    if not regimes.tells(run):  # which begins with what was found
        comparison = tables.comparison([part.machine for part in machines], name)
    return StudyPage(stem, study.title, study.question, comparison, own)


def _study(run: StudyRun, machine: Machine, stem: str, slug: str) -> StudyPart:
    if regimes.tells(run):
        return _regimes(run, stem, slug)
    published = run.study.published
    others = [other for other in machine.studies if other is not run]
    by_subject, notes = tables.subjects(run)
    troubles = tables.troubles(run)
    first = next(iter(run.cells.values()))
    return StudyPart(
        stem=stem,
        slug=slug,
        run=run,
        gist=verdict.gist(run),
        verdict=verdict.sentences(
            run, others, [*steps.sentences(run, others), *ranks.sentences(run)]
        ),
        fastest=tables.fastest(run),
        printed=tables.printed(published) if published else None,
        measured=_measured(run),
        resorts=tables.resorts(run),
        crossovers=tables.crossovers(run),
        outcomes=tables.outcomes(run),
        subjects=by_subject,
        subject_notes=notes,
        kind=tables.kind(run),
        cells=None if published else tables.headline_cells(run),
        phases=tables.phases(run),
        ranks=ranks.comparisons(run),
        figures=draw_all(charts(run, slug)),
        oddities=tables.oddities(run),
        troubles=troubles if troubles.rows else None,
        every_record=tables.every_record(run),
        example_command=tables.command(first.headline),
    )


def _regimes(run: StudyRun, stem: str, slug: str) -> StudyPart:
    """Tell a study of neighbour searches in its own way."""
    troubles, oddities = tables.troubles(run), tables.oddities(run)
    return StudyPart(
        stem=stem,
        slug=slug,
        run=run,
        gist=regimes.gist(run),
        verdict=regimes.sentences(run),
        fastest=None,
        printed=None,
        measured=None,
        resorts=None,
        crossovers=None,
        outcomes=None,
        subjects=[],
        subject_notes=[],
        kind="",
        cells=None,
        phases=[],
        ranks=[],
        figures=[],
        oddities=oddities if oddities and len(oddities.rows) <= _MOST_RECORDS else None,
        troubles=troubles if troubles.rows else None,
        every_record=tables.every_record(run) if len(run.records) <= _MOST_RECORDS else None,
        example_command=tables.command(next(iter(run.cells.values())).headline),
        sections=regimes.sections(run, slug),
    )


def _measured(run: StudyRun) -> Table | None:
    published = run.study.published
    if published is None:
        return None
    if published.quantities:
        return ranks.measured(run, published)
    return tables.measured(run, published)
