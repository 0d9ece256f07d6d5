"""Calibrations: what is measured, drawn, counted, kept and read again."""

from __future__ import annotations

import json
from functools import partial

import calibrations as made
import compare_results
import numpy as np
import pytest
from calibrations import FINE, pairs
from msgspec.structs import replace

from gpubench.base.errors import UserError
from gpubench.compare import calibrate as calibrating
from gpubench.compare import procedure
from gpubench.compare.calibrate import SLOWER, calibrate, evaluate
from gpubench.compare.pairs import Code, ComparedJob, Pair
from gpubench.evidence import calibration
from gpubench.evidence.calibration import Measured
from gpubench.evidence.records import identity_of, record_of, to_json
from gpubench.studies.plan import cell_key

THRESHOLD = 0.032  # between two of the slow-downs that are tried
ABOVE = 0.035
NAME = "a-study/table: counting-sort order, particles=4096, hot"


def drawn(cells, looks=(8, 12), comparisons=60, threshold=THRESHOLD):
    clock_ms = dict.fromkeys(cells, FINE)
    return evaluate(cells, clock_ms, threshold, 0.99, looks, comparisons)


# What comparisons drawn from pairs come to


def test_without_noise_nothing_is_an_alarm_and_all_that_matters_is_found():
    assert min(factor for factor in SLOWER if factor > THRESHOLD) == ABOVE
    found = drawn({"a": pairs(24), "b": pairs(24, slowed=1.02)})
    assert (found.false_alarms, found.cannot_tell, found.pairs_taken) == (0, 0, (8, 8))
    assert (found.separate, found.separate_alarms) == (2, 0)
    assert found.looks == (8, 12) and found.comparisons == 60
    for rates in found.cells.values():
        assert (rates.false_alarms, rates.cannot_tell, rates.between) == (0, 0, 0)
        assert rates.smallest == ABOVE
    assert [found.cells[name].slowed for name in "ab"] == [0.05, 0.02]
    assert [found.cells[name].found for name in "ab"] == [1, 0]  # 2 % does not matter


def test_much_noise_is_inconclusive():
    found = drawn({"a": pairs(24, noise=0.3), "quiet": pairs(24)})
    assert found.cannot_tell > 0.9 and found.false_alarms < 0.1
    assert found.pairs_taken == (12, 12)
    assert found.cells["a"].cannot_tell > 0.9 and found.cells["quiet"].cannot_tell == 0
    smallest = found.cells["a"].smallest
    assert smallest is None or smallest > 0.3
    assert 0.2 < found.cells["a"].between < 0.4


def test_no_slow_down_that_is_tried_may_be_enough():
    assert drawn({"a": pairs(24, noise=3.0)}).cells["a"].smallest is None


def test_the_smallest_is_found_nine_times_in_ten():
    cells = {"a": pairs(60, noise=0.04, seed=3)}
    smallest = drawn(cells, comparisons=100).cells["a"].smallest
    at = {
        factor: replace_slowed(cells["a"], factor)
        for factor in (SLOWER[SLOWER.index(smallest) - 1], smallest)
    }
    found = [drawn({"a": each}, comparisons=100).cells["a"].found for each in at.values()]
    assert found[0] < 0.95 and found[1] > 0.85  # drawn anew, but for whose side is whose


def replace_slowed(series, factor):
    """Return pairs whose extra work is just a factor, put on what was measured."""
    return [Measured(each.base_ms, each.ratio, each.ratio * (1 + factor)) for each in series]


def test_sides_that_are_not_alike_are_an_alarm_where_they_stay_what_they_are():
    """In comparisons that share no pair, base is base: what tells base from head shows."""
    found = drawn({"a": pairs(24, ratio=1.2), "b": pairs(24)})
    assert (found.separate, found.separate_alarms) == (2, 2)


def test_changing_sides_takes_out_what_tells_them_apart():
    found = drawn({"a": pairs(24, ratio=1.2)}, comparisons=200)
    assert found.false_alarms < 0.05
    # Half of the pairs say 20 % slower, half as much faster.
    assert found.cannot_tell > 0.9


