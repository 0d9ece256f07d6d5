"""How two codes are compared: looks at growing numbers of pairs, until nothing is open.

Pairs of processes are measured up to the first look. Cells about which that look can tell
something are done; those that it cannot are measured in more pairs, up to the next. All looks of
all cells share one risk, so that looking again does not raise false alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpubench.compare import estimate, files
from gpubench.compare.pairs import Code, Job, Pair, Pairs, describe
from gpubench.compare.verdict import Comparison, Judgement, judge
from gpubench.core import registry
from gpubench.core.errors import UserError
from gpubench.core.writing import Lock
from gpubench.evidence.calibration import spreads
from gpubench.evidence.results import Results, Store
from gpubench.measure import clock

LOOKS = (8, 12, 18, 27)  # pairs of processes measured at each look
THRESHOLD = {"gpu": 0.03, "cpu": 0.10}  # by what a device is, unless the user says


@dataclass
class Gathered:
    """What all pairs have measured so far: a results file of each process.

    keep: folder in which these files are written; None for nowhere. text: of the study's file,
    where the package does not ship it.
    """

    codes: tuple[Code, Code]
    environments: tuple[dict[str, Any], dict[str, Any]]
    keep: Path | None = None
    text: str | None = None
    results: tuple[list[Results], list[Results]] = field(default_factory=lambda: ([], []))

    @property
    def pairs(self) -> int:
        """How many there are."""
        return len(self.results[0])

    def add(self, pair: Pair) -> None:
        """Add what a pair measured."""
        number = self.pairs + 1
        for side in (0, 1):
            name = f"{self.codes[side].name}/{number:02}.json"
            records = pair.records[side]
            if self.keep is not None:
                with Store(self.keep / name, self.environments[side], self.text) as store:
                    store.add(records)
            self.results[side].append(Results(self.environments[side], records, Path(name)))

    def matched(self, force: bool) -> files.Matched:
        """Put together what both sides found of each cell; see files.match."""
        base, head = (
            files.Side(code.name, code.title, results)
            for code, results in zip(self.codes, self.results, strict=True)
        )
        return files.match(base, head, paired=True, force=force)


@dataclass(frozen=True)
class Found:
    """What a comparison found. base, head: what the sides are called."""

    comparison: Comparison
    matched: files.Matched
    base: str
    head: str


def threshold_on(environment: Mapping[str, Any]) -> float:
    """Return the relative change that matters on a device, unless the user says."""
    return THRESHOLD["cpu" if environment["device"].get("is_cpu") else "gpu"]


def compare_files(
    base: Path, head: Path, threshold: float | None, confidence: float, force: bool
) -> Found:
    """Judge what results files hold.

    Where a side has too few processes, the spread between them is that of a calibration, if this
    machine has one. Raises UserError for what is no results, or cannot be compared.
    """
    sides = files.load_side("base", base), files.load_side("head", head)
    matched = files.match(*sides, force=force)
    environments = [each.environment for side in sides for each in side.results]
    machines = {environment["machine"] for environment in environments}
    known = spreads(machines.pop()) if len(machines) == 1 else {}
    if threshold is None:
        threshold = threshold_on(environments[0])
    judged = judge(matched.cells, threshold, confidence, spreads=known)
    comparison = Comparison(judged, threshold, confidence, 1, matched.faults, matched.left_out)
    return Found(comparison, matched, str(base), str(head))


def locked(keep: Path | None) -> AbstractContextManager[object]:
    """Keep other comparisons out of a folder; raises UserError where one is at work in it."""
    if keep is None:
        return nullcontext()
    return Lock(
        keep / ".compare.lock", f"another process compares into {keep}: name another folder"
    )


def compare_codes(
    codes: tuple[Code, Code],
    job: Job,
    threshold: float | None,
    confidence: float,
    seconds: float,
    force: bool,
    keep: Path | None,
    on_pair: Callable[[int, int], None],
    only: Collection[str] | None = None,
    on_begin: Callable[[str], None] | None = None,
) -> Found:
    """Measure two codes side by side and judge them.

    threshold: None for the one that goes with the device. seconds: no further pair is begun after
    so long, but for those of the first look. keep: folder in which a results file of each process
    is written. on_pair: called with the number of pairs measured, and of cells about which nothing
    can be told yet. only: keys of the cells that are measured; None for all of the job. on_begin:
    called once with how long it will take, in words.

    Raises UserError where they cannot be measured or compared, and where `keep` holds an earlier
    comparison.
    """
    if keep is not None and any((keep / code.name).exists() for code in codes):
        raise UserError(f"{keep} holds an earlier comparison: name another folder")
    deadline = clock.Deadline(seconds)
    base, head = (describe(code, job.device) for code in codes)
    if on_begin is not None:
        on_begin(estimate.in_words(job, base, LOOKS, seconds, only))
    text = None if job.study in registry.studies() else job.text
    gathered = Gathered(codes, (base, head), keep, text)
    if threshold is None:
        threshold = threshold_on(base)
    settled: dict[str, Judgement] = {}
    open_cells = only
    with Pairs(codes, job) as pairs:
        for pairs_at_look in LOOKS:
            while gathered.pairs < pairs_at_look:
                if pairs_at_look > LOOKS[0] and deadline.has_passed:
                    break
                gathered.add(pairs.measure(gathered.pairs, open_cells))
                if gathered.pairs == 1:
                    gathered.matched(force)  # what cannot be compared is refused at once
                on_pair(gathered.pairs, len(open_cells or ()))
            matched = gathered.matched(force)
            judged = judge(matched.cells, threshold, confidence, len(LOOKS))
            told = {each.key: each for each in judged if each.verdict != "cannot tell"}
            settled = told | settled
            open_cells = [each.key for each in judged if each.key not in settled]
            if not open_cells or deadline.has_passed:
                break
    comparison = Comparison(
        [settled.get(each.key, each) for each in judged],
        threshold, confidence, len(LOOKS), matched.faults, matched.left_out,
    )  # fmt: skip
    return Found(comparison, matched, codes[0].title, codes[1].title)


@dataclass(frozen=True)
class Culprit:
    """Where a slow-down came in.

    after: the last commit known to be as fast as the good one. commit: the first known to be
    slower. between: commits of which nothing could be told. found: the last comparison that called
    a commit slower.
    """

    after: str
    commit: str
    between: Sequence[str]
    found: Found


def bisect(
    commits: Sequence[str],
    compare_with: Callable[[str, Collection[str] | None], Found],
    on_verdict: Callable[[str, str], None],
) -> Culprit | Found:
    """Find the commit that made something slower; return what `compare` found where nothing is.

    commits: from the good one to the bad one. compare_with: compares a commit with the good one,
    given the keys of the cells to measure, or None for all. on_verdict: called with each commit
    and its verdict.
    """
    bad = compare_with(commits[-1], None)
    on_verdict(commits[-1], bad.comparison.verdict)
    slower = [each.key for each in bad.comparison.judgements if each.verdict == "slower"]
    if not slower:
        return bad
    low, high = 0, len(commits) - 1
    unknown: set[int] = set()
    while candidates := [index for index in range(low + 1, high) if index not in unknown]:
        middle = min(candidates, key=lambda index: abs(2 * index - low - high))
        found = compare_with(commits[middle], slower)
        on_verdict(commits[middle], found.comparison.verdict)
        if found.comparison.verdict == "slower":
            high, bad = middle, found
        elif found.comparison.exit_code == 0:
            low = middle
        else:
            unknown.add(middle)
    return Culprit(commits[low], commits[high], commits[low + 1 : high], bad)
