"""Running a workload: blocks, phases, checkpoints, Ctrl-C, frames, trajectories."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import gsd.hoomd
import numpy as np
import pytest
from fake_workload import MIB, FakeCells, FakeGas
from fakes import FakeDevice
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gpubench import registry
from gpubench.base.errors import NotSupported, UserError
from gpubench.base.writing import whole_file
from gpubench.measure import phases
from gpubench.measure.phases import phase_times
from gpubench.simulate import checkpoint, frames, pictures, slab, trajectory
from gpubench.simulate.accounts import WARM_UP_BLOCKS
from gpubench.simulate.runner import BLOCK_MS, Timetable, simulate
from gpubench.simulate.setup import Setup, choose_form, parse_parameters, settle
from gpubench.workloads.workload import BlowUp, Snapshot

FILL_MS = 1.0
STEP_FILLS = 5
ANSWERS = ("positions", "velocities", "step")


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr(registry, "workloads", lambda: {"fake-gas": FakeGas})
    real = registry.algorithms()
    monkeypatch.setattr(registry, "algorithms", lambda: {**real, "counting-sort": FakeCells})


@pytest.fixture
def device():
    """A device on which a fill of the workload takes a millisecond."""
    return FakeDevice(bandwidth_gb_s=MIB / FILL_MS / 1e6)


@pytest.fixture
def gas(device):
    def make(particles=100, **parameters):
        return Setup("fake-gas", particles, form="reorder", parameters=parameters).make(device)

    return make


def same_state(one, two):
    ours, theirs = one.state(), two.state()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[k], theirs[k]) for k in ours)


# Blocks and rates


def test_blocks_end_where_something_is_due(gas):
    """Every interval is met exactly, whatever a step costs."""
    workload, shown = gas(), []
    timetable = Timetable(1000, observe_every=70, frame_every=45)
    run = simulate(workload, timetable, on_frame=[lambda snapshot: shown.append(snapshot.step)])
    assert shown == [*range(0, 1000, 45), 1000]
    assert [o["step"] for o in run.observations] == [*range(0, 1000, 70), 1000]
    assert sum(block.steps for block in run.blocks) == run.step == workload.step == 1000
    assert (run.start, run.time, run.stopped) == (0, 250.0, False)


@pytest.mark.parametrize("fill_ms", [0.001, 1.0, 1000.0])
def test_blocks_last_some_tenths_of_a_second(gas, device, fill_ms):
    device.bandwidth_gb_s = MIB / fill_ms / 1e6
    run = simulate(gas(1), Timetable(20_000 if fill_ms < 1 else 600))
    step_ms = STEP_FILLS * fill_ms  # and a fill more in each fourth step
    longest = max(block.elapsed_ms for block in run.blocks)
    assert longest <= max(1.5 * BLOCK_MS, 1.2 * step_ms)
    if step_ms * run.step > 20 * BLOCK_MS:
        assert longest >= min(0.5 * BLOCK_MS, step_ms)
    assert len(run.blocks) > 12


def test_the_rate_is_that_of_the_blocks_without_what_is_between_them(gas, device):
    """Frames cost time on the device's clock, and warming up does: neither counts."""

    def slow_frame(snapshot):
        device.clock_ms += 1e6

    def slow_start(workload):
        device.clock_ms += 1e5 if workload.step == 1 else 0

    FakeGas.after_step = staticmethod(slow_start)
    try:
        run = simulate(gas(1000), Timetable(96, frame_every=4), on_frame=[slow_frame])
    finally:
        FakeGas.after_step = staticmethod(lambda workload: None)
    # Blocks of whole periods of four steps: 4 * 5 fills and one for the lists.
    rate = run.particle_steps_per_s
    assert len(run.blocks) > WARM_UP_BLOCKS
    assert rate.median == pytest.approx(1000 * 4 / (21 * FILL_MS) * 1e3, rel=1e-5)
    assert rate.ci95_low <= rate.median <= rate.ci95_high


