"""Pictures coloured by speed, the choice of what draws them, and the sizes of their files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gpubench.base.errors import UserError
from gpubench.simulate import frames, look, perspective, pictures, slab
from gpubench.simulate.look import BODY, SPEEDS, Key
from gpubench.simulate.session import Outputs
from gpubench.workloads.workload import Snapshot

SIZE = (24.0, 6.0, 12.0)
BODIES = (0xD5, 0x5E, 0x00)


def dam(step: int = 0, **fields: Any) -> Snapshot:
    """Fluid in the left third of a tank, at rest below and fast above; a body on the right."""
    fluid = np.indices((8, 6, 12)).reshape(3, -1).T + 0.5
    body = np.indices((4, 4, 4)).reshape(3, -1).T + np.array((16.5, 1.5, 4.5 - step / 100))
    positions = np.vstack([fluid, body])
    velocities = np.zeros_like(positions)
    velocities[positions[:, 2] > 6, 0] = 2.0
    species = np.repeat([0, 1], [len(fluid), len(body)]).astype(np.int8)
    return Snapshot(
        **{
            "step": step, "time": step / 100, "size": SIZE, "periodic": (False,) * 3,
            "positions": positions, "velocities": velocities, "species": species,
            "species_names": ("fluid", "box"), "colour_by": "speed", "speed_scale": 2.0,
            "speed_label": "speed, m/s", "spacing": 1.0, **fields,
        }
    )  # fmt: skip


def pixels(path: Path, box: tuple[int, int, int, int] | None = None) -> Any:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").crop(box)).astype(int)


def share(picture: Any, colour: Any, near: int = 40) -> float:
    return float((abs(picture - np.array(colour)).max(axis=2) < near).mean())


def rgb(value: float) -> tuple[int, ...]:
    return tuple(round(255 * part) for part in SPEEDS(value)[:3])


def drawn(folder: Path, moment: Snapshot, draw: pictures.Draw = slab.write_frame) -> frames.Frame:
    draw(moment, folder / "frame-0.png", "dam")
    (frame,) = frames.read_frames(folder)
    return frame


# What colours mean


def test_speeds_and_bodies_have_their_colours():
    moment = dam()
    found = look.colours_of(moment)
    assert found.dtype == np.uint8 and found.shape == (len(moment.positions), 3)
    at_rest = (moment.species == 0) & (moment.positions[:, 2] < 6)
    fast = (moment.species == 0) & (moment.positions[:, 2] > 6)
    assert {tuple(c) for c in found[at_rest]} == {rgb(0.0)}
    assert {tuple(c) for c in found[fast]} == {rgb(1.0)}
    assert {tuple(c) for c in found[moment.species == 1]} == {BODIES}


def test_speeds_above_the_scale_have_its_last_colour():
    assert {tuple(c) for c in look.colours_of(dam(speed_scale=0.5))} == {
        rgb(0.0), rgb(1.0), BODIES
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"colour_by": "mass"}, "species or speed"), ({"speed_scale": 0.0}, "must be positive")],
)
def test_a_snapshot_without_a_scale_cannot_be_coloured(fields, said):
    with pytest.raises(ValueError, match=said):
        dam(**fields)


def test_species_are_what_is_coloured_by_default():
    moment = Snapshot(
        0, 0.0, SIZE, (True,) * 3, np.ones((1, 3)), np.zeros((1, 3)), np.zeros(1, np.int8), ("a",)
    )
    assert (moment.colour_by, moment.spacing) == ("species", None)
    assert pictures.choose(moment, print) == "matplotlib"


# Slabs


def test_a_slab_shows_speeds_bodies_and_the_key(tmp_path):
    frame = drawn(tmp_path, dam(1200))
    assert frame.key == Key(("fluid", "box"), "speed", 2.0, "speed, m/s")
    assert (frame.step, frame.time, frame.renderer) == (1200, 12.0, "matplotlib")
    left, top, right, bottom = frame.box
    assert (right - left, bottom - top) == (560, 280)
    picture = pixels(frame.path, frame.box)
    high, low = picture[20:120, :180], picture[160:270, :180]
    assert share(high, rgb(1.0)) > 0.5 and share(high, rgb(0.0)) == 0
    assert share(low, rgb(0.0)) > 0.5 and share(low, rgb(1.0)) == 0
    assert share(picture[:, 300:], rgb(0.0)) == 0  # the tank is empty there
    # Outside the box there is the colour bar from end to end, and the body's colour.
    around = pixels(frame.path)
    around[top:bottom, left:right] = 255
    assert all(share(around, rgb(value)) > 0 for value in (0.0, 0.3, 0.7, 1.0))
    assert 0 < share(around, BODIES) < 0.01


def test_particles_are_as_large_as_their_spacing(tmp_path):
    """A column of fluid is closed, though the box is mostly empty."""
    column = pixels((frame := drawn(tmp_path, dam())).path, frame.box)[160:270, 4:180]
    assert share(column, (255, 255, 255), 10) < 0.1
    spread = drawn(tmp_path, dam(spacing=None))
    assert share(pixels(spread.path, spread.box)[:, 300:], (255, 255, 255), 10) < 1


def test_only_a_slab_of_a_deep_fluid_is_shown(tmp_path):
    moment = dam(species=np.zeros(640, np.int8), species_names=("fluid",))
    moment.velocities[:] = 0
    moment.velocities[abs(moment.positions[:, 1] - 3) > 0.8, 0] = 2.0
    frame = drawn(tmp_path, moment)
    assert share(pixels(frame.path, frame.box), rgb(1.0)) == 0


def test_one_fluid_needs_no_name(tmp_path):
    moment = dam(species=np.zeros(640, np.int8), species_names=("fluid",))
    frame = drawn(tmp_path, moment)
    assert share(pixels(frame.path), BODIES, 20) == 0


def test_older_frames_are_by_species(tmp_path):
    info = PngInfo()
    account = {"step": 5, "time": 0.5, "species_names": ["a", "b"], "box": [1, 2, 30, 40]}
    info.add_text("gpubench", json.dumps(account))
    Image.new("RGB", (64, 64)).save(tmp_path / "frame-5.png", pnginfo=info)
    (frame,) = frames.read_frames(tmp_path)
    assert frame.key == Key(("a", "b")) and frame.renderer == "matplotlib"
    assert frame.is_flat


# Animation and panel


def test_animation_and_panel_keep_the_colours(tmp_path):
    folder = pictures.FrameFolder(tmp_path, "dam", renderer="matplotlib")
    for step in range(0, 400, 50):
        folder.write(dam(step))
    animation, panel = folder.finish()
    with Image.open(animation) as gif:
        assert gif.n_frames == 8
        first = np.asarray(gif.convert("RGB")).astype(int)
    shown = pixels(panel)
    for picture in (first, shown):
        assert all(share(picture, rgb(value)) > 0.01 for value in (0.0, 1.0))
        assert share(picture, BODIES) > 0.002
        assert all(share(picture, rgb(value), 24) > 0 for value in (0.25, 0.5, 0.75))  # the bar


def frame_of_noise(folder: Path, step: int, side: int = 400) -> None:
    """Write a frame that no format can make small."""
    noise = np.random.default_rng(step).integers(0, 256, (side, side, 3)).astype(np.uint8)
    info = PngInfo()
    account = {"step": step, "time": step, "species_names": ["a"], "box": [0, 0, side, side]}
    info.add_text("gpubench", json.dumps(account))
    Image.fromarray(noise).save(folder / f"frame-{step}.png", pnginfo=info)


@pytest.mark.parametrize(
    ("most", "count"),
    [(1_900_000, 8), pytest.param(400_000, 8, marks=pytest.mark.long), (100_000, 2)],
)
def test_an_animation_is_made_smaller_and_at_last_shorter(tmp_path, monkeypatch, most, count):
    for step in range(8):
        frame_of_noise(tmp_path, step)
    monkeypatch.setattr(frames, "ANIMATION_BYTES", most)
    path = tmp_path / "animation.gif"
    frames.write_animation(frames.read_frames(tmp_path), path)
    with Image.open(path) as gif:
        assert gif.n_frames == count
        assert (gif.width == 400) is (most == 1_900_000)
        assert gif.width >= 240
    assert path.stat().st_size <= most


def test_one_large_frame_still_makes_an_animation(tmp_path, monkeypatch):
    frame_of_noise(tmp_path, 1)
    monkeypatch.setattr(frames, "ANIMATION_BYTES", 10)
    frames.write_animation(frames.read_frames(tmp_path), tmp_path / "animation.gif")
    assert (tmp_path / "animation.gif").exists()


# What draws


def test_what_cannot_draw_is_refused_with_what_can(monkeypatch, tmp_path):
    monkeypatch.setattr(perspective, "why_not", lambda: "PyVista is not installed")
    with pytest.raises(UserError, match="not installed; or say --renderer matplotlib"):
        pictures.FrameFolder(tmp_path, "dam", renderer="pyvista")
    with pytest.raises(UserError, match="no renderer 'povray'"):
        pictures.FrameFolder(tmp_path, "dam", renderer="povray")


def test_a_renderer_without_frames_is_refused():
    with pytest.raises(UserError, match="--renderer needs --frames DIR"):
        Outputs(renderer="matplotlib").timetable(10, 0)


def test_auto_says_what_it_had_to_take(monkeypatch, tmp_path):
    monkeypatch.setattr(perspective, "why_not", lambda: "PyVista is not installed")
    said: list[str] = []
    folder = pictures.FrameFolder(tmp_path, "dam", say=said.append)
    folder.write(dam())
    folder.write(dam(100))
    assert said == ["pictures show a slab, drawn by matplotlib: PyVista is not installed"]
    assert {frame.renderer for frame in frames.read_frames(tmp_path)} == {"matplotlib"}


def test_auto_draws_speeds_in_perspective_and_species_as_a_slab(monkeypatch):
    monkeypatch.setattr(perspective, "why_not", lambda: None)
    assert pictures.choose(dam(), print) == "pyvista"
    assert pictures.choose(dam(colour_by="species"), print) == "matplotlib"


def test_a_resumed_run_goes_on_with_what_drew_before(monkeypatch, tmp_path):
    monkeypatch.setattr(perspective, "why_not", lambda: None)
    pictures.FrameFolder(tmp_path, "dam", renderer="matplotlib").write(dam())
    resumed = pictures.FrameFolder(tmp_path, "dam", is_resumed=True)
    resumed.write(dam(100))
    assert [frame.renderer for frame in frames.read_frames(tmp_path)] == ["matplotlib"] * 2
    with pytest.raises(UserError, match="go on with --renderer matplotlib"):
        pictures.FrameFolder(tmp_path, "dam", is_resumed=True, renderer="pyvista")


class Ended:
    returncode = -11


def test_a_driver_that_ends_the_process_is_no_reason_to_end(monkeypatch):
    pytest.importorskip("pyvista", reason=needs.reason("PyVista"))
    perspective.why_not.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: Ended())
    assert "without a window" in str(perspective.why_not())
    perspective.why_not.cache_clear()


def test_a_missing_pyvista_is_named_with_the_way_to_install_it(monkeypatch):
    perspective.why_not.cache_clear()
    monkeypatch.setitem(sys.modules, "pyvista", None)
    assert "pip install 'gpubench-particles[pictures]'" in str(perspective.why_not())
    perspective.why_not.cache_clear()


# Perspective, where it can be drawn


def test_the_camera_sees_the_whole_box_and_fills_the_picture():
    for size in (SIZE, (4.0, 4.0, 4.0), (1.0, 1.0, 9.0), (9.0, 0.5, 0.5)):
        camera = perspective.Camera(np.array(size))
        assert max(camera.pixels) == perspective.LONG
    wide, tall = (perspective.Camera(np.array(s)).pixels for s in ((9.0, 1, 1), (1.0, 1, 9)))
    assert wide[0] > wide[1] and tall[0] < tall[1]


def test_what_is_behind_others_is_not_drawn():
    block = np.indices((20, 20, 20)).reshape(3, -1).T + 0.5
    inside = perspective.hidden(block, 1.5)
    from_the_wall = np.minimum(block, 20 - block).min(axis=1)
    assert 0.1 < inside.mean() < 0.6
    assert from_the_wall[inside].min() > 2  # so that two layers at the least are drawn
    hole = block[abs(block - 10).max(axis=1) > 3]
    shown = hole[~perspective.hidden(hole, 1.5)]
    assert (abs(shown - 10).max(axis=1) < 4).any()  # the walls of a hole


@pytest.fixture
def draws() -> None:
    if perspective.why_not():
        needs.skip_without("PyVista")


def test_a_perspective_shows_fluid_and_body(draws, tmp_path):
    frame = drawn(tmp_path, dam(), perspective.write_frame)
    assert frame.renderer == "pyvista" and not frame.is_flat
    left, top, right, bottom = frame.box
    assert max(right - left, bottom - top) == perspective.LONG
    picture = pixels(frame.path, frame.box)
    half = picture.shape[1] // 2
    assert share(picture[:, :half], rgb(1.0), 60) > 0.02
    assert share(picture[:, :half], rgb(0.0), 60) > 0.02
    assert share(picture[:, half:], BODIES, 60) > 0.01
    assert share(picture[:, :half], BODIES, 40) == 0
    assert frame.path.stat().st_size < 300_000


def test_what_is_near_hides_what_is_far(draws, tmp_path):
    """A body in the midst of the fluid is not seen."""
    moment = dam()
    fluid = moment.species == 0
    moment.positions[~fluid] = [4.0, 3.0, 6.0]
    frame = drawn(tmp_path, moment, perspective.write_frame)
    assert share(pixels(frame.path, frame.box), BODIES, 60) == 0


def test_pictures_of_a_box_have_one_size(draws, tmp_path):
    folder = pictures.FrameFolder(tmp_path, "dam", renderer="pyvista")
    for step in (0, 100):
        folder.write(dam(step))
    animation, panel = folder.finish()
    assert len({pixels(f.path).shape for f in frames.read_frames(tmp_path)}) == 1
    assert animation.stat().st_size < 1_900_000 and share(pixels(panel), BODIES, 60) > 0


def test_body_colour_is_none_of_the_speeds():
    every = np.array([rgb(value) for value in np.linspace(0, 1, 256)])
    body = np.array([int(BODY[i : i + 2], 16) for i in (1, 3, 5)])
    assert abs(every - body).max(axis=1).min() > 60
