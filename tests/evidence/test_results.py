import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import compare_results as made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import flat_fields, of_kind

from gpubench.base.errors import UserError
from gpubench.evidence.bounds import content_of
from gpubench.evidence.records import as_json, identity_of, make_record, record_key, record_of
from gpubench.evidence.results import Store, load
from gpubench.report.sources import sort_out

ENVIRONMENT = {
    "machine": "nvidia-h200",
    "device": {"backend": "cuda", "name": "NVIDIA H200", "is_cpu": False},
    "host": {"cpu": "AMD EPYC", "cores": 2},
    "libraries": {"numpy": "2.0", "pycuda": None},
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "code_hash": "feedfacefeedface",
    "copy_bandwidth_gb_s": 3900.0,
    "overhead_ms": {"cold": 0.002, "hot": 0.002},
    "started": "2026-01-31T12:00:00Z",
}
TIMES = {
    "samples_ms": [0.1, 0.2, 0.3],
    "batch": 1,
    "median_ms": 0.2,
    "ci95_low_ms": 0.1,
    "ci95_high_ms": 0.3,
}
SHIPPED = Path(__file__).parents[2] / "results" / "measured"
NOT_OK = {"status": "failed", "reason": "ran out of luck"}


def identity(**changes):
    return {
        "study": "table",
        "sweep": "size",
        "algorithm": "counting-sort",
        "form": "order",
        "parameters": {"block": 256},
        "device": "cuda",
        "particles": 1024,
        "per_cell": 4.0,
        "cells": [16, 4, 4],
        "periodic": [False, False, False],
        "distribution": "uniform",
        "order": "random",
        "moved": None,
        "destination": None,
        "records": None,
        "kept": None,
        "record_bytes": None,
        "nulls": None,
        "workload": None,
        "skin": None,
        "time_step": None,
        "ranks": None,
        "decomposition": None,
        "setting": None,
        "pairs": None,
        "matrix": None,
        "surface": None,
        "faces": None,
        "depth": None,
        "key_count": None,
        "value_bytes": None,
        "key_order": None,
        "key_type": None,
        "key_entropy": None,
        "key_bits": None,
        "keys_moved": None,
        "segment_keys": None,
        "mesh": None,
        "pose": None,
        "inputs": None,
        "mode": "hot",
        "input_hash": "0011223344556677",
        "seed": 1,
    } | changes


def ok(**changes):
    return make_record(**of_kind(identity() | {"status": "ok"} | TIMES | changes))


def not_ok(**changes):
    return make_record(**of_kind(identity() | NOT_OK | changes))


def environment(**changes):
    return ENVIRONMENT | changes


# Records


def test_a_record_is_complete_and_says_what_it_was_given():
    record = ok(outcome={"rounds": np.int64(7)}, samples_ms=np.array([0.1, 0.2]))
    assert record.outcome == {"rounds": 7}
    assert record.samples_ms == [0.1, 0.2]
    assert record.bytes_moved is None
    assert record.key == record_key(**identity())
    assert record_of(as_json(record)) == record


@pytest.mark.parametrize("missing", TIMES)
def test_ok_needs_its_times(missing):
    with pytest.raises(ValueError, match=missing):
        ok(**{missing: None})


@pytest.mark.parametrize("status", ["wrong", "skipped", "failed"])
def test_what_is_not_ok_has_a_reason_and_no_time(status):
    assert not_ok(status=status).median_ms is None
    for offence in ({"reason": None}, {"reason": ""}, *({k: v} for k, v in TIMES.items())):
        with pytest.raises(ValueError, match=next(iter(offence))):
            not_ok(status=status, **offence)


@pytest.mark.parametrize(
    "offence", [{"status": "fine"}, {"mode": "warm"}, {"median": 1.0}, {"samples_ms": [-1.0]}]
)
def test_what_the_schema_does_not_know_is_refused(offence):
    with pytest.raises(ValueError):
        ok(**offence)


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ValueError, match="JSON compliant"):
        ok(median_ms=float("nan"))


