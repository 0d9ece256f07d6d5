"""Studies spread over ranks, on OpenCL: what is handed out, what is lost, and what is refused."""

import os
import signal
import socket
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from additions import nothing_added
from mpi_runs import GUARD_S, gpubench_started, process_of, run_gpubench

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.distributed.ranks import Ranks, launched_size, unlaunched
from gpubench.evidence.results import first_difference, load
from gpubench.measure.sampling import Budget
from gpubench.studies import spread
from gpubench.studies.child import Child, NoAnswer, serve
from gpubench.studies.runner import plan, run
from gpubench.studies.spread import (
    MeasuredInput,
    Measurer,
    Pool,
    RankDevice,
    Sight,
    Spot,
    places_for,
)
from gpubench.studies.study import parse_study

DEVICE = "opencl:intel"
BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)

STUDY = """
title = "A study that is spread"
question = "Which?"
seed = 7
[[sweeps]]
name = "sizes"
particles = [200, 300, 400]
per_cell = [1, 4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
[[sweeps]]
name = "shared"
workload = ["sph-dam-break"]
particles = [800]
ranks = [2]
decomposition = ["slab"]
modes = ["hot"]
subjects = [{ algorithm = "counting-sort", form = "reorder" }]
[[subjects]]
algorithm = "counting-sort"
form = "order"
[[subjects]]
algorithm = "mortal-sort"
form = "order"
"""

# Dies on 300 particles, 4 a cell, in the way that a file beside it names.
MORTAL = """
import os
import signal
from pathlib import Path

from gpubench.algorithms.counting_sort import CountingSort

FATE = Path(__file__).with_name("fate")


class MortalSort(CountingSort):
    name = "mortal-sort"
    summary = "a counting sort that may die"

    def build(self, cell_of, positions):
        super().build(cell_of, positions)
        if self.particles == 300 and self.grid.count < 150 and FATE.exists():
            if FATE.read_text() == "hangs":
                signal.pause()
            os.kill(os.getpid(), getattr(signal, FATE.read_text()))
"""


@pytest.fixture
def mortal(tmp_path):
    """A study of an algorithm that dies on one input: its file, and that of the algorithm."""
    (tmp_path / "mortal").mkdir()
    algorithm = tmp_path / "mortal" / "mortal_sort.py"
    algorithm.write_text(MORTAL)
    study = tmp_path / "spread-sizes.toml"
    study.write_text(STUDY)
    return study, algorithm


def spread_over(ranks, study, algorithm, out, *options):
    return run_gpubench(
        ranks, "--add", algorithm, "run", study, "--quick", "--spread", "--device", DEVICE,
        "--oversubscribe", "--out", out, *options,
    )  # fmt: skip


def records_in(folder):
    (path,) = folder.rglob("*.json")
    return load(path).records


@pytest.mark.long
def test_a_crash_costs_one_input_and_is_made_good(mortal, tmp_path, open_once):
    study, algorithm = mortal
    fate = algorithm.with_name("fate")
    fate.write_text("SIGABRT")
    out = tmp_path / "out"
    done = spread_over(3, study, algorithm, out)
    assert done.returncode == 1, done.stderr
    assert "10 measured, 0 reused, 1 skipped, 0 wrong, 2 failed" in done.stderr
    records = records_in(out)
    lost = [record for record in records if record.status == "failed"]
    assert {(r.at("particles"), r.at("per_cell"), r.algorithm) for r in lost} == {
        (300, 4, "counting-sort"),
        (300, 4, "mortal-sort"),
    }
    for record in lost:
        assert record.reason == "the process that measured it was ended by SIGABRT"
    for record in records:
        assert record.measured_on == DEVICE
        if record.status == "ok":
            assert record.remarks[-1] == "2 ranks measured on this device at the same time"
    (waiting,) = [record for record in records if record.status == "skipped"]
    assert "is measured by 2 ranks: mpirun -n 2 gpubench run spread-sizes" in waiting.reason

    fate.unlink()
    again = spread_over(2, study, algorithm, out)
    assert again.returncode == 0, again.stderr
    assert "2 measured, 11 reused, 0 skipped, 0 wrong, 0 failed" in again.stderr
    everything = records_in(out)
    assert everything[: len(records)] == records
    # A single worker does not share; the key of a crashed input is that of the same work done.
    for record in everything[len(records) :]:
        # A busy machine's times drift: that may be remarked upon, sharing may not.
        assert record.status == "ok"
        assert not any("ranks measured on" in remark for remark in record.remarks or ())
        assert record.key in {crashed.key for crashed in lost}

    alone = tmp_path / "alone"
    with nothing_added(tmp_path):
        registry.add([algorithm])
        run(parse_study(study.stem, STUDY), open_once(DEVICE), alone, budget=BUDGET)
    here = records_in(alone)
    assert {r.key: r.status for r in everything} == {r.key: r.status for r in here}
    assert {record.measured_on for record in here} == {None}


