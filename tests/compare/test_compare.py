"""Verdicts: what intervals cover, how often A against A is an alarm, and which records compare."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import compare_results as made
import numpy as np
import pytest
from compare_results import record, results
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.compare.files import Fault, Matched, Side, are_in_turns, match, name_of
from gpubench.compare.procedure import Comparison
from gpubench.compare.verdict import (
    CLOCK_MS,
    ComparedTimes,
    are_enough,
    interval,
    judge,
    judge_cell,
    next_enough,
    risk,
    trimmed,
)
from gpubench.evidence.calibration import spread_of
from gpubench.evidence.files import load_results

MINUTE = timedelta(minutes=1)
SPREAD = 0.005
DRAWS = 40_000
THRESHOLD = 0.03
# What was simulated to choose the interval; in log times, from one process to the next.
NOISE = {
    "normal": lambda rng, shape: SPREAD * rng.standard_normal(shape),
    "heavy tails": lambda rng, shape: SPREAD * rng.standard_t(3, shape),
    "skewed": lambda rng, shape: SPREAD * rng.exponential(1, shape),
    "disturbed": lambda rng, shape: (
        SPREAD * rng.standard_normal(shape) + np.where(rng.random(shape) < 0.1, math.log(1.3), 0)
    ),
    "two humps": lambda rng, shape: (
        SPREAD / 5 * rng.standard_normal(shape) + np.where(rng.random(shape) < 0.5, 0.05, 0)
    ),
}


def cell(base, head, paired=False, name="a", **fields):
    """Make a cell of process medians, on a clock that resolves them all."""
    sides = ([[float(time)] for time in side] for side in (base, head))
    return ComparedTimes(name, *sides, paired, **{"clock_ms": 1e-9} | fields)


def times(rng, count, factor=1.0, spread=SPREAD):
    return factor * np.exp(spread * rng.standard_normal(count))


def verdicts(centre, half):
    """Return which of many intervals mean slower, and which the same."""
    most = math.log(1 + THRESHOLD)
    return (centre - half > 0) & (centre > most), (np.abs(centre) + half) < most


@pytest.mark.parametrize("paired", [True, False], ids=["pairs", "sets"])
@pytest.mark.parametrize("processes", [4, 12, 20])
@pytest.mark.parametrize("noise", NOISE)
def test_intervals_cover_the_truth(noise, processes, paired):
    rng = np.random.default_rng(processes)
    base, head = (NOISE[noise](rng, (DRAWS, processes)) for _ in "ab")
    for alpha in (0.01, 0.0005):
        if are_enough(processes, paired, alpha):
            centre, half = interval(base, head + 0.1, paired, alpha)
            missed = np.mean(np.abs(centre - 0.1) > half)
            # Humps are near their worst here, and nothing in the data tells of them. Beyond that,
            # three standard errors of the share that is simulated.
            allowed = 3 * alpha if noise == "two humps" else 1.15 * alpha
            assert missed <= allowed + 3 * math.sqrt(allowed / DRAWS)


def test_trimming_without_half_a_degree_less_would_cover_too_little():
    rng = np.random.default_rng(1)
    base, head = rng.standard_normal((2, 4 * DRAWS, 20))
    centre, half = interval(base, head, True, 0.0005)
    from scipy.stats import t

    cut = trimmed(20, True)
    freedom = 20 - 2 * cut - 1
    yuen = half * t.isf(0.00025, freedom) / t.isf(0.00025, freedom - cut / 2)
    assert cut == 4
    assert np.mean(np.abs(centre) > yuen) > 1.3 * 0.0005 > np.mean(np.abs(centre) > half)


@pytest.mark.parametrize("noise", NOISE)
def test_base_against_itself_is_an_alarm_at_most_once_in_a_hundred(noise):
    rng = np.random.default_rng(11)
    comparisons, cells, looks = 4000, 20, 1
    count = next_enough(2, True, risk(cells, 0.99, looks))
    base, head = (NOISE[noise](rng, (comparisons, cells, count)) for _ in "ab")
    slower, _ = verdicts(*interval(base, head, True, risk(cells, 0.99, looks)))
    faster, _ = verdicts(*interval(head, base, True, risk(cells, 0.99, looks)))
    alarms = np.mean((slower | faster).any(axis=1))
    assert alarms <= 0.01 + 3 * math.sqrt(0.01 / comparisons)


def test_a_slow_down_of_five_percent_is_found():
    rng = np.random.default_rng(12)
    base, head = SPREAD * rng.standard_normal((2, 4000, 10))
    alpha = risk(20, 0.99, 3)
    slower, _ = verdicts(*interval(base, head + math.log(1.05), True, alpha))
    _, same = verdicts(*interval(base, head, True, alpha))
    assert np.mean(slower) > 0.99
    assert np.mean(same) > 0.99


def test_a_side_with_more_processes_is_no_less_sure():
    rng = np.random.default_rng(14)
    for factor in (0.25, 1, 4):
        base = rng.standard_normal((4 * DRAWS, 8))
        centre, half = interval(base, factor * rng.standard_normal((4 * DRAWS, 16)), False, 0.0005)
        assert np.mean(np.abs(centre) > half) <= 0.0005


ratios = st.floats(0.2, 5)
sides = st.lists(st.floats(0.01, 100), min_size=2, max_size=25)


@settings(max_examples=30)
@given(sides, sides, ratios)
def test_swapping_the_sides_inverts_ratio_and_verdict(base, head, factor):
    head = [factor * time for time in head]
    (ours,), (theirs,) = judge([cell(base, head)]), judge([cell(head, base)])
    opposite = {"slower": "faster", "faster": "slower"}
    assert theirs.verdict == opposite.get(ours.verdict, ours.verdict)
    assert theirs.ratio == pytest.approx(1 / ours.ratio)
    assert theirs.ratio_low == pytest.approx(1 / ours.ratio_high)
    assert theirs.ratio_high == pytest.approx(1 / ours.ratio_low)


@settings(max_examples=30)
@given(sides, st.randoms(use_true_random=False), st.sampled_from([1e-3, 0.5, 2, 1e3]))
def test_another_unit_of_time_changes_nothing(base, random, factor):
    head = random.sample(base, len(base))
    (ours,) = judge([cell(base, head, True)])
    scaled = ([factor * time for time in side] for side in (base, head))
    (theirs,) = judge([cell(*scaled, True, clock_ms=factor * 1e-9)])
    assert theirs.verdict == ours.verdict
    for name in ("ratio", "ratio_low", "ratio_high", "spread_between"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-6, abs=1e-9)


@settings(max_examples=50)
@given(sides, st.integers(1, 100), st.integers(1, 5))
def test_more_cells_and_looks_never_narrow_an_interval(base, cells, looks):
    head = [1.1 * time for time in base[::-1]]
    one = cell(base, head)
    (alone,) = judge([one])
    among = judge_cell(one, 0.03, risk(cells, 0.99, looks), None, None)
    assert among.ratio_low <= alone.ratio_low * (1 + 1e-12)
    assert among.ratio_high >= alone.ratio_high * (1 - 1e-12)


def test_processes_count_and_not_their_samples():
    rng = np.random.default_rng(15)
    base = [list(times(rng, 50, centre)) for centre in (1.0, 1.1, 0.9, 1.05)]
    head = [list(times(rng, 50, centre)) for centre in (1.02, 1.12, 0.92, 1.07)]
    medians = ([np.median(samples) for samples in side] for side in (base, head))
    (full,) = judge([ComparedTimes("a", base, head, clock_ms=1e-9)])
    (short,) = judge([cell(*medians)])
    assert full.ratio_high == pytest.approx(short.ratio_high)
    assert full.spread_between == pytest.approx(short.spread_between)


def test_the_order_of_pairs_matters_and_that_of_sets_does_not():
    base = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    head = [1.1, 2.2, 3.3, 4.4, 5.5, 6.6]
    (pairs,) = judge([cell(base, head, True)])
    (sets,) = judge([cell(base, head)])
    assert pairs.verdict == "slower" and pairs.ratio == pytest.approx(1.1)
    assert sets.verdict == "cannot tell" and sets.ratio == pytest.approx(1.1)
    assert judge([cell(base, head[::-1], True)])[0].verdict == "cannot tell"


@pytest.mark.parametrize(
    ("factor", "verdict", "words"),
    [
        (1.0, "same", None),
        (1.02, "same", None),
        (1.03, "cannot tell", "slower, but whether by more than 3 % is open"),
        (1.05, "slower", None),
        (1 / 1.03, "cannot tell", "faster, but whether by more than 3 % is open"),
        (0.9, "faster", None),
    ],
)
def test_verdicts_on_either_side_of_the_threshold(factor, verdict, words):
    base = np.exp(SPREAD * np.linspace(-1, 1, 10))
    (found,) = judge([cell(base, factor * base[::-1])])
    assert (found.verdict, found.reason) == (verdict, words)
    assert found.ratio_low < found.ratio < found.ratio_high


def test_what_is_too_uncertain_says_how_uncertain():
    base = np.exp(0.1 * np.linspace(-1, 1, 10))
    (same,) = judge([cell(base, base[::-1])])
    assert same.verdict == "cannot tell"
    assert same.reason == "known to 9 % only, and 3 % are asked"
    (seems,) = judge([cell(base, 1.05 * base)])
    assert seems.reason == "seems slower, but that may be chance: known to 9 % only"


def test_processes_without_any_spread_divide_by_nothing():
    (found,) = judge([cell([1.0] * 10, [1.0] * 10, True)])
    assert (found.verdict, found.ratio, found.spread_between) == ("same", 1.0, 0.0)
    assert 1 - 1e-6 < found.ratio_low < 1 < found.ratio_high < 1 + 1e-6
    (changed,) = judge([cell([1.0] * 10, [1.1] * 10)])
    assert changed.verdict == "slower"


def test_a_coarse_clock_is_never_outnumbered():
    base, head = [0.010] * 200, [0.0105] * 200
    assert judge([cell(base, head)])[0].verdict == "slower"
    (coarse,) = judge([cell(base, head, clock_ms=CLOCK_MS)])
    assert coarse.verdict == "cannot tell"
    assert coarse.ratio_low < 1 < coarse.ratio_high
    # The samples themselves show a finer clock.
    base[0] = 0.010001
    assert judge([cell(base, head, clock_ms=CLOCK_MS)])[0].verdict == "slower"


def test_too_few_processes_give_an_interval_and_no_verdict():
    risks = [risk(*each) for each in ((1, 0.99, 1), (20, 0.99, 1), (20, 0.99, 3))]
    assert [next_enough(2, True, alpha) for alpha in risks] == [4, 6, 7]
    (found,) = judge([cell([1.0, 1.01, 1.0], [2.0, 2.01, 2.0])])
    assert found.verdict == "cannot tell" and found.rests_on == "processes" and found.ratio_low > 1
    assert found.reason == "too few processes: 3 a side, and 4 are needed"
    # All in one hump is as likely with one side short as with both.
    (uneven,) = judge([cell([1.0, 1.01, 1.0], [2.0, 2.01, 2.0] * 9)])
    assert uneven.reason == found.reason


def test_one_process_each_has_a_ratio_and_no_interval():
    (found,) = judge([ComparedTimes("a", [made.SAMPLES], [[1.2 * s for s in made.SAMPLES]])])
    assert (found.verdict, found.rests_on, found.ratio_low) == ("cannot tell", None, None)
    assert found.ratio == pytest.approx(1.2)
    assert found.reason.startswith("one process each, and no calibration of this machine")
    assert "measure 4 processes a side in turns" in found.reason


def test_a_cell_that_was_not_calibrated_is_as_restless_as_the_most_restless_of_its_mode():
    known = {"s: a, hot": 0.01, "s: b, graph": 0.002, "s: c, graph": 0.003}
    assert spread_of(known, "s: b, graph") == 0.002
    assert spread_of(known, "t: x, graph") == 0.003
    assert spread_of(known, "t: x, cold") == 0.01
    assert spread_of({}, "t: x, cold") is None


def test_calibration_stands_in_for_processes():
    one = cell([1.0], [1.1])
    (found,) = judge([one], spreads={"a": 0.005})
    assert found.verdict == "slower" and found.rests_on == "calibration"
    half = 2.5758 * 0.005 * math.sqrt(2)
    assert math.log(found.ratio_high / found.ratio_low) / 2 == pytest.approx(half, rel=1e-4)
    assert judge([one], spreads={"a": 0.05})[0].verdict == "cannot tell"
    assert judge([one], spreads={})[0].rests_on is None
    # A machine that is more restless than it was when calibrated is believed to be so.
    restless = cell([1.0, 1.5], [1.1, 1.6])
    assert judge([restless], spreads={"a": 0.005})[0].verdict == "cannot tell"


# --- were both sides measured in turns?


def starts(order):
    """Return when processes of base and of head started: a letter a minute, = in the same."""
    moments = {side: [] for side in "BH"}
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for letter in order:
        if letter == "=":
            at -= MINUTE
        else:
            moments[letter].append(at)
            at += MINUTE
    return moments["B"], moments["H"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("BH" * 8, True),
        ("BHHB" * 4, True),
        ("BBHH" * 4, False),
        ("BBBBHHHH" * 2, False),
        ("B" * 8 + "H" * 8, False),
        ("BHBHBHBHBBBHHH", False),
        ("BH" * 8 + "H", True),  # one more
        ("BHBHBHBBHBHBHBH", True),  # one is missing
        ("HBH" * 8, True),
        ("BHH" * 8, True),
        ("B" * 8 + "H", False),
        ("B" + "H" * 16 + "B" * 7, False),
        ("BBHH", False),
        ("BHBH", True),
        ("BH", False),
        ("B=H", False),
        ("B=H" * 4, True),
        ("B=B=B=H=H=H", True),
        ("B=B=B" + "H=H=H", False),
        ("B=BH=H" * 4, False),
        ("B", False),
    ],
)
def test_sides_take_turns_where_neither_is_two_processes_ahead(order, expected):
    base, head = starts(order)
    assert are_in_turns(base, head) == are_in_turns(head, base) == expected
    assert are_in_turns(base[::-1], head) == expected


def judged(order, offsets, factor=1.0):
    """Judge 200 comparisons, measured in an order, with 0.3 % between processes.

    offsets: of a generator, the log offset at each moment of the machine.
    """
    base_starts, head_starts = starts(order)
    found = Counter()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        logs = offsets(rng) + 0.003 * rng.standard_normal(len(order))
        base, head = (
            [results(each, started=start.isoformat()) for each, start in zip(
                made.processes(*side), begun, strict=True
            )]
            for side, begun in (
                (np.exp(logs[[letter == "B" for letter in order]]), base_starts),
                (factor * np.exp(logs[[letter == "H" for letter in order]]), head_starts),
            )
        )  # fmt: skip
        (only,) = judge(matched(base, head).cells, THRESHOLD)
        found[only.verdict] += 1
    return found


def a_folder(rng):
    """Offset all of a folder by 3 %, either way."""
    return np.repeat([0.0, 0.03 * rng.choice([-1, 1])], 8)


def blocks(rng):
    """Offset the machine by some 3 % for four processes at a time."""
    return np.repeat(0.03 * rng.standard_normal(4), 4)


def test_folders_that_are_offset_as_a_whole_give_no_false_verdicts():
    found = judged("B" * 8 + "H" * 8, a_folder)
    assert found == {"cannot tell": 200}


def test_the_spread_between_runs_widens_the_interval_by_as_much():
    rng, found = np.random.default_rng(16), Counter()
    for factor in (1.0, 1.2):
        for _ in range(1000):
            base, head = (times(rng, 8, by, 0.003) for by in times(rng, 2, spread=0.02))
            one = cell(base, factor * head, in_turns=False)
            (each,) = judge([one], between_runs={"a": 0.02})
            found[factor, each.verdict] += 1
    assert 0 < found[1.0, "slower"] + found[1.0, "faster"] <= 10
    assert found[1.2, "slower"] > 990


def test_in_turns_an_offset_of_the_machine_makes_no_verdict_false():
    found = judged("BH" * 8, blocks)
    assert found["slower"] + found["faster"] <= 2 and found["same"] > 50
    assert judged("BH" * 8, blocks, 1.1)["slower"] == 200


def test_a_side_that_is_offset_as_a_whole_counts_as_one_process():
    sides = [1.0, 1.001, 0.999], [1.1, 1.101, 1.099]
    (found,) = judge([cell(*sides, in_turns=False)], spreads={"a": 0.005})
    assert found.reason.startswith("base and head were not measured in turns")
    assert (found.verdict, found.rests_on) == ("cannot tell", "calibration")
    (known,) = judge([cell(*sides, in_turns=False)], 0.03, 0.99, 1, {"a": 0.005}, {"a": 0.01})
    half = 2.5758 * 0.01 * math.sqrt(2)
    assert (known.verdict, known.reason) == ("slower", None)
    (wide,) = judge([cell(*sides, in_turns=False)], between_runs={"a": 0.1}, spreads={"a": 0.1})
    assert wide.reason.endswith("; not measured in turns")
    assert math.log(known.ratio_high / known.ratio_low) / 2 == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize("zero", [[0.0] * 8, [1.0] * 7 + [0.0]])
def test_without_times_the_verdict_is_inconclusive(zero):
    (found,) = judge([cell(zero, [1.0] * 8)])
    assert (found.verdict, found.ratio) == ("cannot tell", None)
    assert found.reason == "takes less time than the clock can tell"


def judgement(verdict):
    (found,) = judge([cell([1.0] * 8, [1.0] * 8)])
    return dataclasses.replace(found, verdict=verdict)


BROKEN, WRONG, MENDED = Fault("b", None, "x"), Fault("w", "x", "x"), Fault("m", "x", None)


def comparison_of(judgements, faults=()):
    return Comparison(Matched((), faults, (), (), {}), judgements, 0.03, 0.99)


@pytest.mark.parametrize(
    ("found", "faults", "verdict", "status"),
    [
        (["same", "same"], [], "same", 0),
        (["same", "faster"], [], "faster", 0),
        (["faster", "cannot tell"], [], "cannot tell", 3),
        (["cannot tell", "slower", "faster"], [], "slower", 1),
        (["same"], [MENDED], "same", 0),
        (["cannot tell"], [WRONG], "wrong", 2),
        (["slower"], [WRONG], "slower", 1),
        (["slower"], [WRONG, BROKEN], "broken", 1),
        ([], [MENDED], "same", 0),
    ],
)
def test_the_worst_cell_decides(found, faults, verdict, status):
    comparison = comparison_of([judgement(v) for v in found], faults)
    assert (comparison.verdict, comparison.exit_code) == (verdict, status)


# --- which records are a cell, and may they be compared?


def side(role, *files):
    return Side(role.upper(), list(files))


def matched(base, head, **options):
    return match(side("base", *base), side("head", *head), **options)


def test_each_file_is_a_process():
    base = [results(*made.processes(1.0, 1.1)), results(*made.processes(1.2))]
    head = [results(each) for each in made.processes(2.0, 2.1, 2.2)]
    found = matched(base, head)
    (only,) = found.cells
    # Of two in one file the last counts.
    assert [samples[0] for samples in only.base] == [1.1, 1.2]
    assert [samples[0] for samples in only.head] == [2.0, 2.1, 2.2]
    assert only.clock_ms == CLOCK_MS / 4
    assert not (found.faults or found.left_out or found.differences)


def test_pairs_are_files_with_equal_places():
    base = [results(*made.processes(t)) for t in (1.0, 1.1, 1.2)]
    head = [results(*made.processes(2.0)), results(record("b")), results(*made.processes(2.2))]
    (only,) = matched(base, head, paired=True).cells
    assert only.paired
    assert [samples[0] for samples in only.base] == [1.0, 1.2]
    assert [samples[0] for samples in only.head] == [2.0, 2.2]
    apart = [results(record("c")), results(record("a"))]
    (alone,) = matched([results(record("a"), record("c"))], apart, paired=True).left_out
    assert alone.why == "no process of base ran together with one of head"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([4.0, 2.2, 40.0], 4.0),  # turn by turn 4, 1.1 and 4; of the medians it would be 2
        ([2.2], 1.1),  # nobody knows which turns are missing
    ],
)
def test_a_pairs_ratio_is_that_of_its_turns(head, expected):
    cell = ComparedTimes("a", [[1.0, 2.0, 10.0]] * 9, [head] * 9, paired=True)
    (found,) = judge([cell])
    assert found.ratio == pytest.approx(expected)


def test_cells_of_one_side_are_listed_and_not_judged():
    base = results(record("a"), record("b"), record("c"))
    head = results(record("a"), record("d"), record("c", status="skipped", reason="no room"))
    found = matched([base], [head])
    assert [each.name.split()[1] for each in found.cells] == ["a"]
    left = {each.name.split()[1]: each.why for each in found.left_out}
    assert left == {
        "b": "head: not measured",
        "c": "head: skipped: no room",
        "d": "base: not measured",
    }


def test_what_both_sides_skip_is_no_news():
    files = [results(record("a"), record("b", status="skipped"))]
    assert not matched(files, files).left_out


def test_faults_are_told_apart():
    base = results(record("a"), record("b", status="wrong"), record("c", status="failed"))
    head = results(
        record("a", status="wrong"), record("b", status="failed"), record("c"),
        record("d", status="wrong"),
    )  # fmt: skip
    comparison = comparison_of([], matched([base], [head]).faults)
    (broken,), (mended,) = map(comparison.faults, ("broken", "mended"))
    assert "a order" in broken.name and broken.head == "wrong: it said so"
    assert "c order" in mended.name and mended.base == "failed: it said so"
    assert [fault.base for fault in comparison.faults("wrong")] == [
        "wrong: it said so",
        "not measured",
    ]


def test_one_wrong_process_makes_a_cell_wrong():
    head = [results(record()), results(record(status="wrong")), results(record())]
    (fault,) = matched([results(record())], head).faults
    assert fault.base is None and fault.head == "wrong: it said so"


def test_a_failure_without_its_input_is_of_the_same_cell():
    head = results(record(status="failed", input_hash=None))
    (fault,) = matched([results(record())], [head]).faults
    assert fault.base is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "other"}, "different machine: fake in base, other in head"),
        ({"device": {"name": "B"}}, "different device: A GPU in base, B in head"),
        ({"device": {"uuid": "GPU-2"}}, "different GPU: GPU-1 in base, GPU-2 in head"),
        ({"device": {"nvcc": "12.9"}}, "different compiler: 13.0 in base, 12.9 in head"),
        ({"device": {"cuda_toolkit": "12.9"}}, "different CUDA toolkit"),
        ({"device": {"driver": "570"}}, "different driver: 580 in base, 570 in head"),
        ({"device": {"ecc": False}}, "different memory error correction: on in base, off in head"),
        ({"libraries": {"cupy": "14"}}, "different cupy: 13 in base, 14 in head"),
        ({"host": {"cpu": "B"}}, "different processor: A in base, B in head"),
    ],
)
def test_other_conditions_are_refused_by_name(change, words):
    usual = {"libraries": {"cupy": "13", "numpy": "2"}, "host": {"cpu": "A", "python": "3.11"}}
    base, head = [results(record(), **usual)], [results(record(), **usual | change)]
    with pytest.raises(UserError, match=words) as raised:
        matched(base, head)
    assert "--force" in str(raised.value) and "\n" not in str(raised.value)
    forced = matched(base, head, force=True)
    assert len(forced.cells) == 1 and words in forced.differences[0]


def test_locked_clocks_and_free_ones_are_refused():
    base = [results(record(), device={"clocks_locked": True})]
    head = [results(record(), device={"clocks_locked": False})]
    with pytest.raises(UserError, match="different clock lock: on in base, off in head"):
        matched(base, head)
    assert matched(base, [results(record())]).cells  # where it is not known, nothing is said


def test_clocks_under_load_may_differ_a_little():
    def at(mhz):
        state = {"clocks_sm_mhz": mhz}
        return [results(record(state_before=state, state_after=state))]

    assert matched(at(1980), at(1965)).cells
    with pytest.raises(UserError, match="different SM clocks: 1980 MHz in base, 1755 in head"):
        matched(at(1980), at(1755))


def test_all_that_differs_is_said_at_once():
    head = [results(record(input_hash="xyz"), machine="other", device={"nvcc": "12"})]
    with pytest.raises(UserError, match=r"machine.*compiler.*different inputs: a-study/table") as e:
        matched([results(record())], head)
    assert str(e.value).count("different") == 3


def test_what_does_not_change_a_time_is_not_held_against_a_side():
    usual = {"libraries": {"cupy": "13", "numpy": "2", "pocl": "1"}, "host": {"python": "3.11"}}
    other = {"libraries": {"cupy": "13", "numpy": "1", "pocl": "2"}, "host": {"python": "3.12"}}
    assert not matched([results(record(), **usual)], [results(record(), **other)]).differences


def test_versions_of_the_code_are_not_mixed():
    mixed = [results(record(), code_hash=code) for code in ("aaa", "bbb")]
    with pytest.raises(UserError, match="versions of the code mixed in base: aaa and bbb"):
        matched(mixed, [results(record())])
    apart = [results(record("a"), code_hash="aaa"), results(record("b"), code_hash="bbb")]
    assert len(matched(apart, [results(record("a"), record("b"))]).cells) == 2


def test_nothing_in_common_is_an_error():
    for base, head in (
        (record("a"), record("b")),
        (record("a"), record("a", status="skipped")),
        (record("a"), record("b", status="wrong")),
        (record("a", mode="hot"), record("a", mode="cold")),
    ):
        with pytest.raises(UserError, match="BASE and HEAD have no cell that both measured"):
            matched([results(base)], [results(head)])
    with pytest.raises(UserError, match="no cell"):
        matched([results()], [results()])


def test_names_do_not_depend_on_how_numbers_are_stored():
    one = record(particles=4096, per_cell=4.0, parameters={"width": 8.0})
    other = record(particles=4096, per_cell=4, parameters={"width": 8})
    assert name_of(one) == name_of(other)
    assert name_of(one) == (
        "a-study/table: radix-grid order width=8, particles=4096, per_cell=4, uniform, random, hot"
    )
    assert name_of(record(periodic=[True] * 3)).endswith("random, periodic, hot")


def test_a_folder_holds_files_at_any_depth(tmp_path):
    for place in ("a.json", "deep/er/b.json"):
        made.write(tmp_path / place, record())
    (tmp_path / "account.json").write_text('{"workload": "dpd"}')
    assert len(load_results([tmp_path])) == 2
    assert len(load_results([tmp_path / "a.json"])) == 1


def test_folders_without_results_and_broken_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="no results of studies in"):
        load_results([tmp_path])
    (tmp_path / "a.json").write_text("")
    for path in (tmp_path, tmp_path / "a.json", tmp_path / "b.json"):
        with pytest.raises(UserError, match=r"[ab]\.json"):
            load_results([path])
    (tmp_path / "a.json").write_text('{"workload": "dpd"}')
    with pytest.raises(UserError, match="not a gpubench results file"):
        load_results([tmp_path / "a.json"])
