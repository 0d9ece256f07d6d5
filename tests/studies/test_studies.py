import gc
import itertools
import json
import re
import shutil
import weakref
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from fake_algorithms import ALGORITHMS, ENVIRONMENT, RightSort, TwiceSort
from fakes import FakeDevice

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.evidence import results
from gpubench.measure.sampling import Budget, Mode, take_samples
from gpubench.problems.neighbours.tasks import TASKS, task_of
from gpubench.problems.particles.axes import Particles
from gpubench.studies import bench, runner
from gpubench.studies.plan import plan
from gpubench.studies.runner import run
from gpubench.studies.selection import WHOLE, Selection
from gpubench.studies.study import FOLDER, StudyError, Subject, check_names, load_study, parse_study

BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)

STUDY = """
title = "A study"
question = "Which?"
seed = 7
[[sweeps]]
name = "table"
particles = [64, 128]
per_cell = [1, 4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot", "graph"]
quick = { particles = [32], modes = ["hot"] }
[[sweeps]]
name = "beyond"
requires = ["warp-speed"]
particles = [256]
per_cell = [1]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
quick = { particles = [] }
[[subjects]]
algorithm = "right-sort"
form = "plain"
"""


RECORDS = """
title = "Records"
question = "Which?"
seed = 7
[[sweeps]]
name = "filter"
records = [64, 128]
kept = [1]
record_bytes = [4, 16]
modes = ["hot"]
[[subjects]]
algorithm = "right-filter"
form = "plain"
"""
PUBLISHED = """
paper = "mine2026"
table = "Table 1"
[published]
caption = "Times of mine"
source = "section 2"
device = "GeForce 1"
unit = "ms"
algorithm = "right-sort"
row_axis = "particles"
column_axis = "per_cell"
rows = [64, 128]
columns = [1]
axes = { order = "random" }
values = [[1.5], [2.5]]
[[sweeps]]"""


def subject(algorithm, form="plain"):
    return f'\n[[subjects]]\nalgorithm = "{algorithm}"\nform = "{form}"\n'


LIMITED = subject("right-sort") + "limits = { particles = 9 }\n"


def with_table(*changes):
    """Return the study with a published table of which some is replaced."""
    text = PUBLISHED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return STUDY.replace("[[sweeps]]", text, 1)


def one_sweep(*subjects):
    """Return a study of one input, 64 particles, with right-sort and the given subjects."""
    text = STUDY[: STUDY.index('[[sweeps]]\nname = "beyond"')]
    text = text.replace("[64, 128]", "[64]").replace("[1, 4]", "[4]")
    return parse_study("one", text + subject("right-sort") + "".join(subjects))


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr(registry, "algorithms", lambda: ALGORITHMS)
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
    RightSort.made.clear()


@pytest.fixture
def device():
    return FakeDevice()


def run_one(device, folder, *subjects, selection=WHOLE, **options):
    study = one_sweep(*subjects)
    summary = run(study, device, folder, selection, budget=BUDGET, **options)
    return summary, results.load(summary.path).records


def by_algorithm(records):
    return {
        name: [r for r in records if r.algorithm == name] for name in {r.algorithm for r in records}
    }


# The file of a study


def test_the_shipped_study_holds_the_published_table():
    study = load_study("rozen2008-table1")
    assert study.published is not None
    values = np.array(study.published.values)
    assert values.shape == (len(study.published.rows), len(study.published.columns)) == (5, 5)
    assert values[0, 0] == 13.28 and values[-1, -1] == 361.52
    assert study.sweeps[0].name == "table"
    assert list(study.sweeps[0].axes["particles"]) == list(study.published.rows)
    assert list(study.sweeps[0].axes["per_cell"]) == list(study.published.columns)
    assert study.sweeps[1].requires == {"cuda"}


def test_every_shipped_study_names_what_exists(monkeypatch):
    monkeypatch.undo()
    for name in registry.studies():
        check_names(load_study(name), registry.algorithms())


def test_an_unknown_study_is_the_users_mistake():
    with pytest.raises(UserError, match=r"did you mean .*rozen2008-table1"):
        load_study("rozen2008-table")
    with pytest.raises(UserError, match="no study"):
        load_study("../../etc/passwd")


def test_lists_of_parameters_become_all_combinations():
    text = STUDY + "parameters = { width = [2, 4, 8], depth = 3 }"
    found = parse_study("s", text).subjects
    assert [s.parameters for s in found] == [{"width": w, "depth": 3} for w in (2, 4, 8)]
    assert found[0] == Subject("right-sort", "plain", {"width": 2, "depth": 3})
    text = STUDY + "parameters = { width = [2, 4, 8], depth = [1, 5] }"
    assert len(parse_study("s", text).subjects) == 6