def test_no_steps_give_observations_and_no_rate(gas):
    run = simulate(gas(), Timetable(0, observe_every=1))
    assert [o["step"] for o in run.observations] == [0]
    assert run.particle_steps_per_s is None and run.phases == {} and run.blocks == []


def test_going_back_is_refused(gas):
    workload = gas()
    workload.advance(3)
    with pytest.raises(ValueError, match="2 steps are asked for, and 3 are done"):
        simulate(workload, Timetable(2))


# Phases


def test_phases_of_one_name_add_up_and_rare_ones_show_in_the_mean(gas):
    times = phase_times(gas(), 40)
    assert list(times) == ["sort", "force", "lists", "integrate"]
    medians = {name: time.median_ms for name, time in times.items()}
    means = {name: time.mean_ms for name, time in times.items()}
    assert medians == {"sort": 1.0, "force": 2.0, "integrate": 2.0, "lists": 0.0}
    assert means == {"sort": 1.0, "force": 2.0, "integrate": 2.0, "lists": 0.25}


def test_all_steps_are_queued_before_a_time_is_read(gas, device, monkeypatch):
    workload, read = gas(), []
    monkeypatch.setattr(
        device, "elapsed_ms", lambda start, end: read.append(workload.step) or end - start
    )
    phase_times(workload, 3)
    assert read[1:] and set(read[1:]) == {workload.step} == {6}


def test_the_device_is_busy_while_steps_are_queued(gas, device, monkeypatch):
    """What keeps it busy is in no phase's time."""
    ticks = itertools.count()
    monkeypatch.setattr(phases.clock, "now", lambda: float(next(ticks)))  # a slow host
    times = phase_times(gas(), 3)
    fill_ms = phases.SCRATCH_BYTES / MIB * FILL_MS
    busy_ms = (device.filled_bytes.count(phases.SCRATCH_BYTES) - 1) * fill_ms
    assert 0 <= busy_ms - phases.LEAD * 4 * 1000 < fill_ms
    assert times["sort"].median_ms == times["sort"].mean_ms == 1.0


def test_the_steps_that_time_phases_are_taken_back(gas):
    timed, plain = gas(), gas()
    assert simulate(timed, Timetable(10)).phases.keys() == {"sort", "force", "lists", "integrate"}
    plain.advance(10)
    assert same_state(timed, plain)


# Checkpoints


def test_a_resumed_run_goes_on_bit_for_bit(gas, device, tmp_path):
    path = tmp_path / "run.npz"
    straight, first = gas(), gas()
    whole = simulate(straight, Timetable(50, observe_every=10))
    simulate(first, Timetable(23, 10, checkpoint_every=9), checkpoint=path)
    saved = checkpoint.load(path)
    assert saved.step == 23
    second = saved.setup.make(device)
    saved.resume(second)
    run = simulate(second, Timetable(50, observe_every=10), observations=saved.observations)
    assert run.start == 23
    assert same_state(straight, second)
    seen = [o for o in run.observations if o["step"] % 10 == 0]
    assert [o["energy"] for o in seen[1:]] == [o["energy"] for o in whole.observations[1:]]
    assert [o["step"] for o in run.observations] == [0, 10, 20, 23, 30, 40, 50]


def test_a_checkpoint_knows_what_it_is_of(gas, device, tmp_path):
    path = tmp_path / "deep" / "run.npz"
    workload = gas(particles=12, time_step=0.125)
    checkpoint.save(path, workload, [{"step": 0, "energy": float("nan")}])
    saved = checkpoint.load(path)
    assert saved.setup == Setup.of(workload)
    assert saved.setup.parameters["time_step"] == 0.125
    assert saved.why_inexact(device) == []
    device.name = "NVIDIA B200"
    assert saved.why_inexact(device) == ["the device was NVIDIA H200, and is NVIDIA B200"]


