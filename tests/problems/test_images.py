"""Neighbours with images: the drawn cells, the oracle, and what it finds wrong."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.base.errors import NotSupported, UserError
from gpubench.libraries.nvalchemi_images import NvalchemiImages
from gpubench.problems.images import oracle as oracles
from gpubench.problems.images.axes import Systems
from gpubench.problems.images.cases import SLAB, TILTED
from gpubench.problems.images.contract import Images, ImageSearch
from gpubench.problems.images.inputs import SystemSet, make_systems
from gpubench.problems.images.oracle import ImageSearchOracle, pairs_within
from gpubench.verify.conformance import run_conformance


def angle(a, b):
    return np.degrees(np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))


def test_a_cell_has_the_angles_and_the_volume_asked_for():
    a, b, c = vectors = np.array(Systems("60-70-80", 1000, 60).vectors)
    assert np.allclose([angle(b, c), angle(a, c), angle(a, b)], [60, 70, 80])
    assert np.linalg.det(vectors) == pytest.approx(1000)
    assert np.allclose(np.linalg.norm(vectors, axis=1), np.linalg.norm(a))
    assert np.array_equal(Systems("cubic", 8, 60).vectors, np.diag([2.0, 2.0, 2.0]))
    with pytest.raises(UserError, match="no cell has the angles 10-20-90"):
        Systems("10-20-90", 1000, 60)


@pytest.mark.parametrize("lattice", ["cubic", "60-70-80"])
def test_particles_have_as_many_neighbours_as_asked_for(lattice):
    inputs = Systems(lattice, 500, 200, systems=3).make(1)
    found = pairs_within(inputs, inputs.cutoff, np.arange(1500))
    assert len(found[0]) / 1500 == pytest.approx(200, rel=0.02)
    open_side = Systems("slab", 500, 200, systems=3).make(1)
    assert len(pairs_within(open_side, open_side.cutoff, np.arange(1500))[0]) < 0.9 * 200 * 1500


def listed(rows):
    """Return rows of i, j and shift as a sorted list."""
    return sorted(map(tuple, np.asarray(rows, int).tolist()))


@given(st.integers(0, 2**32), st.booleans(), st.floats(0.5, 5.0))
@settings(max_examples=60)
def test_images_are_those_of_all_shifts(seed, is_slab, cutoff):
    rng = np.random.default_rng(seed)
    cells = np.diag(rng.uniform(1.5, 4, 3)) + np.tril(rng.uniform(-2, 2, (3, 3)), -1)
    if is_slab:
        cells[2] = 0, 0, 9
    periodic = SLAB if is_slab else (True, True, True)
    inputs = make_systems([4, 7], np.stack((cells, cells[[1, 0, 2]])), cutoff, periodic, seed)
    inputs.positions[:2] += np.float32(inputs.vectors[0, 0] * 3)  # outside the cell
    i, j, shifts, _ = pairs_within(inputs, cutoff, np.arange(11))
    wanted = [
        np.column_stack((rows[:, :2] + start, rows[:, 2:5]))
        for start, end, vectors in zip((0, 4), (4, 11), inputs.vectors, strict=True)
        if (rows := images_within(inputs.positions[start:end], vectors, periodic, cutoff)).size
    ] or [np.zeros((0, 5))]
    assert listed(np.column_stack((i, j, shifts))) == listed(np.concatenate(wanted))


def answered(inputs: SystemSet) -> list[np.ndarray]:
    """Return the right rows: offsets, neighbours, shifts."""
    i, j, shifts, _ = pairs_within(inputs, inputs.cutoff, np.arange(len(inputs.positions)))
    order = np.argsort(i, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(i, minlength=len(inputs.positions))))
    return [offsets, j[order].astype(np.int32), shifts[order].astype(np.int32)]


def checked(oracle: ImageSearchOracle, offsets, neighbours, shifts) -> str | None:
    answer = Images(offsets, neighbours, shifts)
    return oracle.check(SimpleNamespace(answer=answer, download=np.asarray, name="theirs"))


INPUTS = make_systems([60, 5], TILTED / 2, 2.2)


class TestWhatIsWrong:
    oracle = ImageSearchOracle(INPUTS)

    def test_nothing_of_the_right_answer(self):
        assert checked(self.oracle, *answered(INPUTS)) is None

    def test_a_pair_that_is_missing(self):
        offsets, neighbours, shifts = answered(INPUTS)
        offsets[-1] -= 1
        problem = checked(self.oracle, offsets, neighbours[:-1], shifts[:-1])
        assert f"neighbour {neighbours[-1]} with the shift {shifts[-1]} is missing" in problem

    def test_a_pair_that_is_listed_twice(self):
        offsets, neighbours, shifts = answered(INPUTS)
        neighbours[1], shifts[1] = neighbours[0], shifts[0]
        assert "is listed twice" in checked(self.oracle, offsets, neighbours, shifts)

    def test_another_image(self):
        offsets, neighbours, shifts = answered(INPUTS)
        shifts[7] += 1
        assert checked(self.oracle, offsets, neighbours, shifts) is not None

    def test_a_particle_itself(self):
        offsets, neighbours, shifts = answered(INPUTS)
        added = np.insert(neighbours, 0, 0), np.insert(shifts, 0, 0, axis=0)
        offsets[1:] += 1
        problem = checked(self.oracle, offsets, *(each.astype(np.int32) for each in added))
        assert problem == "particle 0: neighbour 0 with the shift [0 0 0] should not be listed"

    def test_a_neighbour_of_another_system(self):
        offsets, neighbours, shifts = answered(INPUTS)
        neighbours[0] = 64
        assert checked(self.oracle, offsets, neighbours, shifts) is not None

    def test_arrays_of_other_shapes_and_types(self):
        offsets, neighbours, shifts = answered(INPUTS)
        wrong = {
            "offsets has": (offsets.astype(np.int32), neighbours, shifts),
            "neighbours has": (offsets, neighbours[:-1], shifts),
            "shifts has": (offsets, neighbours, shifts[:, :2]),
            "offsets do not ascend": (offsets[::-1].copy(), neighbours, shifts),
            "neighbours\\[0\\]": (offsets, neighbours + 65, shifts),
            "too far": (offsets, neighbours, shifts + 100),
        }
        for says, answer in wrong.items():
            with pytest.raises(AssertionError, match=says):
                assert checked(self.oracle, *answer) is None


def test_some_particles_of_a_large_input_are_checked(monkeypatch):
    monkeypatch.setattr(oracles, "CHECKED", 200)
    oracle = ImageSearchOracle(INPUTS)
    assert 2 < len(oracle.rows) < 30
    offsets, neighbours, shifts = answered(INPUTS)
    assert checked(oracle, offsets, neighbours, shifts) is None
    shifts[offsets[oracle.rows[1]]] *= -1
    shifts[offsets[oracle.rows[1]]] += 1
    assert checked(oracle, offsets, neighbours, shifts) is not None


def test_pairs_within_rounding_of_the_cutoff_are_optional():
    x, cells = np.float32([[0, 0, 0], [1, 0, 0]]), np.eye(3)[None] * 8
    for apart, optional in ((0.999999, True), (0.9999, False)):
        x[1, 0] = apart
        inputs = SystemSet(x.copy(), np.array([0, 2]), cells, (True, True, True), 1.0)
        none = np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros((0, 3), np.int32)
        oracle = ImageSearchOracle(inputs)
        assert (checked(oracle, *none) is None) == optional
        assert checked(oracle, *answered(inputs)) is None


class Remembered(ImageSearch):
    """Right, by the oracle's own pairs, except that the nearest image alone counts."""

    name, summary, source, forms = "remembered", "", "", {}
    nearest = False

    def load(self, inputs):
        self.inputs = inputs

    def launch(self):
        self.found = answered(self.inputs)
        if self.nearest:
            self.found[2][:] = np.clip(self.found[2], -1, 1)

    @property
    def answer(self):
        return Images(*self.found)

    def download(self, array):
        return array

    def traffic_bytes(self):
        return None