def test_a_sweep_may_have_subjects_of_its_own():
    text = STUDY.replace(
        "[[subjects]]",
        "[[sweeps.subjects]]\nalgorithm = 'wrong-sort'\nform = 'plain'\n[[subjects]]",
    )
    table, beyond = parse_study("s", text).sweeps
    assert [s.algorithm for s in table.subjects] == ["right-sort"]
    assert [s.algorithm for s in beyond.subjects] == ["wrong-sort"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 7", "seed = -1", "seed"),
        ("seed = 7", "", "seed"),
        ("seed = 7", "seed = ", "Invalid value"),
        ("seed = 7", "seed = 7\ncolour = 'red'", "colour"),
        ('"uniform"', '"unifrom"', "unifrom"),
        ('"hot", "graph"', '"lukewarm"', "lukewarm"),
        ("[64, 128]", "[0]", "0 is less"),
        ('name = "beyond"', 'name = "table"', "two sweeps"),
        ("[[subjects]]", subject("right-sort") + "[[subjects]]", "twice"),
        ("[[subjects]]", LIMITED + "[[subjects]]", "twice"),  # limits make no other subject
        ("[[subjects]]", LIMITED.replace("particles", "bytes") + "[[subjects]]", "bytes"),
        ("[64, 128]", "[8]\nrecords = [4]", "sweep table: it needs one of particles or records"),
        ("[1, 4]", "[1, 4]\nkept = [1]", "sweep table: kept does not go with particles"),
        ("per_cell = [1, 4]\n", "", "sweep table: it needs per_cell"),
        ("[[subjects]]", "[budget]\nmin_samples = 5\n[[subjects]]", "budget"),
        ("[[subjects]]", "[budget]\nmax_samples = 5\n[[subjects]]", "budget"),
        ("[[subjects]]", "[budget]\nmax_sample = 20\n[[subjects]]", "budget"),
        ("[[subjects]]", "[budget]\nseconds_per_task = 0\n[[subjects]]", "budget"),
        ("[[subjects]]", "[outcomes]\nrounds = 3\n[[subjects]]", r"outcomes\.rounds"),
        ("[[subjects]]", "[outcomes]\nrounds = ''\n[[subjects]]", r"outcomes\.rounds"),
    ],
)
def test_a_wrong_file_says_where(old, new, message):
    assert old in STUDY
    with pytest.raises(StudyError, match=message):
        parse_study("s", STUDY.replace(old, new))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (subject("quicksort"), "no algorithm 'quicksort'"),
        (subject("right-sort", "sideways"), "no form 'sideways': plain"),
        (
            subject("wrong-sort") + "parameters = { hight = 1 }",
            "no parameter 'hight': width, depth",
        ),
    ],
)
def test_names_that_do_not_exist_are_refused(text, message):
    with pytest.raises(StudyError, match=message):
        check_names(parse_study("s", STUDY + text), ALGORITHMS)


def test_the_schema_knows_the_modes_that_can_be_measured():
    modes = json.loads((FOLDER / "study.schema.json").read_text())["$defs"]["modes"]
    assert set(modes["items"]["enum"]) == set(get_args(Mode))


def test_a_stream_has_no_axes_of_particles():
    with pytest.raises(StudyError, match="sweep filter: per_cell does not go with records"):
        parse_study("r", RECORDS.replace("kept = [1]", "per_cell = [1]"))


def test_an_algorithm_gets_the_kind_of_input_that_it_takes():
    with pytest.raises(StudyError, match="right-sort takes particles, which its sweep has not"):
        check_names(parse_study("s", RECORDS + subject("right-sort")), ALGORITHMS)


def test_columns_of_a_published_table_may_be_algorithms():
    text = with_table(
        ('column_axis = "per_cell"', 'column_axis = "algorithm"'),
        (
            "columns = [1]",
            "columns = ['Sort', 'Re-sort']\nalgorithms = ['right-sort', 'twice-sort']",
        ),
        ('{ order = "random" }', "{ per_cell = 4 }"),
        ("[[1.5], [2.5]]", "[[1.5, 2], [2.5, 3.5]]"),
    )
    study = parse_study("s", text)
    assert study.published.algorithms == ("right-sort", "twice-sort")
    assert study.published.axes == {"per_cell": 4}
    check_names(study, ALGORITHMS)
    with pytest.raises(StudyError, match="no algorithm 'no-sort'"):
        check_names(parse_study("s", text.replace("'twice-sort'", "'no-sort'")), ALGORITHMS)
    for old, new in ((", 'twice-sort'", ""), ('"algorithm"', '"per_cell"')):
        with pytest.raises(StudyError, match="one for each of the columns"):
            parse_study("s", text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "ms"', 'unit = "seconds"', "'seconds' is not one of .'s', 'ms'"),
        ('"particles"', '"particle"', "row_axis: no axis 'particle' here: one of particles, per_c"),
        ('"particles"', '"distribution"', "row_axis: no axis 'distribution'"),
        ('"particles"', '"moved_fraction"', "row_axis: no axis 'moved_fraction'"),
        ('"per_cell"', '"percell"', "column_axis: no axis 'percell'"),
        ("{ order =", "{ oder =", "published.axes: no axis 'oder'"),
        ("[64, 128]", "[64, inf]", "finite"),
        ("[[1.5], [2.5]]", "[[1.5], [2.5, 3.5]]", "2 rows of 1 numbers"),
        ("[[1.5], [2.5]]", "[[1.5], [0]]", "above 0"),
        ("[[1.5], [2.5]]", "[[1.5], [nan]]", "above 0"),
    ],
)
def test_studies_that_no_report_can_show_are_refused(old, new, message):
    assert parse_study("s", with_table()).published is not None
    with pytest.raises(StudyError, match=message):
        parse_study("s", with_table((old, new)))


