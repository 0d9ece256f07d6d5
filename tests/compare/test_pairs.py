"""Pairs of processes: the requests between them, and what happens where one of them ends."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import ClassVar

import pytest
from compare_results import record
from study_texts import study_text

from gpubench.base.errors import UserError
from gpubench.compare import pairs
from gpubench.compare.commits import present_code
from gpubench.compare.pairs import TURNS, VARIANT_EVERY, Code, ComparedJob, Process, ProcessPairs
from gpubench.compare.worker import PROTOCOL
from gpubench.evidence.records import as_json, identity_of
from gpubench.studies.plan import cell_key

TEXT = study_text("atomic-list one-pass", particles=[4096], per_cell=[4], modes=["hot"])
VARIANTS = ((1, 0), (20, 0)), ((1, 0), (20, 3))


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TEXT)
    return ComparedJob.of(str(path), "opencl:intel", {"quick": None})


@pytest.fixture
def code(tmp_path):
    """Make a code whose interpreter is a script of a few lines."""

    def make(*lines):
        script = tmp_path / "python"
        script.write_text("\n".join([f"#!{sys.executable}", *lines]))
        script.chmod(0o755)
        return Code("head", "that commit", str(script))

    return make


def saying(answer):
    """Return lines of a script that gives one answer to the first request, and waits."""
    return (
        "import sys",
        "from multiprocessing.connection import Connection",
        "connection = Connection(int(sys.argv[-1]))",
        "connection.recv_bytes()",
        f"connection.send_bytes({answer!r})",
        "try:",
        "    connection.recv_bytes()",
        "except EOFError:",
        "    pass",
    )


# Jobs


def test_a_job_holds_the_text_of_the_file(job):
    assert (job.study, job.text) == ("tiny", TEXT)
    assert job.variants == (((1, 0),), ((1, 0),))


@pytest.mark.parametrize(
    ("selection", "words"),
    [({"algorithms": ["radix-grid"]}, "does not measure radix-grid"), ({"moved": [3]}, "moved")],
)
def test_a_selection_that_a_study_does_not_have_is_refused(tmp_path, selection, words):
    path = tmp_path / "tiny.toml"
    path.write_text(TEXT)
    with pytest.raises(UserError, match=words):
        ComparedJob.of(str(path), "auto", selection)


def test_the_shipped_study_is_a_job_in_both_sizes():
    for quick in (None, True, False):
        assert ComparedJob.of("regressions", "auto", {"quick": quick}).study == "regressions"


# Real processes


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Measure one pair of this code with itself; head has an extra variant with more work."""
    path = tmp_path_factory.mktemp("job") / "tiny.toml"
    path.write_text(TEXT)
    plain = ComparedJob.of(str(path), "opencl:intel", {"quick": None})
    job = ComparedJob(plain.study, plain.text, plain.device, plain.selection, VARIANTS)
    with ProcessPairs((present_code("base"), present_code("head")), job) as measuring:
        return measuring.measure(seed=1)


@pytest.mark.long
def test_both_sides_of_a_pair_measure_the_same_cells(real):
    base, head = real.records
    assert [r.status for r in (*base, *head)] == ["ok", "ok"]
    assert base[0].key == head[0].key
    assert base[0].input_hash == head[0].input_hash is not None
    assert all(len(r.samples_ms) == TURNS for r in (*base, *head))
    assert all(min(r.samples_ms) > 0 for r in (*base, *head))


def test_variants_have_fewer_samples_and_no_records(real):
    key = cell_key(identity_of(real.records[0][0]))
    for side in real.variants:
        assert {which: len(samples) for which, samples in side.items()} == {
            (key, 1): TURNS // VARIANT_EVERY
        }


# What can go wrong with one


@pytest.mark.parametrize(
    ("last", "words"),
    [("sys.stderr.write('Traceback:\\n  a.py\\nOSError: no space\\n\\n')", "OSError: no space"),
     ("pass", "it said nothing")],
)  # fmt: skip
def test_a_process_that_ends_is_told_with_its_last_words(code, last, words):
    process = Process(code("import sys", last, "sys.exit(3)"))
    with pytest.raises(UserError) as raised:
        process.open("auto")
    process.close()
    assert str(raised.value) == (f"a process of head (that commit) ended with status 3: {words}")


def test_a_process_that_was_there_and_ends_is_told_too(code):
    hello = b'{"protocol": %d, "is_cpu": true}' % PROTOCOL
    lines = saying(hello)[:5]  # answers, and ends
    process = Process(code(*lines, "sys.exit('out of memory')"))
    assert process.open("auto")
    with pytest.raises(UserError, match="ended with status 1: out of memory"):
        for _ in range(2):
            process.ask("describe")
    process.close()