@pytest.mark.parametrize("ratio", [1.0, 1.01])
def test_changing_sides_favours_neither(ratio):
    cells = pairs(40, noise=0.02, ratio=ratio)
    turned = [Measured(each.base_ms * each.ratio, 1 / each.ratio, each.slowed) for each in cells]
    one, other = (drawn({"a": series}, comparisons=200) for series in (cells, turned))
    assert one.cells["a"].cannot_tell == pytest.approx(other.cells["a"].cannot_tell, abs=0.1)
    assert one.cells["a"].between == pytest.approx(other.cells["a"].between)


def test_what_disturbs_both_sides_alike_is_no_noise():
    rng = np.random.default_rng(1)
    cells = [Measured(float(ms), 1.0, 1.05) for ms in rng.uniform(1, 3, 24)]
    found = drawn({"a": cells})
    assert (found.false_alarms, found.cannot_tell) == (0, 0)
    assert found.cells["a"].between == 0 and found.cells["a"].spread > 0.2


def test_a_comparison_is_an_alarm_where_any_cell_is():
    cells = {name: pairs(24, noise=0.3, seed=seed) for seed, name in enumerate("abcdef")}
    found = drawn(cells, looks=(8,), comparisons=100, threshold=0.001)
    each = [rates.false_alarms for rates in found.cells.values()]
    assert max(each) <= found.false_alarms <= sum(each)
    assert found.false_alarms + found.cannot_tell <= 1


def test_the_same_pairs_give_the_same_verdicts():
    cells = {"a": pairs(24, noise=0.05)}
    assert drawn(cells) == drawn(cells)


@pytest.mark.parametrize(("count", "looks"), [(8, (8,)), (11, (8,)), (12, (8, 12)), (40, (8, 12))])
def test_looks_at_more_pairs_than_there_are_are_left_out(count, looks):
    found = drawn({"a": pairs(count, noise=0.1)})
    assert found.looks == looks and max(found.pairs_taken) <= looks[-1]
    assert found.separate == count // looks[-1]


def test_a_look_that_is_left_out_still_has_its_share_of_the_risk():
    cells = {"a": pairs(8, noise=0.02)}
    few, many = drawn(cells, looks=(8,)), drawn(cells, looks=(8, *range(20, 200)))
    assert many.cells["a"].cannot_tell > few.cells["a"].cannot_tell


def test_all_cells_share_one_risk():
    noisy = {"a": pairs(12, noise=0.02)}
    others = {str(number): pairs(12) for number in range(15)}
    alone, among = (drawn(cells, looks=(8,), comparisons=40) for cells in (noisy, noisy | others))
    assert among.cells["a"].cannot_tell > alone.cells["a"].cannot_tell


def test_pairs_without_times_for_all_cells_are_left_out():
    full, holed = pairs(20), [None, *pairs(18), None]
    found = drawn({"full": full, "holed": holed}, looks=(18, 20))
    assert found.looks == (18,)
    with pytest.raises(UserError, match="18 pairs have times for all cells, and 19 are needed"):
        drawn({"full": full, "holed": holed}, looks=(19,))


# What is measured


CODE = Code("head", "this code", "python")
JOB = ComparedJob("a-study", "", "auto", {})


class Processes:
    """Made-up pairs: head is as fast as base, and its extra work costs what the test says."""

    def __init__(self, slowed=1.05, without=()):
        self.slowed, self.without = slowed, without
        self.jobs = []

    def __call__(self, codes, job):
        assert codes == (CODE, CODE)
        self.job = job
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, seed, only=None):
        assert seed == len(self.jobs) and only is None
        self.jobs.append(self.job)
        records = compare_results.record("a"), compare_results.record("b")
        head = list(records)
        if seed in self.without:
            head[1] = compare_results.record("b", status="failed")
        keys = [cell_key(identity_of(record_of(each))) for each in records]
        variants = [{(key, 1): [ms] * 5 for key in keys} for ms in (1.0, self.slowed)]
        return Pair((list(records), head), tuple(variants))


@pytest.fixture
def run(monkeypatch):
    def call(processes, pairs=8, seconds=1e9, is_cpu=False, comparisons=20):
        surroundings = compare_results.environment({"is_cpu": is_cpu})
        monkeypatch.setattr(calibrating, "describe", lambda code, device: surroundings)
        monkeypatch.setattr(calibrating, "ProcessPairs", processes)
        said = []
        found = calibrate(CODE, JOB, pairs, seconds, None, 0.99, comparisons, said.append)
        assert said == list(range(1, len(processes.jobs) + 1))
        return found

    return call