def test_results_hold_the_text_of_a_study_that_is_not_shipped(device, tmp_path, monkeypatch):
    summary = run(parse_study("s", STUDY), device, tmp_path, budget=BUDGET)
    assert results.load(summary.path).study == STUDY
    edited = STUDY.replace("seed = 7", "seed = 7  # of mine")
    again = run(parse_study("s", edited), device, tmp_path, budget=BUDGET, fresh=True)
    assert (again.path, results.load(again.path).study) == (summary.path, edited)
    monkeypatch.setattr(registry, "studies", lambda: ["s"])
    shipped = run(parse_study("s", STUDY), device, tmp_path / "other", budget=BUDGET)
    assert results.load(shipped.path).study is None


# The plan


def test_quick_replaces_what_it_names():
    groups = plan(parse_study("s", STUDY), Selection(quick=True))
    assert [(g.recipe.particles, g.recipe.per_cell, g.sweep.modes) for g in groups] == [
        (32, 1, ("hot",)),
        (32, 4, ("hot",)),
    ]


def test_every_input_of_every_sweep_is_planned():
    groups = plan(parse_study("s", STUDY))
    found = [(g.sweep.name, g.recipe) for g in groups]
    assert [(name, r.particles, r.per_cell, r.grid.count) for name, r in found] == [
        ("table", 64, 1, 64),
        ("table", 64, 4, 16),
        ("table", 128, 1, 128),
        ("table", 128, 4, 32),
        ("beyond", 256, 1, 256),
    ]


def test_sizes_given_by_hand_leave_out_what_quick_leaves_out():
    given = Selection(quick=True, particles=(16,), per_cell=(2,))
    groups = plan(parse_study("s", STUDY), given)
    found = [(g.sweep.name, g.recipe) for g in groups]
    assert [(name, r.particles, r.per_cell) for name, r in found] == [("table", 16, 2)]


def test_only_the_sweeps_asked_for_are_planned():
    groups = plan(parse_study("s", STUDY), Selection(sweeps=("beyond",)))
    assert {group.sweep.name for group in groups} == {"beyond"}


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ({"particles": (0,)}, "at least 1"),
        ({"particles": (-5,)}, "at least 1"),
        ({"particles": (2**31,)}, "2147483647"),
        ({"particles": (10,)}, "whole number"),
        ({"per_cell": (-1.0,)}, "per cell"),
        ({"per_cell": (float("nan"),)}, "per cell"),
        ({"per_cell": (float("inf"),)}, "per cell"),
        ({"sweeps": ("tabel",)}, "did you mean table"),
        ({"algorithms": ["wrong-sort"]}, "does not measure wrong-sort: one of right-sort"),
        ({"algorithms": ["rightsort"]}, "did you mean right-sort"),
        ({"particles": (2**30,)}, "needs at least"),
    ],
)
def test_bad_arguments_write_nothing(device, tmp_path, selected, message):
    with pytest.raises(UserError, match=message) as raised:
        run(parse_study("s", STUDY), device, tmp_path / "out", Selection(**selected))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


# The run


def test_measures_every_subject_in_every_mode(device, tmp_path):
    summary, records = run_one(device, tmp_path, subject("right-sort", "graphs-only"))
    assert (summary.measured, summary.resumed, summary.failed) == (4, 0, 0)
    assert {(r.form, r.mode) for r in records} == {
        (form, mode) for form in ("plain", "graphs-only") for mode in ("hot", "graph")
    }
    for record in records:
        assert record.status == "ok"
        assert record.median_ms == 1.0 and record.samples_ms == [1.0] * 6
        assert record.bytes_moved == 8 * 64
        assert record.workspace_bytes == 4 * (17 + 64)
        assert record.outcome == {"rounds": 3}
        assert record.drawn["cells"] == [4, 2, 2] and record.input_hash and record.seed == 7


@pytest.mark.parametrize("said", [float("nan"), {"a": {"b": {}}}, "x" * 2000])
def test_facts_that_no_record_can_hold_stop_no_other(device, tmp_path, monkeypatch, said):
    monkeypatch.setattr(RightSort, "outcome", lambda self: {"rounds": said})
    monkeypatch.setattr(TwiceSort, "outcome", lambda self: {"rounds": 3})
    summary, records = run_one(device, tmp_path, subject("twice-sort"))
    assert (summary.measured, summary.failed) == (2, 2)
    assert {r.status for r in records} == {"ok", "failed"}
    assert all(r.reason for r in records if r.status == "failed")


