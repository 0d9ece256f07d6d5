"""Results organised by machine, study and measurement (`MeasurementRow`, called a cell)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from gpubench import problems, registry
from gpubench.base.numbers import listing
from gpubench.evidence.pooling import MeasuredDevice, by_device, current, pool, started
from gpubench.evidence.ranking import Ranked, Variant, rank
from gpubench.evidence.records import Record
from gpubench.evidence.results import Results
from gpubench.report.axes import AXES, sizes
from gpubench.report.cells import InputAxes, MeasurementRow, grouped, shown
from gpubench.studies.study import Study, StudyError, load_study, parse_study


@dataclass(eq=False)
class StudyRun:
    """One machine's measurements of a study; replaced: number of older or failed records."""

    study: Study
    cells: dict[tuple[Variant, InputAxes], MeasurementRow]
    replaced: int = 0

    @property
    def records(self) -> list[Record]:
        """All records shown, in the order of measurement."""
        return [each.record for cell in self.cells.values() for each in cell.modes.values()]

    @property
    def timed(self) -> list[MeasurementRow]:
        """The cells with a time."""
        return [cell for cell in self.cells.values() if cell.ok]

    @cached_property
    def environments(self) -> list[dict[str, Any]]:
        """The environments of the measurements shown, without repeats."""
        every = (each for cell in self.cells.values() for each in cell.modes.values())
        found = (cell.ranked.measurement.timings[-1].results for cell in every)
        return list({id(each): each.environment for each in found}.values())

    @cached_property
    def has_graphs(self) -> bool:
        """Whether anything was timed as a graph, which gives pure device time."""
        return any(cell.is_timed("graph") for cell in self.timed)

    @cached_property
    def older(self) -> str:
        """A sentence on algorithms timed with older code than this version's, or ""."""
        old = dict.fromkeys(cell.subject.algorithm for cell in self.timed if cell.is_old)
        which = listing(old) if 0 < len(old) < 6 else f"{len(old)} algorithms"
        told = "" if all(cell.is_old for cell in self.timed) else f": {which}"
        return f"Times by older code{told}." if old else ""

    @property
    def clock(self) -> str:
        """Which times are compared, in a few words."""
        return "by device time" if self.has_graphs else "as launched"

    @property
    def unit(self) -> str:
        """The unit of displayed times: milliseconds, or the published unit if it is per record."""
        published = self.study.published.unit if self.study.published else "ms"
        return published if published == "us/record" else "ms"

    @cached_property
    def subjects(self) -> list[Variant]:
        """Subjects in the order of the study, followed by those that the study does not name."""
        named = [(s.algorithm, s.form) for s in self.study.subjects]
        rank = {pair: index for index, pair in reversed(list(enumerate(named)))}
        return sorted(self.by_subject, key=lambda s: rank.get((s.algorithm, s.form), len(named)))

    @cached_property
    def labels(self) -> dict[Variant, str]:
        """The shortest unambiguous name of each subject."""
        sets = Counter((s.algorithm, s.form) for s in self.subjects)
        forms = Counter(algorithm for algorithm, _ in sets)
        labels = {}
        for subject in self.subjects:
            words = [subject.algorithm]
            if forms[subject.algorithm] > 1:
                words.append(subject.form)
            if sets[subject.algorithm, subject.form] > 1:
                words += [f"{name}={value:.12g}" for name, value in subject.parameters]
            labels[subject] = " ".join(words)
        return labels

    def only(self, keep: Callable[[MeasurementRow], bool], mode: str = "") -> StudyRun:
        """Return a run of the cells that `keep` accepts and, given a mode, have it or are wrong."""
        cells = {}
        for key, cell in self.cells.items():
            if keep(cell) and (not mode or mode in cell.modes or cell.status == "wrong"):
                if mode:
                    cell = copy(cell if cell.status == "wrong" else cell.modes[mode])
                    cell.modes = {cell.mode: cell}
                cells[key] = cell
        return StudyRun(self.study, cells)

    @cached_property
    def by_place(self) -> dict[InputAxes, list[MeasurementRow]]:
        """The cells of each input."""
        return grouped(self.cells.values(), lambda cell: cell.place)

    @cached_property
    def by_subject(self) -> dict[Variant, list[MeasurementRow]]:
        """The cells of each subject."""
        return grouped(self.cells.values(), lambda cell: cell.subject)

    def ranked_at(self, place: InputAxes) -> list[MeasurementRow]:
        """Return the cells of an input that are ranked by device time, fastest first."""
        every = (c for cell in self.by_place.get(place, ()) for c in cell.modes.values())
        able = (cell for cell in every if cell.device_rank is not None)
        return sorted(able, key=lambda cell: (cell.device_rank, cell.median_ms))

    @cached_property
    def races(self) -> list[list[MeasurementRow]]:
        """Cells of equal work on one input, ranked by device time, fastest first."""
        by_work = (grouped(self.ranked_at(p), lambda c: c.ranked.group) for p in self.by_place)
        return [race for of_place in by_work for race in of_place.values()]

    def winner(self, cells: Collection[MeasurementRow]) -> Variant | None:
        """Return the subject that is fastest on the most inputs; ties go by the study's order."""
        able = (cell for cell in cells if cell.device_rank is not None)
        races = grouped(able, lambda cell: cell.place).values()
        wins = Counter(min(r, key=lambda cell: cell.standing.time.median).subject for r in races)
        return max(self.subjects, key=lambda s: wins[s]) if wins else None

    @cached_property
    def common(self) -> dict[str, Any]:
        """The most common value of each axis, at which tables fix the axes they do not show."""
        counts = {name: Counter(getattr(place, name) for place in self._usual) for name in AXES}
        return {name: values.most_common(1)[0][0] for name, values in counts.items()}

    @cached_property
    def kind(self) -> dict[str, Any]:
        """The most common values of the axes other than size, on inputs with the fewest ranks."""
        kinds = Counter(tuple(place.kind.items()) for place in self._usual)
        return dict(kinds.most_common(1)[0][0])

    @cached_property
    def _usual(self) -> list[InputAxes]:
        """Each cell's input, without those simulations that use more ranks than the minimum."""
        fewest = min((p.ranks for _, p in self.cells if p.ranks is not None), default=None)
        return [place for _, place in self.cells if place.ranks in (None, fewest)]

    def find(self, subject: Variant, **axes: object) -> MeasurementRow | None:
        """Return a subject's cell with these values and the common size, preferably of `kind`."""
        at = {name: self.common[name] for name in sizes()} | axes
        able = (cell for cell in self.by_subject.get(subject, ()) if cell.place.has(**at))
        return max(able, key=lambda cell: cell.place.kind == self.kind, default=None)