def test_a_calibration_holds_what_every_pair_measured(run):
    found = run(Processes(), pairs=9)
    assert [name.split()[1] for name in found.pairs] == ["a", "b"]
    for series in found.pairs.values():
        assert series == [Measured(1.0, 1.0, 1.05)] * 9
    assert len(found.started) == 9 and found.study == "a-study"
    assert set(found.clock_ms.values()) == {0.0005 / 4}  # of a batch of 4
    assert found.verdicts.looks == (8,) and found.verdicts.threshold == 0.03


@pytest.mark.parametrize(("is_cpu", "injected", "threshold"), [(0, 0.05, 0.03), (1, 0.15, 0.1)])
def test_the_extra_work_goes_with_the_device(run, is_cpu, injected, threshold):
    processes = Processes()
    found = run(processes, is_cpu=bool(is_cpu))
    assert found.injected == pytest.approx(injected)
    assert found.verdicts.threshold == threshold
    (_, ours), (_, theirs) = processes.jobs[0].variants
    assert ours[0] == theirs[0] and ours[1] == 0  # base's batches are as long
    assert theirs[1] / theirs[0] == pytest.approx(injected)


@pytest.mark.parametrize("without", [(0,), (3, 9)])
def test_a_pair_that_lacks_a_cell_keeps_its_place(run, without):
    found = run(Processes(without=without), pairs=10)
    whole, holed = found.pairs.values()
    assert None not in whole
    assert [number for number, each in enumerate(holed) if each is None] == list(without)
    assert len(holed) == 10


def test_after_the_deadline_only_the_first_look_is_completed(run):
    processes = Processes()
    found = run(processes, pairs=30, seconds=0.0)
    assert len(processes.jobs) == len(found.started) == procedure.LOOKS[0]


def test_a_comparison_takes_some_pairs(run):
    processes = Processes()
    with pytest.raises(UserError, match="at least 8 pairs"):
        run(processes, pairs=7)
    assert processes.jobs == []


# On disk


@pytest.fixture
def small():
    return made.calibration({NAME: pairs(16, 0.01), NAME + ", \N{MICRO SIGN}": pairs(16, 0.02)})


def test_what_is_saved_is_read_again(small, tmp_path):
    holed = replace(small, pairs={name: [*s, None] for name, s in small.pairs.items()})
    path = tmp_path / "deep" / "a.json"
    calibration.save(holed, path)
    assert to_json(calibration.load(path)) == to_json(holed)
    body = json.loads(path.read_text())["calibration"]
    assert body["verdicts"]["comparisons"] == 50 and body["pairs"][NAME][-1] is None


def test_a_calibration_that_breaks_the_schema_is_not_saved(small, tmp_path):
    odd = replace(small, injected=0.0)
    with pytest.raises(ValueError, match="injected"):
        calibration.save(odd, tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def broken(document, *path, to):
    inner = document["calibration"]
    for name in path[:-1]:
        inner = inner[name]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        (("pairs",), None, "pairs"),
        (("extra",), 1, "extra"),
        (("injected",), 0, "injected"),
        (("pairs", NAME, 0), [1.0, 1.0], "pairs"),
        (("pairs", NAME, 0), [1.0, -1.0, 1.0], "pairs"),
        (("verdicts", "false_alarms"), 1.5, "false_alarms"),
        (("verdicts", "cells", NAME, "between"), "much", "between"),
        (("verdicts", "cells", NAME, "smallest"), "none", "smallest"),
    ],
)
def test_nonsense_is_refused(small, tmp_path, path, to, words):
    document = {"schema": 1, "calibration": json.loads(to_json(small))}
    broken(document, *path, to=to)
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document))
    with pytest.raises(UserError, match=r"is not a calibration: at .*") as raised:
        calibration.load(file)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_other_results_are_no_calibration(tmp_path):
    path = compare_results.write(tmp_path / "a.json", compare_results.record())
    with pytest.raises(UserError, match="is not a calibration"):
        calibration.load(path)
    with pytest.raises(UserError, match="nowhere"):
        calibration.load(tmp_path / "nowhere.json")