@pytest.mark.parametrize("name", identity())
def test_every_part_of_the_identity_changes_the_key(name):
    assert record_key(**identity(**{name: "other"})) != record_key(**identity())


def test_the_key_needs_the_whole_identity_and_nothing_else():
    with pytest.raises(TypeError, match="colour"):
        record_key(**identity(), colour="red")
    with pytest.raises(TypeError, match="seed"):
        record_key(**{k: v for k, v in identity().items() if k != "seed"})


@given(st.integers(1, 2**31))
def test_the_key_depends_on_values_not_on_types_or_order(number):
    first = identity(particles=number, per_cell=float(number), cells=(1, 2, number))
    second = identity(particles=np.int64(number), per_cell=number, cells=np.array([1, 2, number]))
    assert record_key(**first) == record_key(**dict(reversed(second.items())))


def test_the_key_of_a_record_on_disk_can_be_computed_again(tmp_path):
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    store.add([ok(per_cell=0.1)])
    (record,) = load(store.path).records
    assert record.key == record_key(**identity_of(record))


# Reading


def document(**changes):
    return {"schema": 2, "environment": ENVIRONMENT, "records": [as_json(ok())]} | changes


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `schema`"),
        (json.dumps(document(schema=3)), "$.schema"),
        (json.dumps(document(records=[flat_fields(ok()) | {"status": "wrong"}])), "$.records[0]"),
        (json.dumps(document(records=[as_json(ok()), {"key": 1}])), "$.records[1]"),
        (json.dumps(document(environment={"machine": "a"})), "$.environment"),
        (json.dumps(document(environment=environment(machine="../up"))), "$.environment.machine"),
        (json.dumps(document(records=[flat_fields(ok()) | {"median_ms": float("nan")}])), "NaN"),
    ],
)
def test_what_is_no_results_file_is_refused_in_one_line(tmp_path, content, named):
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert named in message
    assert "\n" not in message
    assert len(message) < 500


def test_a_missing_or_unreadable_file_is_refused_in_one_line(tmp_path):
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.json", tmp_path / "missing" / "a.json", binary):
        with pytest.raises(UserError, match=r"\.json"):
            load(path)


def test_folders_are_searched_and_each_file_is_read_once(tmp_path):
    for name in ("m/b.json", "m/a.json", "n/c.json"):
        Store(tmp_path / name, ENVIRONMENT).add([ok()])
    (tmp_path / "notes.txt").write_text("not read")
    found = sort_out([tmp_path / "n", tmp_path, tmp_path / "m" / "a.json"]).results
    assert [result.path.name for result in found] == ["c.json", "a.json", "b.json"]


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(UserError, match="gpubench run"):
        sort_out([tmp_path])


# Storage


def test_what_is_added_is_read_back_and_earlier_lines_stay_byte_for_byte(tmp_path):
    store = Store(tmp_path / "deep" / "a.json", ENVIRONMENT)
    store.add([ok(seed=1)])
    before = store.path.read_text().splitlines()
    store.add([ok(seed=2), not_ok(seed=3)])
    after = store.path.read_text().splitlines()
    records = load(store.path).records
    assert [record.seed for record in records] == [1, 2, 3]
    assert after[: len(before) - 2] == before[:-2]
    assert sum('"samples_ms"' in line for line in after) == 3  # one record a line
    assert store.done == {records[0].key, records[1].key}


def test_a_store_without_records_leaves_no_file(tmp_path):
    with Store(tmp_path / "a.json", ENVIRONMENT) as store:
        store.add([])
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_continued_under_its_own_environment(tmp_path):
    path = tmp_path / "a.json"
    Store(path, ENVIRONMENT).add([ok(seed=1)])
    store = Store(path, environment(started="2027-01-01T00:00:00Z"))
    store.add([ok(seed=2)])
    assert len(load(path).records) == 2
    assert load(path).environment == store.environment == ENVIRONMENT


