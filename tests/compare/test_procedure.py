"""How comparisons go on: looks, and what is measured again."""

from __future__ import annotations

import math
from pathlib import Path

import compare_results as made
import pytest

from gpubench.base.errors import UserError
from gpubench.compare import files, procedure
from gpubench.compare.pairs import Code, ComparedJob, Pair
from gpubench.compare.procedure import LOOKS, compare_codes
from gpubench.compare.verdict import judge
from gpubench.evidence import calibration

CODES = Code("base", "an old commit", "python"), Code("head", "a new commit", "python")
JOB = ComparedJob.of("regressions", "auto", {"quick": None, "algorithms": None})
GPU, CPU = made.environment(), made.environment({"is_cpu": True})
ROOT = Path(__file__).parents[2]
FAR = 1e9  # seconds


class Measured:
    """Pairs of made-up records in the place of processes: ratios of head to base, by algorithm.

    A ratio is a number, or what gives one for each pair, from 0 on; None where head fails.
    """

    def __init__(self, **ratios):
        self.ratios = ratios
        self.asked = []
        self.closed = False

    def __call__(self, codes, job):
        assert (codes, job) == (CODES, JOB)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def measure(self, seed, only=None):
        self.asked.append((seed, None if only is None else set(only)))
        base, head = [], []
        for name, ratio in self.ratios.items():
            if only is not None and key_of(name) not in only:
                continue
            now = ratio(seed) if callable(ratio) else ratio
            ours = 1 + 0.001 * math.cos(seed)
            base += made.processes(ours, algorithm=name)
            if now is None:
                head.append(made.record(name, status="failed"))
            else:
                head += made.processes(now * ours * (1 + 0.0005 * math.sin(seed)), algorithm=name)
        return Pair((base, head), ({}, {}))

    @property
    def seeds(self):
        return [seed for seed, _ in self.asked]


def key_of(name):
    (cell,) = files.match(*(
        files.Side(role, [made.results(made.record(name))]) for role in ("base", "head")
    )).cells  # fmt: skip
    return cell.key


def wild(seed):
    """Swing so much that nothing can be told."""
    return (0.5, 2.0)[seed % 2]


def calming(after):
    """Swing as wildly at first, then less and less."""
    return lambda seed: 1.3 if seed % 2 and seed < after else 1.0


@pytest.fixture
def run(monkeypatch):
    """Compare codes whose pairs are made up; return what was found."""

    def call(measured, **options):
        environment = options.pop("environment", GPU)
        of = {"base": environment, "head": options.pop("of_head", environment)}
        monkeypatch.setattr(procedure, "describe", lambda code, device: of[code.name])
        monkeypatch.setattr(procedure, "ProcessPairs", measured)
        given = {
            "threshold": None, "confidence": 0.99, "seconds": FAR, "force": False,
            "on_begin": lambda _: None, "on_pair": lambda *_: None,
        }  # fmt: skip
        found = compare_codes(CODES, JOB, **given | options)
        assert measured.closed
        return found

    return call


def test_it_says_how_long_it_takes_before_anything_is_measured(run):
    said, measured = [], Measured(one=1.0)
    run(measured, on_begin=lambda words: said.append((words, len(measured.asked))))
    ((words, pairs),) = said
    assert pairs == 0 and words.startswith(f"{procedure.cells_of(JOB, GPU['device'])} cells in 8 ")


def test_the_estimate_counts_the_cells_of_the_study():
    (shipped,) = (ROOT / "results" / "calibration" / "cpu-intel-xeon").glob("*-regressions.json")
    cpu = {"backend": "opencl", "is_cpu": True}
    came_later = 2  # sorts of keys, which are not in this calibration
    assert procedure.cells_of(JOB, cpu) == len(calibration.load(shipped).pairs) + came_later
    assert procedure.cells_of(JOB, GPU["device"]) > procedure.cells_of(JOB, cpu)


def test_sweeps_and_forms_of_another_back_end_are_not_counted():
    """The sweep `cpu` has eight subjects in two boxes; the other one needs CUDA."""
    job = ComparedJob.of("library-calls", "auto", {"quick": False, "algorithms": None})
    cpu = {"backend": "opencl", "is_cpu": True}
    assert procedure.cells_of(job, cpu) == 16


def test_what_measures_nothing_is_refused_before_a_pair(run, monkeypatch):
    nothing = ComparedJob.of(
        "regressions", "auto", {"quick": None, "algorithms": ["filter-lookback"]}
    )
    monkeypatch.setattr(f"{__name__}.JOB", nothing)
    measured = Measured(one=1.0)
    with pytest.raises(UserError, match="measures nothing of what was chosen on this device"):
        run(measured, environment=made.environment({"backend": "opencl", "is_cpu": True}))
    assert not measured.asked


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (60, "20 cells in 8 pairs of processes: about 2.0 min"),
        (300, "20 cells in 8 pairs of processes: about 2.0 min; up to 5.0 min where cells are"),
        (1e6, "20 cells in 8 pairs of processes: about 2.0 min; up to 6.8 min where cells are"),
    ],
)
def test_an_estimate_knows_the_limit(seconds, words):
    assert procedure.how_long(20, seconds).removesuffix(" inconclusive") == words


