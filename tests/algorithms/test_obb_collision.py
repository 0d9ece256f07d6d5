"""Collision of meshes: inputs, trees, the oracle, and what a traversal counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from gpubench import problems
from gpubench.algorithms.neighbour_query import NeighbourQuery
from gpubench.algorithms.obb_collision import ObbCollision
from gpubench.base import user_cache
from gpubench.base.errors import NotSupported, UserError
from gpubench.cli.conformance import check_forms
from gpubench.devices import Device
from gpubench.measure.phases import level_times
from gpubench.problems.collision import obb_tree as tree_module
from gpubench.problems.collision import oracle as collision_oracle
from gpubench.problems.collision.axes import SHAPES
from gpubench.problems.collision.inputs import MeshPair, make_mesh_pair, mesh_pair
from gpubench.problems.collision.mesh_files import read_mesh_pair
from gpubench.problems.collision.obb_tree import ObbTree, obb_tree
from gpubench.problems.collision.oracle import MeshCollisionOracle, separations

ONE = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]])
HERE = np.eye(3, 4)


def collided(device: Device, form: str, pair: MeshPair, **parameters: int) -> ObbCollision:
    made = ObbCollision(device, form, parameters, **pair.made_for)
    made.load(pair)
    made.launch()
    return made


# Inputs


@pytest.mark.parametrize("mesh", SHAPES)
def test_poses_are_what_they_are_named(mesh: str) -> None:
    found = {
        pose: len(MeshCollisionOracle(make_mesh_pair(mesh, 512, pose, 2)).must)
        for pose in ("apart", "touching", "deep")
    }
    assert found["apart"] == 0 <= found["touching"] < found["deep"] / 2
    assert found["touching"] > 0 or mesh == "soup"  # two corners of a soup may pass each other


def test_seeds_and_names() -> None:
    drawn = make_mesh_pair("sphere", 512, "deep", 2)
    assert drawn.hash == make_mesh_pair("sphere", 512, "deep", 2).hash
    assert len({drawn.hash, make_mesh_pair("sphere", 512, "deep", 3).hash,
                make_mesh_pair("sphere", 512, "apart", 2).hash}) == 3  # fmt: skip
    radius = np.linalg.norm(drawn.first, axis=2)
    assert 0.94 < radius.min() < radius.max() < 1.06
    ends = np.stack((drawn.first, np.roll(drawn.first, 1, 1)), axis=2).reshape(-1, 2, 3)
    middles = ends.mean(axis=1).round(5) + 0.0
    _, times = np.unique(middles, axis=0, return_counts=True)
    assert (times == 2).all()  # closed


@pytest.mark.parametrize(
    ("first", "pose", "sentence"),
    [
        (ONE[:0], HERE, "needs triangles"),
        (ONE[0], HERE, "needs triangles"),
        (ONE * np.nan, HERE, "not finite"),
        (ONE[:, [0, 1, 1]], HERE, "triangle 0 of the first mesh has no area"),
        (ONE, HERE[:, :3], r"shape \(3, 4\)"),
        (ONE, 2 * HERE, "must be a rotation"),
        (ONE, HERE * (1, 1, -1, 1), "must be a rotation"),
    ],
)
def test_meshes_that_do_not_fit_are_one_line(first: Any, pose: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        mesh_pair(first, ONE, pose)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cube", 32, "deep"), "no shape 'cube'"),
        (("torus", 16, "deep"), "power of two of triangles, 32 to"),
        (("torus", 33, "deep"), "not 33"),
        (("torus", 32, "far"), "no pose 'far'"),
    ],
)
def test_shapes_that_do_not_exist_are_one_line(arguments: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make_mesh_pair(*arguments)


def test_files_of_meshes(device: Device, tmp_path: Path) -> None:
    pair = make_mesh_pair("sphere", 32, "deep", 1)
    np.save(tmp_path / "a.npy", pair.first)
    np.save(tmp_path / "b.npy", pair.placed)
    read = read_mesh_pair(tmp_path / "a.npy", tmp_path / "b.npy")
    assert np.array_equal(read.first, pair.first) and np.array_equal(read.pose, HERE)
    assert len(MeshCollisionOracle(read).must) == len(MeshCollisionOracle(pair).must) > 0
    checked = check_forms([ObbCollision], device, read, True)
    found = {each["form"]: each["status"] for each in checked}
    assert found["atomic"] == found["no-filter"] == "ok"
    (particles,) = check_forms([NeighbourQuery], device, read, False)[:1]
    assert particles["reason"] == "takes particles, not meshes"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npy", b"", "cannot read .*a.npy"),
        ("a.npy", np.zeros((3, 3, 3), complex), "holds complex128"),
        ("a.npy", np.zeros((3, 9)), "needs triangles"),
        ("a.obj", b"v a b\nf 1 2 zz\n", "cannot read .*a.obj|needs trimesh"),
        ("a.mesh", b"", "cannot read .*a.mesh|needs trimesh"),
    ],
)
def test_files_that_hold_no_mesh_are_one_line(
    tmp_path: Path, name: str, content: Any, sentence: str
) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.save(tmp_path / name, content)
    with pytest.raises(UserError, match=sentence) as raised:
        read_mesh_pair(tmp_path / name, tmp_path / name)
    assert "\n" not in str(raised.value)


def test_an_obj_file_has_the_triangles_of_its_quads(tmp_path: Path) -> None:
    pytest.importorskip("trimesh", reason=needs.reason("python-fcl and trimesh"))
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n")
    read = read_mesh_pair(tmp_path / "a.obj", tmp_path / "a.obj")
    assert read.first.shape == (2, 3, 3) and read.first.max() == 1


# Trees


def leaves_of(tree: ObbTree) -> dict[int, list[int]]:
    """Return the triangles below each node; children come after their parents."""
    below: dict[int, list[int]] = {}
    for node in reversed(range(len(tree.links))):
        child = int(tree.links[node, 0])
        below[node] = [-1 - child] if child < 0 else below[child] + below[child + 1]
    return below


@pytest.mark.parametrize("mesh", [*SHAPES, "copies"])
def test_boxes_hold_their_triangles_tightly(mesh: str) -> None:
    pair = None if mesh == "copies" else make_mesh_pair(mesh, 128, "deep", 1)
    triangles = np.repeat(ONE, 37, 0).astype(np.float32) if pair is None else pair.first + 7
    tree = obb_tree(triangles)
    below = leaves_of(tree)
    assert sorted(below[0]) == list(range(len(triangles)))
    sizes = tree.links[:, 1].copy().view(np.float32)
    for node, held in below.items():
        x, y, centre = tree.boxes[node, :, :3].astype(np.float64)
        axes, half = np.stack((x, y, np.cross(x, y))), tree.boxes[node, :, 3]
        along = np.abs((triangles[held].reshape(-1, 3) - centre) @ axes.T)
        assert (along <= half).all()
        np.testing.assert_allclose(along.max(axis=0), half, rtol=1e-5, atol=3e-5)
        assert sizes[node] == (-1 if len(held) == 1 else pytest.approx((half**2).sum()))
    assert obb_tree(triangles.copy()) is tree
    assert tree.depth < (8 if mesh == "copies" else 16)


# The oracle


def pierces(a: Any, b: Any) -> bool:
    """Whether an edge of one triangle goes through the other, by signs of volumes."""

    def volume(p: Any, q: Any, r: Any, s: Any) -> Any:
        return np.linalg.det(np.stack((q - p, r - p, s - p)))

    for one, other in ((a, b), (b, a)):
        for k in range(3):
            p, q = one[k], one[(k + 1) % 3]
            if volume(p, *other) * volume(q, *other) < 0:
                sides = [volume(p, q, other[j], other[(j + 1) % 3]) > 0 for j in range(3)]
                if len(set(sides)) == 1:
                    return True
    return False


def test_separations_say_what_edges_that_pierce_say() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1500, 3, 3))
    apart = separations(a, b)
    meet = np.array([pierces(*each) for each in zip(a, b, strict=True)])
    assert 100 < meet.sum() < 1400
    assert np.array_equal(apart < 0, meet)
    # Where they are apart, no two points are nearer than what is said; a shift by it closes no gap.
    weights = rng.dirichlet(np.ones(3), (2, 1500, 20))
    points = [np.einsum("nkc,ncx->nkx", w, t) for w, t in zip(weights, (a, b), strict=True)]
    nearest = np.linalg.norm(points[0][:, :, None] - points[1][:, None], axis=3).min((1, 2))
    assert (nearest >= apart - 1e-12).all()


def test_candidates_of_large_meshes_are_those_of_small_ones(monkeypatch: Any) -> None:
    for mesh in ("sphere", "soup"):
        pair = make_mesh_pair(mesh, 256, "deep", 3)
        broadcast = MeshCollisionOracle(pair)
        with monkeypatch.context() as patch:
            patch.setattr(collision_oracle, "MOST_BROADCAST", 0)
            by_tree = MeshCollisionOracle(pair)
        assert len(broadcast.must) > 20
        assert np.array_equal(broadcast.must, by_tree.must)
        first, second = np.divmod(np.arange(256**2), 256)
        all_pairs = separations(pair.first[first].astype(float), pair.placed[second]) < 0
        assert np.array_equal(np.flatnonzero(all_pairs), broadcast.must)


def test_a_changed_answer_is_wrong(device: Device) -> None:
    pair = make_mesh_pair("sphere", 128, "deep", 1)
    made = collided(device, "atomic", pair)
    check, (found, _) = (
        problems.problems()["mesh-collision"].check,
        device.download(made.answer.counts),
    )
    right = device.download(made.answer.pairs)
    assert check(made, pair) is None and found > 20

    def problem(place: int, value: Any, count: int = found, lost: int = 0) -> str:
        changed = right.copy()
        changed[place] = value
        device.write(made.answer.pairs, changed)
        device.write(made.answer.counts, np.array([count, lost], np.int32))
        return str(check(made, pair))

    assert "is missing" in problem(0, right[0], found - 1)
    assert "occurs twice" in problem(0, right[1])
    assert "expected 0 to 127" in problem(0, (0, 128))
    assert "do not meet" in problem(found, (0, 0), found + 1)
    assert "found no room" in problem(0, right[0], found, 3)
    # Contact: either answer is right.
    reference = MeshCollisionOracle(pair)
    reference.must, reference.may = reference.must[1:], reference.must[:1]
    for k in (0, 1):
        device.write(made.answer.pairs, right)
        device.write(made.answer.counts, np.array([found, 0], np.int32))
        assert reference.check(made) is None, k


# The traversal


def test_filters_keep_the_stream_of_every_level(device: Device) -> None:
    """All forms test the same boxes; without a filter the stream is twice as long each time."""
    pair = make_mesh_pair("torus", 64, "deep", 1)
    outcomes = {f: collided(device, f, pair).outcome() for f in ("atomic", "bitonic", "no-filter")}
    unfiltered = outcomes.pop("no-filter")
    assert outcomes["atomic"] == outcomes["bitonic"]
    lengths = [int(n) for n in str(outcomes["atomic"]["lengths"]).split()]
    assert lengths[:2] == [1, 2] and all(n % 2 == 0 for n in lengths[1:])
    assert len(lengths) <= pair.made_for["levels"] + 1
    assert sum(lengths) == outcomes["atomic"]["box_tests"] < unfiltered["box_tests"] / 20
    assert unfiltered["longest"] == 2 ** pair.made_for["levels"]
    assert unfiltered["pairs_found"] == outcomes["atomic"]["pairs_found"] > 0


def test_what_finds_no_room_is_counted(device: Device) -> None:
    pair = make_mesh_pair("sphere", 128, "deep", 1)
    needed = int(collided(device, "atomic", pair).outcome()["longest"])
    enough = collided(device, "atomic", pair, capacity=needed)
    assert problems.problems()["mesh-collision"].check(enough, pair) is None
    for capacity in (needed - 2, needed // 2, 1):
        made = collided(device, "atomic", pair, capacity=capacity)
        assert made.outcome()["lost"] > 0
        assert "raise the parameter capacity" in str(
            problems.problems()["mesh-collision"].check(made, pair)
        )


def test_a_stream_that_outgrew_its_bounds_is_counted(device: Device) -> None:
    """Bounds come from the pose that was loaded: another that needs more says what it lost."""
    apart, deep = (make_mesh_pair("sphere", 128, pose, 1) for pose in ("apart", "deep"))
    made = collided(device, "atomic", apart)
    assert problems.problems()["mesh-collision"].check(made, apart) is None
    device.write(made._pose, deep.pose)
    made.launch()
    assert made.outcome()["lost"] > 0


def test_trees_that_do_not_fit_are_one_line(device: Device) -> None:
    pair = make_mesh_pair("sphere", 32, "deep", 1)
    with pytest.raises(NotSupported, match="25 levels together"):
        ObbCollision(device, "no-filter", {}, faces=(9, 9), levels=25)
    with pytest.raises(UserError, match="capacity must be at least 0"):
        ObbCollision(device, "atomic", {"capacity": -1}, **pair.made_for)
    made = ObbCollision(device, "atomic", {}, faces=(32, 32), levels=3)
    with pytest.raises(UserError, match="made for trees of 3 levels"):
        made.load(pair)


def test_a_pose_is_the_same_as_moving_the_mesh(device: Device) -> None:
    pair = make_mesh_pair("height-field", 128, "deep", 2)
    moved = replace(pair, second=pair.placed.astype(np.float32), pose=HERE.astype(np.float32))
    counts = [
        device.download(collided(device, "atomic", each).answer.counts)[0] for each in (pair, moved)
    ]
    assert abs(counts[0] - counts[1]) <= len(MeshCollisionOracle(pair).may) + 1 and counts[0] > 10


def test_steps_by_level_repeat_the_launch(device: Device) -> None:
    pair = make_mesh_pair("sphere", 64, "deep")
    made = collided(device, "atomic", pair)
    found = made.outcome()
    kinds, levels = level_times(made)
    assert kinds["filter"] > 0
    assert (
        len(levels) == len(str(found["lengths"]).split()) + 1
    )  # the last stands for the triangles
    assert made.outcome() == found
    assert level_times(collided(device, "no-filter", pair)) == ({}, [])


def test_large_trees_are_kept_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triangles = make_mesh_pair("sphere", 64, "deep").first
    monkeypatch.setattr(tree_module, "LARGE", 1)
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path)

    def fresh() -> ObbTree:
        monkeypatch.setattr(tree_module, "_kept", {})
        return obb_tree(triangles)

    built = fresh()
    (file,) = tmp_path.glob("obb-tree-*.arrays")
    with monkeypatch.context() as patched:
        patched.setattr(tree_module, "_build", lambda _: pytest.fail("was built again"))
        read = fresh()
    for name in ("boxes", "links", "depth"):
        assert np.array_equal(getattr(read, name), getattr(built, name))
    file.write_bytes(file.read_bytes()[:100])
    assert np.array_equal(fresh().links, built.links)
    monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: tmp_path / "file" / "x")
    (tmp_path / "file").touch()
    assert np.array_equal(fresh().links, built.links)