def test_bad_records_are_refused_before_anything_is_written(tmp_path):
    with (
        Store(tmp_path / "a.json", ENVIRONMENT) as store,
        pytest.raises(ValueError, match="status"),
    ):
        store.add([ok(), flat_fields(ok()) | {"status": "fine"}])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="code_hash"):
        Store(tmp_path / "b.json", {k: v for k, v in ENVIRONMENT.items() if k != "code_hash"})


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch, step):
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    store.add([ok(seed=1)])
    before = store.path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, step, full)
        with pytest.raises(UserError, match="No space left on device") as caught:
            store.add([ok(seed=2)])
    assert "\n" not in str(caught.value)
    assert store.path.read_bytes() == before
    assert not list(tmp_path.glob(".*.tmp"))
    assert len(store.done) == 1
    store.add([ok(seed=3)])  # room again
    assert [record.seed for record in load(store.path).records] == [1, 3]


def test_ctrl_c_while_writing_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch):
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    store.add([ok(seed=1)])

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt), store:
        store.add([ok(seed=2)])
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert len(load(store.path).records) == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        Store.open(tmp_path / "file", "table", ENVIRONMENT)


def test_a_second_run_of_the_same_study_is_refused_before_it_measures(tmp_path):
    with Store.open(tmp_path, "table", ENVIRONMENT) as first:
        with pytest.raises(UserError, match="another process measures the same into") as caught:
            Store.open(tmp_path, "table", ENVIRONMENT)
        assert str(first.path) in str(caught.value)
        Store.open(tmp_path, "other-table", ENVIRONMENT).close()
        first.add([ok(seed=1)])
        with pytest.raises(UserError, match="another process measures the same into"):
            Store.open(tmp_path, "table", environment(started="2026-02-02T00:00:00Z"))
        first.add([ok(seed=2)])
    with Store.open(tmp_path, "table", ENVIRONMENT) as second:
        second.add([ok(seed=3)])
    assert [record.seed for record in load(first.path).records] == [1, 2, 3]
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]


def test_what_something_else_writes_meanwhile_is_kept(tmp_path):
    """Where a file system has no locks, or somebody edits the file."""
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    made.write(store.path, ok(seed=1))
    with pytest.raises(UserError, match="was changed meanwhile"):
        store.add([ok(seed=2)])
    assert [record.seed for record in load(store.path).records] == [1]


CHILD = textwrap.dedent(
    """
    import itertools, json, resource, sys
    from pathlib import Path
    from gpubench.base.errors import UserError
    from gpubench.evidence.results import Store, load

    path, limit = Path(sys.argv[1]), int(sys.argv[2])
    environment, record = json.load(sys.stdin)
    try:
        store = Store(path, environment)
    except UserError as error:
        print(f"refused: {error}", flush=True)
        sys.exit()
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        for _ in itertools.count():
            store.add([record])
            print("added", flush=True)
    except UserError as error:
        print(f"refused: {error}", flush=True)
    """
)


def start_child(path, limit=0):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    child.stdin.write(json.dumps([ENVIRONMENT, as_json(ok(samples_ms=[0.25] * 200))]))
    child.stdin.close()
    return child