def test_what_a_worker_refuses_is_told_with_its_side(code):
    process = Process(code(*saying(b'{"error": "no such device"}')))
    with pytest.raises(UserError, match=r"^head \(that commit\): no such device$"):
        process.open("cuda:7")
    process.close()


def test_another_protocol_is_refused(code):
    process = Process(code(*saying(b'{"protocol": 99, "is_cpu": true}')))
    with pytest.raises(UserError, match=r"protocol 99, here .*compare results files"):
        process.open("auto")
    process.close()


def test_a_dead_worker_ends_the_wait(code, monkeypatch):
    monkeypatch.setattr(pairs, "PATIENCE_S", 0.01)
    process = Process(code("import sys", "sys.stdin.read()", *saying(b"{}")[1:4], *saying(b"")[5:]))
    with pytest.raises(UserError, match=r"has not answered for 0\.01 s"):
        process.open("auto")
    process.close()


def test_a_process_that_does_not_hang_up_is_killed(code, tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "GRACE_S", 0.01)
    pid = tmp_path / "pid"
    write = f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))"
    answer = saying(b'{"protocol": %d, "is_cpu": true}' % PROTOCOL)[:5]
    process = Process(code("import os, pathlib, time", write, *answer, "time.sleep(1000)"))
    process.open("auto")
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_variables_and_folder_reach_the_process(code, tmp_path):
    made = code(
        "import os, sys",
        "sys.exit(' '.join([os.environ['WHOSE'], os.getcwd(), sys.argv[1], sys.argv[-2]]))",
    )
    folder = tmp_path / "there"
    folder.mkdir()
    process = Process(Code("base", "x", made.python, {"WHOSE": "mine"}, folder))
    with pytest.raises(UserError, match=f"mine {folder} -P gpubench.compare.worker$"):
        process.open("auto")
    process.close()


# Requests, recorded by processes that only take notes


class FakeProcess:
    made: ClassVar[list[FakeProcess]]
    is_cpu = True
    cells = ("a", "b", "c")
    fails_at = ""

    def __init__(self, code):
        self.code, self.log, self.closed = code, [], 0
        self.made.append(self)

    def open(self, device):
        self.log.append(("open", {"device": device}))
        return self.is_cpu

    def ask(self, do, **request):
        self.send(do, **request)
        return self.receive()

    def send(self, do, **request):
        self.log.append((do, request))
        if do == self.fails_at:
            raise UserError(f"cannot {do}")

    def receive(self):
        do, request = self.log[-1]
        if do == "plan":
            return {"groups": self.groups()}
        if do == "make":
            wanted = request["only"]
            return {"cells": {key: key for key in self.cells if wanted is None or key in wanted}}
        if do == "finish":
            samples = {"cell": "a", "variant": 1, "samples_ms": [1.0]}
            named = as_json(record(study=self.code.name)) | {"of_later_code": 1}
            return {"records": [named], "variants": [samples]}
        if do == "look":
            return {"throttled_by": [f"heat of {self.code.name}"]}
        return {}

    def groups(self):
        return ["table: one input"]

    def close(self):
        self.closed += 1

    def requests(self, do):
        return [request for done, request in self.log if done == do]


CODES = Code("base", "old", "python"), Code("head", "new", "python")
FAKE_JOB = ComparedJob("tiny", TEXT, "auto", {"quick": None, "algorithms": None})


@pytest.fixture
def fake(monkeypatch):
    class Noting(FakeProcess):
        made: ClassVar[list[FakeProcess]] = []

    monkeypatch.setattr(pairs, "Process", Noting)
    return Noting


def test_every_cell_is_sampled_as_often_on_either_side(fake):
    log = []
    fake.send = lambda self, do, **request: (
        log.append((self.code.name, do, request)), self.log.append((do, request))
    )  # fmt: skip
    job = ComparedJob("tiny", TEXT, "auto", {"quick": True}, VARIANTS)
    with ProcessPairs(CODES, job) as measuring:
        pair = measuring.measure(seed=1)
    assert [side[0].study for side in pair.records] == ["base", "head"]
    assert pair.variants == ({("a", 1): [1.0]}, {("a", 1): [1.0]})
    sampled = [(name, r["cell"], r["variant"]) for name, do, r in log if do == "sample"]
    assert Counter(sampled) == {
        (name, cell, variant): TURNS if variant == 0 else TURNS // VARIANT_EVERY
        for name in ("base", "head") for cell in "abc" for variant in (0, 1)
    }  # fmt: skip
    # Both sides of a cell follow each other, and either may come first.
    plain = [(name, cell) for name, cell, _ in sampled[12:30]]
    turns = [plain[i : i + 2] for i in range(0, len(plain), 2)]
    assert all(len({cell for _, cell in turn}) == 1 for turn in turns)
    assert len({tuple(name for name, _ in turn) for turn in turns}) == 2
    blocks = [i for i, (_, do, _) in enumerate(log) if do == "end_block"]
    last = max(i for i, (_, do, _) in enumerate(log) if do == "sample")
    assert len(blocks) == 2 * TURNS // pairs.BLOCK_TURNS and blocks[-1] > last
    # What throttled one side sets samples of both aside.
    assert all(log[i][2] == {"throttled_by": ["heat of base", "heat of head"]} for i in blocks)


