"""Judge whether head takes longer than base: an interval of the ratio for each cell, and a verdict.

Each process counts as one value, the median of its samples. docs/comparing.md describes the method,
its sources, and the simulations behind the choice.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm, t

from gpubench.base.numbers import percent
from gpubench.evidence.calibration import spread_of

Verdict = Literal["same", "faster", "slower", "cannot tell"]
RestsOn = Literal["processes", "calibration"]
Floats = NDArray[np.float64]
Known = float | None  # a value from calibration, if known

TRIM = 0.2
# Trimming may raise the chance of `_all_apart` to at most this, negligible for a thousand cells.
MODES_RISK = 1e-5
CLOCK_MS = 0.0005  # the resolution of events guaranteed by CUDA
SHORTEST_MS = 1e-9  # the shortest valid time
LEAST_DEVIATION = 1e-7  # of log times: below the resolution of results with six digits
NOT_IN_TURNS = "base and head were not measured in turns, and whole runs may be offset: "
WIDEST = 20.0  # cap on log ratios, which keeps limits finite


class ComparedTimes(NamedTuple):
    """The processes' measurements of one cell on both sides.

    name: display name, the same in every comparison. base, head: samples of each process in
    milliseconds, or only its median. paired: the i-th process of base ran together with the i-th of
    head, samples interleaved. clock_ms: the assumed resolution of a sample; samples that show a
    finer one override it. key: identifies the cell to programs, see studies.plan.cell_key.
    in_turns: whether processes of both sides alternated; else each side may be offset as a whole.
    """

    name: str
    base: Sequence[Sequence[float]]
    head: Sequence[Sequence[float]]
    paired: bool = False
    clock_ms: float = CLOCK_MS
    key: str = ""
    in_turns: bool = True


@dataclass(frozen=True)
class Judgement:
    """The judgement of one cell.

    base_ms, head_ms: centre of the process medians. ratio: head over base, or None. ratio_low,
    ratio_high: its interval, simultaneous for all cells of the comparison, or None. rests_on: the
    source of the interval's spread. spread_between: standard deviation of log medians between
    processes, or of log ratios between pairs; None if there are too few. reason: why the verdict is
    inconclusive, else None. key: see ComparedTimes.
    """

    name: str
    key: str
    verdict: Verdict
    base_ms: float
    head_ms: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    rests_on: RestsOn | None = None
    paired: bool = False
    in_turns: bool = True
    spread_between: float | None = None
    reason: str | None = None
    base_processes: int = 0
    head_processes: int = 0


def judge(
    cells: Sequence[ComparedTimes],
    threshold: float = 0.03,
    confidence: float = 0.99,
    looks: int = 1,
    spreads: Mapping[str, float] = {},
    between_runs: Mapping[str, float] = {},
) -> list[Judgement]:
    """Judge each cell; the confidence is that of all intervals jointly.

    threshold: the relative change that matters. looks: maximum number of looks at the data; pass
        the same at each look. spreads: calibrated standard deviation of log process medians, by
        name of the cell (`spread_of`), used if there are too few processes.
    between_runs: calibrated standard deviation of the log offset of a whole run, by name of the
        cell, used if the sides did not alternate; a cell without it is then inconclusive.
    """
    alpha = risk(max(1, len(cells)), confidence, looks)
    return [
        judge_cell(c, threshold, alpha, spread_of(spreads, c.name), spread_of(between_runs, c.name))
        for c in cells
    ]


def risk(cells: int, confidence: float, looks: int) -> float:
    """Return the probability with which one interval at one look may miss (Bonferroni)."""
    return (1 - confidence) / (cells * looks)


def next_enough(processes: int, paired: bool, alpha: float) -> int:
    """Return the smallest number of processes per side, at least `processes`, for a verdict."""
    return next(n for n in itertools.count(processes) if are_enough(n, paired, alpha))


def are_enough(processes: int, paired: bool, alpha: float) -> bool:
    """Return whether this many processes per side support an interval with risk alpha.

    If times are bimodal, the chance that base is all in one mode and head all in the other must not
    exceed alpha. If the sides have different numbers of processes, pass the smaller.
    """
    return processes > 1 and _all_apart(processes, trimmed(processes, paired), paired) <= alpha


@cache
def trimmed(processes: int, paired: bool) -> int:
    """Return the number of values trimmed from either end.

    It is independent of the risk, so comparing more cells never narrows an interval.
    """
    cuts = range(int(TRIM * processes), 0, -1)
    return next((cut for cut in cuts if _all_apart(processes, cut, paired) <= MODES_RISK), 0)


@cache
def _all_apart(processes: int, cut: int, paired: bool) -> float:
    """Return the chance that bimodal times separate: base in one mode, head in the other.

    Up to `cut` processes of each side may be exceptions. Equally likely modes maximise the chance.
    """
    if paired:
        return 2 * float(binom.sf(processes - cut - 1, processes, 0.25))
    return 2 * float(binom.sf(processes - cut - 1, processes, 0.5)) ** 2


def interval(base: Floats, head: Floats, paired: bool, alpha: float) -> tuple[Floats, Floats]:
    """Return centre and half width of an interval of the log ratio, for many cells at once.

    base, head: logarithms of process medians, float64 of shape (..., processes); at least two.
    """
    if paired:
        centre, variance, freedom = _trimmed_mean(head - base, _cut(head, head, paired))
    else:
        ours, base_variance, base_freedom = _trimmed_mean(base, _cut(base, head, paired))
        theirs, head_variance, head_freedom = _trimmed_mean(head, _cut(head, base, paired))
        centre, variance = theirs - ours, base_variance + head_variance
        if base.shape[-1] == head.shape[-1]:
            of_sides = base_variance**2 / base_freedom + head_variance**2 / head_freedom
            freedom = variance**2 / of_sides
        else:  # Welch gives too many degrees of freedom if the smaller set spreads more
            freedom = min(base_freedom, head_freedom)
    return centre, t.isf(alpha / 2, freedom) * np.sqrt(variance)


def _cut(logs: Floats, others: Floats, paired: bool) -> int:
    """Return how many of a side's values to trim at either end: the same fraction on both sides."""
    count, fewer = int(logs.shape[-1]), int(min(logs.shape[-1], others.shape[-1]))
    return trimmed(fewer, paired) * count // fewer


