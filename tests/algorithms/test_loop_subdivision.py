"""Loop subdivision: meshes, the oracle, and what adaptivity may and must not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import problems
from gpubench.algorithms.loop_indexed import LoopIndexed
from gpubench.algorithms.loop_subdivision import FILTERED, LoopSubdivision
from gpubench.base.errors import NotSupported, UserError
from gpubench.devices import Device
from gpubench.measure.phases import level_times
from gpubench.problems.subdivision.axes import Surfaces
from gpubench.problems.subdivision.cases import TETRAHEDRON
from gpubench.problems.subdivision.inputs import (
    LoopMesh,
    directed_edges,
    draw,
    loop_mesh,
    make_loop_mesh,
    twins,
)
from gpubench.problems.subdivision.oracle import closed, limit_positions, loop_level
from gpubench.studies.study import load_study

CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)
FACES = np.array(TETRAHEDRON)
TORUS = "torus", 36
FORMS = [form for form, of in LoopSubdivision.forms.items() if "cuda" not in of.requires]


def subdivided(device: Device, form: str, mesh: LoopMesh, **parameters: int) -> LoopSubdivision:
    made = LoopSubdivision(device, form, parameters, **mesh.made_for)
    made.load(mesh)
    made.launch()
    return made


def problem_of(made: LoopSubdivision, mesh: LoopMesh) -> str | None:
    return problems.problems()["surface-subdivision"].check(made, mesh)


def triangles_of(made: LoopSubdivision) -> np.ndarray[Any, Any]:
    """Return the corners, float32, shape (triangles, 3, 4)."""
    counts = made.device.download(made.answer.counts)
    return made.device.download(made.answer.corners)[:, : counts[1]].swapaxes(0, 1)


def sorted_bits(triangles: np.ndarray[Any, Any]) -> list[bytes]:
    return sorted(one.tobytes() for one in np.ascontiguousarray(triangles[..., :3]))


# Meshes


@pytest.mark.parametrize("seed", range(20))
def test_flips_change_valences_within_the_bound(seed: int) -> None:
    mesh = make_loop_mesh("flipped-sphere", 20, 1, seed)
    assert make_loop_mesh("flipped-sphere", 80, 1, seed).hash  # no middle of an edge at the centre
    found = np.bincount(mesh.faces.ravel())
    assert len(found) == 12 and 3 <= found.min() < 5 < found.max() <= 6
    key, _ = directed_edges(mesh.faces)
    assert len(key) == len(set(key)) == 60
    assert mesh.hash == make_loop_mesh("flipped-sphere", 20, 1, seed).hash
    assert mesh.hash != replace(mesh, depth=2).hash


def fan(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a double cone over n points."""
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1)
    k = np.arange(n)
    sides = [(k, (k + 1) % n, 0 * k + n), ((k + 1) % n, k, 0 * k + n + 1)]
    faces = np.concatenate([np.stack(side, axis=1) for side in sides])
    return np.concatenate((ring, [[0, 0, 1], [0, 0, -1]])), faces


