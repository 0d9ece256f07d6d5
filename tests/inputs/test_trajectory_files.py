"""Trajectories in files: all frames, columns by their names, and the box that a file states."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import gsd.hoomd
import numpy as np
import pytest

from gpubench.base.errors import UserError
from gpubench.core.grid import edges_of
from gpubench.neighbours.box import box_of
from gpubench.problems.particles.trajectory import Frames, frames_of, read_frames
from gpubench.simulate.trajectory import XyzTrajectory
from gpubench.workloads.workload import Snapshot

HERE = [[0.5, 1.5, 2.5], [3.5, 0.25, 1.0]]
THERE = [[0.75, 1.5, 2.5], [3.5, 0.5, 1.0]]
LATTICE = 'Lattice="4 0 0 0 5 0 0 0 6"'


def plain(positions: Any, comment: str = "", rest: str = "") -> str:
    """Return a frame of plain XYZ."""
    rows = [f"A {x!r} {y!r} {z!r}{rest}" for x, y, z in positions]
    return "\n".join([str(len(rows)), comment, *rows]) + "\n"


def read(folder: Path, text: str, name: str = "t.xyz") -> Frames:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_frames(path)


@pytest.mark.parametrize(
    "text",
    [
        plain(HERE) + plain(THERE),
        "\n" + plain(HERE) + "\n" + plain(THERE) + " \n\n",
        plain(HERE, "t = 1, E = -3") + plain(THERE, rest=" 9 8 7"),
        "\ufeff" + plain(HERE).replace("\n", "\r\n") + plain(THERE).rstrip(),
    ],
    ids=["usual", "blank lines", "comments and columns", "of Windows"],
)
def test_all_frames_of_plain_xyz_are_read(text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "extxyz", None)  # it takes no library
    found = read(tmp_path, text)
    np.testing.assert_array_equal(found.positions, [HERE, THERE])
    assert (found.low, found.box, found.periodic) == (None, None, None)


@pytest.mark.parametrize(
    ("properties", "row"),
    [
        ("species:S:1:pos:R:3", "A {} {} {}"),
        ("id:I:1:Z:I:1:pos:R:3", "1 8 {} {} {}"),
        ("mass:R:1:pos:R:3:species:S:1", "2.5 {} {} {} A"),
        ("velo:R:3:free:L:1:pos:R:3", "7 8 9 T {} {} {}"),
    ],
)
@pytest.mark.parametrize("name", ["t.xyz", "t.extxyz", "T.XYZ.gz"])
def test_columns_are_those_that_properties_name(properties, row, name, tmp_path):
    text = "".join(
        f"2\n{LATTICE} Properties={properties} Time=0.5\n"
        + "".join(f"{row.format(*position)}\n" for position in positions)
        + "\n"
        for positions in (HERE, THERE)
    )
    found = read(tmp_path, text, name)
    np.testing.assert_array_equal(found.positions, [HERE, THERE])
    assert found.box == (4.0, 5.0, 6.0)


@pytest.mark.parametrize(
    ("comment", "low", "box", "periodic"),
    [
        (LATTICE, (0, 0, 0), (4, 5, 6), (True, True, True)),
        (f'{LATTICE} pbc="T T F"', (0, 0, 0), (4, 5, 6), (True, True, False)),
        (f'{LATTICE.lower()} PBC="F F F"', (0, 0, 0), (4, 5, 6), (False, False, False)),
        (f'{LATTICE} Origin="-2 -2.5 0"', (-2, -2.5, 0), (4, 5, 6), (True, True, True)),
        ('pbc="F T F"', None, None, (False, True, False)),
        ('Lattice="0 0 0 0 0 0 0 0 0" pbc="F F F"', None, None, (False, False, False)),
        ('Lattice="4 1e-17 0 -1e-17 5 0 0 0 6"', (0, 0, 0), (4, 5, 6), (True, True, True)),
    ],
)
def test_a_box_that_the_comment_states_is_taken(comment, low, box, periodic, tmp_path):
    found = read(tmp_path, plain(HERE, comment))
    np.testing.assert_array_equal(found.positions, [HERE])
    assert (found.low, found.box, found.periodic) == (low, box, periodic)


def test_our_own_trajectory_is_read_back(tmp_path):
    path = tmp_path / "t.xyz"
    write = XyzTrajectory(path, 2, run="of-a-test").write
    for step, positions in enumerate([HERE, THERE]):
        now = Snapshot(
            step, 0.1 * step, (4.0, 5.0, 6.0), (True, False, True), np.array(positions),
            np.ones((2, 3)), np.array([0, 1], np.int8), ("light", "heavy oil"),
        )  # fmt: skip
        write(now)
    found = read_frames(path)
    np.testing.assert_array_equal(found.positions, [HERE, THERE])
    assert (found.low, found.box, found.periodic) == ((0, 0, 0), (4, 5, 6), (True, False, True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.xyz has no frames"),
        (plain(HERE) + "2\n\nA 1 2 3\n", "frame 1 of t.xyz: it does not have 2 particles"),
        (plain(HERE) + plain(HERE)[:-14], "frame 1 of t.xyz: invalid column index 1 at row 2"),
        ("0\n\n", "frame 0 of t.xyz: it does not have 0 particles"),
        (plain(HERE) + "A 1 2 3\n", "frame 1 of t.xyz: it begins with 'A 1 2 3'"),
        (plain([*HERE, "xyz"]), "frame 0 of t.xyz: could not convert"),
        (plain(HERE) + plain(HERE[:1]), "2 particles in frame 0 and 1 in frame 1"),
        (plain(HERE, LATTICE) + plain(HERE), "the box of t.xyz changes from frame 0 to frame 1"),
        (
            plain(HERE, LATTICE) + plain(HERE, LATTICE.replace("4", "4.1")),
            "the box of t.xyz changes from frame 0 to frame 1",
        ),
        (
            plain(HERE, LATTICE) + plain(HERE, f'{LATTICE} pbc="T T F"'),
            "the box of t.xyz changes from frame 0 to frame 1",
        ),
        (plain(HERE, 'Lattice="4 0 0 1 5 0 0 0 6"'), "the box of t.xyz is triclinic"),
        (plain(HERE, 'Lattice="0 4 0 5 0 0 0 0 6"'), "the box of t.xyz is triclinic or turned"),
        (
            "".join(
                f"2\nProperties=id:I:1:pos:R:3\n{a} 0.5 1.5 2.5\n{b} 3.5 0.25 1\n"
                for a, b in [(1, 20), (1, 20), (20, 1)]
            ),
            "the ids of t.xyz stand in another order in frame 2 than in frame 0",
        ),
        (plain(HERE, 'Lattice="4 5"'), "its comment is no extended XYZ"),
        (plain(HERE, 'Lattice="a b c"'), "its comment is no extended XYZ"),
        (plain(HERE, f'{LATTICE} Note = "half'), "its comment is no extended XYZ"),
        (plain(HERE, f"{LATTICE} {LATTICE}"), "its comment is no extended XYZ"),
        (plain(HERE, "Properties=species:S:1:velo:R:3"), "name no pos:R:3"),
        (plain(HERE, "Properties=species:S:1:pos:R:2:z:R:1"), "name no pos:R:3"),
        (plain(HERE, "Properties=species:S:1:pos:S:3"), "name no pos:R:3"),
        (plain(HERE, "Properties=species:S:1:pos:R:3", " 9"), "requires 4 columns but 5"),
        (plain(HERE, "Properties=id:I:1:pos:R:999999999"), "a thousand columns"),
    ],
)
def test_what_cannot_be_read_as_it_is_is_refused(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        read(Path(), text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_and_absent_files_are_one_line(tmp_path):
    whole = gzip.compress(plain(HERE).encode() * 99)
    for content in (whole[:-20], b"\x1f\x8b\x08" + whole[3:20], plain(HERE).encode(), None):
        path = tmp_path / "t.xyz.gz"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserError, match=r"^cannot read .*t\.xyz\.gz: [^\n]+$"):
            read_frames(path)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "extxyz", None)
    with pytest.raises(UserError, match=r"t\.xyz needs extxyz: .*gpubench-particles\[xyz\]"):
        read(tmp_path, plain(HERE, LATTICE))


def gsd_file(path: Path, *frames: tuple[Any, Any]) -> Path:
    """Write frames, each of a box of six numbers and positions."""
    with gsd.hoomd.open(str(path), "w") as file:
        for box, positions in frames:
            moment = gsd.hoomd.Frame()
            moment.configuration.box = box
            moment.particles.N = len(positions)
            moment.particles.position = positions
            file.append(moment)
    return path


def test_a_box_of_gsd_is_taken_where_its_tilt_is_rounding(tmp_path):
    path = gsd_file(tmp_path / "t.gsd", ([4, 5, 6, 1e-9, 0, -1e-17], HERE))
    found = read_frames(path)
    assert (found.low, found.box) == ((-2, -2.5, -3), (4, 5, 6))
    assert found.periodic is None  # which GSD does not say


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([], "t.gsd has no frames"),
        ([([4, 5, 6, 0, 0, 0], np.zeros((0, 3)))], "t.gsd has no particles"),
        ([([4, 5, 6, 0, 0.1, 0], HERE)], "the box of t.gsd is triclinic"),
        (
            [([4, 5, 6, 0, 0, 0], HERE), ([4, 5, 6, 0, 0, 0], HERE[:1])],
            "t.gsd has 2 particles in frame 0 and 1 in frame 1",
        ),
        (
            [([4, 5, 6, 0, 0, 0], HERE)] * 2 + [([4, 5, 7, 0, 0, 0], HERE)],
            "the box of t.gsd changes from frame 0 to frame 2",
        ),
    ],
)
def test_gsd_that_cannot_be_searched_says_why(frames, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        read_frames(gsd_file(Path("t.gsd"), *frames))


def test_arrays_are_named_in_messages(tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros(6))
    for path, said in (("flat.npy", r"flat\.npy must have shape"), ("no.npy", "cannot read")):
        with pytest.raises(UserError, match=said):
            read_frames(tmp_path / path)
    for given, said in (
        ([np.zeros((2, 3)), np.zeros((1, 3))], "all frames of positions must have the same"),
        (np.zeros((0, 2, 3)), "positions has no frames"),
        (np.zeros((2, 0, 3)), "positions has no particles"),
    ):
        with pytest.raises(UserError, match=said):
            frames_of(given)


@pytest.mark.parametrize("tilt", [0.0, 1e-17, -4e-7, 1e-6, float("nan")])
def test_what_float32_does_not_tell_from_a_right_angle_is_one(tilt):
    box = np.diag([4.0, 5.0, 10.0])
    box[0, 1] = tilt
    is_right = abs(tilt) <= 2**-24 * 10
    assert edges_of(box) == ((4.0, 5.0, 10.0) if is_right else None)
    if is_right:
        assert box_of(box, (0.0, 0.0, 0.0), True).size == (4.0, 5.0, 10.0)
    else:
        with pytest.raises(UserError, match="triclinic boxes are not supported"):
            box_of(box, (0.0, 0.0, 0.0), True)
