"""Compare two codes: look at growing numbers of pairs until no cell is inconclusive.

Cells that are inconclusive at a look are measured in more pairs, up to the next look. All looks at
all cells share one total risk, so repeated looks do not increase false alarms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.compare import files
from gpubench.compare.pairs import Code, ComparedJob, ProcessPairs, describe
from gpubench.compare.verdict import Judgement, Verdict, judge
from gpubench.core.algorithm import BACKENDS
from gpubench.evidence.calibration import spreads
from gpubench.evidence.files import load_results
from gpubench.evidence.pooling import started
from gpubench.evidence.results import Results
from gpubench.measure import clock

LOOKS = (8, 12, 18, 27)  # total pairs of processes measured before each look
# Seconds to start a pair of processes; seconds per cell and pair (measured: 0.56 s on an H200,
# 0.75 s on two cores of a CPU).
START_S, CELL_S = 3.0, 0.6
THRESHOLD = {"gpu": 0.03, "cpu": 0.10}  # by kind of device, unless the user sets it


@dataclass(frozen=True)
class Comparison:
    """The findings of a comparison, and its overall verdict.

    looks: maximum number of looks at the data. base, head: names of the sides.
    """

    matched: files.Matched
    judgements: Sequence[Judgement]
    threshold: float
    confidence: float
    looks: int = 1
    base: str = "base"
    head: str = "head"

    def faults(self, kind: files.FaultKind) -> list[files.Fault]:
        """Return the cells with a fault of a kind."""
        return [fault for fault in self.matched.faults if fault.kind == kind]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """The number of cells with each verdict."""
        found = Counter(judgement.verdict for judgement in self.judgements)
        order: tuple[Verdict, ...] = ("slower", "cannot tell", "faster", "same")
        return {verdict: found[verdict] for verdict in order}

    @property
    def verdict(self) -> Literal["broken", "wrong", Verdict]:
        """The first of broken, slower, wrong, cannot tell, faster, same that holds for any cell."""
        kinds: tuple[Any, ...] = ("broken", "slower", "wrong")
        held = {k: len(self.faults(k)) for k in kinds} | dict(self.counts)
        return next((verdict for verdict, count in held.items() if count), "same")

    @property
    def exit_code(self) -> int:
        """0 same or faster, 1 slower or broken, 2 wrong as before, 3 inconclusive."""
        return {"broken": 1, "slower": 1, "wrong": 2, "cannot tell": 3}.get(self.verdict, 0)


def threshold_on(environment: Mapping[str, Any]) -> float:
    """Return the default relative change that matters on a device."""
    return THRESHOLD["cpu" if environment["device"].get("is_cpu") else "gpu"]


def compare_files(
    base: Path, head: Path, threshold: float | None, confidence: float, force: bool
) -> Comparison:
    """Judge results files.

    The machine's calibrations supply missing spreads: between processes and, if they lasted at
    least as long as these runs, between runs. Raises UserError if there is nothing to compare.
    """
    make = "gpubench run STUDY --out {}".format
    ours, theirs = (files.Side(str(p), load_results([p], make(p))) for p in (base, head))
    matched = files.match(ours, theirs, force=force)
    environments = [each.environment for side in (ours, theirs) for each in side.results]
    starts = [started(environment) for environment in environments]
    machine, *others = {environment["machine"] for environment in environments}
    leasts = timedelta(0), max(starts) - min(starts)
    known, between_runs = ({} if others else spreads(machine, least) for least in leasts)
    threshold = threshold_on(environments[0]) if threshold is None else threshold
    judged = judge(matched.cells, threshold, confidence, 1, known, between_runs)
    return Comparison(matched, judged, threshold, confidence, 1, str(base), str(head))


def compare_codes(
    codes: tuple[Code, Code],
    job: ComparedJob,
    threshold: float | None,
    confidence: float,
    seconds: float,
    force: bool,
    on_begin: Callable[[str], None],
    on_pair: Callable[[int, int], None],
) -> Comparison:
    """Measure two codes side by side and judge them.

    threshold: None for the device's default. seconds: after this time, no further pair is started
    except for the first look. on_begin: called before measuring, with the expected duration.
    on_pair: called with the number of pairs measured and the number of inconclusive cells.
    Raises UserError where measuring or comparing is impossible.
    """
    deadline = clock.Deadline(seconds)
    environments = [describe(code, job.device) for code in codes]
    if not (cells := cells_of(job, environments[1]["device"])):
        raise UserError(f"{job.study} measures nothing of what was chosen on this device")
    on_begin(how_long(cells, seconds))
    threshold = threshold_on(environments[0]) if threshold is None else threshold
    processes: tuple[list[Results], list[Results]] = ([], [])
    ours, theirs = map(files.Side, (code.title for code in codes), processes)
    settled: dict[str, Judgement] = {}
    open_cells: Collection[str] | None = None  # None: all cells of the job
    with ProcessPairs(codes, job) as pairs:
        for pairs_at_look in LOOKS:
            while (count := len(processes[0])) < pairs_at_look:
                if pairs_at_look > LOOKS[0] and deadline.has_passed:
                    break
                records = pairs.measure(count, open_cells).records
                for side in (0, 1):
                    path = Path(codes[side].name, f"{count + 1:02}.json")
                    processes[side].append(Results(environments[side], records[side], path))
                if count == 0:  # incomparable codes are rejected at once
                    files.match(ours, theirs, paired=True, force=force)
                on_pair(count + 1, len(open_cells or ()))
            matched = files.match(ours, theirs, paired=True, force=force)
            judged = judge(matched.cells, threshold, confidence, len(LOOKS))
            settled = {j.key: j for j in judged if j.verdict != "cannot tell"} | settled
            open_cells = [each.key for each in judged if each.key not in settled]
            if not open_cells or deadline.has_passed:
                break
    judged = [settled.get(each.key, each) for each in judged]
    return Comparison(matched, judged, threshold, confidence, len(LOOKS), ours.name, theirs.name)


def cells_of(job: ComparedJob, device: Mapping[str, Any]) -> int:
    """Count a job's measurements on a device, described as in a results file.

    As in the worker, graphs replace plain launches, and other back ends are ignored.
    """
    absent = BACKENDS - {device["backend"]}
    return sum(
        (mode != "hot" or "graph" not in group.sweep.modes)
        and not absent & group.sweep.requires
        and not absent & registry.find_algorithm(subject.algorithm).forms[subject.form].requires
        for group in job.plan(bool(device.get("is_cpu")))
        for subject, mode in group.items
    )


def how_long(cells: int, seconds: float) -> str:
    """Describe the duration of a comparison that starts no pair after the given seconds."""
    first, most = (look * (START_S + cells * CELL_S) for look in (LOOKS[0], LOOKS[-1]))
    longest = max(first, min(most, seconds))
    more = f"; up to {longest / 60:.1f} min where cells are inconclusive" if longest > first else ""
    return f"{cells} cells in {LOOKS[0]} pairs of processes: about {first / 60:.1f} min{more}"