@pytest.mark.parametrize("nearest", [False, True])
def test_the_suite_knows_more_than_nearest_images(nearest):
    made = type("Made", (Remembered,), {"nearest": nearest})
    results = run_conformance(
        lambda **given: made(None, form="", parameters={}, **given), "image-search"
    )
    wrong = {each.name for each in results if each.status != "ok"}
    assert ({"cutoff 8.0", "a batch of many sizes", "positions outside"} <= wrong) == nearest
    assert nearest or not wrong


def of_nvalchemi(form, inputs, search, prepared=1):
    """Return the adapter of a library in which `search` answers, after its count of neighbours."""
    own = object.__new__(NvalchemiImages)
    own._shape, _, own._method = form.partition("-")
    own.inputs, own.points, own.kind = inputs, inputs.positions, "numpy"
    own.parameters = {"prepared": prepared}
    own.particles, own.systems = len(inputs.positions), len(inputs.vectors)
    own.periodic = inputs.periodic
    kinds = {"float64": np.float64, "float32": np.float32, "int32": np.int32}
    of_numpy = SimpleNamespace(tensor=lambda a, **_: np.asarray(a), **kinds)
    own.torch = SimpleNamespace(torch=of_numpy, device="cpu", on_stream=nullcontext)
    own._library = SimpleNamespace(
        prepare_neighbor_list=lambda *_, **how: how,
        neighbor_list=lambda *_, **how: search() if "state" in how else (None, np.ones(1), None),
    )
    own.begin()
    own.found = own.search()
    return own