def test_other_code_is_told(gas, device, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    checkpoint.save(path, gas(), [])
    monkeypatch.setattr(checkpoint, "code_hash", lambda: "0123456789abcdef")
    (reason,) = checkpoint.load(path).why_inexact(device)
    assert "0123456789abcdef" in reason


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99, -1])
def test_a_truncated_checkpoint_is_refused(gas, tmp_path, kept):
    path = tmp_path / "run.npz"
    checkpoint.save(path, gas(), [])
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if 0 < kept < 1 else kept])
    with pytest.raises(UserError, match="is no whole checkpoint"):
        checkpoint.load(path)


def test_a_spoilt_checkpoint_is_refused(gas, tmp_path):
    path = tmp_path / "run.npz"
    workload = gas()
    checkpoint.save(path, workload, [])
    content = bytearray(path.read_bytes())
    content[content.index(workload.positions.tobytes()[:64]) + 8] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is no whole checkpoint"):
        checkpoint.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign.npz"
    for write in (
        lambda: path.write_text("hello"),
        lambda: path.write_bytes(b"\x93NUMPY\x01\x00"),
        lambda: np.savez(path, positions=np.zeros(3)),
        lambda: np.savez(path, header=np.array("not json")),
        lambda: np.savez(path, header=np.array('{"format": 99}')),
        lambda: np.savez(path, header=np.array('{"format": 1, "setup": {}}')),
        lambda: np.savez(path, header=np.array("[1]")),
    ):
        write()
        with pytest.raises(UserError, match=r"foreign\.npz is no whole checkpoint"):
            checkpoint.load(path)
    with pytest.raises(UserError, match=r"cannot read .*absent: No such file"):
        checkpoint.load(tmp_path / "absent")
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        checkpoint.load(tmp_path)


KILLED = (
    f"""
import os, sys
import numpy as np
sys.path[:0] = {[str(Path(__file__).parents[1] / "builders"), str(Path(__file__).parents[2])]!r}
from fake_workload import FakeCells, FakeGas
from fakes import FakeDevice
from pathlib import Path
from gpubench import registry
from gpubench.simulate import checkpoint
from gpubench.simulate.pictures import FrameFolder
from gpubench.simulate.runner import Timetable, simulate
from gpubench.simulate.setup import Setup
registry.workloads = lambda: {{"fake-gas": FakeGas}}
registry.algorithms = lambda: {{"counting-sort": FakeCells}}
gas = Setup("fake-gas", 100, form="reorder").make(FakeDevice())
"""
    + """
def die(file=None, **arrays):
    if file is not None:
        file.write(b"PK half of it")
        file.flush()
    os._exit(9)

def save_twice():
    checkpoint.save(Path("run.npz"), gas, [])
    gas.advance(5)
    exec(sys.argv[1 + number])
    checkpoint.save(Path("run.npz"), gas, [])

def run():
    run = checkpoint.new_run()
    frames = FrameFolder(Path("frames"), "fake-gas", run=run)
    simulate(
        gas, Timetable(20, frame_every=10, checkpoint_every=10), checkpoint=Path("run.npz"),
        run=run, on_frame=[frames.write, lambda snapshot: die()],
    )

for number in range(len(sys.argv)):
    if not (child := os.fork()):
        Path(str(number)).mkdir()
        os.chdir(str(number))
        save_twice() if number < len(sys.argv) - 1 else run()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
"""
)
MOMENTS = {
    "while writing": "np.savez = die",
    "before the disk has it": "os.fsync = lambda _: die()",
    "before the rename": "Path.replace = lambda *_: die()",
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return folders that processes left: killed at each of the moments, and after a frame."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", KILLED, *MOMENTS.values()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip([*MOMENTS, "after a frame"], sorted(folder.iterdir()), strict=True))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_while_a_checkpoint_is_written_leaves_the_old_one(killed, moment):
    path = killed[moment] / "run.npz"
    assert checkpoint.load(path).step == 0
    (leftover,) = set(path.parent.iterdir()) - {path}
    # The next that is written removes what the killed process left.
    with whole_file(path) as file:
        file.write(b"new")
    assert not leftover.exists()