class Machine(NamedTuple):
    """One device of one machine, with its runs, oldest first; ranked: as returned by `rank`."""

    device: MeasuredDevice
    runs: list[Results]
    studies: list[StudyRun]
    ranked: list[list[Ranked]]

    @property
    def environment(self) -> dict[str, Any]:
        """The environment of the newest run."""
        return self.runs[-1].environment

    @property
    def environments(self) -> list[dict[str, Any]]:
        """The environments of all runs."""
        return [run.environment for run in self.runs]

    def current(self, study: str = "") -> int:
        """Return the number of times by this version's code, of one study or all."""
        runs = (run for run in self.studies if study in ("", run.study.name))
        cells = (cell for run in runs for cell in run.cells.values())
        return sum(each.ok and not each.is_old for cell in cells for each in cell.modes.values())

    @property
    def is_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return bool(self.environment["device"].get("is_cpu"))


def machines(results: Sequence[Results]) -> list[Machine]:
    """Group pooled results by device, GPUs before CPUs.

    The device with the most times by this version's code is first; ties go to the newest.
    """
    in_order = sorted(results, key=lambda each: started(each.environment))
    found = [_machine(device, runs) for device, runs in by_device(in_order).items()]
    found.sort(key=lambda machine: started(machine.environment), reverse=True)
    return sorted(found, key=lambda machine: (machine.is_cpu, -machine.current()))


def _machine(device: MeasuredDevice, runs: list[Results]) -> Machine:
    measured = pool(runs)
    ranked = rank(measured)
    ranks = {id(each.measurement): each for race in ranked for each in race}
    every = [MeasurementRow(ranks[id(each)]) for each in measured]
    studies = []
    for name, of_study in sorted(grouped(every, lambda cell: cell.study).items()):
        study, cells = _study_of(name, runs), {}
        replaced = sum(cell.ranked.measurement.replaced for cell in of_study)
        if study.views:  # a map must not mix versions of the code
            kept = {id(each) for each in current([cell.ranked.measurement for cell in of_study])}
            replaced += len(of_study) - len(kept)
            of_study = [cell for cell in of_study if id(cell.ranked.measurement) in kept]
        for key, own in grouped(of_study, lambda cell: (cell.subject, cell.place)).items():
            modes = {cell.mode: cell for cell in own}
            for cell in own:
                cell.modes = modes
            cells[key] = shown(own)
        studies.append(StudyRun(study, cells, replaced))
    return Machine(device, runs, studies, ranked)


def _study_of(name: str, runs: Sequence[Results]) -> Study:
    """Load a study; if the package does not ship it, from the newest text in its results.

    Of an invalid text, title and question are kept if its inputs are of another package's kinds.
    """
    if name in registry.studies():
        return load_study(name)
    texts = [run.study for run in runs if run.records and run.records[0].study == name]
    text = next((text for text in reversed(texts) if text is not None), None)
    title, why = name, ""
    if text is not None:
        try:
            return parse_study(name, text)
        except StudyError as error:
            why = f"The study in these results cannot be read: {error}."
            if any(each.kind not in problems.own_kinds() for each in runs[-1].records):
                data = tomllib.loads(text)
                title, why = str(data.get("title", name)), str(data.get("question", ""))
    return Study(name, title, None, None, why, 0, None, (), ())


def when(environments: Sequence[Mapping[str, Any]]) -> str:
    """Write the days and commits: "on 2025-01-31, commit 0123456", or from ... to ...."""
    dated = sorted((each for each in environments if each["started"]), key=started)
    if not dated:
        return "on an unknown day"
    (first, old), (last, new) = (
        (e["started"][:10], str(e.get("commit") or "unknown")[:7]) for e in (dated[0], dated[-1])
    )
    days = f"on {first}" if first == last else f"from {first} to {last}"
    return f"{days}, {f'commit {new}' if old == new else f'commits {old} to {new}'}"