@pytest.mark.parametrize(
    ("points", "faces", "sentence"),
    [
        (CORNERS, FACES[:3], "is a boundary"),
        (*fan(7), "vertex 7 has valence 7"),
        (CORNERS, np.concatenate((FACES, FACES)), "more than two triangles"),
        (CORNERS, np.concatenate((FACES[:3], FACES[3:, ::-1])), "oriented differently"),
        (CORNERS[[0, 1, 2, 2]], FACES, "has no length"),
        (CORNERS * np.nan, FACES, "finite numbers"),
        (CORNERS, FACES[:, :2], "of shape"),
        (CORNERS, FACES + 1, "outside 0 to 3"),
        (np.concatenate((CORNERS, CORNERS[1:] + 5)),
         np.concatenate((FACES, np.where(FACES > 0, FACES + 3, 0))), "two sheets"),
    ],
)  # fmt: skip
def test_meshes_that_do_not_fit_are_one_line(points: Any, faces: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        loop_mesh(points, faces, 2)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cube", 20), "no surface 'cube'"),
        (("icosphere", 21), "20 4\\^level faces"),
        (("torus", 16), "n at least 3"),
    ],
)
def test_surfaces_that_do_not_exist_are_one_line(arguments: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make_loop_mesh(arguments[0], arguments[1], 1)


@pytest.mark.parametrize(
    ("depth", "parameters", "sentence"),
    [(7, {}, "1 to 6 times, not 7"), (1, {"pixels": -1}, "pixels must be at least 0, not -1")],
)
def test_bad_parameters_are_one_line(
    device: Device, depth: int, parameters: dict[str, int], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        LoopSubdivision(device, "by-screen", parameters, faces=20, depth=depth)


# The oracle


@pytest.mark.parametrize("surface", ["flipped-sphere", "torus"])
def test_vertices_approach_their_limit_which_stays(surface: str) -> None:
    mesh = make_loop_mesh(surface, 80 if surface != "torus" else 64, 1, 3)
    points, faces = mesh.vertices.astype(np.float64), mesh.faces
    limit, kept, away = limit_positions(points, faces), len(points), []
    for _ in range(6):
        points, faces = loop_level(points, faces)
        away.append(np.abs(points[:kept] - limit).max())
        # From every level the limit of a vertex is the same.
        np.testing.assert_allclose(limit_positions(points, faces)[:kept], limit, atol=1e-12)
    assert away[-1] < away[-2] / 1.5 < away[0] / 10


def test_what_is_open_or_doubled_is_seen() -> None:
    whole = CORNERS[FACES].astype(np.float32)
    assert closed(whole, 2) is None
    assert "Euler" in str(closed(whole, 0))
    assert "open" in str(closed(whole[:3], 2))
    assert "twice" in str(closed(np.concatenate((whole, whole[:1])), 2))
    moved = whole.copy()
    moved[0, 0, 0] = np.nextafter(moved[0, 0, 0], np.float32(2))
    assert "open" in str(closed(moved, 2))
    moved[0, 0] = moved[0, 1]
    assert "one place" in str(closed(moved, 2))


@pytest.mark.parametrize("form", ["uniform", "by-screen"])
def test_a_changed_answer_is_wrong(device: Device, form: str) -> None:
    mesh = make_loop_mesh("flipped-sphere", 80, 2, 1)
    made = subdivided(device, form, mesh, pixels=60)
    assert problem_of(made, mesh) is None
    corners = device.download(made.answer.corners)
    corners[1, 7, 2] += 1e-3
    device.write(made.answer.corners, corners)
    assert problem_of(made, mesh) is not None


def test_an_indexed_level_is_a_mesh_that_can_be_subdivided_further(device: Device) -> None:
    mesh = make_loop_mesh("flipped-sphere", 80, 2, 1)
    with pytest.raises(NotSupported, match="at most 2\\^29 triangles, not 1,073,741,824"):
        LoopIndexed(device, "uniform", {}, faces=2**18, depth=6)
    made = LoopIndexed(device, "uniform", {}, **mesh.made_for)
    made.load(mesh)
    made.launch()
    planes, points, leaving = (device.download(each) for each in made._levels[0])
    faces = planes[:3].T.astype(np.int64)
    assert np.array_equal(planes[3:6].T, twins(faces))
    vertices, edges = faces.max() + 1, planes[6:9].T.ravel()
    assert vertices - len(faces) // 2 == 2 and vertices <= len(points)
    assert (np.bincount(edges) == 2).all() and edges.max() + 1 == len(faces) // 2 * 3
    twin = planes[3:6].T.ravel()
    assert np.array_equal(edges[twin // 4 * 3 + twin % 4], edges)
    out = leaving[:vertices]
    assert np.array_equal(faces[out >> 2, out & 3], np.arange(vertices))
    carried = subdivided(device, "uniform", mesh)
    assert made.workspace_bytes < carried.workspace_bytes / 4
    same = made.answer.corners.swapaxes(0, 1)
    np.testing.assert_allclose(same[..., :3], triangles_of(carried)[..., :3], atol=1e-6)


def test_the_answer_of_an_index_downloads_corners_and_points_alone(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = make_loop_mesh("icosphere", 80, 2)
    made = LoopIndexed(device, "uniform", {}, **mesh.made_for)
    made.load(mesh)
    made.launch()
    download, sizes = device.download, list[int]()

    def counted(array: Any) -> Any:
        found = download(array)
        sizes.append(found.nbytes)
        return found

    monkeypatch.setattr(device, "download", counted)
    assert made.answer.corners.shape == (3, 1280, 4)
    assert sizes == [3 * 4 * 1280, 16 * (1280 + 80) // 2, 12]


# Adaptivity


@settings(max_examples=25)
@given(
    st.sampled_from([("icosphere", 20), ("flipped-sphere", 20), ("flipped-sphere", 80), TORUS]),
    st.integers(1, 4),
    st.integers(0, 2**32),
    st.sampled_from([form for form in FORMS if form != "uniform"]),
    st.integers(1, 400),
)  # fmt: skip
def test_no_crack_whatever_is_finished(
    device: Device, surface: tuple[str, int], depth: int, seed: int, form: str, bound: int
) -> None:
    mesh = make_loop_mesh(*surface, depth, seed)
    made = subdivided(device, form, mesh, pixels=bound, bend_percent=bound // 4)
    assert problem_of(made, mesh) is None


@pytest.mark.parametrize("form", ["by-screen", "by-bend"])
def test_the_ends_of_adaptivity(device: Device, form: str) -> None:
    """No edge finished: the triangles of `uniform`, to the bit. All finished: the mesh itself."""
    mesh = make_loop_mesh("flipped-sphere", 80, 3, 2)
    every = subdivided(device, "uniform", mesh)
    none = subdivided(device, form, mesh, pixels=0, bend_percent=0)
    assert sorted_bits(triangles_of(none)) == sorted_bits(triangles_of(every))
    all_finished = triangles_of(subdivided(device, form, mesh, pixels=10**6, bend_percent=10**5))
    assert np.array_equal(all_finished[..., :3], mesh.vertices[mesh.faces])


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("by-screen-")])
def test_every_filter_leaves_the_same_triangles(device: Device, form: str) -> None:
    mesh = make_loop_mesh("torus", 36, 4, 4)
    expected, made = (subdivided(device, each, mesh, pixels=40) for each in ("by-screen", form))
    assert made.outcome() == expected.outcome()
    found, same = sorted_bits(triangles_of(made)), sorted_bits(triangles_of(expected))
    assert found == same and len(found) > 36
    few = subdivided(device, form, mesh, pixels=40, capacity=300)
    assert few.outcome()["triangles"] == 300 and few.outcome()["lost"] > 0


def test_what_is_near_the_camera_is_finer_and_gaps_are_closed(device: Device) -> None:
    mesh = make_loop_mesh("torus", 256, 5, 4)
    made = subdivided(device, "by-screen", mesh, pixels=30)
    assert problem_of(made, mesh) is None
    found = triangles_of(made)
    level, distance = found[:, 0, 3], found[..., 1].mean(axis=1) + 3
    assert len(np.unique(level)) >= 3
    assert distance[level == level.max()].mean() < distance[level == level.min()].mean()
    # Split triangles come in fours a level; what is left over closes gaps.
    whole = sum(np.count_nonzero(level == k) / 4.0**k for k in range(6))
    assert whole > len(mesh.faces)


@pytest.mark.parametrize("capacity", [1, 300, 5119])
def test_triangles_without_room_are_counted(device: Device, capacity: int) -> None:
    mesh = make_loop_mesh("icosphere", 80, 3, 2)
    made = subdivided(device, "by-screen", mesh, pixels=0, capacity=capacity)
    lost = made.outcome()["lost"]
    assert lost and f"{lost} triangles found no room" in str(problem_of(made, mesh))
    assert len(triangles_of(made)) <= capacity
    enough = subdivided(device, "by-screen", mesh, pixels=0, capacity=5120)
    assert problem_of(enough, mesh) is None


def test_the_study_tells_what_is_reported(device: Device) -> None:
    made = subdivided(device, "uniform", make_loop_mesh("icosphere", 20, 1))
    known = load_study("horn2005-subdivision").outcomes.keys()
    # The runner adds the times by level, and the report the memory.
    assert known == {*made.outcome(), "level_ms", "memory_mb"}
    assert made.traffic_bytes() == 192 * (20 + 80)


@pytest.mark.parametrize(("focal", "share"), [(285, 0.5), (104, 0.1), (31, 0.01)])
def test_the_study_keeps_a_half_a_tenth_and_a_hundredth(
    device: Device, focal: int, share: float
) -> None:
    study = load_study("horn2005-subdivision")
    (sweep,) = (each.quickened() for each in study.sweeps if each.name == "kept")
    assert {subject.form for subject in sweep.subjects} == {"uniform", "by-screen", *FILTERED}
    (recipe,) = (each for each in sweep.recipes() if focal in each.identity.values())
    assert isinstance(recipe, Surfaces)
    mesh = draw(recipe, study.seed)
    made = subdivided(device, "by-screen", mesh)
    assert made.outcome()["triangles"] == pytest.approx(share * 64 * 4**4, rel=0.1)
    assert problem_of(made, mesh) is None
    assert mesh.hash != draw(replace(recipe, focal=None), study.seed).hash


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("uniform", {"split", "count"}),
        ("by-bend", {"begin", "classify", "filter", "split", "count"}),
    ],
)
def test_steps_by_level_repeat_the_launch(device: Device, form: str, kinds: set[str]) -> None:
    made = subdivided(device, form, make_loop_mesh("torus", 36, 3))
    before, triangles = made.outcome(), sorted_bits(triangles_of(made))
    by_kind, by_level = level_times(made)
    assert set(by_kind) == kinds and by_kind["split"] > 0
    assert len(by_level) == 3
    assert made.outcome() == before and sorted_bits(triangles_of(made)) == triangles