def test_a_kill_after_the_first_frame_leaves_a_checkpoint_to_resume(killed, gas, device):
    """Without one, the run could neither begin again, for its frame, nor go on."""
    saved = checkpoint.load(killed["after a frame"] / "run.npz")
    folder = killed["after a frame"] / "frames"
    assert saved.step == 0 and len(list(folder.glob("frame-*.png"))) == 1
    resumed, straight = saved.setup.make(device), gas()
    saved.resume(resumed)
    frames = pictures.FrameFolder(folder, "fake-gas", run=saved.run, is_resumed=True)
    simulate(resumed, Timetable(20, frame_every=10), on_frame=[frames.write])
    simulate(straight, Timetable(20))
    assert same_state(resumed, straight)
    assert len(list(folder.glob("frame-*.png"))) == 3


def test_what_cannot_be_written_leaves_the_old_and_says_why(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"old")
    full = pytest.raises(UserError, match=r"cannot write .*run\.npz: No space left")
    with full, whole_file(path) as file:
        file.write(b"new")
        raise OSError(28, "No space left on device")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


# Ctrl-C


@pytest.fixture
def press_ctrl_c(monkeypatch):
    """Yield a function that has Ctrl-C pressed after each of the given steps."""

    def at(*steps):
        def after_step(workload):
            for _ in range(steps.count(workload.step)):
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(FakeGas, "after_step", staticmethod(after_step))

    # Who is started in the background of a shell script ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield at
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_after_the_block_with_a_checkpoint(gas, tmp_path, press_ctrl_c):
    press_ctrl_c(9)
    handler = signal.getsignal(signal.SIGINT)
    workload, path = gas(), tmp_path / "run.npz"
    run = simulate(workload, Timetable(200, 50, checkpoint_every=50), checkpoint=path)
    assert run.stopped and 9 <= run.step < 50
    assert checkpoint.load(path).step == run.step == workload.step
    assert run.step == sum(block.steps for block in run.blocks)
    assert run.phases == {}
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_in_the_last_block_stops_nothing(gas, press_ctrl_c):
    press_ctrl_c(10)
    assert not simulate(gas(), Timetable(10)).stopped


def test_a_second_ctrl_c_ends_at_once(gas, press_ctrl_c, tmp_path):
    press_ctrl_c(10, 10)  # in one block, however short blocks are on a busy machine
    handler = signal.getsignal(signal.SIGINT)
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        simulate(gas(), Timetable(200, checkpoint_every=100), checkpoint=path)
    assert checkpoint.load(path).step == 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_runs_outside_the_main_thread(gas):
    found = []
    thread = threading.Thread(target=lambda: found.append(simulate(gas(), Timetable(3))))
    thread.start()
    thread.join()
    assert found[0].step == 3


# Blow-up


def test_a_blow_up_writes_nothing_and_names_the_last_good_checkpoint(gas, tmp_path):
    path, shown = tmp_path / "run.npz", []
    workload = gas(blows_up_at=47)
    with pytest.raises(BlowUp, match=rf"particle 7 .*the last good checkpoint is {path}"):
        simulate(
            workload,
            Timetable(100, frame_every=10, checkpoint_every=20),
            on_frame=[lambda snapshot: shown.append(snapshot.step)],
            checkpoint=path,
        )
    assert shown == [0, 10, 20, 30, 40]
    assert checkpoint.load(path).step == 40


def test_a_blow_up_without_a_checkpoint_says_so(gas):
    with pytest.raises(BlowUp, match="there is no checkpoint"):
        simulate(gas(blows_up_at=2), Timetable(10))


# Setups