def test_a_write_that_the_system_cuts_short_leaves_the_older_file(tmp_path):
    path = tmp_path / "a.json"
    child = start_child(path, limit=20_000)
    output = child.stdout.read().splitlines()
    child.stdout.close()
    assert child.wait(timeout=600) == 0
    added = output.count("added")
    assert added > 3
    assert output[-1].startswith(f"refused: cannot write {path}: File too large")
    assert len(load(path).records) == added
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_a_kill_at_any_time_leaves_a_whole_file(tmp_path):
    path = tmp_path / "a.json"
    before = 0
    for adds in (1, 17, 40):
        child = start_child(path)
        for _ in range(adds):
            assert child.stdout.readline() == "added\n"
        child.send_signal(signal.SIGKILL)
        added = adds + len(child.stdout.read().splitlines())
        child.stdout.close()
        child.wait(timeout=600)
        # The last one may be in the file and not yet told.
        after = len(load(path).records)
        assert before + added <= after <= before + added + 1
        before = after
    Store(path, ENVIRONMENT).close()
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path):
    path = tmp_path / "a.json"
    first = start_child(path)
    assert first.stdout.readline() == "added\n"
    second = start_child(path)
    assert second.stdout.read().startswith("refused: another process measures the same into")
    first.kill()
    added = 1 + len(first.stdout.read().splitlines())
    for child in (first, second):
        child.stdout.close()
        child.wait(timeout=60)
    with Store(path, ENVIRONMENT) as third:
        third.add([ok()])
    assert added + 1 <= len(load(path).records) <= added + 2


# Resuming


def test_the_file_is_named_after_machine_date_commit_and_study(tmp_path):
    store = Store.open(tmp_path, "rozen2008-table1", ENVIRONMENT)
    assert store.path == tmp_path / "nvidia-h200" / "2026-01-31-0123456-rozen2008-table1.json"
    store = Store.open(tmp_path, "rozen2008-table1", environment(commit=None, dirty=None))
    assert store.path.name == "2026-01-31-feedfac-rozen2008-table1.json"


def test_a_run_of_the_same_code_is_resumed_on_any_day(tmp_path):
    with Store.open(tmp_path, "table", ENVIRONMENT) as first:
        first.add([ok(seed=1), not_ok(seed=2), not_ok(seed=3, status="skipped")])
    later = environment(started="2026-02-02T00:00:00Z", copy_bandwidth_gb_s=3800.0, dirty=True)
    second = Store.open(tmp_path, "table", later)
    assert second.path == first.path
    assert second.begins_anew is None
    assert second.done == {record_key(**identity(seed=seed)) for seed in (1, 3)}


@pytest.mark.parametrize(
    "changes",
    [
        {"code_hash": "0" * 16},
        {"device": {"backend": "opencl", "name": "NVIDIA H200"}},
        {"device": ENVIRONMENT["device"] | {"driver": "2"}},
        {"libraries": {"numpy": "2.1"}},
        {"host": {"cpu": "other"}},
    ],
)
def test_other_conditions_start_another_file(tmp_path, changes):
    with Store.open(tmp_path, "table", ENVIRONMENT) as first:
        first.add([ok()])
        # One of them may measure while the other does.
        with Store.open(tmp_path, "table", environment(**changes)) as second:
            assert second.done == frozenset()
            assert second.path.name == "2026-01-31-0123456-table-2.json"
            if "code_hash" in changes:
                assert second.begins_anew is None
            else:
                (name,) = changes
                assert second.begins_anew.startswith(
                    f"{first.path} is not continued, since it differs in {name} "
                )
            second.add([ok()])
    # From now on each is resumed under its own conditions.
    assert Store.open(tmp_path, "table", ENVIRONMENT).path == first.path
    assert Store.open(tmp_path, "table", environment(**changes)).path == second.path
    third = Store.open(tmp_path, "table", environment(code_hash="1" * 16))
    assert third.path.name == "2026-01-31-0123456-table-3.json"


def test_studies_with_similar_names_are_kept_apart(tmp_path):
    names = ("table", "table-2", "other-table", "table1")
    for name in names:
        Store.open(tmp_path, name, ENVIRONMENT).add([ok(study=name)])
    for name in names:
        assert Store.open(tmp_path, name, ENVIRONMENT).done == {
            record_key(**identity(study=name))
        }, name


def test_every_status_but_failed_is_settled(tmp_path):
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    statuses = ("wrong", "skipped", "failed")
    store.add([ok(seed=0), *(not_ok(status=s, seed=n) for n, s in enumerate(statuses, 1))])
    assert store.done == {record_key(**identity(seed=seed)) for seed in (0, 1, 2)}