def children_of(algorithm):
    """Find the processes that measure an added algorithm, by their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
            if b"gpubench.studies.child" in command and str(algorithm).encode() in environment:
                found.append(int(folder.name))
    return found


def wait_for(condition):
    for _ in range(10 * GUARD_S):
        if condition():
            return
        Event().wait(0.1)
    raise AssertionError("what was waited for did not come")


@pytest.mark.long
@pytest.mark.parametrize("end", ["a rank is killed", "Ctrl-C"])
def test_what_was_measured_outlives_the_run(mortal, tmp_path, end):
    study, algorithm = mortal
    algorithm.with_name("fate").write_text("hangs")
    out = tmp_path / "out"
    with gpubench_started(
        3, "--add", algorithm, "run", study, "--quick", "--spread", "--device", DEVICE,
        "--oversubscribe", "--out", out,
    ) as process:  # fmt: skip
        # One rank hangs; the other has measured the rest.
        wait_for(lambda: any(out.rglob("*.json")) and len(records_in(out)) == 11)
        assert len(children_of(algorithm)) == 2
        if end == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            os.kill(process_of(2, str(out)), signal.SIGKILL)
        _, said = process.communicate(timeout=GUARD_S)
    assert process.returncode != 0
    assert ("stopped: what was" in said) == (end == "Ctrl-C")
    assert "Traceback" not in said
    wait_for(lambda: not children_of(algorithm))
    assert len(records_in(out)) == 11


@pytest.mark.long
def test_ranks_that_would_share_a_device_are_refused(mortal, tmp_path):
    study, algorithm = mortal
    done = run_gpubench(
        3, "--add", algorithm, "run", study, "--spread", "--device", DEVICE,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpubench: rank 0 of 3: rank 2 has no device of its own: on ")
    assert "start mpirun -n 2 gpubench run ... --spread, or say --oversubscribe" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--spread takes a rank that leads and one for each device"),
        (["--processes", "2"], "--spread is one run over many devices: leave out --processes"),
    ],
)
def test_run_refuses_spread(gpubench_command, monkeypatch, tmp_path, options, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = gpubench_command("run", "neighbour-query", "--spread", *options)
    assert code == 2 and err.startswith(f"gpubench: {message}")
    assert not list(tmp_path.iterdir())


def gpus(*names, host="node1"):
    return Sight(host, tuple(Spot(f"cuda:{i}", name, name) for i, name in enumerate(names)))


class TestPlaces:
    def test_each_rank_has_a_gpu_of_its_own(self):
        both = gpus("GPU-a", "GPU-b")
        there = gpus("GPU-c", host="node2")
        places = places_for([both, both, there], oversubscribed=False)
        assert [place.spot.label for place in places] == ["GPU-a", "GPU-b", "GPU-c"]
        assert [place.spot.spec for place in places] == ["cuda:0", "cuda:1", "cuda:0"]
        assert {place.sharing for place in places} == {1}

    def test_ranks_to_which_a_scheduler_shows_one_gpu_each(self):
        places = places_for([gpus("GPU-a"), gpus("GPU-b")], oversubscribed=False)
        assert [(p.spot.label, p.spot.spec) for p in places] == [
            ("GPU-a", "cuda:0"),
            ("GPU-b", "cuda:0"),
        ]

    def test_more_ranks_than_gpus_are_told_how_many_fit(self):
        both = gpus("GPU-a", "GPU-b")
        with pytest.raises(UserError) as refused:
            places_for([both, both, both, gpus("GPU-c", host="node2")], oversubscribed=False)
        assert str(refused.value) == (
            "rank 3 has no device of its own: on node1, 3 rank(s) would measure on 2 device(s),"
            " and rank 0 only leads: start mpirun -n 4 gpubench run ... --spread, or say"
            " --oversubscribe where times do not matter"
        )

    def test_a_gpu_that_two_hosts_name_is_one(self):
        with pytest.raises(UserError, match="rank 2 has no device of its own: on container2"):
            places_for([gpus("GPU-a"), gpus("GPU-a", host="container2")], oversubscribed=False)

    def test_sharing_is_counted(self):
        places = places_for([gpus("GPU-a", "GPU-b")] * 3, oversubscribed=True)
        assert [(place.spot.label, place.sharing) for place in places] == [
            ("GPU-a", 2),
            ("GPU-b", 1),
            ("GPU-a", 2),
        ]


def conditions(name="NVIDIA H200", uuid="GPU-a", memory=2**40, code="0" * 16):
    return {
        "machine": name.lower().replace(" ", "-"),
        "device": {"backend": "cuda", "spec": f"cuda:{uuid[-1]}", "name": name, "uuid": uuid},
        "host": {"cpu": "A CPU", "memory_bytes": memory},
        "libraries": {"numpy": "2"},
        "code_hash": code,
    }


class TestConditions:
    def test_gpus_of_one_model_are_alike(self):
        spread.require_alike([conditions(), conditions(uuid="GPU-b", memory=2**40 - 2**24)])

    @pytest.mark.parametrize(
        ("other", "difference"),
        [
            ({"name": "NVIDIA H100"}, r"machine: nvidia-h200, and nvidia-h100"),
            ({"memory": 2**39}, r"host memory_bytes: 1099511627776, and 549755813888"),
            ({"code": "1" * 16}, r"code_hash: 0{16}, and 1{16}"),
        ],
    )
    def test_differing_conditions_are_refused(self, other, difference):
        with pytest.raises(UserError, match=rf"ranks 1 and 3 .* \({difference}\)"):
            spread.require_alike([conditions(), conditions(), conditions(**other)])

    def test_one_gpu_does_not_continue_the_file_of_another(self):
        difference = first_difference(conditions(), conditions(uuid="GPU-b"))
        assert difference == "device spec: cuda:a, and cuda:b"


class Here:
    """An executor that calls at once, by turns at several ranks, and notes the inputs."""

    def __init__(self, ranks):
        self.ranks, self.sizes = ranks, []

    def submit(self, function, job, budget):
        rank = self.ranks.pop(0)
        self.ranks.append(rank)
        self.sizes.append(job.group.recipe.particles)
        done = Future()
        done.set_result(rank(job))
        return done


def jobs():
    study = parse_study("s", STUDY.partition('[[sweeps]]\nname = "shared"')[0] + SUBJECT)
    return [spread.Job(group, group.items) for group in plan(study)]


SUBJECT = """
[[subjects]]
algorithm = "counting-sort"
form = "order"
"""
FACTS = {"backend": "cuda", "spec": "cuda:0", "name": "A GPU", "is_cpu": False, "memory_bytes": 1}


def measures(rank):
    return lambda job: MeasuredInput(rank, [{"particles": job.group.recipe.particles}])


def lost(rank):
    return lambda job: MeasuredInput(rank, None, "cuda:1: it fell off the bus")


class TestPool:
    bar = SimpleNamespace(describe=lambda text: None, advance=lambda n: None)

    def test_the_largest_inputs_are_handed_out_first(self):
        executor = Here([measures(1), measures(2)])
        found = list(Pool(executor, FACTS, 2).measure(jobs(), BUDGET, self.bar))
        assert executor.sizes == [400, 400, 300, 300, 200, 200]
        assert len(found) == 6

    def test_inputs_of_a_rank_that_lost_its_device_go_to_another(self):
        executor = Here([measures(1), lost(2), measures(3)])
        found = list(Pool(executor, FACTS, 3).measure(jobs(), BUDGET, self.bar))
        assert sorted(r["particles"] for (r,) in found) == [200, 200, 300, 300, 400, 400]
        assert len(executor.sizes) > 6

    def test_it_ends_when_no_device_is_left(self):
        pool = Pool(Here([lost(1), lost(2)]), FACTS, 2)
        with pytest.raises(UserError, match=r"any more \(rank 1: cuda:1: it fell"):
            list(pool.measure(jobs(), BUDGET, self.bar))


class TestMeasurer:
    @pytest.fixture
    def measurer(self):
        measurer = Measurer(1)
        (spot,) = measurer.look(DEVICE, "node1").spots
        measurer.settle(RankDevice(spot, 1))
        yield measurer
        measurer.close()

    @pytest.mark.long
    def test_a_device_that_is_lost_is_looked_for_again(self, measurer, monkeypatch):
        monkeypatch.setattr(spread, "SECONDS_BETWEEN_ATTEMPTS", 0)
        job = jobs()[0]
        place = measurer._place
        measurer.close()
        measurer._place = RankDevice(Spot("opencl:nothing", "it", "it"), 1)
        outcome = measurer.measure(job, BUDGET)
        assert outcome.records is None
        assert outcome.reason.startswith("opencl:nothing: no OpenCL platform")
        measurer._place = place
        (record,) = measurer.measure(job, BUDGET).records
        assert (record.status, record.measured_on) == ("ok", DEVICE)

    def test_a_process_without_an_algorithm_says_so(self, measurer):
        job = jobs()[0]
        stranger = replace(job.items[0][0], algorithm="nobodys-sort")
        with pytest.raises(UserError, match="no algorithm 'nobodys-sort'"):
            measurer.measure(replace(job, items=[(stranger, "hot")]), BUDGET)


class TestChild:
    def test_exceptions_come_as_one_line(self):
        with closing(Child()) as child:
            with pytest.raises(NoAnswer, match=r"^AttributeError: 'MeasuringSide' object"):
                child.ask("dance")
            with pytest.raises(UserError, match="no device 'abacus'"):
                child.ask("open", "abacus")

    def test_it_ends_quietly_when_the_peer_is_gone(self):
        ours, its = socket.socketpair()
        ours.close()
        serve(Connection(its.detach()))

    def test_it_drops_the_variables_of_launchers(self):
        environment = {"PMI_SIZE": "3", "PMI_RANK": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}
        environment |= {"OMPI_COMM_WORLD_SIZE": "3", "CUDA_VISIBLE_DEVICES": "2", "PATH": "/bin"}
        left = unlaunched(environment)
        assert launched_size(left) == 1
        assert left == {"CUDA_VISIBLE_DEVICES": "2", "PATH": "/bin"}


def test_two_ranks_are_enough():
    ranks = Ranks(SimpleNamespace(), 0, 2, 0, 2)
    assert spread.Spread.of(ranks, "cuda", False).ranks is ranks


@pytest.mark.cuda
def test_a_gpu_is_named_by_its_uuid(mortal, tmp_path, cuda_device):
    study, algorithm = mortal
    done = run_gpubench(
        2, "--add", algorithm, "run", study, "--quick", "--spread", "--device", "cuda",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").rglob("*.json")
    found = load(path)
    assert {r.measured_on for r in found.records} == {cuda_device.environment()["uuid"]}
    assert (found.environment["device"]["spec"], found.environment["device"]["uuid"]) == (
        "cuda",
        None,
    )