def test_the_first_form_that_reorders_is_chosen(device):
    assert choose_form(FakeCells, device) == "reorder"
    device.features = frozenset({"magic"})
    assert choose_form(FakeCells, device) == "unheard-of"


def test_a_form_that_does_not_reorder_is_better_than_none(device, monkeypatch):
    forms = {name: FakeCells.forms[name] for name in ("unheard-of", "order")}
    monkeypatch.setattr(FakeCells, "forms", forms)
    assert choose_form(FakeCells, device) == "order"
    del forms["order"]
    with pytest.raises(NotSupported, match="counting-sort needs magic"):
        choose_form(FakeCells, device)


def test_a_form_that_cannot_run_is_refused(device):
    with pytest.raises(NotSupported, match="counting-sort unheard-of needs magic"):
        Setup("fake-gas", 10, form="unheard-of").make(device)


def test_parameters_have_the_type_of_their_defaults():
    defaults = {"count": 3, "length": 1.0, "way": "x"}
    texts = ["count=07", "length=2", "way=1=2", "count=8"]
    assert parse_parameters(texts, defaults) == {"count": 8, "length": 2.0, "way": "1=2"}
    assert type(parse_parameters(["length=2"], defaults)["length"]) is float


@pytest.mark.parametrize(
    ("given", "parameters", "message"),
    [
        ({"skin": -0.5}, [], "skin must be 0 or a positive length, not -0.5"),
        ({"skin": float("inf")}, [], "skin must be"),
        ({"algorithm": "neighbour-query"}, [], "family neighbour-query"),
        ({}, ["time_step=nan"], "takes a finite number, not 'nan'"),
        ({}, ["blows_up_at=1.5"], "takes a whole number, not '1.5'"),
    ],
)
def test_bad_setups_are_refused(given, parameters, message):
    with pytest.raises(UserError, match=message):
        settle("fake-gas", given, parameters)


def test_parameters_are_read_as_what_their_defaults_are():
    made = settle("fake-gas", {}, ["time_step=1e-2", "blows_up_at=2**5"])
    assert (made.parameters["time_step"], made.parameters["blows_up_at"]) == (0.01, 32)
    assert parse_parameters(["walls=z"], {"walls": "none"}) == {"walls": "z"}


def test_an_update_of_cells_keeps_cells():
    assert settle("fake-gas", {"algorithm": "counting-resort"}).algorithm == "counting-resort"


def test_what_differs_from_the_checkpoint_is_named(gas):
    saved = Setup.of(gas(time_step=0.125))
    same = {"particles": 100, "seed": 1, "algorithm": "counting-sort", "skin": 0.0}
    assert settle("fake-gas", same, ["time_step=0.125"], saved) == saved
    assert settle("fake-gas", {}, [], saved) == saved
    with pytest.raises(UserError) as refused:
        settle("fake-gas", {"particles": 7, "form": "order"}, ["time_step=0.5"], saved)
    for difference in ("particles 7 and not 100", "form order and not reorder",
                       "time_step 0.5 and not 0.125"):  # fmt: skip
        assert difference in str(refused.value)
    assert "seed" not in str(refused.value)


# Frames


BLUE, ORANGE = (0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00)


def snapshot(size=(20.0, 20.0, 20.0), particles=24_000, step=0, **fields):
    """Water below half of the height, oil above it."""
    positions = np.random.default_rng(step).random((particles, 3)) * size
    species = (positions[:, 2] > size[2] / 2).astype(np.int8)
    return Snapshot(
        **{
            "step": step, "time": step / 100, "size": size, "periodic": (True, True, False),
            "positions": positions, "velocities": np.zeros((particles, 3)), "species": species,
            "species_names": ("water", "oil"), **fields,
        }
    )  # fmt: skip


def pixels(path, box=None):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").crop(box)).astype(int)


def share(picture, colour):
    """Return the share of the pixels that have about that colour."""
    return float((abs(picture - colour).max(axis=2) < 40).mean())