def test_fields_that_came_later_are_null_in_older_records(tmp_path):
    document = {
        "schema": 1,
        "environment": ENVIRONMENT,
        "records": [flat_fields(ok())],
    }
    later = (
        "destination", "records", "kept", "record_bytes", "nulls", "pairs", "matrix", "surface",
        "faces", "depth", "focal", "key_count", "value_bytes", "key_order", "key_type",
        "key_entropy", "key_bits", "keys_moved", "segment_keys", "mesh", "pose", "inputs",
    )  # fmt: skip
    of_simulations = (
        "workload", "skin", "time_step", "ranks", "decomposition", "setting", "steps",
        "particle_steps_per_s", "phases_ms",
    )  # fmt: skip
    for name in (*later, *of_simulations):
        del document["records"][0][name]
    path = tmp_path / "older.json"
    path.write_text(json.dumps(document))
    (read,) = load(path).records
    assert all(flat_fields(read)[name] is None for name in (*later, *of_simulations))
    assert read.median_ms == document["records"][0]["median_ms"]


@pytest.mark.parametrize(
    ("name", "later"),
    [("2026-11-20-3b9dfe6-rozen2008-table1", "workload"), ("2026-11-20-34e85e7-dpd-step", "ranks")],
)
def test_what_came_later_leaves_keys_as_they_were(name, later):
    (older,) = SHIPPED.rglob(f"{name}.json.gz")
    assert f'"{later}"' not in content_of(older).decode()
    for record in load(older).records:
        assert record.key == record_key(**identity_of(record))
    keys = {record_key(**identity(skin=skin, time_step=0.04)) for skin in (None, 0, 0.3)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("ranks", "reason", "settled"),
    [
        (None, "is measured by one rank: gpubench run table", False),
        (2, "is measured by 2 ranks: mpirun -n 2 gpubench run table", False),
        (2, "needs CUDA", True),
        (4, "is measured by 2 ranks: mpirun -n 2 gpubench run table", True),
    ],
)
def test_what_waits_for_other_ranks_is_not_settled(tmp_path, ranks, reason, settled):
    way = None if ranks is None else "slab"
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    store.add(
        [
            not_ok(
                study="table",
                status="skipped",
                reason=reason,
                workload="dpd",
                ranks=ranks,
                decomposition=way,
            )
        ]
    )
    assert bool(store.done) is settled


SIMULATION = {"workload": "dpd-standard", "skin": 0, "time_step": 0.04}


def test_a_record_of_simulation_steps(tmp_path):
    phases = {"sort": np.float64(0.05), "force": 0.15}
    store = Store(tmp_path / "a.json", ENVIRONMENT)
    store.add([ok(**SIMULATION, steps=2, particle_steps_per_s=5e6, phases_ms=phases)])
    (record,) = load(store.path).records
    assert record.phases_ms == {"sort": 0.05, "force": 0.15}
    assert (record.steps, record.particle_steps_per_s, record.at("skin")) == (2, 5e6, 0.0)
    for offence in ({"steps": 0}, {"phases_ms": {"sort": -1}}, {"skin": -0.1}, {"time_step": 0}):
        with pytest.raises(ValueError, match=next(iter(offence))):
            ok(**(SIMULATION | offence))


def test_the_shipped_results_are_read(shipped_results):
    assert sum(len(results.records) for results in shipped_results) > 7000


def test_a_record_of_a_library():
    """What came with rivals: whose work it was, its first call, and its memory at the peak."""
    ours, theirs = ok(), ok(library="vesin 0.6.2", first_call_ms=12.5, peak_bytes=2**40)
    assert [getattr(ours, name) for name in ("library", "first_call_ms", "peak_bytes")] == [
        None
    ] * 3
    assert ours.key == theirs.key
    for wrong in ({"peak_bytes": -1}, {"first_call_ms": -0.1}, {"library": 3}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            record_of(flat_fields(theirs) | wrong)