def _inner(ordered: Floats, cut: int) -> Floats:
    return ordered[..., cut : ordered.shape[-1] - cut]


def _trimmed_mean(logs: Floats, cut: int) -> tuple[Floats, Floats, Any]:
    """Return the trimmed mean along the last axis, its variance, and the degrees of freedom."""
    count = logs.shape[-1]
    kept = count - 2 * cut
    ordered = np.sort(logs, axis=-1)
    inner = _inner(ordered, cut)
    winsorised = np.clip(ordered, inner[..., :1], inner[..., -1:])
    deviation = np.maximum(winsorised.std(axis=-1, ddof=1), LEAST_DEVIATION)
    variance = deviation**2 * (count - 1) / (kept * (kept - 1))
    # Yuen uses (values kept - 1) degrees of freedom, but then intervals miss too often if the risk
    # is small: up to twice as often at 1e-4. Subtracting cut / 2 corrects that.
    return inner.mean(axis=-1), variance, kept - 1 - cut / 2


def judge_cell(
    cell: ComparedTimes, threshold: float, alpha: float, spread: Known, between_runs: Known
) -> Judgement:
    """Judge one cell by an interval that misses with probability alpha; see `judge`."""
    base, head = (np.array([statistics.median(s) for s in side]) for side in (cell.base, cell.head))
    judged = Judgement(
        cell.name, cell.key, "cannot tell",
        _centre_ms(base, head, cell.paired), _centre_ms(head, base, cell.paired),
        paired=cell.paired, in_turns=cell.in_turns,
        reason="takes less time than the clock can tell",
        base_processes=len(base), head_processes=len(head),
    )  # fmt: skip
    if min(base.min(), head.min()) < SHORTEST_MS:
        return judged
    logs = np.log(base), np.log(head)
    if cell.paired:
        turns = [log_ratio(*pair) for pair in zip(cell.base, cell.head, strict=True)]
        logs = logs[0], logs[0] + np.array(turns)
    offset = 0.0 if cell.in_turns else between_runs
    rests_on, centre, half = _estimate(*logs, cell.paired, alpha, spread, offset)
    between = _between(*logs, cell.paired)
    judged = replace(judged, spread_between=between, rests_on=rests_on, ratio=math.exp(centre))
    fewer = min(len(base), len(head))
    needed = next_enough(fewer, cell.paired, alpha)
    too_few = _too_few(len(base), len(head), needed)
    if half is None:
        return replace(judged, reason=too_few)
    samples = np.concatenate([np.asarray(s, float) for s in (*cell.base, *cell.head)])
    centres = np.array(judged.base_ms), np.array(judged.head_ms)
    half = float(_with_clock(np.array(half), samples, cell.clock_ms, *centres))
    low, high = math.exp(centre - half), math.exp(centre + half)
    judged = replace(judged, ratio_low=low, ratio_high=high)
    if offset is None:
        return replace(judged, reason=NOT_IN_TURNS + _how(needed))
    if spread is None and needed > fewer:
        return replace(judged, reason=too_few)
    verdict = cast(Verdict, verdicts_of(np.array(centre), np.array(half), threshold).item())
    why = _why(math.exp(centre), low, high, threshold)
    why += "" if cell.in_turns else "; not measured in turns"
    return replace(judged, verdict=verdict, reason=why if verdict == "cannot tell" else None)


def verdicts_of_pairs(
    base: Floats, head: Floats, clock_ms: float, threshold: float, alpha: float
) -> NDArray[np.str_]:
    """Return the verdicts of `judge_cell` on many cells, given only the medians of pairs.

    base, head: logarithms of the medians in ms, float64 of shape (cells, pairs), at least two.
    """
    times = np.exp(np.concatenate([base, head], axis=1))
    if not are_enough(base.shape[1], True, alpha):
        return np.full(len(base), "cannot tell")
    centre, half = interval(base, head, True, alpha)
    cut = _cut(base, head, True)
    centres = (np.exp(_inner(np.sort(logs), cut).mean(axis=1)) for logs in (base, head))
    found = verdicts_of(centre, _with_clock(half, times, clock_ms, *centres), threshold)
    return np.where(times.min(axis=1) < SHORTEST_MS, "cannot tell", found)