@pytest.mark.parametrize(
    ("algorithm", "status", "reason"),
    [
        ("wrong-sort", "wrong", r".*order\["),
        ("spoilt-sort", "wrong", "after timing: "),
        ("bad-graph-sort", "wrong", "after timing: "),
        ("broken-sort", "failed", "RuntimeError: illegal address$"),
        ("breaking-sort", "failed", "RuntimeError: illegal address$"),
        ("huge-sort", "skipped", ".*needs more memory than"),
    ],
)
def test_what_is_not_right_has_no_time_and_stops_no_other(
    device, tmp_path, algorithm, status, reason
):
    summary, records = run_one(device, tmp_path, subject(algorithm))
    assert (summary.measured, getattr(summary, status)) == (2, 2)
    for record in by_algorithm(records)[algorithm]:
        assert record.status == status and re.match(reason, record.reason)
        assert record.median_ms is None and record.samples_ms is None


def test_what_is_wrong_is_not_timed(device, tmp_path):
    run_one(device, tmp_path, subject("wrong-sort"))
    assert device.log.count("wrong-sort") == 1


def test_what_the_device_lacks_is_skipped_with_the_next_step(tmp_path):
    device = FakeDevice(backend="opencl", spec="opencl:x", features=frozenset({"opencl"}))
    summary, records = run_one(device, tmp_path, subject("right-sort", "graphs-only"))
    assert (summary.measured, summary.skipped) == (1, 3)
    reasons = {(r.form, r.mode): r.reason for r in records}
    assert reasons["plain", "hot"] is None
    assert all("--device cuda" in reason for reason in reasons.values() if reason)


def test_a_loop_on_the_host_has_no_graph_mode(device, tmp_path):
    _, records = run_one(device, tmp_path, subject("right-sort", "host-loop"))
    found = {r.mode: r for r in records if r.form == "host-loop"}
    assert found["hot"].status == "ok"
    assert found["graph"].status == "skipped" and "host reads" in found["graph"].reason


def test_a_sweep_that_needs_another_device_is_skipped_unmade(device, tmp_path):
    summary = run(parse_study("s", STUDY), device, tmp_path, budget=BUDGET)
    assert (summary.measured, summary.skipped) == (8, 1)
    assert {particles for _, particles, _ in RightSort.made} == {64, 128}
    last = results.load(summary.path).records[-1]
    assert last.sweep == "beyond" and "warp-speed" in last.reason


def test_too_large_an_input_of_the_study_is_skipped(tmp_path):
    summary, records = run_one(FakeDevice(memory_bytes=1024), tmp_path)
    assert summary.skipped == 2
    assert "needs at least" in records[0].reason


def test_parameters_reach_the_algorithm(device, tmp_path):
    study = one_sweep()
    subjects = (Subject("right-sort", "plain", {"width": 9}),)
    study = replace(study, sweeps=(replace(study.sweeps[0], subjects=subjects),))
    summary = run(study, device, tmp_path, budget=BUDGET)
    assert RightSort.made == [("right-sort", 64, {"width": 9, "depth": 2})]
    assert results.load(summary.path).records[0].parameters == {"width": 9}


def test_subjects_are_timed_in_turns(device, tmp_path):
    run_one(device, tmp_path, subject("spoilt-sort"))
    events = [entry for entry in device.log if entry in ("right-sort", "spoilt-sort")]
    turns = sum(a != b for a, b in itertools.pairwise(events))
    assert turns > 4


# Particles that move, and streams of records


def moving(axes, folder, device, selection=WHOLE):
    study = one_sweep()
    sweep = study.sweeps[0].along(axes)
    summary = run(replace(study, sweeps=(sweep,)), device, folder, selection, budget=BUDGET)
    return summary, results.load(summary.path).records


def test_moves_are_axes_of_a_study(device, tmp_path):
    axes = {"moved": (0, 5), "destination": ("random", "next")}
    summary, records = moving(axes, tmp_path, device)
    assert summary.measured == 8
    assert {(r.at("moved"), r.at("destination")) for r in records} == {
        (n, d) for n in (0, 5) for d in ("random", "next")
    }
    assert len({r.input_hash for r in records}) == 3  # none moved is the same either way
    assert {r.at("records") for r in records} == {None}


def test_a_step_is_recorded_with_what_it_moved_and_resumed(device, tmp_path):
    axes = {"particles": (4096,), "destination": ("step",)}
    summary, records = moving(axes, tmp_path, device)
    assert summary.measured == 2
    assert 0 < records[0].at("moved") < 1000 and records[0].at("destination") == "step"
    again, _ = moving(axes, tmp_path, device)
    assert (again.measured, again.resumed) == (0, 2)