def frame_of(folder, moment):
    slab.write_frame(moment, folder / "frame-0.png", "mixture")
    (frame,) = frames.read_frames(folder)
    return frame


def test_a_frame_shows_species_at_their_places(tmp_path):
    frame = frame_of(tmp_path, snapshot(step=1200))
    assert (frame.step, frame.time, frame.key.species_names) == (1200, 12.0, ("water", "oil"))
    left, top, right, bottom = frame.box
    assert right - left == bottom - top == 560
    picture = pixels(frame.path, frame.box)
    above, below = picture[:270], picture[290:]
    # z is up: oil, the second species, is in the upper half. A slab does not cover all.
    assert 0.3 < share(above, ORANGE) < 0.95 and share(above, BLUE) < 0.01
    assert 0.3 < share(below, BLUE) < 0.95 and share(below, ORANGE) < 0.01
    # Outside the box there is only the legend, in both colours.
    around = pixels(frame.path)
    around[top:bottom, left:right] = 255
    assert 0 < share(around, BLUE) < 0.01 and 0 < share(around, ORANGE) < 0.01


@pytest.mark.parametrize(
    ("size", "axes"),
    [
        ((20, 20, 20), (0, 2, 1)),
        ((40, 20, 20), (0, 2, 1)),
        ((20, 5, 40), (0, 2, 1)),
        ((20, 30, 3), (0, 1, 2)),
        ((3, 30, 40), (1, 2, 0)),
        ((20, 20.1, 20), (0, 2, 1)),
    ],
)
def test_the_view_leaves_the_short_axis_out(size, axes):
    view = slab.SlabView.of(size)
    assert (view.right, view.up, view.depth) == axes


def test_a_frame_has_equal_scales_and_one_size(tmp_path):
    sizes = set()
    for step in (0, 1_000_000):
        frame = frame_of(tmp_path, snapshot((10.0, 3.0, 40.0), step=step))
        left, top, right, bottom = frame.box
        assert bottom - top == 560 and right - left == 140
        sizes.add(pixels(frame.path).shape)
    assert len(sizes) == 1


def test_only_a_slab_of_a_deep_box_is_shown(tmp_path):
    positions = np.full((9261, 3), 10.0)
    positions[:, 1] = np.linspace(0, 21, 9261)  # mean distance 1: the slab is 1.5 deep
    depths = abs(positions[:, 1] - 10.5)
    species = (depths > 0.8).astype(np.int8)
    deep = snapshot((21.0, 21.0, 21.0), positions=positions, species=species)
    picture = pixels((frame := frame_of(tmp_path, deep)).path, frame.box)
    assert share(picture, BLUE) > 0 and share(picture, ORANGE) == 0
    flat = snapshot((21.0, 21.0, 21.0), positions=positions * [1, 0, 1], species=species)
    picture = pixels((frame := frame_of(tmp_path, flat)).path, frame.box)
    assert share(picture, ORANGE) > 0


def test_one_species_needs_no_legend(tmp_path):
    moment = snapshot(species=np.zeros(24_000, np.int8), species_names=("fluid",))
    frame = frame_of(tmp_path, moment)
    left, top, right, bottom = frame.box
    picture = pixels(frame.path)
    picture[top:bottom, left:right] = 255
    assert share(picture, BLUE) == 0


def test_the_animation_has_all_frames_and_the_panel_six(tmp_path):
    folder = pictures.FrameFolder(tmp_path, "mixture")
    for step in (0, 100, 200, 300, 400, 500, 600, 700):
        folder.write(snapshot((20.0, 2.0, 20.0), 1000, step))
    animation, panel = folder.finish()
    with Image.open(animation) as gif:
        assert gif.n_frames == 8
        first = gif.convert("RGB")
        gif.seek(7)
        assert gif.convert("RGB").tobytes() != first.tobytes()
        assert share(np.asarray(gif.convert("RGB")).astype(int), BLUE) > 0.05
    assert len(list(tmp_path.glob("frame-*.png"))) == 8
    picture = pixels(panel)
    # Two rows of three: six pictures between margins, each half in either colour.
    assert share(picture, BLUE) > 0.05 and share(picture, ORANGE) > 0.05
    is_coloured = abs(picture - ORANGE).max(axis=2) < 40
    assert runs(is_coloured.sum(axis=0) > 20) == 3
    assert runs(is_coloured.sum(axis=1) > 40) == 2


