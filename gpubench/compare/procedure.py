"""How two codes are compared: looks at growing numbers of pairs, until nothing is open.

Pairs of processes are measured up to the first look. Cells about which that look can tell
something are done; those that it cannot are measured in more pairs, up to the next. All looks of
all cells share one risk, so that looking again does not raise false alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpubench.compare import files
from gpubench.compare.pairs import Code, Job, Pairs, describe
from gpubench.compare.verdict import Comparison, Judgement, judge
from gpubench.measure import clock
from gpubench.results import Results

LOOKS = (8, 12, 18, 27)  # pairs of processes measured at each look
CONFIDENCE = 0.99
THRESHOLD = {"gpu": 0.03, "cpu": 0.10}  # by what a device is, unless the user says


@dataclass
class Gathered:
    """What all pairs have measured so far: a results file of each process."""

    codes: tuple[Code, Code]
    environments: tuple[dict[str, Any], dict[str, Any]]
    results: tuple[list[Results], list[Results]] = field(default_factory=lambda: ([], []))

    def add(self, records: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Add what a pair measured."""
        for side in (0, 1):
            number = len(self.results[side])
            path = Path(f"{self.codes[side].name}-{number + 1}")
            mine = [{**record, "process": number} for record in records[side]]
            self.results[side].append(Results(self.environments[side], mine, path))

    def matched(self, force: bool) -> files.Matched:
        """Put together what both sides found of each cell; see files.match."""
        base, head = (
            files.Side(code.name, code.title, results)
            for code, results in zip(self.codes, self.results, strict=True)
        )
        return files.match(base, head, paired=True, force=force)


def compare(
    codes: tuple[Code, Code],
    job: Job,
    threshold: float | None,
    confidence: float,
    seconds: float,
    force: bool,
    on_pair: Callable[[int, int], None],
) -> tuple[Comparison, Gathered, files.Matched]:
    """Measure two codes side by side and judge them.

    threshold: None for the one that goes with the device. seconds: no further pair is begun after
    so long, but for those of the first look. on_pair: called with the number of pairs measured,
    and of cells about which nothing can be told yet.

    Raises UserError where they cannot be measured or compared.
    """
    end = clock.now() + seconds
    environments = tuple(describe(code, job.device) for code in codes)
    gathered = Gathered(codes, (environments[0], environments[1]))
    if threshold is None:
        threshold = THRESHOLD["cpu" if environments[0]["device"]["is_cpu"] else "gpu"]
    settled: dict[str, Judgement] = {}
    open_cells: list[str] | None = None
    with Pairs(codes, job) as pairs:
        for pairs_at_look in LOOKS:
            while len(gathered.results[0]) < pairs_at_look:
                if pairs_at_look > LOOKS[0] and clock.now() >= end:
                    break
                measured = pairs.measure(len(gathered.results[0]), open_cells)
                gathered.add(measured.records)
                on_pair(len(gathered.results[0]), len(open_cells or ()))
            matched = gathered.matched(force)
            judged = judge(matched.cells, threshold, confidence, len(LOOKS))
            found = {each.key: each for each in judged if each.verdict != "cannot tell"}
            settled = found | settled
            open_cells = [each.key for each in judged if each.key not in settled]
            if not open_cells or clock.now() >= end:
                break
    judgements = [settled.get(each.key, each) for each in judged]
    comparison = Comparison(
        judgements, threshold, confidence, len(LOOKS), matched.faults, matched.left_out
    )
    return comparison, gathered, matched
