"""All pages of a report: the front page, one per study, and the others."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpubench.evidence.frame import command_of
from gpubench.evidence.pooling import device_of
from gpubench.report import (
    background,
    checks,
    claims,
    formats,
    maps,
    published,
    search_pages,
    simulations,
    spreadsheets,
    steps,
    tables,
    verdict,
)
from gpubench.report.cells import grouped
from gpubench.report.machines import Machine, StudyRun, when
from gpubench.report.pages import NOTHING, Page, Row, Section, Table, number, words
from gpubench.report.rankings import Searches
from gpubench.report.sources import Sources
from gpubench.report.study_charts import charts
from gpubench.report.vega import draw_all

# File names reserved for pages other than study pages.
_OTHER_PAGES = ("index", claims.STEM, "simulations", "checks", "calibration", "coverage")
_ANSWER_HEIGHT = 200  # pixels of a map on the front page
_BACK_ENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
_CPU = "These are CPU times, not GPU times."
_LAUNCHED = "Compared as launched from Python: no CUDA graph was timed here."
_BY_DEVICE = "Compared by device time (CUDA graph replay); what no graph holds, as launched."
_LEAD = "GPU neighbour search and cell lists for SPH, DPD and molecular dynamics."
_GROUPS = (
    "Whole steps of smoothed particle hydrodynamics (SPH) and dissipative particle dynamics (DPD)",
    "Searches and libraries",
    "The papers' tables",
    "More studies",
)
_METHOD = (
    "Times are of the device, between events around the launches alone. Every answer is checked"
    " before it is timed and again after; a wrong one never has a time. Intervals are 95 % of the"
    " median. Device time is that of a replayed CUDA graph; what no graph holds is compared as"
    " launched from Python, with the fastest as launched.",
)


class Told(NamedTuple):
    """The verdict (gist) on a study on one machine, its sections, and a link to them."""

    run: StudyRun
    gist: str
    link: str
    sections: Sequence[Section]


def stems(machines: Sequence[Machine]) -> dict[str, str]:
    """Return the prefix of each study's file names, by the study's name."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(run.study.name for machine in machines for run in machine.studies):
        own = formats.slug(name) or "study"
        tried = itertools.chain([own], (f"{own}-{number}" for number in itertools.count(2)))
        taken = {*_OTHER_PAGES, *found.values()}
        found[name] = next(stem for stem in tried if stem not in taken)
    return found


def build(machines: Sequence[Machine], stems: Mapping[str, str], sources: Sources) -> list[Page]:
    """Return all pages, the front page first; stems: as returned by `stems`."""
    front: list[Section] = []
    slugs: list[str] = []
    told: dict[str, list[Told]] = {stem: [] for stem in stems.values()}
    ranked = {r.study.name: m.device.name for m in machines for r in m.studies if steps.pays(r)}
    for index, machine in enumerate(machines):
        slug = formats.slug(f"{machine.device.machine} {machine.device.backend}")
        slug += f"-{index}" if slug in slugs else ""  # two devices with the same slug
        slugs.append(slug)
        alert, own = _CPU if machine.is_cpu else "", []
        answers: list[Section] = []
        for run in machine.studies:
            stem = stems[run.study.name]
            searches = Searches(run) if run.study.views else None
            if searches:
                page = f"{stem}.html#{slug}-{stem}"
                answers = answers or _answers(run, searches, machine.device.name, slug, page)
            own.append(_told(machine, run, searches, stem, slug, ranked.get(run.study.name, "")))
            told[stem].append(own[-1])
        title = f"Studies on {machine.device.name}"
        studied = Section(title=title, level=2, alert=alert, tables=_overview(own, machine.is_cpu))
        shown = [Section(alert=alert), *answers] if answers else []
        front += [replace(each, measured=machine.environments) for each in [*shown, studied]]
    studies = []
    for stem, own in told.items():
        study, shown = own[0].run.study, [section for each in own for section in each.sections]
        studies.append(Page(stem, study.title, f"{study.question} {study.note}".strip(), shown))
    claimed = claims.sections(machines, stems)
    made = [
        Page(claims.STEM, claims.TITLE, claims.LEAD, claimed),
        simulations.page(sources.simulations),
        checks.page(sources.checks),
        background.calibration_page(sources.calibrations),
        background.coverage_page(machines),
    ]
    others = [page for page in made if page.sections]
    leading = [Row(page.title, [words(page.lead)], f"{page.stem}.html") for page in others]
    table = Table("Beside the studies", ["Page", "What is found there"], leading)
    front += [Section(title=table.caption, level=2, tables=[table])] if others else []
    if machines:
        about = [background.machines_table(machines)]
        front += [
            Section(title=about[0].caption, level=2, slug="machines", tables=about),
            Section(title="How it was timed", level=2, slug="method", sentences=_METHOD),
        ]
    if not (machines or others):
        none = "There are no results to report on. Measure some with gpubench run STUDY."
        front.append(Section(alert=none))
    if claimed:
        front.insert(0, Section(links={claims.TITLE: f"{claims.STEM}.html"}))
    pages = [Page("index", "Which neighbour search?", _LEAD, front), *studies, *others]
    by_stem = {stem: name for name, stem in stems.items()}
    return [_by_machine(page, machines, by_stem.get(page.stem, "")) for page in pages]