def verdicts_of(centre: Floats, half: Floats, threshold: float) -> NDArray[np.str_]:
    """Return the verdicts for intervals of log ratios."""
    most = 1 + threshold
    ratio, low, high = np.exp(centre), np.exp(centre - half), np.exp(centre + half)
    conditions = [
        (low > 1 / most) & (high < most),
        (low > 1) & (ratio > most),
        (high < 1) & (ratio < 1 / most),
    ]
    return np.select(conditions, ["same", "slower", "faster"], "cannot tell")


def _with_clock(
    half: Floats, times_ms: Floats, clock_ms: float, base_ms: Floats, head_ms: Floats
) -> Floats:
    """Return half widths extended by half a clock step of base and half a step of head.

    times_ms: times of all samples, along the last axis; they may reveal a finer step than clock_ms.
    """
    steps = np.diff(np.sort(times_ms, axis=-1), axis=-1)
    step = np.where(steps > 0, steps, clock_ms).min(axis=-1, initial=clock_ms)
    # A cap keeps limits finite; a ratio with errors of orders of magnitude is unknown anyway.
    wide: Floats = np.minimum(half + step / 2 * (1 / base_ms + 1 / head_ms), WIDEST)
    return wide


def log_ratio(base: Sequence[float], head: Sequence[float]) -> float:
    """Return the log ratio of one pair: the median of its turns' log ratios.

    If samples are missing, turns cannot be matched: it is the log ratio of the medians instead.
    """
    if len(base) == len(head) and min(*base, *head) >= SHORTEST_MS:
        turns = zip(base, head, strict=True)
        return statistics.median(math.log(theirs / ours) for ours, theirs in turns)
    return math.log(statistics.median(head) / statistics.median(base))


def _estimate(
    base: Floats, head: Floats, paired: bool, alpha: float, spread: Known, offset: Known
) -> tuple[RestsOn | None, float, float | None]:
    """Return the source of the log ratio's interval, its centre, and its half width.

    base, head: logarithms of process medians. spread: calibrated standard deviation between
    processes, used if there are too few. offset: calibrated deviation of a whole run's offset.
    """
    fewer = min(len(base), len(head))
    quantile = float(norm.isf(alpha / 2))
    if are_enough(fewer, paired, alpha) or (spread is None and fewer > 1):
        centre, half = interval(base, head, paired, alpha)
        wider = math.hypot(half, quantile * math.sqrt(2) * (offset or 0.0))
        return "calibration" if offset else "processes", float(centre), wider
    centre = head.mean() - base.mean()
    if spread is None:
        return None, float(centre), None
    seen = (_between(base, head, paired) or 0.0) / (math.sqrt(2) if paired else 1)
    if offset == 0:
        error = max(spread, seen) * math.sqrt(1 / len(base) + 1 / len(head))
    else:  # a side counts as one process: its calibrated spread includes the offset
        error = max(spread, seen, offset or 0.0) * math.sqrt(2)
    return "calibration", float(centre), quantile * error


def _why(ratio: float, low: float, high: float, threshold: float) -> str:
    """Explain why an interval gives no verdict."""
    word = "slower" if ratio > 1 else "faster"
    if low > 1 or high < 1:
        return f"{word}, but whether by more than {percent(threshold)} is open"
    known = f"known to {percent(math.sqrt(high / low) - 1)} only"
    if max(ratio, 1 / ratio) > 1 + threshold:
        return f"seems {word}, but that may be chance: {known}"
    return f"{known}, and {percent(threshold)} are asked"


def _too_few(base: int, head: int, needed: int) -> str:
    if min(base, head) > 1:
        return f"too few processes: {min(base, head)} a side, and {needed} are needed"
    few = "one process each" if max(base, head) == 1 else "one process on a side"
    return f"{few}, and no calibration of this machine: {_how(needed)}"


def _how(needed: int) -> str:
    return (
        f"measure {needed} processes a side in turns (`gpubench run STUDY --out before/1`, then"
        " `--out after/1`, `--out before/2` and so on), or compare commits"
    )


def _centre_ms(own: Floats, other: Floats, paired: bool) -> float:
    """Return the centre of process medians: the trimmed mean of logarithms, as in the interval."""
    if own.min() < SHORTEST_MS:
        return float(np.median(own))
    return float(np.exp(np.log(_inner(np.sort(own), _cut(own, other, paired))).mean()))


def _between(base: Floats, head: Floats, paired: bool) -> float | None:
    """Return the standard deviation of pairs' log ratios; if unpaired, of log medians (pooled)."""
    sides: Sequence[Floats] = (head - base,) if paired else (base, head)
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    freedom = sum(len(side) - 1 for side in sides)
    return math.sqrt(squares / freedom) if freedom else None