def test_more_moved_than_there_are_is_refused_before_anything_runs(device, tmp_path):
    with pytest.raises(UserError, match="65 of 64 particles"):
        moving({"moved": (65,), "destination": ("next",)}, tmp_path / "out", device)
    with pytest.raises(UserError, match="need a destination"):
        moving({"moved": (5,)}, tmp_path / "out", device)
    assert not (tmp_path / "out").exists()


def test_a_study_may_ask_for_fewer_samples(device, tmp_path, monkeypatch):
    asked = "[budget]\nmin_samples = 7\nmax_samples = 12\nrelative_half_width = 0.02\n[[subjects]]"
    study = parse_study("s", STUDY.replace("[[subjects]]", asked, 1))
    used = []

    def spy(device, tasks, budget, *others):
        used.append(budget)
        return take_samples(device, tasks, BUDGET, *others)

    monkeypatch.setattr(bench, "take_samples", spy)
    assert run(study, device, tmp_path).measured > 0
    assert set(used) == {replace(Budget(), min_samples=7, max_samples=12, relative_half_width=0.02)}


def test_outcomes_keep_the_order_of_the_file():
    named = '[outcomes]\nrounds = "Rounds"\nlost = "Particles lost"\n[[subjects]]'
    study = parse_study("named", STUDY.replace("[[subjects]]", named))
    assert list(study.outcomes.items()) == [("rounds", "Rounds"), ("lost", "Particles lost")]
    assert one_sweep().outcomes == {}


def test_filters_run_over_records(device, tmp_path):
    summary = run(parse_study("r", RECORDS), device, tmp_path, budget=BUDGET)
    assert summary.measured == 4
    records = results.load(summary.path).records
    assert [
        (r.at("records"), r.at("kept"), r.at("record_bytes"), r.at("nulls")) for r in records
    ] == [(n, 1, size, "infinity") for n in (64, 128) for size in (4, 16)]
    for record in records:
        assert (
            record.at("particles") is None and record.drawn is None and record.at("moved") is None
        )
        assert record.bytes_moved == record.at("records") * record.at("record_bytes")
    again = run(parse_study("r", RECORDS), device, tmp_path, budget=BUDGET)
    assert (again.measured, again.resumed) == (0, 4)


def test_sizes_given_by_hand_are_records_where_a_study_has_those():
    study = parse_study("r", RECORDS)
    found = [group.recipe for group in plan(study, Selection(particles=(7,)))]
    assert [(r.records, r.record_bytes) for r in found] == [(7, 4), (7, 16)]
    with pytest.raises(UserError, match="does not vary per_cell: leave out --per-cell"):
        plan(study, Selection(per_cell=(4,)))
    with pytest.raises(UserError, match="2147483647"):
        plan(study, Selection(particles=(2**31,)))
    study = parse_study("r", RECORDS.replace("[1]", "[0.5]"))
    wrong = replace(study, sweeps=(study.sweeps[0].along({"kept": (1.5,)}),))
    with pytest.raises(UserError, match="must be 0 to 1"):
        plan(wrong)


def test_times_are_per_launch(device, tmp_path):
    _, records = run_one(device, tmp_path, subject("twice-sort"))
    for record in by_algorithm(records)["twice-sort"]:
        assert record.median_ms == 1.0 and record.batch % 2 == 0


# Stopping and going on


