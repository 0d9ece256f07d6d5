"""What single precision does to a list where the box is many cutoffs long, or lengths are odd."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings

import numpy as np
import pytest

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours.export.folder import write

FAR = np.array([[0.0, 0.0, 0.0], [0.589, 0.0, 0.0], [1e8, 0.0, 0.0]])


@pytest.mark.parametrize("call", ["__call__", "count", "update"])
def test_open_space_that_is_too_wide_is_refused(call):
    search = NeighbourList(1.0, skin=0.001)
    with pytest.raises(UserError, match=r"up to 52 \(NeighbourList.bound\).* 1.1e\+08 x 1"):
        getattr(search, call)(FAR)
    assert len(search(FAR[:2])) == 2


def test_a_box_that_is_too_long_is_warned_of_where_it_is_given():
    with pytest.warns(UserWarning, match=r"up to 48 \(NeighbourList.bound\)") as warned:
        search = NeighbourList(1.0, (1e8, 1.0, 1.0))
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once, and where the list is made
        search(FAR)
        NeighbourList(1.0, (1200, 1200, 1200))


def test_with_the_skin_that_helps_no_pair_is_lost():
    """Of a tile of 10 km at a radius of 0.25, where 36 in 61,490 were."""
    rng = np.random.default_rng(7)
    near = rng.normal(size=(30_000, 3))
    near *= 0.25 * (1 - 1e-4 * rng.random((30_000, 1))) / np.linalg.norm(near, axis=1)[:, None]
    first = rng.random((30_000, 3)) * (9000, 9000, 100) + 500
    positions = np.concatenate((first, first + near))
    with pytest.raises(UserError, match=r"up to 0.0067 .* skin=0.013, which finds all pairs"):
        NeighbourList(0.25)(positions)
    search = NeighbourList(0.25, skin=0.013)
    found = search(positions)
    pairs = found.pairs()[found.distances() < 0.25]
    listed = {*map(tuple, pairs[pairs[:, 0] < pairs[:, 1]].tolist())}
    assert {(i, i + 30_000) for i in range(30_000)} <= listed
    assert search.bound() == pytest.approx(0.0067, abs=1e-4)


def test_no_skin_longer_than_the_cutoff_is_recommended():
    with pytest.raises(UserError, match="search smaller parts, without what is far away"):
        NeighbourList(1.0)(np.array([[0, 0, 0], [0.589, 0, 0], [1e8, 0, 0]]))
    with pytest.raises(UserError, match="further apart than float64 holds"):
        NeighbourList(1.0)(np.array([[0, 0, 0], [1.5e308] * 3]))


def test_what_a_kept_list_may_lack_is_taken_off_its_skin():
    search = NeighbourList(1.0, (9000, 10, 10), skin=0.02)
    search.update(np.full((2, 3), 5.0))
    for spared, searches in ((1.01, 1), (0.99, 2)):
        search.update(np.full((2, 3), [5.0 + 0.5 * (0.02 - spared * search.bound()), 5.0, 5.0]))
        assert search.searches == searches


@pytest.mark.filterwarnings("ignore:pairs may be lost")
@pytest.mark.parametrize("cutoff", [1e-23, 1e-200, 5e-324])
@pytest.mark.parametrize("half", [False, True])
def test_a_tiny_cutoff_finds_what_is_in_one_place(cutoff, half):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    search = NeighbourList(cutoff, (10,) * 3, True, half=half)
    assert search.count(positions).tolist() == [0] * 50
    positions[7] = positions[9]
    assert search.count(positions).sum() == len(search(positions)) == 2 - half


@pytest.mark.parametrize("cutoff", [1e14, 1e19, 1e150, 1e308])
def test_a_huge_cutoff_finds_all(cutoff):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    for half in (False, True):
        search = NeighbourList(cutoff, (10,) * 3, half=half)
        assert search.count(positions).sum() == len(search(positions)) == 50 * 49 // (1 + half)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ([1e308], "pairs may be lost"),
        ([1e308, -1e308], "further apart than float64 holds"),
        ([-1e200], "pairs may be lost"),
    ],
)
def test_coordinates_far_beyond_float32(ends, message):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    positions[: len(ends), 0] = ends
    with pytest.raises(UserError, match=message):
        NeighbourList(1.0)(positions)
    with pytest.raises(UserError, match=r"or is over 2\^30 edges of the box away"):
        NeighbourList(1.0, (10,) * 3, True)(positions)


def test_the_bound_in_open_space_is_that_of_the_last_search():
    search = NeighbourList(1.0)
    with pytest.raises(UserError, match="search first, or give the edges of the box"):
        search.bound()
    search(np.array([[0.0, 0, 0], [100, 0, 0]]))
    for each in (search, pickle.loads(pickle.dumps(search)), copy.copy(search)):
        assert each.bound() == search.bound()
    assert search.bound() == pytest.approx(2.0**-21 * (np.hypot(110, np.sqrt(2)) + 1))
    assert search.bound((5, 4, 7)) == pytest.approx(2.0**-21 * (np.sqrt(90) + 1))
    with pytest.raises(UserError, match="bound takes no box where the list has one"):
        NeighbourList(1.0, (5, 4, 7)).bound((1, 1, 1))


@pytest.mark.parametrize("edges", [(5, 0, 7), (0, 0, 1.5)])
def test_the_bound_of_a_box_with_open_axes_is_that_of_the_last_search(edges):
    """Also where the axis is short, which is searched with images."""
    search = NeighbourList(1.0, edges, True)
    with pytest.raises(UserError, match=r"none has succeeded yet: search first$"):
        search.bound()
    with pytest.raises(UserError, match="bound takes no box where the list has one"):
        search.bound((1, 1, 1))
    with pytest.raises(UserError):
        search(np.full((2, 3), np.nan))
    search(np.array([[0.0, 0, 0], [0, 100, 0]]))
    bound = search.bound()
    assert 2.0**-21 * 100 < bound < 2.0**-21 * 120
    assert pickle.loads(pickle.dumps(search)).bound() == copy.deepcopy(search).bound() == bound


class CuPy:
    """As much of CuPy as it takes to make what was exported."""

    asarray, empty, zeros = np.asarray, np.empty, np.zeros

    def __init__(self, **_):
        self.get_function = {}.get

    RawModule = property(lambda _: CuPy)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return the class of the file for CuPy."""
    write(tmp_path / "it")
    monkeypatch.setitem(sys.modules, "cupy", CuPy())
    code = compile((tmp_path / "it" / "cupy_neighbours.py").read_text(), __file__, "exec")
    exec(code, taken := {"__file__": str(tmp_path / "it" / "cupy_neighbours.py")})
    return taken["NeighbourList"]


@pytest.mark.parametrize("name", ["bound", "n", "cutoff", "count"])
def test_nothing_of_the_file_for_cupy_can_be_set(make, name):
    search = make(10, (0, 0, 0), (9, 9, 9), 1.0)
    for change in (lambda: setattr(search, name, 3), lambda: delattr(search, name)):
        with pytest.raises(AttributeError, match=f"{name} of a NeighbourList cannot be .*: make"):
            change()


def test_the_file_for_cupy_warns_too(make):
    assert make(10, (0, 0, 0), (9, 9, 9), 1.0).bound < 1e-4
    with pytest.warns(UserWarning, match="pairs may be lost"):
        assert make(10, (0, 0, 0), (10, 10, 10), 1e-23)._cutoff2 > 0
    with pytest.warns(UserWarning, match=r"up to 0.0095 "):
        make(10, (0, 0, 0), (1e4, 1e4, 100), 0.25)
    assert np.isfinite(make(10, (0, 0, 0), (10, 10, 10), 1e30)._cutoff2)
    with pytest.raises(ValueError, match="float32 cannot tell"):
        make(10, (0, 0, 0), (1e19, 1e19, 1e19), 1e18)
