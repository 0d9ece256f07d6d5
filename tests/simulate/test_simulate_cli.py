"""`gpubench simulate`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import gsd.hoomd
import pytest
from fake_workload import MIB, FakeCells, FakeGas
from fakes import FakeDevice
from PIL import Image

import gpubench.devices
from gpubench import registry
from gpubench.base.errors import DeviceUnavailable
from gpubench.base.writing import Lock
from gpubench.simulate import checkpoint
from gpubench.simulate.setup import Setup

RUN = "7d3c1f80-52f4-4c0e-9a3b-3d9f0c6a1b2e"


@pytest.fixture
def device():
    return FakeDevice(bandwidth_gb_s=MIB / 1e6)


@pytest.fixture(autouse=True)
def fakes(monkeypatch, tmp_path, device):
    monkeypatch.chdir(tmp_path)

    def open_device(spec="auto"):
        if spec not in ("auto", "cuda"):
            raise DeviceUnavailable(f"no device {spec!r}: try cuda")
        return device

    real = registry.algorithms()
    monkeypatch.setattr(gpubench.devices, "open_device", open_device)
    monkeypatch.setattr(registry, "workloads", lambda: {"fake-gas": FakeGas})
    monkeypatch.setattr(registry, "algorithms", lambda: {**real, "counting-sort": FakeCells})


@pytest.fixture
def simulate(gpubench_command):
    return partial(gpubench_command, "simulate", "fake-gas")


def written():
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


def test_json_tells_all_alone_on_stdout(simulate, device):
    code, out, err = simulate("--json", "--parameter", "time_step=0.5", "--seed", 5)
    told = json.loads(out)
    assert code == 0 and "simulating 100 particles on NVIDIA H200 (cuda:0)" in err
    assert told["workload"] == "fake-gas" and told["parameters"]["time_step"] == 0.5
    assert (told["algorithm"], told["form"]) == ("counting-sort", "reorder")
    assert (told["particles"], told["seed"], told["skin"]) == (100, 5, 0)
    assert (told["first_step"], told["steps"], told["time"]) == (0, 24, 12)
    assert told["stopped"] is False
    assert told["phases_ms"] == {"sort": 1, "force": 2, "lists": 0, "integrate": 2}
    assert sum(told["phases_mean_ms"].values()) == pytest.approx(5.25, rel=0.05)
    rate = told["particle_steps_per_s"]
    assert rate["ci95_low"] <= rate["median"] <= rate["ci95_high"]
    assert rate["median"] == pytest.approx(100 / 5.25e-3, rel=0.1)
    assert sum(block["steps"] for block in told["blocks"]) == 24
    assert [o["step"] for o in told["observations"]] == [*range(0, 24, 3), 24]
    assert told["observations"][0]["energy"] is None  # not a number
    assert told["observations"][-1]["energy"] > 0
    assert device.log[-1] == "close"
    assert written() == []


def test_people_get_tables(simulate):
    code, out, _ = simulate("--particles", 2000, "--steps", 100)
    assert code == 0
    for words in ("fake-gas", "counting-sort reorder", "2,000", "100, to step 100",
                  "million (95 % interval", "share of the mean", "force", "energy"):  # fmt: skip
        assert words in out


def test_no_steps_are_enough_for_a_picture(simulate):
    code, out, _ = simulate("--steps", 0, "--frames", "pictures", "--json")
    told = json.loads(out)
    assert code == 0 and told["particle_steps_per_s"] is None and told["phases_ms"] == {}
    assert written() == [
        "pictures/animation.gif", "pictures/frame-0000000000.png", "pictures/panel.png",
        "pictures/simulation.json",
    ]  # fmt: skip


def test_frames_animation_and_panel(simulate):
    code, out, _ = simulate("--frames", "pictures", "--frame-every", 8, "--json")
    told = json.loads(out)
    assert code == 0
    kept = json.loads(Path("pictures/simulation.json").read_text())
    assert kept == told | {"animation": "animation.gif", "panel": "panel.png"}
    names = [path for path in written() if "frame-" in path]
    assert names == [f"pictures/frame-{step:010d}.png" for step in (0, 8, 16, 24)]
    assert (told["animation"], told["panel"]) == ("pictures/animation.gif", "pictures/panel.png")
    with Image.open(told["animation"]) as gif:
        assert gif.n_frames == 4
    assert "more/panel.png" in simulate("--frames", "more", "--steps", 1)[1]


@pytest.mark.parametrize("name", [pytest.param("run.gsd", marks=pytest.mark.long), "run.xyz"])
def test_resuming_continues_everything(simulate, name, monkeypatch):
    monkeypatch.setattr(checkpoint, "new_run", lambda: RUN)
    outputs = ["--frames", "pictures", "--trajectory", name, "--checkpoint", "run.npz", "--json"]
    options = [*outputs, "--frame-every", 10, "--observe-every", 4, "--particles", 50]
    whole = json.loads(simulate(*options, "--steps", 40)[1])
    kept = {path: Path(path).read_bytes() for path in written()}
    for path in kept:
        Path(path).unlink()
    simulate(*options, "--steps", 20)
    code, out, err = simulate(*options, "--steps", 40, "--resume", "run.npz")
    told = json.loads(out)
    assert code == 0 and "bit for bit" not in err
    assert (told["first_step"], told["steps"]) == (20, 40)
    assert told["observations"] == whole["observations"]
    assert written() == sorted(kept)
    for path, content in kept.items():
        if path == "run.gsd":  # the same, if perhaps laid out in another way
            assert moments(Path(path).read_bytes()) == moments(content)
        elif path != "pictures/simulation.json":  # it holds times
            assert Path(path).read_bytes() == content, path


def moments(content):
    """Return what a GSD file of that content says: step and positions of each moment."""
    Path("copy.gsd").write_bytes(content)
    with gsd.hoomd.open("copy.gsd", "r") as file:
        return [(m.configuration.step, m.particles.position.tolist()) for m in file]


def test_a_resumed_run_has_the_setup_of_its_checkpoint(simulate):
    simulate("--particles", 7, "--seed", 3, "--parameter", "time_step=0.5", "--form", "order",
             "--checkpoint", "run.npz")  # fmt: skip
    told = json.loads(simulate("--resume", "run.npz", "--steps", 30, "--json")[1])
    assert (told["particles"], told["seed"], told["form"]) == (7, 3, "order")
    assert told["parameters"]["time_step"] == 0.5
    assert told["checkpoint"] is None


def test_other_code_is_said_and_goes_on(simulate, device):
    simulate("--checkpoint", "run.npz")
    device.name = "NVIDIA B200"
    code, _, err = simulate("--resume", "run.npz", "--steps", 30)
    assert code == 0
    assert "not bit for bit: the device was NVIDIA H200, and is NVIDIA B200" in err


def test_ctrl_c_says_how_to_go_on(simulate, monkeypatch):
    def press(workload):
        if workload.step == 50:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FakeGas, "after_step", staticmethod(press))
    options = ["--steps", 1000, "--json", "--observe-every", 40]
    code, out, err = simulate(*options, "--checkpoint", "run.npz", "--frames", "pictures")
    told = json.loads(out)
    assert code == 130
    assert told["stopped"] and 50 <= told["steps"] <= 80
    assert checkpoint.load(Path("run.npz")).step == told["steps"]
    assert f"stopped after step {told['steps']}: the same command with --resume run.npz" in err
    assert Path("pictures/animation.gif").exists()
    code, _, err = simulate(*options)
    assert code == 130 and "next time, add --checkpoint FILE" in err


def test_a_blow_up_is_one_line_that_names_the_checkpoint(simulate):
    options = ["--parameter", "blows_up_at=15", "--checkpoint", "run.npz", "--checkpoint-every", 6]
    code, out, err = simulate(*options, "--frames", "pictures", "--frame-every", 5)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert "particle 7 is nowhere" in last and "the last good checkpoint is run.npz" in last
    assert "Traceback" not in err
    assert checkpoint.load(Path("run.npz")).step == 12
    assert max(written()[:3]) == "pictures/frame-0000000010.png"


BAD = [
    (["--particles", "0"], "particles must be 1 to"),
    (["--particles", "-5"], "particles must be 1 to"),
    (["--steps", "-1"], "steps must be 0 or more, not -1"),
    (["--skin", "-1"], "skin must be"),
    (["--skin", "nan"], "skin must be"),
    (["--seed", "-1"], "seed must be 0 to"),
    (["--algorithm", "cuonting-sort"], "did you mean counting-sort"),
    (["--algorithm", "filter-cub"], "family stream-filter, and a simulation needs a cell list"),
    (["--form", "oder"], "did you mean order"),
    (["--form", "unheard-of"], "needs magic"),
    (["--device", "abacus"], "no device 'abacus'"),
    (["--parameter", "tmie_step=1"], "did you mean time_step"),
    (["--parameter", "time_step"], "NAME=VALUE, not 'time_step'"),
    (["--parameter", "time_step=x"], "takes a finite number, not 'x'"),
    (["--parameter", "time_step=-1"], "time_step must be positive"),
    (["--observe-every", "0"], "--observe-every takes a number of steps of at least 1, not 0"),
    (["--frame-every", "5"], "--frame-every needs --frames DIR or --trajectory"),
    (["--frame-every", "0", "--frames", "p"], "--frame-every takes a number"),
    (["--checkpoint-every", "5"], "--checkpoint-every needs --checkpoint"),
    (["--checkpoint", "c.npz", "--checkpoint-every", "-1"], "--checkpoint-every takes"),
    (["--trajectory", "run.dcd"], "no format of a trajectory '.dcd': one of .gsd, .xyz"),
    (["--resume", "absent.npz"], "cannot read absent.npz: No such file"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(simulate, arguments, message):
    outputs = {"--checkpoint": "o/c.npz", "--trajectory": "o/t.xyz", "--frames": "o/f"}
    if message.startswith(("--frame-every needs", "--checkpoint-every needs")):
        outputs = {}
    more = [word for pair in outputs.items() if pair[0] not in arguments for word in pair]
    code, out, err = simulate(*arguments, *more)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("gpubench: ") and message in err
    assert written() == []


def test_an_unknown_workload_is_answered_with_the_nearest(gpubench_command):
    code, out, err = gpubench_command("simulate", "fake-gass")
    assert (code, out) == (2, "")
    assert err.startswith("gpubench: no workload 'fake-gass': did you mean fake-gas?")
    assert len(err.splitlines()) == 1


def test_what_is_there_is_left_alone(simulate):
    outputs = ["--checkpoint", "run.npz", "--trajectory", "run.xyz", "--frames", "pictures"]
    simulate(*outputs, "--frame-every", 24)
    shutil.copy("run.npz", "other.npz")
    kept = {path: Path(path).read_bytes() for path in written()}
    for arguments, message in [
        (["--checkpoint", "run.npz"], "continue with --resume run.npz, or name a new file"),
        (["--checkpoint", "other.npz", "--resume", "run.npz"], "other.npz already exists"),
        (["--trajectory", "run.xyz"], "run.xyz already exists"),
        (["--frames", "pictures"], "has the frames of another run"),
        (["--frames", "run.xyz"], "--frames takes a folder"),
        (["--trajectory", "pictures"], "--trajectory takes a file, but pictures is"),
        (["--checkpoint", "pictures"], "--checkpoint takes a file, but pictures is"),
        (["--checkpoint", "run.xyz/c.npz"], "a file in a folder, but"),
        (["--resume", "run.xyz"], "run.xyz is no whole checkpoint"),
        (["--resume", "run.npz", "--steps", "23"], "24 steps are done already"),
        (["--resume", "run.npz", "--particles", "99"], "particles 99 and not 100"),
        (["--resume", "run.npz", "--skin", "0.5"], "skin 0.5 and not 0.0"),
    ]:
        code, out, err = simulate(*arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err and err.count("\n") == 1, arguments
    assert {path: Path(path).read_bytes() for path in written()} == kept


# Files of other runs


def test_files_of_another_run_are_refused(simulate):
    """All files of a run hold its id, and those of another are left as they are."""
    told = {}
    for name in ("one", "two"):
        for trajectory, more in ((f"{name}.gsd", ["--frames", name]),
                                 (f"{name}.xyz", ["--resume", f"{name}.npz"])):  # fmt: skip
            outputs = ["--checkpoint", f"{name}.npz", "--trajectory", trajectory, *more]
            code, out, _ = simulate("--particles", 20, "--frame-every", 24, "--json", *outputs)
            told.setdefault(name, json.loads(out)["run"])
            assert (code, json.loads(out)["run"]) == (0, told[name])
    assert told["one"] != told["two"]
    assert checkpoint.load(Path("one.npz")).run == told["one"]
    kept = {path: Path(path).read_bytes() for path in written()}
    resume = ["--steps", 48, "--resume", "one.npz", "--frame-every", 24]
    for foreign, message in [
        (["--frames", "two"], "two has the frames of another run"),
        (["--trajectory", "two.gsd"], "two.gsd is the trajectory of another run"),
        (["--trajectory", "two.xyz"], "two.xyz is the trajectory of another run"),
    ]:
        code, out, err = simulate(*resume, "--checkpoint", "one.npz", *foreign)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert {path: Path(path).read_bytes() for path in written()} == kept
    assert simulate(*resume, "--frames", "one", "--trajectory", "one.xyz")[0] == 0
    assert simulate(*resume, "--trajectory", "one.gsd")[0] == 0


def test_a_checkpoint_without_an_id_resumes_with_files_without_one(simulate, monkeypatch):
    """Older ones have none, and neither have their frames and trajectories."""
    outputs = ["--checkpoint", "run.npz", "--frames", "pictures", "--trajectory", "run.xyz"]
    monkeypatch.setattr(checkpoint, "new_run", lambda: None)
    assert simulate("--steps", 1, *outputs)[0] == 0
    monkeypatch.setattr(checkpoint, "new_run", lambda: RUN)
    assert simulate("--steps", 0, "--frames", "others")[0] == 0
    for steps in (2, 3):
        resume = ["--resume", "run.npz", "--steps", steps]
        code, _, err = simulate(*resume, "--frames", "others")
        assert code == 2 and "others has the frames of another run" in err
        assert simulate(*resume, *outputs)[0] == 0
        assert checkpoint.load(Path("run.npz")).run is None


@pytest.mark.parametrize(
    ("option", "lock"),
    [("--checkpoint", ".out.xyz.lock"), ("--trajectory", ".out.xyz.lock"),
     ("--frames", "out.xyz/.lock")],
)  # fmt: skip
def test_an_output_that_another_process_writes_is_refused(simulate, option, lock):
    with Lock(Path(lock)):
        code, out, err = simulate(option, "out.xyz")
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("gpubench: another process is writing out.xyz: wait until it ends")
    assert written() == []
    Path(lock).touch()  # by a process that was killed
    assert simulate(option, "out.xyz", "--steps", 0)[0] == 0
    assert not Path(lock).exists()


def test_what_another_process_wrote_meanwhile_is_left_alone(simulate, monkeypatch):
    """Two that begin together have both seen that there is no checkpoint."""
    make = Setup.make

    def slowly(self, *given):
        made = make(self, *given)
        Path("run.npz").write_bytes(b"of another")
        return made

    monkeypatch.setattr(Setup, "make", slowly)
    code, out, err = simulate("--checkpoint", "run.npz")
    assert (code, out) == (2, "")
    assert "another process has written to the outputs" in err.splitlines()[-1]
    assert Path("run.npz").read_bytes() == b"of another" and written() == ["run.npz"]


# Full disks


@contextmanager
def full_disk(limit):
    """Have files end at so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # Python ignores SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def steps_in(path):
    if path.suffix == ".xyz":
        return [int(step) for step in re.findall(r" Step=(\d+)", path.read_text())]
    if path.is_dir():
        return [int(frame.stem[6:]) for frame in sorted(path.glob("frame-*.png"))]
    with gsd.hoomd.open(str(path), "r") as file:
        return [int(moment.configuration.step) for moment in file]


