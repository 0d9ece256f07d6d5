"""Calibrate the verdict: compare a code with itself, and with itself made slower.

Pairs of processes of one code are measured as `compare` measures them; then whole comparisons are
drawn from these pairs. A comparison draws pairs without putting back, gives base and head either
side of each pair by chance (neither is distinguished), and goes through the looks of
`compare.procedure`. Whatever it calls slower is a false alarm.

Slow-downs are put in twice. In the process: a variant of head that does extra launches which are
not counted, against a variant of base with batches as long. And in the numbers: head's times
are multiplied, to find the smallest slow-down that is found nine times in ten.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpubench.compare.files import name_of
from gpubench.compare.pairs import Code, Job, Pair, Pairs, describe
from gpubench.compare.procedure import LOOKS, threshold_on
from gpubench.compare.verdict import CLOCK_MS, Cell, judge_cell, log_ratio, risk
from gpubench.core.errors import UserError
from gpubench.evidence.calibration import Calibration, Measured, Rates, Verdicts
from gpubench.evidence.results import IDENTITY
from gpubench.measure import clock
from gpubench.studies.plan import cell_key

# Extra launches in so many: 5 % on a GPU, 15 % on a CPU.
INJECTED = {"gpu": (20, 1), "cpu": (20, 3)}
TO_SEARCH = 300  # of the comparisons, for each slow-down that is tried
POWER = 0.9
SLOWER = (
    *(0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12),
    *(0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0),
)
SEED = 20261121

Floats = NDArray[np.float64]


def calibrate(
    code: Code,
    job: Job,
    pairs: int,
    seconds: float,
    confidence: float,
    comparisons: int,
    on_pair: Callable[[int], None],
) -> Calibration:
    """Measure pairs of processes of one code, and draw comparisons from them.

    seconds: no further pair is begun after so long, but for those of the first look. comparisons:
    how many are drawn; they go through those looks for which there are pairs enough. on_pair:
    called with the number of pairs measured.

    Answers are checked before and after timing in the first pair, and in the others, which run the
    same code on the same inputs, before.

    Raises UserError for fewer pairs than the first look takes, and where they cannot be measured.
    """
    if pairs < LOOKS[0]:
        raise UserError(f"a comparison takes at least {LOOKS[0]} pairs: calibrate with these")
    deadline = clock.Deadline(seconds)
    environment = describe(code, job.device)
    kind = "cpu" if environment["device"]["is_cpu"] else "gpu"
    grain, extra = INJECTED[kind]
    variants = ((1, 0), (grain, 0)), ((1, 0), (grain, extra))
    job = replace(job, variants=variants)
    started: list[str] = []
    clock_ms: dict[str, float] = {}
    found: dict[str, list[Measured | None]] = {}
    with Pairs((code, code), job) as processes:
        for number in range(pairs):
            if number >= LOOKS[0] and deadline.has_passed:
                break
            started.append(clock.timestamp())
            pair = processes.measure(number)
            processes.job = replace(job, check_again=False)
            for name, (resolution_ms, measured) in _measured(pair).items():
                clock_ms[name] = max(resolution_ms, clock_ms.get(name, 0.0))
                found.setdefault(name, [None] * number).append(measured)
            for series in found.values():
                series += [None] * (number + 1 - len(series))
            on_pair(number + 1)
    rule = clock_ms, threshold_on(environment), confidence, LOOKS, comparisons
    verdicts = evaluate(found, *rule)
    return Calibration(environment, job.study, extra / grain, started, clock_ms, found, verdicts)


def again(
    earlier: Calibration, threshold: float | None, confidence: float, comparisons: int
) -> Calibration:
    """Return an earlier calibration with other comparisons drawn from its pairs."""
    if threshold is None:
        threshold = threshold_on(earlier.environment)
    rule = earlier.clock_ms, threshold, confidence, LOOKS, comparisons
    return replace(earlier, verdicts=evaluate(earlier.pairs, *rule))


def _measured(pair: Pair) -> dict[str, tuple[float, Measured]]:
    """Return the resolution of each cell that has all its times, and what was measured."""
    found = {}
    for base, head in itertools.product(*pair.records):
        if base["key"] != head["key"] or not base["status"] == head["status"] == "ok":
            continue
        key = cell_key({name: base[name] for name in IDENTITY})
        plain, slower = (side.get((key, 1)) for side in pair.variants)
        if plain and slower:
            measured = (
                base["median_ms"],
                math.exp(log_ratio(base["samples_ms"], head["samples_ms"])),
                math.exp(log_ratio(plain, slower)),
            )
            six_digits = Measured(*(float(f"{value:.6g}") for value in measured))
            found[name_of(base)] = CLOCK_MS / min(base["batch"], head["batch"]), six_digits
    return found


def evaluate(
    pairs: Mapping[str, Sequence[Measured | None]],
    clock_ms: Mapping[str, float],
    threshold: float,
    confidence: float,
    looks: Sequence[int],
    comparisons: int,
) -> Verdicts:
    """Draw whole comparisons from pairs of processes of one code, and count verdicts.

    pairs, clock_ms: see Calibration. A pair that lacks a cell is left out, and a look that takes
    more pairs than there are. Raises UserError where that leaves none.
    """
    names = list(pairs)
    complete = [
        number
        for number, several in enumerate(zip(*pairs.values(), strict=True))
        if all(each is not None for each in several)
    ]
    if len(complete) < looks[0]:
        raise UserError(
            f"{len(complete)} pairs have times for all cells, and {looks[0]} are needed"
        )
    alpha = risk(len(names), confidence, len(looks))  # as `compare` has it, with all its looks
    looks = [look for look in looks if look <= len(complete)]
    most = looks[-1]
    rng = np.random.default_rng(SEED)
    draws = [
        (rng.choice(complete, most, replace=False), rng.random(most) < 0.5)
        for _ in range(comparisons)
    ]
    # Those that follow each other in time, and have no pair in common.
    unchanged = np.zeros(most, bool)
    separate = [
        (np.array(complete[first : first + most]), unchanged)
        for first in range(0, len(complete) - most + 1, most)
    ]
    rule = _Rule(threshold, alpha, tuple(looks))
    called: dict[str, list[tuple[str, int]]] = {}
    cells: dict[str, Rates] = {}
    alarms = np.zeros(len(separate), bool)
    for name in names:
        base, head, slowed = np.log([_row(each) for each in pairs[name]]).T
        plain, slower = np.stack([base, base + head], 1), np.stack([base, base + slowed], 1)
        called[name] = [rule.verdict(plain, draw, clock_ms[name]) for draw in draws]
        alarms |= [rule.verdict(plain, d, clock_ms[name])[0] == "slower" for d in separate]
        # Sides cannot change where one of them is slower.
        found = [rule.verdict(slower, (draw, unchanged), clock_ms[name]) for draw, _ in draws]
        between = plain[complete, 1] - plain[complete, 0]
        cells[name] = Rates(
            false_alarms=_share(called[name], "slower"),
            cannot_tell=_share(called[name], "cannot tell"),
            slowed=_digits(math.expm1(np.median(slowed[complete]))),
            found=_share(found, "slower"),
            smallest=_smallest(rule, plain, draws[:TO_SEARCH], clock_ms[name]),
            between=_digits(between.std(ddof=1)),
            spread=_digits(plain[complete].std(axis=0, ddof=1).mean()),
        )
    by_comparison = list(zip(*called.values(), strict=True))
    is_alarm = [any(verdict == "slower" for verdict, _ in each) for each in by_comparison]
    is_open = [any(verdict == "cannot tell" for verdict, _ in each) for each in by_comparison]
    taken = [max(count for _, count in each) for each in by_comparison]
    return Verdicts(
        threshold=threshold,
        confidence=confidence,
        looks=tuple(looks),
        comparisons=comparisons,
        false_alarms=statistics.fmean(is_alarm),
        cannot_tell=statistics.fmean(o and not a for o, a in zip(is_open, is_alarm, strict=True)),
        separate=len(separate),
        separate_alarms=int(alarms.sum()),
        pairs_taken=(float(np.median(taken)), float(np.percentile(taken, 95))),
        cells=cells,
    )


def _row(each: Measured | None) -> tuple[float, float, float]:
    return (each.base_ms, each.ratio, each.slowed) if each is not None else (math.nan,) * 3


def _smallest(rule: _Rule, plain: Floats, draws: Sequence[Draw], clock_ms: float) -> float | None:
    """Return the smallest slow-down that is found nine times in ten, if any is."""

    def is_found(factor: float) -> bool:
        slowed = plain + np.array([0.0, math.log1p(factor)])
        # Sides change before one of them is slowed down, not after.
        changed = plain[:, ::-1] + np.array([0.0, math.log1p(factor)])
        verdicts = [rule.verdict(slowed, draw, clock_ms, changed) for draw in draws]
        return _share(verdicts, "slower") >= POWER

    first = bisect.bisect_left(SLOWER, True, key=is_found)
    return SLOWER[first] if first < len(SLOWER) else None


Draw = tuple[NDArray[np.int64], NDArray[np.bool_]]  # which pairs, and whether to change sides


@dataclass(frozen=True)
class _Rule:
    """The looks of a comparison at one cell."""

    threshold: float
    alpha: float
    looks: tuple[int, ...]

    def verdict(
        self, logs: Floats, draw: Draw, clock_ms: float, changed: Floats | None = None
    ) -> tuple[str, int]:
        """Return the verdict of a comparison, and the pairs that it took.

        logs: of medians in ms, base and head, shape (pairs, 2). changed: the same with sides
        changed; None for just that.
        """
        chosen, is_changed = draw
        other = logs[:, ::-1] if changed is None else changed
        base, head = np.exp(np.where(is_changed[:, None], other[chosen], logs[chosen])).T.tolist()
        verdict, taken = "", 0
        for taken in self.looks:
            ours, theirs = ([[ms] for ms in side[:taken]] for side in (base, head))
            cell = Cell("", ours, theirs, paired=True, clock_ms=clock_ms)
            verdict = judge_cell(cell, self.threshold, self.alpha).verdict
            if verdict != "cannot tell":
                break
        return verdict, taken


def _share(verdicts: Iterable[tuple[str, int]], wanted: str) -> float:
    return statistics.fmean(verdict == wanted for verdict, _ in verdicts)


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