def _by_machine(page: Page, machines: Sequence[Machine], study: str) -> Page:
    """Group sections by machine, that with the most current times of a page's study first."""
    machines = sorted(machines, key=lambda m: (m.is_cpu, -m.current(study)))
    first = [*itertools.takewhile(lambda section: not section.measured, page.sections)]
    own = grouped((s for s in page.sections if s.measured), lambda s: device_of(s.measured[0]))
    found = []
    for device in dict.fromkeys([*(m.device for m in machines if m.device in own), *own]):
        dates = when([each for section in own[device] for each in section.measured])
        name = f"{device.name}, {_BACK_ENDS.get(device.backend, device.backend)}, {dates}"
        found += [replace(section, machine=name) for section in own[device]]
    last = (section for section in page.sections[len(first) :] if not section.measured)
    return page._replace(sections=[*first, *found, *last])


def _answers(run: StudyRun, searches: Searches, on: str, slug: str, page: str) -> list[Section]:
    """Return a study's sections for the front page; most studies have none."""
    shown = []
    for task in run.study.views.answers if run.study.views else ():
        figure = maps.figure(searches, task, f"{slug}-answer", _ANSWER_HEIGHT)
        found = search_pages.answer(searches, task)
        section = Section(title=f"{task.capitalize()} on {on}", level=2, style="half")
        if figure and found:
            choice, costs = found
            where = [choice.slower_at] if choice.slower_at else []
            verdict = f"Take {choice.take}: {choice.risk}"
            section = replace(section, verdict=verdict, tables=[costs], sentences=where)
        shown += [replace(section, figures=[figure])] if figure else []
    link = f"All maps {run.clock}, {when(run.environments)}"
    return [*shown, Section(links={link: page})] if shown else []


def _told(
    machine: Machine, run: StudyRun, searches: Searches | None, stem: str, slug: str, ranked: str
) -> Told:
    several = "; ".join(steps.pays(run))
    if ranked and not steps.ways(run):
        several = f"Several GPUs were measured on {ranked} (select it above)"
    place, through = f"{slug}-{stem}", _BACK_ENDS[machine.device.backend]
    if searches is not None:
        gist, sections = search_pages.gist(searches), search_pages.sections(searches, place)
    else:
        gist, sections = verdict.gist(run), _sections(run, place)
    timing = [_BY_DEVICE if run.has_graphs else _LAUNCHED, run.older, several and f"{several}."]
    first = Section(
        title=machine.device.name,
        level=2,
        slug=place,
        alert=_CPU if machine.is_cpu else "",
        verdict=gist,
        sentences=list(filter(None, timing)) if run.timed else [],
        links={
            f"Measured through {through} {when(run.environments)}": "index.html#machines",
            "How it was timed": "index.html#method",
        },
    )
    replaced = [f"{run.replaced} older records are left out."] if run.replaced else []
    csv = "measurements as CSV, each with its command (--fresh repeats what is measured)"
    last = Section(
        title="Every measurement, and how to repeat it",
        sentences=[*tables.oddities(run), *replaced],
        links={f"{len(run.records):,} {csv}": f"{stem}{spreadsheets.ENDING}"},
        command=command_of(next(iter(run.cells.values())).record),
    )
    claimed = claims.table(claims.judge(machine, [run.study]), {}, "What the paper claims")
    beside = [Section(title=t.caption, tables=[t]) for t in (claimed, tables.troubles(run))]
    shown = (each for each in (first, *sections, *beside, last) if not each.is_empty)
    kept = [replace(each, measured=run.environments) for each in shown]
    return Told(run, gist, f"{stem}.html#{place}", kept)


def _sections(run: StudyRun, slug: str) -> list[Section]:
    table = run.study.published
    drawn = draw_all(charts(run, slug))
    subjects, notes = tables.subjects(run)
    launched = tables.launched(run)
    every = f"Every algorithm ({tables.kind(run)})".replace(" ()", "")
    first = [tables.break_evens(run), *tables.outcomes(run), steps.comparison(run)]
    first.append(verdict.overtakings(run))
    beside = [published.as_published(table), *published.measured(run, table)] if table else []
    return [
        Section(figures=drawn[:1], tables=first),
        Section(
            title=f"{run.study.table or 'The published table'}, published and measured",
            tables=beside,
            notes=[table.source] if table else [],
            sentences=["Nothing of this table was measured here."] if len(beside) == 1 else [],
        ),
        Section(title="More figures", figures=drawn[1:], tables=[tables.hardware(run)]),
        Section(title=every, tables=subjects, notes=notes),
        Section(title=tables.LAUNCHED, tables=launched[0], notes=launched[1]),
    ]


def _overview(told: Sequence[Told], is_cpu: bool) -> list[Table]:
    """Return the overview: a table for each group of studies."""
    found = []
    groups = grouped(told, _group)
    for group in (group for group in _GROUPS if group in groups):
        rows = []
        for each in groups[group]:
            counts = Counter(record.status for record in each.run.records)
            gone = [f"{counts[s]:,} {s}" for s in ("wrong", "failed", "skipped") if counts[s]]
            count = number(counts.total(), "{:,}".format, ", ".join(gone))
            gist = f"{each.gist} {published.faster(each.run)}".strip()
            rows.append(Row(each.run.study.title, [words(gist), count], each.link))
            if pays := steps.pays(each.run):
                several = f"Several {'CPUs' if is_cpu else 'GPUs'}"
                rows.append(Row(several, [words("; ".join(pays)), NOTHING], each.link))
        found.append(Table(group, ["Study", "Answer", "Measurements"], rows))
    return found


def _group(told: Told) -> str:
    study, are_steps = told.run.study, all(place.workload for place in told.run.by_place)
    kinds = (are_steps, study.views is not None, study.published is not None, True)
    return _GROUPS[kinds.index(True)]