def test_tiles_of_a_batch_are_rows():
    inputs = make_systems([30, 0, 40], TILTED, 1.9)
    i, j, shifts, _ = pairs_within(inputs, inputs.cutoff, np.arange(70))
    room = 4000  # of each system, and as many pairs that are not listed
    begins, counts = np.arange(4) * room, np.array([(i < 30).sum(), 0, (i >= 30).sum()])
    pairs, moves = np.full((2, 3 * room), 99), np.full((3 * room, 3), 99)
    for system, own in ((0, i < 30), (2, i >= 30)):
        at = np.random.default_rng(1).permutation(counts[system]) + begins[system]
        pairs[:, at], moves[at] = (i[own], j[own]), shifts[own]
    made = of_nvalchemi("rows-cluster-tile", inputs, lambda: (pairs, begins, counts, moves))
    assert ImageSearchOracle(inputs).check(made) is None
    made.poison()
    assert begins[-1] == 3 * room  # which the library reads, and does not write


@pytest.mark.parametrize("form", ["rows-cluster-tile", "matrix-cluster-tile", "rows-auto"])
def test_tiles_are_not_for_pairs_with_several_images(form):
    inputs = Systems("60-70-80", 60, 60, systems=2).make(0)
    if form == "rows-auto":
        of_nvalchemi(form, inputs, lambda: (None, None, None))
        return
    with pytest.raises(NotSupported, match="half the least distance between faces"):
        of_nvalchemi(form, inputs, None)
    of_nvalchemi(form, Systems("60-70-80", 200, 60, systems=2).make(0), lambda: (0, 0, 0))


def test_what_is_not_prepared_is_given_all_in_each_call():
    inputs = make_systems([50], TILTED, 1.9)
    given = of_nvalchemi("matrix-naive", inputs, None, prepared=0)._how
    assert given["method"] == "naive" and given["max_neighbors"] == 16 and "state" not in given
    assert "state" in of_nvalchemi("matrix-naive", inputs, lambda: (0, 0, 0))._how
