"""One side of a pair, in this process: what it makes of requests."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection

import pytest
from fake_algorithms import ALGORITHMS, ENVIRONMENT, BrokenSort
from fakes import FakeDevice
from study_texts import study_text

from gpubench import registry
from gpubench.base.errors import DeviceUnavailable, UserError
from gpubench.compare import worker
from gpubench.compare.worker import PROTOCOL, Sampler

PLAIN = [[1, 0]]


class LateSort(BrokenSort):
    """Raises when it has been warmed up and sampled a few times."""

    name = "late-sort"
    good_runs = 30


class HotDevice(FakeDevice):
    """Throttled whenever the test says so."""

    is_hot = False

    def state(self):
        return {"is_hot": self.is_hot}

    def throttled_by(self, state):
        return ("heat",) if state["is_hot"] else ()


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    algorithms = ALGORITHMS | {LateSort.name: LateSort}
    monkeypatch.setattr(registry, "algorithms", lambda: algorithms)
    monkeypatch.setattr(worker, "environment", lambda device: ENVIRONMENT)


def study(*subjects, modes=("hot",)):
    return study_text(*subjects, particles=[64], per_cell=[4], modes=modes)


def made(text, device=None, variants=PLAIN, only=None):
    """Return a worker with everything of the first input made, and its cells."""
    ready = Sampler(device or FakeDevice())
    ready.plan("one", text, {"quick": False})
    return ready, ready.make(0, only, variants)["cells"]


def sampled(ready, cells, count=6, variant=0):
    for _ in range(count):
        for cell in cells:
            assert ready.sample(cell, variant) == {}
    ready.end_block(**ready.look())


def records_of(ready, check=True):
    found = ready.finish(check)["records"]
    return {(r["algorithm"], r["form"], r["mode"]): r for r in found}


def test_it_tells_its_environment():
    assert Sampler(FakeDevice()).describe() == {"environment": ENVIRONMENT}


def test_what_a_package_does_not_have_is_left_out():
    text = study("right-sort", "right-sort of-the-future", "unheard-of-sort")
    workload = '[[sweeps]]\nname = "steps"\nworkload = ["unheard-of"]\nparticles = [64]\n'
    text = text.replace("[[subjects]]", workload + 'modes = ["hot"]\n[[subjects]]', 1)
    ready = Sampler(FakeDevice())
    (title,) = ready.plan("one", text, {"quick": False})["groups"]
    assert title.startswith("table: ")
    cells = ready.make(0, None, PLAIN)["cells"]
    sampled(ready, cells)
    assert [*records_of(ready)] == [("right-sort", "plain", "hot")]


def test_a_package_that_has_nothing_of_a_study_says_so():
    with pytest.raises(UserError, match="nothing is left to measure"):
        Sampler(FakeDevice()).plan("one", study("unheard-of-sort"), {"quick": False})


def test_hot_is_left_out_where_a_graph_holds_the_launches():
    text = study("right-sort", "right-sort host-loop", modes=["hot", "graph"])
    ready, cells = made(text)
    sampled(ready, cells)
    found = records_of(ready)
    assert {key: record["status"] for key, record in found.items()} == {
        ("right-sort", "plain", "graph"): "ok",
        ("right-sort", "host-loop", "hot"): "ok",
        ("right-sort", "host-loop", "graph"): "skipped",
    }


def test_hot_stays_on_a_device_without_graphs():
    device = FakeDevice(features=frozenset({"cuda"}))
    ready, cells = made(study("right-sort", modes=["hot", "graph"]), device)
    sampled(ready, cells)
    statuses = {mode: record["status"] for (*_, mode), record in records_of(ready).items()}
    assert statuses == {"hot": "ok", "graph": "skipped"}


def test_only_the_cells_that_are_asked_for_are_made():
    text = study("right-sort", "twice-sort")
    _, (_, key) = made(text)
    ready, chosen = made(text, only=[key])
    assert list(chosen) == [key]
    sampled(ready, chosen)
    assert list(records_of(ready)) == [("twice-sort", "plain", "hot")]


def test_a_record_has_one_sample_for_each_request():
    ready, cells = made(study("right-sort"))
    sampled(ready, cells, count=7)
    (record,) = records_of(ready).values()
    assert record["samples_ms"] == [1.0] * 7 and record["median_ms"] == 1.0
    assert record["stopped"] == "samples" and record["bytes_moved"] == 8 * 64


@pytest.mark.parametrize("mode", ["hot", "graph"])
def test_extra_work_of_a_variant_takes_longer_and_is_not_recorded(mode):
    ready, cells = made(study("right-sort", modes=[mode]), variants=[[1, 0], [20, 0], [20, 3]])
    sampled(ready, cells)
    for variant in (1, 2):
        sampled(ready, cells, 2, variant)
    (cell,) = cells
    answer = ready.finish(check=True)
    assert answer["variants"] == [
        {"cell": cell, "variant": 1, "samples_ms": [1.0, 1.0]},
        {"cell": cell, "variant": 2, "samples_ms": [1.15, 1.15]},
    ]
    assert [record["samples_ms"] for record in answer["records"]] == [[1.0] * 6]


def test_a_launch_that_raises_while_sampling_ends_as_a_failed_record():
    ready, cells = made(study("late-sort", "right-sort"))
    assert len(cells) == 2  # neither has failed so far
    sampled(ready, cells, count=10)
    found = records_of(ready)
    late = found["late-sort", "plain", "hot"]
    assert late["status"] == "failed" and late["reason"] == "RuntimeError: illegal address"
    assert late["median_ms"] is None
    assert found["right-sort", "plain", "hot"]["samples_ms"] == [1.0] * 10


@pytest.mark.parametrize("name", ["broken-sort", "breaking-sort"])
def test_what_raises_before_it_is_sampled_is_no_cell(name):
    ready, cells = made(study(name, "right-sort"))
    assert len(cells) == 1
    sampled(ready, cells)
    assert records_of(ready)[name, "plain", "hot"]["status"] == "failed"


def test_a_wrong_answer_is_no_cell():
    ready, cells = made(study("wrong-sort"))
    assert not cells
    assert records_of(ready)["wrong-sort", "plain", "hot"]["status"] == "wrong"


def test_samples_of_a_throttled_block_are_set_aside():
    device = HotDevice()
    ready, cells = made(study("right-sort"), device)
    sampled(ready, cells, count=6)
    device.is_hot = True
    sampled(ready, cells, count=3)
    device.is_hot = False
    ready.end_block(**ready.look())  # the block around which it was still hot
    sampled(ready, cells, count=2)
    (record,) = records_of(ready).values()
    assert (len(record["samples_ms"]), record["throttled_ms"]) == (8, [1.0] * 3)
    assert record["throttled_by"] == ["heat"]


def test_samples_are_set_aside_where_the_other_side_was_throttled():
    ready, (cell,) = made(study("right-sort"))
    for throttled_by in ([], ["power cap"], []):
        ready.sample(cell, 0)
        assert ready.look() == {"throttled_by": []}
        ready.end_block(throttled_by)
    (record,) = records_of(ready).values()
    assert (len(record["samples_ms"]), len(record["throttled_ms"])) == (2, 1)
    assert record["throttled_by"] == ["power cap"]


def test_what_was_throttled_all_the_time_has_no_time():
    device = HotDevice()
    device.is_hot = True
    ready, cells = made(study("right-sort"), device)
    sampled(ready, cells)
    (record,) = records_of(ready).values()
    assert record["status"] == "failed" and "throttled" in record["reason"]


@pytest.mark.parametrize(("check", "status"), [(True, "wrong"), (False, "ok")])
def test_answers_are_checked_again_where_that_is_asked_for(check, status):
    ready, cells = made(study("spoilt-sort"))
    sampled(ready, cells)
    (record,) = records_of(ready, check).values()
    assert record["status"] == status
    assert check == str(record["reason"]).startswith("after timing: ")


def test_a_worker_takes_one_input_after_the_other():
    text = study("right-sort").replace("[64]", "[64, 128]")
    ready = Sampler(FakeDevice())
    assert len(ready.plan("one", text, {"quick": False})["groups"]) == 2
    for group, particles in enumerate((64, 128)):
        sampled(ready, ready.make(group, None, PLAIN)["cells"])
        (record,) = records_of(ready).values()
        assert (record["input"]["particles"], record["status"]) == (particles, "ok")


# Over the socket


@pytest.fixture
def device(monkeypatch):
    opened = FakeDevice()

    @contextmanager
    def open_device(spec):
        if spec != "fake":
            raise DeviceUnavailable(f"no device {spec} here")
        yield opened
        opened.close()

    monkeypatch.setattr(worker, "open_device", open_device)
    monkeypatch.setattr(worker, "survey", lambda: None)
    return opened


def _next(connection):
    try:
        return connection.recv_bytes()
    except EOFError:
        return None


@pytest.fixture
def answers(monkeypatch):
    """Send requests, hang up on that side, let a worker serve, and return what it answers."""

    def ask(*requests):
        ours, its = socket.socketpair()
        monkeypatch.setattr(sys, "argv", ["worker", str(its.detach())])
        with ours, Connection(ours.dup().detach()) as connection:
            for request in requests:
                connection.send_bytes(json.dumps(request).encode())
            ours.shutdown(socket.SHUT_WR)
            worker.main()
            return [json.loads(message) for message in iter(partial(_next, connection), None)]

    return ask


def test_it_serves_until_the_other_side_hangs_up(device, answers):
    hello, planned, ready = answers(
        {"do": "open", "device": "fake"},
        {"do": "plan", "study": "one", "text": study("right-sort"), "selection": {}},
        {"do": "make", "group": 0, "only": None, "variants": PLAIN},
    )
    assert hello == {"protocol": PROTOCOL, "is_cpu": False}
    assert len(planned["groups"]) == len(ready["cells"]) == 1
    assert device.log[-1] == "close"


def test_it_ends_in_peace_where_nothing_is_asked_of_it(device, answers):
    assert answers() == []


def test_a_users_mistake_is_told_and_the_next_request_answered(device, answers):
    text = study("right-sort")
    told = answers(
        {"do": "open", "device": "fake"},
        {"do": "plan", "study": "one", "text": text, "selection": {"particles": [0]}},
        {"do": "plan", "study": "one", "text": text, "selection": {}},
    )
    assert list(told[1]) == ["error"] and "at least 1" in told[1]["error"]
    assert "groups" in told[2]


def test_a_device_that_cannot_be_opened_is_told(device, answers):
    assert answers({"do": "open", "device": "cuda:9"}) == [{"error": "no device cuda:9 here"}]