def test_the_order_depends_on_the_seed_alone(fake):
    def order(seed):
        fake.made.clear()
        with ProcessPairs(CODES, FAKE_JOB) as measuring:
            measuring.measure(seed)
        return [request["cell"] for request in fake.made[0].requests("sample")]

    assert order(1) == order(1) != order(2)


def test_a_cell_that_only_one_side_has_is_sampled_once_to_record_that_it_was_right(fake):
    def cells_of(process):
        return ("a", "b") if process.code.name == "base" else ("b", "c")

    fake.cells = property(cells_of)
    with ProcessPairs(CODES, FAKE_JOB) as measuring:
        measuring.measure(seed=1)
    for process, own in zip(fake.made, "ac", strict=True):
        sampled = Counter(request["cell"] for request in process.requests("sample"))
        assert sampled == {"b": TURNS, own: 1}


def test_an_input_that_only_one_side_has_is_made_and_sampled_once(fake):
    fake.groups = lambda self: ["new", "old"] if self.code.name == "head" else ["old"]
    with ProcessPairs(CODES, FAKE_JOB) as measuring:
        pair = measuring.measure(seed=1)
    base, head = fake.made
    assert [request["group"] for request in base.requests("make")] == [0]
    assert [request["group"] for request in head.requests("make")] == [1, 0]
    assert len(base.requests("sample")) == 3 * TURNS
    assert len(head.requests("sample")) == 3 * TURNS + 3
    assert (len(pair.records[0]), len(pair.records[1])) == (1, 2)


def test_chosen_cells_reach_the_workers_and_answers_are_checked_again(fake):
    with ProcessPairs(CODES, FAKE_JOB) as measuring:
        measuring.measure(seed=1, only=("c", "a"))
    first = fake.made[0]
    assert first.requests("make")[0]["only"] == ["a", "c"]
    assert {request["cell"] for request in first.requests("sample")} == {"a", "c"}
    assert first.requests("finish")[0]["check"] is True


@pytest.mark.parametrize(
    ("given", "is_cpu", "quick"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_sizes_are_small_on_a_cpu_unless_the_user_says(fake, given, is_cpu, quick):
    fake.is_cpu = is_cpu
    with ProcessPairs(CODES, ComparedJob("tiny", TEXT, "auto", {"quick": given})) as measuring:
        measuring.measure(seed=1)
    for process in fake.made[:2]:
        assert [r["selection"] for r in process.requests("plan")] == [{"quick": quick}]


@pytest.mark.parametrize(("is_cpu", "started"), [(True, 6), (False, 8)])
def test_processes_are_fresh_and_all_are_closed(fake, is_cpu, started):
    fake.is_cpu = is_cpu
    with ProcessPairs(CODES, FAKE_JOB) as measuring:
        for seed in range(3):
            before = len(fake.made)
            measuring.measure(seed)
            # Beside a GPU the next pair starts while this one measures; on a CPU none does.
            assert (len(fake.made) - before) == (2 if is_cpu or seed else 4)
            assert all(process.closed == 1 for process in fake.made[: 2 * seed + 2])
    assert len(fake.made) == started
    assert all(process.closed == 1 for process in fake.made)
    assert all(len(process.requests("plan")) == 1 for process in fake.made[:6])
    assert [process.code.name for process in fake.made] == ["base", "head"] * (started // 2)


@pytest.mark.parametrize("do", ["plan", "make", "sample", "finish"])
@pytest.mark.parametrize("is_cpu", [True, False])
def test_all_are_closed_where_one_fails(fake, is_cpu, do):
    fake.is_cpu, fake.fails_at = is_cpu, do
    with pytest.raises(UserError, match=f"cannot {do}"), ProcessPairs(CODES, FAKE_JOB) as measuring:
        measuring.measure(seed=1)
    assert [process.closed for process in fake.made] == [1] * (2 if is_cpu else 4)