@pytest.mark.parametrize(
    ("option", "output", "particles", "limit", "left"),
    [
        ("--trajectory", "run.gsd", 100, 12_000, [0, 8]),
        ("--trajectory", "run.xyz", 100, 20_000, [0, 8]),
        ("--trajectory", "new.gsd", 10, 4_500, []),
        ("--frames", "pictures", 10, 4_500, []),
    ],
)
def test_a_full_disk_is_one_line_and_the_run_resumes(
    simulate, option, output, particles, limit, left
):
    options = ["--particles", particles, "--checkpoint-every", 8, "--observe-every", 24]
    outputs = ["--checkpoint", "run.npz", option, output, "--frame-every", 8]
    with full_disk(limit):
        code, out, err = simulate(*options, *outputs)
    assert (code, out) == (2, "")
    _, last = err.splitlines()  # after the line that says what is simulated
    assert re.fullmatch(rf"gpubench: cannot write {output}\S*: File too large: .*", last)
    assert not [path for path in written() if path.endswith((".tmp", ".lock"))]
    assert not left or steps_in(Path(output)) == left
    assert simulate(*options, *outputs, "--resume", "run.npz")[0] == 0
    assert steps_in(Path(output)) == [0, 8, 16, 24]
    simulate(*options, "--checkpoint", "whole.npz")
    resumed, whole = (checkpoint.load(Path(name)).state for name in ("run.npz", "whole.npz"))
    assert all((resumed[name] == whole[name]).all() for name in whole)


def test_a_checkpoint_stays_on_a_full_disk(simulate):
    simulate("--checkpoint", "run.npz")
    content = Path("run.npz").read_bytes()
    resume = ["--checkpoint", "run.npz", "--resume", "run.npz", "--steps", 48]
    for limit in (0, 100, len(content) // 2, len(content) - 1):
        with full_disk(limit):
            code, out, err = simulate(*resume)
        assert (code, out) == (2, "")
        assert "cannot write run.npz: File too large" in err.splitlines()[-1]
        assert written() == ["run.npz"] and Path("run.npz").read_bytes() == content
    assert simulate(*resume)[0] == 0


def test_list_describes_workloads(gpubench_command):
    for options, wanted in (([], "particles that do not interact"), (["--json"], '"depth": 4.0')):
        _, out, _ = gpubench_command("list", *options)
        assert "fake-gas" in out and wanted in out
    (workload,) = json.loads(out)["workloads"]
    assert workload == {
        "name": "fake-gas",
        "summary": "particles that do not interact",
        "source": "nowhere",
        "parameters": dict(FakeGas.defaults),
    }