def verdicts(found):
    return {each.name.split()[1]: each.verdict for each in found.judgements}


def test_what_is_clear_at_the_first_look_needs_no_other(run):
    measured = Measured(same=1.0, slower=1.5, faster=0.5)
    found = run(measured)
    assert verdicts(found) == {"same": "same", "slower": "slower", "faster": "faster"}
    assert measured.asked == [(seed, None) for seed in range(LOOKS[0])]
    assert (found.base, found.head) == ("an old commit", "a new commit")
    assert found.exit_code == 1
    (ratio,) = (j.ratio for j in found.judgements if "slower" in j.name)
    assert ratio == pytest.approx(1.5, rel=1e-3)


def test_only_open_cells_are_measured_again_up_to_each_look(run):
    measured, said = Measured(same=1.0, unclear=wild), []
    found = run(measured, on_pair=lambda *words: said.append(words))
    assert verdicts(found) == {"same": "same", "unclear": "cannot tell"}
    assert measured.seeds == list(range(LOOKS[-1]))
    first, rest = measured.asked[: LOOKS[0]], measured.asked[LOOKS[0] :]
    assert all(only is None for _, only in first)
    assert all(only == {key_of("unclear")} for _, only in rest)
    assert said == [(n, 0 if n <= LOOKS[0] else 1) for n in range(1, LOOKS[-1] + 1)]
    by_name = {each.name.split()[1]: each for each in found.judgements}
    assert by_name["same"].base_processes == by_name["same"].head_processes == LOOKS[0]
    assert by_name["unclear"].base_processes == by_name["unclear"].head_processes == LOOKS[-1]
    assert found.exit_code == 3


def test_it_ends_at_the_look_that_can_tell(run):
    # Trimming sets the pairs that were disturbed aside, once they are few among many.
    measured = Measured(same=1.0, late=calming(4))
    found = run(measured)
    assert verdicts(found) == {"same": "same", "late": "same"}
    assert len(measured.asked) in LOOKS[1:]


def test_a_verdict_once_given_stays(run):
    """Whatever comes later: each look has its own share of the risk."""
    measured = Measured(slower=lambda seed: 1.5 if seed < LOOKS[0] else None, unclear=wild)
    found = run(measured)
    assert verdicts(found)["slower"] == "slower"
    assert found.matched.faults == []


def test_a_cell_that_fails_when_it_is_measured_again_is_broken(run):
    measured = Measured(same=1.0, fails=lambda seed: wild(seed) if seed < LOOKS[0] else None)
    found = run(measured)
    assert [fault.head for fault in found.faults("broken")] == ["failed: it said so"]
    assert verdicts(found) == {"same": "same"}
    assert found.exit_code == 1


def test_all_looks_and_cells_share_one_risk(run):
    found = run(Measured(one=1.0, other=1.0))
    assert found.looks == len(LOOKS)
    alone = judge(found.matched.cells, 0.03, 1 - 0.01 / len(LOOKS))
    for each, expected in zip(found.judgements, alone, strict=True):
        assert each.ratio_low == pytest.approx(expected.ratio_low)
        assert each.ratio_high == pytest.approx(expected.ratio_high)


def test_after_the_deadline_no_pair_begins_but_for_the_first_look(run):
    measured = Measured(unclear=wild)
    found = run(measured, seconds=0.0)
    assert len(measured.asked) == LOOKS[0]
    assert verdicts(found) == {"unclear": "cannot tell"}


def test_what_was_measured_up_to_the_deadline_counts(run, monkeypatch):
    measured = Measured(unclear=wild)

    class Deadline:
        def __init__(self, seconds):
            assert seconds == 7

        has_passed = property(lambda self: len(measured.asked) >= LOOKS[0] + 2)

    monkeypatch.setattr(procedure.clock, "Deadline", Deadline)
    found = run(measured, seconds=7)
    assert len(measured.asked) == LOOKS[0] + 2
    assert found.judgements[0].base_processes == found.judgements[0].head_processes == LOOKS[0] + 2


@pytest.mark.parametrize(
    ("environment", "threshold", "expected", "verdict"),
    [(GPU, None, 0.03, "slower"), (CPU, None, 0.10, "same"), (CPU, 0.02, 0.02, "slower")],
)
def test_the_threshold_is_that_of_the_device_unless_the_user_says(
    run, environment, threshold, expected, verdict
):
    found = run(Measured(a=1.06), environment=environment, threshold=threshold)
    assert found.threshold == expected
    assert verdicts(found) == {"a": verdict}


def test_what_cannot_be_compared_is_refused_after_one_pair(run):
    measured = Measured(same=1.0)
    other = GPU | {"device": {**GPU["device"], "nvcc": "another"}}
    with pytest.raises(UserError, match="different compiler"):
        run(measured, of_head=other)
    assert measured.seeds == [0] and measured.closed
    assert len(run(measured, of_head=other, force=True).matched.differences) == 1