def runs(flags):
    """Return how many runs of true values there are, where gaps of a few do not count."""
    padded = np.convolve(flags, np.ones(9), "same") > 0
    return int(np.count_nonzero(padded[1:] & ~padded[:-1]) + padded[0])


def test_a_tall_box_has_its_panel_in_a_row(tmp_path):
    folder = pictures.FrameFolder(tmp_path, "mixture")
    for step in range(6):
        folder.write(snapshot((5.0, 2.0, 20.0), 1000, step))
    picture = pixels(folder.finish()[1])
    assert runs((abs(picture - ORANGE).max(axis=2) < 40).sum(axis=0) > 20) == 6


def test_a_folder_with_frames_belongs_to_another_run(tmp_path):
    pictures.FrameFolder(tmp_path, "one").write(snapshot(particles=10))
    with pytest.raises(UserError, match="has the frames of another run"):
        pictures.FrameFolder(tmp_path, "two")
    resumed = pictures.FrameFolder(tmp_path, "one", is_resumed=True)
    resumed.write(snapshot(particles=10, step=5))
    with Image.open(resumed.finish()[0]) as gif:
        assert gif.n_frames == 2


def test_a_broken_frame_is_named(tmp_path):
    (tmp_path / "frame-7.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"frame-7\.png is no frame"):
        frames.read_frames(tmp_path)
    for account in (None, "[]", "7", '{"species_names": 7}'):
        told = PngInfo()
        if account is not None:
            told.add_text(frames._KEY, account)
        Image.new("RGB", (4, 4)).save(tmp_path / "frame-7.png", pnginfo=told)
        with pytest.raises(UserError, match=r"frame-7\.png is no frame"):
            frames.read_frames(tmp_path)


def test_no_frames_give_no_animation(tmp_path):
    assert pictures.FrameFolder(tmp_path / "none", "x").finish() is None
    assert not (tmp_path / "none").exists()


# Trajectories


def moments(steps, particles=50):
    rng = np.random.default_rng(3)
    return [
        snapshot((4.0, 5.0, 6.0), particles, step, velocities=rng.normal(size=(particles, 3)),
                 species_names=("light oil", "water"))
        for step in steps
    ]  # fmt: skip


def write(path, steps, particles=50, **options):
    file = trajectory.format_of(path)(path, particles, **options)
    for moment in moments(steps, particles):
        file.write(moment)


def parse_xyz(path):
    """Read extended XYZ; return a list of (attributes of the second line, names, numbers)."""
    lines = path.read_text().splitlines()
    found = []
    while lines:
        count = int(lines[0])
        rows = [line.split(" ") for line in lines[2 : 2 + count]]
        assert len(rows) == count and {len(row) for row in rows} == {7}
        numbers = np.array([row[1:] for row in rows], float)
        found.append((lines[1], [row[0] for row in rows], numbers))
        lines = lines[2 + count :]
    return found


def test_gsd_reads_back(tmp_path):
    path = tmp_path / "deep" / "run.gsd"
    write(path, (0, 10, 20))
    with gsd.hoomd.open(str(path), "r") as file:
        assert [frame.configuration.step for frame in file] == [0, 10, 20]
        for frame, moment in zip(file, moments((0, 10, 20)), strict=True):
            assert frame.configuration.box.tolist() == [4, 5, 6, 0, 0, 0]
            assert frame.particles.types == ["light oil", "water"]
            assert np.array_equal(frame.particles.typeid, moment.species)
            centred = moment.positions - [2, 2.5, 3]
            assert np.allclose(frame.particles.position, centred, rtol=0, atol=1e-6)
            assert np.allclose(frame.particles.velocity, moment.velocities, rtol=1e-6)
            assert frame.log["time"].tolist() == [moment.time]


def test_xyz_reads_back(tmp_path):
    path = tmp_path / "deep" / "run.xyz"
    write(path, (0, 10))
    read = parse_xyz(path)
    for (header, names, numbers), moment in zip(read, moments((0, 10)), strict=True):
        assert 'Lattice="4.0 0 0 0 5.0 0 0 0 6.0"' in header and 'pbc="T T F"' in header
        assert "Properties=species:S:1:pos:R:3:velo:R:3" in header
        assert f"Step={moment.step} Time={moment.time}" in header
        assert names == [("light-oil", "water")[kind] for kind in moment.species]
        assert np.allclose(numbers[:, :3], moment.positions, rtol=1e-8)
        assert np.allclose(numbers[:, 3:], moment.velocities, rtol=1e-8)


@pytest.mark.parametrize("name", ["run.gsd", "run.xyz"])
def test_a_resumed_trajectory_is_that_of_one_run(tmp_path, name):
    path, whole = tmp_path / name, tmp_path / f"whole-{name}"
    write(whole, (0, 10, 20, 30, 40))
    write(path, (0, 10, 20))
    # The checkpoint was of step 10: 20 comes again.
    write(path, (10, 20, 30, 40), is_resumed=True)
    if name.endswith("xyz"):
        one, two = ([header for header, *_ in parse_xyz(p)] for p in (path, whole))
    else:
        one, two = (
            [frame.configuration.step for frame in gsd.hoomd.open(str(p), "r")]
            for p in (path, whole)
        )
    assert one == two and len(one) == 5


def test_half_a_moment_that_a_kill_left_is_cut_off(tmp_path):
    path, whole = tmp_path / "run.xyz", tmp_path / "whole.xyz"
    write(whole, (0, 10, 20))
    write(path, (0, 10))
    complete = path.read_bytes()
    for half in ("50\n", "50", "50\nLattice", "50\nLattice Step=20\nwater 1 2 3 4 5 6\nwat"):
        path.write_bytes(complete + half.encode())
        write(path, (10, 20), is_resumed=True)
        assert len(parse_xyz(path)) == 3


@pytest.mark.parametrize("name", ["run.gsd", "run.xyz"])
def test_a_trajectory_of_another_run_is_left_alone(tmp_path, name):
    path = tmp_path / name
    write(path, (0, 10))
    content = path.read_bytes()
    with pytest.raises(UserError, match="already exists"):
        write(path, (0,))
    with pytest.raises(UserError, match="it has 50 particles, and not 60"):
        write(path, (20,), particles=60, is_resumed=True)
    assert path.read_bytes() == content
    path.write_bytes(b"something else\n")
    with pytest.raises(UserError, match=r"is no (GSD|XYZ) trajectory"):
        write(path, (20,), is_resumed=True)


def test_formats_are_known_by_their_suffix(tmp_path):
    assert trajectory.format_of(Path("a/b.XYZ")) is trajectory.XyzTrajectory
    with pytest.raises(UserError, match=r"no format of a trajectory '.dcd'"):
        trajectory.format_of(Path("run.dcd"))


# On a real device


@pytest.mark.second_runtime
def test_runs_on_a_device_with_its_own_events(opencl_device, tmp_path):
    workload = Setup("fake-gas", 64).make(opencl_device)
    run = simulate(workload, Timetable(40, 10, checkpoint_every=40), checkpoint=tmp_path / "c.npz")
    assert run.step == 40
    assert run.particle_steps_per_s.median > 0
    assert all(phase.mean_ms >= 0 for phase in run.phases.values())
    assert checkpoint.load(tmp_path / "c.npz").device == opencl_device.name
