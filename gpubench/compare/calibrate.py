"""Calibrate the verdict: compare a code with itself, and with itself made slower.

docs/comparing.md describes the method. The slower code is a variant of head with extra, uncounted
launches, compared with a variant of base whose batch sizes are multiples of the same number.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.compare.files import name_of
from gpubench.compare.pairs import Code, ComparedJob, Pair, ProcessPairs, describe
from gpubench.compare.procedure import LOOKS, threshold_on
from gpubench.compare.verdict import CLOCK_MS, Floats, log_ratio, risk, verdicts_of_pairs
from gpubench.evidence.bounds import Environment
from gpubench.evidence.calibration import Calibration, Measured, Rates, Verdicts
from gpubench.evidence.records import Ok, identity_of
from gpubench.measure import clock
from gpubench.studies.plan import cell_key

# (n, extra): extra launches for each n counted launches: 5 % on a GPU, 15 % on a CPU.
INJECTED = {"gpu": (20, 1), "cpu": (20, 3)}
TO_SEARCH = 300  # comparisons simulated per slow-down, to search for the smallest detectable one
POWER = 0.9
SLOWER = (
    *(0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12),
    *(0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0),
)
SEED = 20261121

# (pairs of each comparison, mask of pairs with swapped sides), both of shape (comparisons, pairs)
Draws = tuple[NDArray[np.int64], NDArray[np.bool_]]


def calibrate(
    code: Code,
    job: ComparedJob,
    pairs: int,
    seconds: float,
    threshold: float | None,
    confidence: float,
    comparisons: int,
    on_pair: Callable[[int], None],
) -> Calibration:
    """Measure pairs of processes of one code, and draw comparisons from them.

    seconds, threshold: as in `compare_codes`. comparisons: the number to draw; they omit looks that
    need more pairs than were measured. on_pair: called with the number of pairs measured so far.
    Raises UserError for fewer pairs than the first look needs, and if measuring fails.
    """
    if pairs < LOOKS[0]:
        raise UserError(f"a comparison takes at least {LOOKS[0]} pairs: calibrate with these")
    deadline = clock.Deadline(seconds)
    environment = describe(code, job.device)
    grain, extra = INJECTED["cpu" if environment["device"]["is_cpu"] else "gpu"]
    job = replace(job, variants=(((1, 0), (grain, 0)), ((1, 0), (grain, extra))))
    started: list[str] = []
    measured: list[dict[str, tuple[float, Measured]]] = []
    with ProcessPairs((code, code), job) as processes:
        for number in range(pairs):
            if number >= LOOKS[0] and deadline.has_passed:
                break
            started.append(clock.timestamp())
            measured.append(_measured(processes.measure(number)))
            on_pair(number + 1)
    names = dict.fromkeys(name for each in measured for name in each)
    clock_ms = {name: max(each[name][0] for each in measured if name in each) for name in names}
    found = {name: [each[name][1] if name in each else None for each in measured] for name in names}
    least = threshold_on(environment) if threshold is None else threshold
    rule = clock_ms, least, confidence, LOOKS, comparisons
    told, verdicts = Environment(environment), evaluate(found, *rule)
    return Calibration(told, job.study, extra / grain, started, clock_ms, found, verdicts)


def _measured(pair: Pair) -> dict[str, tuple[float, Measured]]:
    """Return the clock resolution and the times of each cell that has all its times."""
    found = {}
    for base, head in itertools.product(*pair.records):
        if base.key != head.key or not (isinstance(base, Ok) and isinstance(head, Ok)):
            continue
        key = cell_key(identity_of(base))
        plain, slower = (side.get((key, 1)) for side in pair.variants)
        if plain and slower:
            logs = log_ratio(base.samples_ms, head.samples_ms), log_ratio(plain, slower)
            measured = (base.median_ms, *map(math.exp, logs))
            six_digits = Measured(*(float(f"{value:.6g}") for value in measured))
            found[name_of(base)] = CLOCK_MS / min(base.batch, head.batch), six_digits
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

    pairs, clock_ms: see Calibration. Pairs that lack a cell are left out, as are looks that need
    more pairs than remain. Raises UserError if too few remain for the first look.
    """
    together = enumerate(zip(*pairs.values(), strict=True))
    complete = [number for number, several in together if None not in several]
    if (count := len(complete)) < looks[0]:
        raise UserError(f"{count} pairs have times for all cells, and {looks[0]} are needed")
    alpha = risk(len(pairs), confidence, len(looks))  # as in `compare`, with all its looks
    rule = _Rule(threshold, alpha, tuple(look for look in looks if look <= len(complete)))
    most, rng = rule.looks[-1], np.random.default_rng(SEED)
    choose = partial(rng.choice, complete, most, replace=False)
    both = [(choose(), rng.random(most) < 0.5) for _ in range(comparisons)]
    chosen, is_changed = map(np.array, zip(*both, strict=True))
    first = chosen[:TO_SEARCH], is_changed[:TO_SEARCH]
    # Comparisons without a common pair: each takes the next `most` pairs in order.
    in_order = np.array(complete[: len(complete) // most * most]).reshape(-1, most)
    separate = in_order, np.zeros(in_order.shape, bool)
    called, taken, alarms, cells = [], [], [], {}
    for name, series in pairs.items():
        rows = [(math.nan,) * 3 if each is None else astuple(each) for each in series]
        base, head, slowed = np.log(rows).T
        plain, slower = np.stack([base, base + head], 1), np.stack([base, base + slowed], 1)
        verdicts, counts = rule.verdicts(plain, (chosen, is_changed), clock_ms[name])
        called.append(verdicts)
        taken.append(counts)
        alarms.append(rule.verdicts(plain, separate, clock_ms[name])[0] == "slower")
        # Sides are not swapped here, since only head is slowed.
        found, _ = rule.verdicts(slower, (chosen, np.zeros_like(is_changed)), clock_ms[name])
        cells[name] = Rates(
            false_alarms=float((verdicts == "slower").mean()),
            cannot_tell=float((verdicts == "cannot tell").mean()),
            slowed=_digits(math.expm1(np.median(slowed[complete]))),
            found=float((found == "slower").mean()),
            smallest=_smallest(rule, plain, first, clock_ms[name]),
            between=_digits(head[complete].std(ddof=1)),
            spread=_digits(plain[complete].std(axis=0, ddof=1).mean()),
        )
    is_alarm, is_open = ((np.array(called) == v).any(axis=0) for v in ("slower", "cannot tell"))
    return Verdicts(
        threshold=threshold,
        confidence=confidence,
        looks=rule.looks,
        comparisons=comparisons,
        false_alarms=float(is_alarm.mean()),
        cannot_tell=float((is_open & ~is_alarm).mean()),
        separate=len(in_order),
        separate_alarms=int(np.any(alarms, axis=0).sum()),
        pairs_taken=tuple(map(float, np.percentile(np.max(taken, axis=0), (50, 95)))),
        cells=cells,
    )


def _smallest(rule: _Rule, plain: Floats, draws: Draws, clock_ms: float) -> float | None:
    """Return the smallest slow-down that is found nine times in ten, or None."""

    def is_found(factor: float) -> bool:
        verdicts, _ = rule.verdicts(plain, draws, clock_ms, math.log1p(factor))
        return bool((verdicts == "slower").mean() >= POWER)

    first = bisect.bisect_left(SLOWER, True, key=is_found)
    return SLOWER[first] if first < len(SLOWER) else None


class _Rule(NamedTuple):
    """The rule of a comparison for one cell: threshold, risk and looks."""

    threshold: float
    alpha: float
    looks: tuple[int, ...]

    def verdicts(
        self, logs: Floats, draws: Draws, clock_ms: float, slower: float = 0.0
    ) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
        """Return the verdict of each comparison, and the number of pairs it used.

        logs: log medians in ms of base and head, shape (pairs, 2). slower: log slow-down of head.
        """
        chosen, is_changed = draws
        both = np.where(is_changed[..., None], logs[chosen][..., ::-1], logs[chosen])
        both[..., 1] += slower
        verdicts = np.full(len(both), "cannot tell")
        taken = np.full(len(both), self.looks[-1])
        for look in self.looks:
            still = np.flatnonzero(verdicts == "cannot tell")
            base, head = both[still, :look, 0], both[still, :look, 1]
            verdicts[still] = verdicts_of_pairs(base, head, clock_ms, self.threshold, self.alpha)
            taken[still] = look
        return verdicts, taken


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