def test_a_stopped_run_keeps_its_records_and_resumes(device, tmp_path, monkeypatch):
    study = parse_study("s", STUDY)
    real, calls = runner.measure, []

    def stop_at_the_third(group, *rest, **named):
        calls.append(group)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(group, *rest, **named)

    monkeypatch.setattr(runner, "measure", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(study, device, tmp_path, budget=BUDGET)
    (path,) = tmp_path.rglob("*.json")
    kept = results.load(path).records
    assert {(r.at("particles"), r.at("per_cell")) for r in kept} == {(64, 1), (64, 4)}

    monkeypatch.setattr(runner, "measure", real)
    RightSort.made.clear()
    summary = run(study, device, tmp_path, budget=BUDGET)
    assert (summary.resumed, summary.measured, summary.skipped) == (4, 4, 1)
    assert {particles for _, particles, _ in RightSort.made} == {128}
    assert summary.path == path
    assert results.load(path).records[:4] == kept

    notices = []
    summary = run(study, device, tmp_path, budget=BUDGET, notice=notices.append)
    assert (summary.resumed, summary.measured, summary.skipped) == (9, 0, 0)
    assert notices == []

    document = json.loads(path.read_text(encoding="utf-8"))
    document["environment"]["libraries"]["numpy"] = "0.1"
    path.write_text(json.dumps(document), encoding="utf-8")
    summary = run(study, device, tmp_path, budget=BUDGET, notice=notices.append)
    assert summary.resumed == 0
    (said,) = notices
    assert said.startswith(f"{path} is not continued, since it differs in libraries numpy")


def test_records_are_stored_after_each_input(device, tmp_path, monkeypatch):
    sizes = []
    real = runner.Store.add

    def add(store, records):
        real(store, records)
        sizes.append(len(results.load(store.path).records))

    monkeypatch.setattr(runner.Store, "add", add)
    run(parse_study("s", STUDY), device, tmp_path, budget=BUDGET)
    assert sizes == [2, 4, 6, 8, 9]


def test_only_what_is_missing_of_an_input_is_measured(device, tmp_path):
    run_one(
        device, tmp_path, subject("spoilt-sort"), selection=Selection(algorithms=("right-sort",))
    )
    RightSort.made.clear()
    summary, _ = run_one(device, tmp_path, subject("spoilt-sort"))
    assert (summary.resumed, summary.measured, summary.wrong) == (2, 0, 2)
    assert [name for name, *_ in RightSort.made] == ["spoilt-sort"]


def test_a_failure_is_tried_again(device, tmp_path):
    run_one(device, tmp_path, subject("broken-sort"))
    summary, _ = run_one(device, tmp_path, subject("broken-sort"))
    assert (summary.resumed, summary.failed) == (2, 2)


def test_fresh_measures_again(device, tmp_path):
    run_one(device, tmp_path)
    summary, _ = run_one(device, tmp_path, fresh=True)
    assert (summary.resumed, summary.measured) == (0, 2)


def test_a_folder_that_cannot_be_written_ends_the_run(device, tmp_path, monkeypatch):
    real = runner.measure

    def measure_and_spoil_the_folder(*args, **named):
        shutil.rmtree(tmp_path / "fake")
        (tmp_path / "fake").write_text("a file where the machine's folder would be")
        return real(*args, **named)

    monkeypatch.setattr(runner, "measure", measure_and_spoil_the_folder)
    with pytest.raises(UserError, match="cannot write"):
        run_one(device, tmp_path)


def test_a_second_run_into_a_folder_measures_nothing(device, tmp_path, monkeypatch):
    with results.Store.open(tmp_path, "one", ENVIRONMENT):
        monkeypatch.setattr(runner, "measure", None)
        with pytest.raises(UserError, match="another process measures the same into"):
            run_one(device, tmp_path)


def test_memory_is_freed_between_inputs(device, tmp_path, monkeypatch):
    alive = []
    real = runner.Store.add

    def add(store, records):
        gc.disable()
        alive.append(sum(ref() is not None for ref in made))
        gc.enable()
        real(store, records)

    made = []
    monkeypatch.setattr(runner.Store, "add", add)
    monkeypatch.setattr(RightSort, "load", load_noting(made, weakref.ref))
    run(parse_study("s", STUDY + subject("breaking-sort")), device, tmp_path, budget=BUDGET)
    assert made and alive == [0] * 5


def load_noting(made, ref):
    original = RightSort.load

    def load(self, inputs):
        made.append(ref(self))
        original(self, inputs)

    return load


# Several inputs that take turns


def test_a_wrong_search_is_on_record_with_the_fewest_particles_that_show_it(device, tmp_path):
    study = one_sweep(subject("losing-search", "count"))
    run(study, device, tmp_path, budget=BUDGET)
    summary = run(study, device, tmp_path, budget=BUDGET, fresh=True)
    records = by_algorithm(results.load(summary.path).records)["losing-search"]
    assert {record.status for record in records} == {"wrong"}
    for record in records:
        assert "; 5 particles are enough: " in record.reason
        assert "has 3 neighbours, expected 4" in record.reason


class SecondWrongSort(RightSort):
    """Right on the first input that it is made for, wrong on the next."""

    name = "second-wrong-sort"

    def sort(self):
        cost = super().sort()
        if [name for name, *_ in self.made].count(self.name) > 1:
            self.order[:] = np.roll(self.order, 1)
        return cost


def test_inputs_that_take_turns_are_drawn_from_seeds_of_their_own(device, tmp_path, monkeypatch):
    loaded = []
    load = RightSort.load
    monkeypatch.setattr(RightSort, "load", lambda s, i: loaded.append(i.hash) or load(s, i))
    _, (one, _) = run_one(device, tmp_path / "one")
    assert loaded == [one.input_hash]
    RightSort.made.clear()
    _, records = run_one(device, tmp_path / "three", selection=Selection(inputs=3))
    assert len(RightSort.made) == len({*loaded[1:]}) == 3
    assert loaded[1] == loaded[0]
    for record in records:
        assert record.status == "ok"
        assert record.inputs == 3 and one.inputs is None
        assert record.batch % 3 == 0
        assert record.input_hash != one.input_hash
        assert record.key != one.key


def test_an_answer_that_is_wrong_on_a_later_input_has_no_time(device, tmp_path, monkeypatch):
    wrong = ALGORITHMS | {SecondWrongSort.name: SecondWrongSort}
    monkeypatch.setattr(registry, "algorithms", lambda: wrong)
    _, records = run_one(
        device, tmp_path, subject("second-wrong-sort"), selection=Selection(inputs=2)
    )
    found = by_algorithm(records)
    assert {r.status for r in found["second-wrong-sort"]} == {"wrong"}
    assert {r.status for r in found["right-sort"]} == {"ok"}


def test_a_sweep_says_how_many_inputs_take_turns():
    text = STUDY.replace('name = "table"', 'name = "table"\ninputs = 4')
    sweeps = parse_study("s", text).sweeps
    assert [sweep.inputs for sweep in sweeps] == [4, 1]
    assert plan(parse_study("s", text), Selection(inputs=2))[0].sweep.inputs == 2


def test_a_simulation_has_one_input():
    text = (
        (FOLDER / "dpd-step.toml").read_text().replace('name = "size"', 'name = "size"\ninputs = 2')
    )
    with pytest.raises(StudyError, match="one input"):
        parse_study("s", text)


@pytest.mark.parametrize("inputs", [0, -1])
def test_no_inputs_are_the_users_mistake(inputs):
    with pytest.raises(UserError, match="inputs must be at least 1"):
        plan(one_sweep(), Selection(inputs=inputs))


def test_inputs_that_do_not_fit_together_are_skipped(device, tmp_path):
    device.memory_bytes = 64 * 24 + 16 * 4  # of one input
    _, (one, _) = run_one(device, tmp_path / "one")
    study = one_sweep()
    study = replace(study, sweeps=(replace(study.sweeps[0], inputs=2),))
    found = run(study, device, tmp_path / "two", budget=BUDGET)
    two = results.load(found.path).records[0]
    assert (one.status, two.status) == ("ok", "skipped")
    with pytest.raises(UserError, match="needs at least"):
        run_one(device, tmp_path / "two", selection=Selection(inputs=2))


def test_where_every_sample_was_throttled_the_record_failed(device, tmp_path, monkeypatch):
    monkeypatch.setattr(FakeDevice, "throttled_by", lambda self, state: ("power cap",))
    summary, records = run_one(device, tmp_path)
    assert summary.failed == len(records)
    assert all("power cap" in record.reason for record in records)


def test_shares_of_particles_move_as_the_numbers_that_they_are(device, tmp_path):
    axes = {"particles": (64, 128), "moved_fraction": (0, 0.1, 1), "destination": ("next",)}
    summary, records = moving(axes, tmp_path, device)
    assert summary.measured == 2 * 6
    moved = [(r.at("particles"), r.at("moved")) for r in records if r.mode == "hot"]
    assert moved == [(64, 0), (64, 6), (64, 64), (128, 0), (128, 13), (128, 128)]
    # The same as by number, so that records by share and by number have the same keys.
    by_number = axes | {"particles": (64,), "moved": (0, 6, 64)}
    del by_number["moved_fraction"]
    _, others = moving(by_number, tmp_path / "other", device)
    assert [r.key for r in others] == [r.key for r in records[:6]]
    again, records = moving(axes, tmp_path, device, Selection(moved=(5,)))
    assert (again.measured, again.resumed) == (4, 0)
    assert {r.at("moved") for r in records[12:]} == {5}


def test_shares_that_are_one_number_are_measured_once():
    sweep = one_sweep().sweeps[0].along({"moved_fraction": (0, 0.001, 1), "destination": ("next",)})
    assert [recipe.moved for recipe in sweep.recipes()] == [0, 64]
    with pytest.raises(UserError, match="either moved or moved_fraction, not both"):
        replace(sweep, axes={**sweep.axes, "moved": (3,)}).recipes()


def test_a_study_stops_a_subject_at_a_size(device, tmp_path):
    limited = subject("right-sort").rstrip() + "\nlimits = { particles = 64 }\n"
    text = STUDY[: STUDY.index('[[sweeps]]\nname = "beyond"')] + subject("spoilt-sort") + limited
    study = parse_study("s", text.replace("[1, 4]", "[4]").replace('"hot", "graph"', '"hot"'))
    summary = run(study, device, tmp_path, budget=BUDGET)
    found = by_algorithm(results.load(summary.path).records)["right-sort"]
    assert [(r.at("particles"), r.status) for r in found] == [(64, "ok"), (128, "skipped")]
    assert found[1].reason == "not run above 64 particles (limit of the study)"
    assert [particles for name, particles, _ in RightSort.made if name == "right-sort"] == [64]
    again = run(study, device, tmp_path, budget=BUDGET)
    assert (again.skipped, again.resumed) == (0, 4)


def test_an_input_that_nothing_is_measured_on_is_not_drawn(device, tmp_path, monkeypatch):
    text = STUDY[: STUDY.index('[[sweeps]]\nname = "beyond"')] + subject("right-sort")
    study = parse_study("s", text + "limits = { particles = 32, neighbours = 5 }")
    monkeypatch.setattr(type(study.sweeps[0].recipes()[0]), "make", None)
    summary = run(study, device, tmp_path, budget=BUDGET)
    assert (summary.measured, summary.skipped) == (0, 8)


def test_a_limit_on_neighbours_counts_how_crowded_an_input_is():
    sweep = one_sweep().sweeps[0].along({"distribution": ("uniform", "clusters")})
    even, crowded = sweep.recipes()
    assert even.neighbours == 64 * 17 - 16  # 4 pi / 3 times 4 a particle, rounded
    limited = Subject("right-sort", "plain", limits={"neighbours": even.neighbours})
    assert limited.left_out(even) is None
    assert limited.left_out(crowded) == (
        f"not run above {even.neighbours:,} neighbours in total (limit of the study)"
    )
    dense = one_sweep().sweeps[0].along({"per_cell": (32,), "periodic": (False, True)})
    open_box, periodic = dense.recipes()
    roomy = Subject("right-sort", "plain", limits={"neighbours": 10**9})
    assert roomy.left_out(open_box) is None
    assert roomy.left_out(periodic) == "needs 3 cells along a periodic axis, not (2, 1, 1)"


def test_every_input_of_a_shipped_study_is_measured_or_left_out(monkeypatch):
    """Boxes too small for a search would end the run, with all inputs after them."""
    monkeypatch.undo()
    searches = {"neighbour-search", "neighbour-query"}
    small = [
        (name, subject.label, recipe.title)
        for name in registry.studies()
        for sweep in load_study(name).sweeps
        for recipe in sweep.recipes()
        if recipe.too_small
        for subject in sweep.subjects
        if registry.find_algorithm(subject.algorithm).family in searches
        and not subject.left_out(recipe)
    ]
    assert not small


def test_the_study_of_regimes_covers_them():
    study = load_study("regimes")
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    assert {sweep.modes for sweep in study.sweeps} == {("hot", "graph")}
    recipes = [recipe for sweep in study.sweeps for recipe in sweep.recipes()]
    particles = [recipe for recipe in recipes if isinstance(recipe, Particles)]
    assert (min(r.particles for r in recipes), max(r.particles for r in recipes)) == (2**10, 2**26)
    assert (min(r.per_cell for r in particles), max(r.per_cell for r in particles)) == (0.5, 128)
    for axis, wanted in (
        ("distribution", {"uniform", "clusters", "free-surface"}),
        ("order", {"random", "nearly-sorted", "morton"}),
    ):
        assert {getattr(recipe, axis) for recipe in sweeps["spread"].recipes()} == wanted
    for axis, wanted in (("contrast", {None, 10, 300, 10**4}), ("radii", {None, 2, 16})):
        assert {getattr(recipe, axis) for recipe in particles} == wanted
    forms = {subject.form for sweep in study.sweeps for subject in sweep.subjects}
    assert set(TASKS) <= {task_of(form) for form in forms - {"reorder", "order"}}
    # A re-sort and a new sort of the same moved input answer one question.
    moved = {subject.form for subject in sweeps["moved"].subjects}
    assert moved == {"update", "count"}
    assert {r.moved / r.particles for r in sweeps["moved"].recipes()} >= {0, 1}


def test_regimes_are_computed_to_take_ten_minutes_at_most(monkeypatch):
    """At e0fc40c, 5,756 records with 4.9e9 listed neighbours took at most 499 s on an H100."""
    monkeypatch.undo()
    seconds = 0.0
    for group in plan(load_study("regimes")):
        timed = [subject for subject, _ in group.items if not subject.left_out(group.recipe)]
        listed = sum(subject.form.startswith("list") for subject in timed)
        seconds += 0.05 * len(timed) + 43e-9 * listed * (group.recipe.neighbours or 0)
    assert 400 < seconds <= 600


def test_a_study_that_begins_anew_measures_all_again_into_another_file(device, tmp_path):
    study = replace(one_sweep(), anew=True)
    first, second = (run(study, device, tmp_path, budget=BUDGET) for _ in range(2))
    assert first.path != second.path
    assert first.measured == second.measured > 0
    assert (first.resumed, second.resumed) == (0, 0)
    assert load_study("again").anew and not load_study("regimes").anew


def test_the_quick_regimes_are_small():
    quick = [sweep.quickened() for sweep in load_study("regimes").sweeps]
    recipes = {sweep.name: sweep.recipes() for sweep in quick}
    assert recipes.pop("large") == []
    assert all(recipes.values())
    assert max(recipe.particles for each in recipes.values() for recipe in each) <= 2**16


def test_every_input_of_every_shipped_study_can_be_made(monkeypatch):
    """Inputs for a GPU too, which no run here plans."""
    monkeypatch.undo()
    groups = [group for name in registry.studies() for group in plan(load_study(name))]
    assert len({json.dumps(group.recipe.identity, default=str) for group in groups}) > 500