# The spread between processes, for comparisons of few


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """Let nothing be known but what a test writes: came with it, of the checkout, or local."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration.paths, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(calibration.paths, "repository", lambda: tmp_path / "repository")
    return {
        "package": tmp_path / "package/calibration",
        "repository": tmp_path / "repository/results/calibration",
        "local": tmp_path / "results/local/calibration",
    }


def keep(folder, name, *, of="fake", at=12, **noise):
    cells = {cell: pairs(12, each) for cell, each in noise.items()}
    found = made.calibration(cells)
    found = replace(found, started=[f"2026-01-31T{at}:00:00Z"] * 12)
    calibration.save(found, folder / of / f"{name}.json")
    return {cell: rates.spread for cell, rates in found.verdicts.cells.items()}


def test_a_machine_that_was_never_calibrated_has_no_spreads(folders):
    keep(folders["local"], "2026-01-31-abc-a", of="another", a=0.1)
    assert calibration.spreads("fake") == {}


@pytest.mark.parametrize("where", ["package", "repository", "local"])
def test_the_spread_of_a_cell_is_that_of_its_calibration(folders, where):
    known = keep(folders[where], "2026-01-31-abc-a", a=0.1, b=0.2)
    assert calibration.spreads("fake") == known and 0 < known["a"] < known["b"]


@pytest.mark.parametrize(("older", "newer"), [("local", "package"), ("package", "local")])
def test_the_newest_calibration_of_a_cell_counts(folders, older, newer):
    # Of two on one day, the name says nothing: that of the commit comes before the number.
    before = keep(folders[older], "2026-01-31-fff-a", at=10, a=0.1, b=0.1)
    after = keep(folders[newer], "2026-01-31-000-a", at=11, a=0.2)
    assert calibration.spreads("fake") == before | after


# The command


@pytest.fixture
def command(gpubench_command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(gpubench_command, "calibrate")


@pytest.fixture
def measured(monkeypatch, small):
    """Let the command draw from pairs that are there already."""

    def calibrate(code, job, pairs, seconds, threshold, confidence, comparisons, on_pair):
        assert (job.study, pairs, seconds) == ("regressions", 60, 3600)
        on_pair(pairs)
        least = procedure.threshold_on(small.environment) if threshold is None else threshold
        rule = small.clock_ms, least, confidence, procedure.LOOKS, comparisons
        return replace(small, verdicts=evaluate(small.pairs, *rule))

    monkeypatch.setattr(calibrating, "calibrate", calibrate)


@pytest.mark.usefixtures("measured")
def test_a_calibration_is_told_and_kept(command, tmp_path):
    status, out, err = command(
        "--threshold", "10%", "--confidence", "95%", "--comparisons", "40", "--out", "kept",
    )  # fmt: skip
    assert status == 0 and "40 comparisons drawn from 16 pairs, threshold 10.0%" in out
    (path,) = (tmp_path / "kept").rglob("*.json")
    assert f"kept in {path.relative_to(tmp_path)}" in err
    assert path.parent.name == "fake" and path.stem.endswith("-a-study")
    found = calibration.load(path)
    assert (found.verdicts.threshold, found.verdicts.confidence) == (0.1, 0.95)
    assert found.verdicts.comparisons == 40
    command("--comparisons", "40", "--out", "kept")
    assert len(list((tmp_path / "kept").rglob("*.json"))) == 2  # the first is as it was


@pytest.mark.usefixtures("measured")
def test_json_alone_is_on_stdout(command, small):
    _, out, _ = command("--comparisons", "40", "--json")
    verdicts = json.loads(out)
    assert verdicts["comparisons"] == 40 and set(verdicts["cells"]) == set(small.pairs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threshold", "5"), "takes a fraction"),
        (("--pairs", "3"), "at least 8 pairs"),
        (("--study", "nowhere"), "nowhere"),
    ],
)
def test_errors_are_one_line(command, tmp_path, arguments, words):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert words in err and err.count("\n") == 1
    assert not (tmp_path / "results").exists()
