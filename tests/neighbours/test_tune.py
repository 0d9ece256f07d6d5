"""`gpubench tune`: ranks on given particles, and what motion says of updates and skins."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import gpubench
from gpubench import registry
from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.core.grid import Grid
from gpubench.measure.budget import Budget
from gpubench.neighbours import tune
from gpubench.neighbours.tune import Given
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.particles.inputs import from_positions
from gpubench.problems.particles.trajectory import read_frames

SHORT = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=1)
BOX = (6.0, 6.0, 6.0)


class OneTooMany(CountingSortSearch):
    """Counts one neighbour too many for the first particle."""

    name = "one-too-many"

    def neighbours(self):
        found = super().neighbours()
        counts = np.array(self.device.download(found.counts))
        counts[0] += 1
        return Neighbours(self.device.upload(counts))


@pytest.fixture
def few(monkeypatch):
    """Leave two right searches, one that is wrong, and one that needs a GPU."""
    known = registry.algorithms()
    names = (
        "search-counting-sort", "scipy-ckdtree", "search-counting-resort", "search-cupy-argsort",
    )  # fmt: skip
    chosen = {name: known[name] for name in names} | {OneTooMany.name: OneTooMany}
    monkeypatch.setattr(registry, "algorithms", lambda: chosen)


@pytest.fixture
def frames():
    """Three frames of 200 particles, of which half go 0.06 along x in each."""
    rng = np.random.default_rng(5)
    first = rng.random((200, 3)) * 6
    step = np.where(np.arange(200)[:, None] < 100, (0.06, 0.0, 0.0), 0.0)
    return np.array([first, first + step, first + 2 * step])


def test_a_wrong_search_has_no_rank_and_the_rest_are_records(few, frames, tmp_path):
    found = gpubench.tune(
        frames[0], 1.0, BOX, True, task="count", device="opencl", out=tmp_path, budget=SHORT
    )
    ranks = {
        each.measurement.record.algorithm: each.by_device_time and each.by_device_time.rank
        for each in found.ranked
    }
    assert ranks.pop("one-too-many") is None
    # What needs another device is left out, the rest has a rank.
    assert set(ranks) == {"search-counting-sort", "scipy-ckdtree"}
    assert set(ranks.values()) == {1, 2}
    assert not found.is_sound
    assert found.code == (
        "gpubench.NeighbourList(cutoff=1.0, box=(6.0, 6.0, 6.0), periodic=True,"
        " method='counting-sort')"
    )
    rows = gpubench.load(found.path).set_index("algorithm")
    assert rows.loc["one-too-many", "status"] == "wrong"
    assert (rows.loc[list(ranks), "status"] == "ok").all()


def test_the_code_lists_particles_of_a_box_that_begins_elsewhere(few, frames, tmp_path):
    positions = frames[0] - 3
    found = gpubench.tune(
        positions, 1.0, BOX, (True, False, True), low=(-3.0, -3.0, -3.0), device="opencl",
        out=tmp_path, budget=SHORT,
    )  # fmt: skip
    listed = eval(found.code)(positions)
    expected = gpubench.NeighbourList(1.0, BOX, (True, False, True))(frames[0])
    assert sorted(listed.distances()) == pytest.approx(sorted(expected.distances()))


@pytest.mark.parametrize(
    ("edge", "low", "repeats"), [(60.0, 0.0, True), (1e4, 0.0, True), (60.0, 1e6, False)]
)
def test_it_times_the_grid_and_the_cutoff_of_neighbour_list(
    few, tmp_path, capsys, edge, low, repeats
):
    """Where cells of the cutoff would be many more than particles, and far from the origin."""
    positions = low + np.random.default_rng(3).random((400, 3)) * 4
    box, corner = (edge,) * 3, (low,) * 3
    found = gpubench.tune(
        positions, 1.0, box, repeats, low=corner, device="opencl", out=tmp_path, budget=SHORT
    )
    lines = capsys.readouterr().err.splitlines()
    search = gpubench.NeighbourList(1.0, box, repeats, low=corner)
    pairs = len(search(positions))
    (ours,) = (
        each.measurement.record
        for each in found.ranked
        if each.measurement.record.algorithm == "search-counting-sort"
    )
    assert tuple(ours.drawn["cells"]) == search._given.grid(400, 1.0).cells
    assert ours.outcome["pairs"] == pairs > 0
    assert lines[-1].startswith("gpubench: timing 400 particles on ")
    assert ["pairs may be lost" in line for line in lines[:-1]] == [True] * (edge == 1e4)


def test_of_open_space_it_times_the_box_that_neighbour_list_takes(few, frames, tmp_path):
    found = gpubench.tune(frames[0], 1.0, device="opencl", out=tmp_path, budget=SHORT)
    search = gpubench.NeighbourList(1.0)
    search(frames[0])
    expected = search._plan[1].box.grid(200, 1.0).cells
    assert tuple(found.ranked[0].measurement.record.drawn["cells"]) == expected


def test_particles_without_neighbours_leave_no_search_failed(few, tmp_path):
    apart = np.mgrid[0:9:3, 0:9:3, 0:9:3].reshape(3, -1).T + 0.5
    found = gpubench.tune(apart, 1.0, (9,) * 3, device="opencl", out=tmp_path, budget=SHORT)
    by_form = {each.measurement.record.form: each.measurement.record for each in found.ranked}
    assert by_form["list-pairs"].status == "skipped"
    assert by_form["list-pairs"].reason == "no particle has a neighbour: no list shows a launch"


def test_other_cutoffs_are_other_measurements(frames):
    grid = Grid((2, 2, 2), (0.0, 0.0, 0.0), BOX)
    names = {
        Given(from_positions(frames[0], replace(grid, cutoff=cutoff))).distribution
        for cutoff in (None, 1.0, 1.5)
    }
    assert len(names) == 3


def test_other_particles_are_other_measurements(frames):
    grid = Grid.in_box((0.0, 0.0, 0.0), BOX, 1.0, (True, True, True))
    one, other = (Given(from_positions(frame, grid)).identity for frame in frames[:2])
    assert one["distribution"] != other["distribution"]
    assert {**one, "distribution": other["distribution"]} == other


def test_a_trajectory_says_what_updates_and_skins_are_worth(few, frames, tmp_path):
    found = gpubench.tune(frames, 1.0, BOX, True, device="opencl", out=tmp_path, budget=SHORT)
    cells = np.floor(frames % 6).astype(int)
    moved = [(a != b).any(axis=1).mean() for a, b in itertools.pairwise(cells)]
    assert found.moved_share == pytest.approx(np.mean(moved))
    # Half of the particles go 0.06 a frame: a skin of 0.2 serves two frames, one of 0.3 all three.
    assert [(each.skin, each.frames, each.outlasts) for each in found.skins] == [
        (0.0, 1.0, False), (0.1, 1.0, False), (0.2, 1.5, False), (0.3, 3.0, True), (0.5, 3.0, True)
    ]  # fmt: skip
    assert all(each.ms_per_frame == each.list_ms / each.frames > 0 for each in found.skins)
    assert {each.measurement.record.form for each in found.updates if each.by_device_time} == {
        "update",
        "count",
    }
    assert {each.group.task for each in found.updates} == {"update"}


def test_formats_agree(frames, tmp_path):
    gsd = pytest.importorskip("gsd.hoomd")
    np.save(tmp_path / "t.npy", frames)
    lines = [
        "\n".join(["200", "", *(f"A {x!r} {y!r} {z!r}" for x, y, z in frame.tolist())])
        for frame in frames
    ]
    (tmp_path / "t.xyz").write_text("\n".join(lines) + "\n")
    with gsd.open(str(tmp_path / "t.gsd"), "w") as file:
        for frame in frames:
            moment = gsd.Frame()
            moment.configuration.box = [*BOX, 0, 0, 0]
            moment.particles.N, moment.particles.position = 200, frame - 3
            file.append(moment)
    expected = read_frames(tmp_path / "t.npy").positions
    np.testing.assert_array_equal(expected, frames)
    np.testing.assert_array_equal(read_frames(tmp_path / "t.xyz").positions, frames)
    found = read_frames(tmp_path / "t.gsd")
    np.testing.assert_allclose(found.positions, frames - 3, atol=1e-6)
    assert (found.low, found.box) == ((-3.0, -3.0, -3.0), BOX)


def in_xyz(frames, more):
    """Return extended XYZ of frames in BOX."""
    lattice = 'Lattice="6 0 0 0 6 0 0 0 6"'
    return "".join(
        f"{len(frame)}\n{lattice} {more} Properties=pos:R:3\n"
        + "".join(f"{x!r} {y!r} {z!r}\n" for x, y, z in frame.tolist())
        for frame in frames
    )


@pytest.mark.parametrize(
    ("words", "box"),
    [
        ("", "box=(6.0, 6.0, 6.0), periodic=(True, True, False)"),
        ("--periodic xyz", "box=(6.0, 6.0, 6.0), periodic=True"),
        ("--box 6.000001,6,9 --low 0,0,-1",
         "box=(6.000001, 6.0, 9.0), periodic=(True, True, False), low=(0.0, 0.0, -1.0)"),
        ("--periodic none", None),
        pytest.param(
            "--periodic none --box 7,7,7", "box=(7.0, 7.0, 7.0), periodic=False",
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_the_box_is_that_of_the_file_where_none_is_given(
    few, frames, tmp_path, monkeypatch, words, box
):
    monkeypatch.setattr(tune, "DEVICE_SECONDS", 0.01)
    path = tmp_path / "t.xyz"
    path.write_text(in_xyz(frames[:1] % 6, 'pbc="T T F"'))
    fixed = ["--cutoff", "1", "--device", "opencl", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["tune", str(path), *fixed, "--task", "count", *words.split()])
    code = result.stdout.splitlines()[-1]
    middle = f", {box}" if box else ""
    assert code == f"gpubench.NeighbourList(cutoff=1.0{middle}, method='counting-sort')"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("absent.npy --cutoff 1", "cannot read"),
        ("bad.xyz --cutoff 1", "frame 0 of bad.xyz: it does not have 3 particles"),
        ("one.npy --cutoff 0", "cutoff takes a number above 0, not 0.0"),
        (
            "one.npy --cutoff 1 --periodic xyz",
            "--periodic (periodic=) needs the edges of the box, which one.npy does not state:"
            " give --box X,Y,Z",
        ),
        ("one.npy --cutoff 1 --low 1,1,1", "--low (low=) needs the edges of the box"),
        ("one.npy --cutoff 1 --box 6,6,6 --periodic all", "--periodic takes axes such as x"),
        (
            "boxed.xyz --cutoff 1 --box 6,6.1,7",
            "--box (box=) repeats along y after 6.1, and the box of boxed.xyz after 6:",
        ),
        ("flat.xyz --cutoff 1", "the box of flat.xyz is 6 x 6 x 0: give one of positive edges"),
        ("one.npy --cutoff 3 --box 6,6,6 --periodic x", "three times the cutoff"),
        ("one.npy --cutoff 1 --box 3,3,3", "outside the box"),
        ("one.npy --cutoff 1 --box 3,3", "three numbers"),
        ("one.npy --cutoff 1 --task update", "task"),
        ("flat.npy --cutoff 1", "shape"),
        ("none.npy --cutoff 1", "no particles"),
        ("nan.npy --cutoff 1", "particle 0 has position [nan,"),
    ],
)
def test_bad_input_is_refused(words, said, frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("one.npy", frames[0])
    np.save("flat.npy", frames[0].ravel())
    np.save("none.npy", np.zeros((0, 3)))
    np.save("nan.npy", np.full((2, 3), np.nan))
    (tmp_path / "bad.xyz").write_text("3\n\nA 1 2 3\n")
    flat = 'Lattice="6 0 0 0 6 0 0 0 0" pbc="T T F"'
    (tmp_path / "flat.xyz").write_text(f"2\n{flat}\nA 1 2 0\nA 3 4 0\n")
    (tmp_path / "boxed.xyz").write_text(in_xyz(frames[:1], 'pbc="T T F"'))
    result = CliRunner().invoke(app, ["tune", *words.split()])
    assert isinstance(result.exception, UserError)  # `exits` makes of it one line and status 2
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *(("cutoff", odd, "cutoff takes a number above 0, not ")
          for odd in ("1", None, [1.0], 10**400, 1 + 0j, -1, np.nan)),
        *(("device", odd, "device takes a name such as cuda:1, not ")
          for odd in (3, None, b"opencl", ["opencl"])),
        *(("task", odd, "the task must be one of build, count, ten-counts, list, not ")
          for odd in (3, ["list"], None, np.array(["list", "list"]))),
        *(("out", odd, "out takes a path, not ") for odd in (3, None, b"x")),
        *(("budget", odd, "budget takes a Budget, not ") for odd in (3, "20")),
        pytest.param("cutoff", 10**5000, "takes a number above 0, not int", id="of 5,000 digits"),
        ("box", (10**400,) * 3, "box takes three positive finite edges"),
        ("cell", BOX, "give cell or box, not both"),
        ("low", (1e300,) * 3, "is over 2^30 edges of the box away"),
        ("positions", np.ma.masked_less(np.ones((5, 3)), 2), "without masked numbers"),
    ],
)  # fmt: skip
def test_an_odd_argument_is_refused_in_one_line(frames, tmp_path, name, value, said):
    given = {"positions": frames[0], "cutoff": 1.0, "box": BOX, "periodic": True, "out": tmp_path}
    with pytest.raises(UserError) as refused:
        gpubench.tune(**given | {"device": "opencl", name: value})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200


def test_an_array_that_is_not_on_the_host_is_refused():
    class OnAGpu:
        def __array__(self, *_, **__):
            raise TypeError("implicit conversion is not allowed")

    with pytest.raises(UserError, match="take an array of NumPy, not OnAGpu: copy it to the host"):
        gpubench.tune(OnAGpu(), 1.0)


@pytest.mark.parametrize("far", [1e308, -1e308, 6.0 * 2**30, -6.0 * 2**30])
@pytest.mark.parametrize("frame", [0, 1])
def test_a_position_too_many_periods_away_is_refused_as_by_neighbour_list(frames, far, frame):
    frames = frames[:2].copy()
    frames[frame, 7, 1] = far
    with pytest.raises(UserError, match="position 7 is not finite, or is over") as expected:
        gpubench.NeighbourList(1.0, BOX, (False, True, True))(frames[frame])
    with pytest.raises(UserError) as refused:
        gpubench.tune(frames, 1.0, cell=BOX, periodic=(False, True, True), device="opencl")
    assert str(refused.value) == str(expected.value)


def test_so_many_periods_away_a_position_is_taken_by_both(few, frames, tmp_path):
    frames[0, 7, 1] += 6.0 * (2**30 - 2)
    pairs = len(gpubench.NeighbourList(1.0, BOX, True)(frames[0]))
    found = gpubench.tune(frames[0], 1.0, BOX, True, device="opencl", out=tmp_path, budget=SHORT)
    assert pairs in [each.measurement.record.outcome.get("pairs") for each in found.ranked]


@pytest.mark.parametrize(
    ("more", "told"),
    [({}, 1), ({"periodic": True}, 0), ({"periodic": False}, 0), ({"box": (7.0, 7.0, 7.0)}, 1)],
)
def test_a_file_that_states_a_box_but_not_where_it_repeats_is_told_of(
    few, frames, tmp_path, capsys, more, told
):
    """GSD's box, which was left out without a word."""
    gsd = pytest.importorskip("gsd.hoomd")
    path = tmp_path / "t.gsd"
    with gsd.open(str(path), "w") as file:
        moment = gsd.Frame()
        moment.configuration.box = [*BOX, 0, 0, 0]
        moment.particles.N, moment.particles.position = 200, frames[0] - 3
        file.append(moment)
    gpubench.tune(path, 1.0, **more, task="build", device="opencl", out=tmp_path, budget=SHORT)
    lines = [line for line in capsys.readouterr().err.splitlines() if "repeats" in line]
    assert lines == told * [
        f"gpubench: {path} states a box of 6 x 6 x 6, but not where it repeats: all axes are"
        " taken as open; give --periodic xyz or none (periodic=True or False)"
    ]
