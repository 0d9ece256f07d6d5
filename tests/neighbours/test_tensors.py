"""What a search of PyTorch's tensors launches, with bindings that note it."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest
from builders.cuda_bindings import CONTEXT, PAIRS, STREAM, Bindings, Tensor

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours.arrays import arrays_of

EDGES = (12.0, 12.0, 12.0)


@pytest.fixture
def bindings(monkeypatch):
    return Bindings().install(monkeypatch)


@pytest.fixture
def positions():
    return Tensor(np.random.default_rng(1).random((2000, 3)) * 12)


@pytest.mark.parametrize("more", [{}, {"half": True}, {"order": "cells"}, {"capacity": 9000}])
def test_a_search_is_queued_as_its_kernels_would_be_one_by_one(bindings, positions, more):
    search = NeighbourList(1.0, EDGES, True, method="counting-sort", **more)
    search(positions)
    bindings.launched.clear()
    bindings.copies.clear()
    found = search(positions)
    replayed = bindings.launched[:]
    # No copy tells the host how many pairs there are; the ids of rows in cells are copied.
    assert bindings.copies == [4 * 2000] * ("order" in more)
    assert all(grid[-1] == STREAM for _, grid, _ in replayed)
    (_, plan), rows = search._plan, found._rows
    bindings.launched.clear()
    plan._list(found._positions, rows.counts, rows.offsets, rows.neighbours)
    assert bindings.launched == replayed
    assert type(found.neighbours) is Tensor
    if "capacity" not in more:
        assert len(found) == PAIRS and found.vectors().shape == (PAIRS, 3)


@pytest.mark.parametrize("more", [{}, {"capacity": 0}])
def test_a_count_marks_nothing_for_a_list(bindings, more):
    """So many particles that a list marks them, whose kernel takes three arrays more."""
    positions = Tensor(np.random.default_rng(1).random((40_000, 3)) * 30)
    search = NeighbourList(1.0, (30.0,) * 3, True, method="counting-sort", **more)
    search(positions)
    (listing,) = (words for name, _, words in bindings.launched if name == "count")
    out = search.count(positions)
    bindings.launched.clear()
    assert search.count(positions, out) is out
    assert [name for name, *_ in bindings.launched][-1] == "count"
    *_, words = bindings.launched[-1]
    assert len(words) == len(listing) - 3 == 8 and words[-1] == out.data_ptr()


def test_the_memory_that_a_replay_names_is_kept(bindings, positions, monkeypatch):
    blocks = []

    def new_empty(_, size):
        host = np.zeros(size, np.uint8)
        blocks.append((range(host.ctypes.data, host.ctypes.data + size), weakref.ref(host)))
        return Tensor(host)

    monkeypatch.setattr(Tensor, "new_empty", new_empty)
    search = NeighbourList(1.0, EDGES, True, method="counting-sort", capacity=9000)
    search(positions)
    out = search.count(positions)
    bindings.launched.clear()
    search.count(positions, out)
    live = {positions.data_ptr(), out.data_ptr()}
    named = {word for *_, words in bindings.launched for word in words} - live
    held = {
        word for word in named for block, host in blocks if host() is not None and word in block
    }
    freed = {word for word in named for block, host in blocks if host() is None and word in block}
    assert len(held) > 6 and freed <= held


def test_a_replay_keeps_what_its_work_alone_has(bindings, positions):
    device = arrays_of(positions).device
    kernel = device.kernel("gather.cu", "any")

    def replayed():
        held = device.empty(5, "int32")
        replay = device.replayed(lambda array: kernel(1, 32, array, held), 1)
        return replay, weakref.ref(held.owner.host)

    replay, memory = replayed()
    assert memory() is not None
    replay(device.empty(7, "int32"))
    assert bindings.launched[-1][2][1] == memory().ctypes.data
    del replay
    assert memory() is None


@pytest.mark.parametrize("method", ["auto", "counting-sort"])
def test_no_particles_are_counted_and_listed(bindings, method):
    search = NeighbourList(1.0, EDGES, True, method=method)
    none = Tensor(np.zeros((0, 3)))
    assert search.count(none).shape == (0,)
    assert search(none).counts.shape == (0,)


def test_other_methods_are_queued_too(bindings, positions):
    names = []
    for method in ("atomic-list", "radix-grid"):
        bindings.launched.clear()
        assert len(NeighbourList(1.0, EDGES, True, method=method)(positions)) == PAIRS
        names.append([name for name, *_ in bindings.launched])
    last = ["count", "scan_lookback", "note_pairs", "fill"]
    assert names[0] == ["place", "push_front", *last]
    sort = ["count_digits", "sort_digit", "sort_digit", "cell_bounds"]
    assert names[1] == ["place", *sort, *last]  # Onesweep: CUB would need nvcc


def test_the_gpu_becomes_that_of_a_thread_that_has_none(bindings, positions):
    search = NeighbourList(1.0, EDGES, True)
    search(positions)
    bindings.context = 0
    search(positions)
    assert bindings.context == CONTEXT


def test_a_copy_of_what_was_found_has_its_own_arrays(bindings, positions):
    found = NeighbourList(1.0, EDGES, True, order="cells")(positions)
    other = copy.deepcopy(found)
    for name in ("counts", "offsets", "neighbours", "ids"):
        mine, copied = getattr(found, name), getattr(other, name)
        assert type(copied) is Tensor and np.array_equal(copied.host, mine.host)
        assert copied.data_ptr() != mine.data_ptr()
        assert getattr(other._rows, name).ptr == copied.data_ptr()
    bindings.launched.clear()
    other.distances()
    ((name, _, words),) = bindings.launched
    assert name == "write_geometry" and other._positions.ptr in words
    assert found._positions.ptr not in words


def test_a_gradient_is_detached_before_a_search(bindings, positions, monkeypatch):
    plain = Tensor(positions.host)
    monkeypatch.setattr(Tensor, "detach", lambda _: plain, raising=False)
    positions.requires_grad = True
    assert NeighbourList(1.0, EDGES, True)(positions)._positions.owner.host is plain.host


def test_more_memory_than_a_gpu_has_is_not_asked_for(bindings, positions):
    for capacity in (2**40, 10**19):
        with pytest.raises(UserError, match=r"GiB are more than NVIDIA H200 has"):
            NeighbourList(1.0, EDGES, capacity=capacity)(positions)


def test_an_error_is_told_once(bindings, positions):
    search = NeighbourList(1.0, EDGES, True)
    search(positions)
    search._plan[1].status.owner[0] = 8
    with pytest.raises(UserError, match="position 7 is not finite"):
        search(positions)
    assert len(search(positions)) == PAIRS


@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_types_of_tensors_are_named(bindings, dtype):
    with pytest.raises(UserError, match=f"float32 or float64, not {dtype}"):
        NeighbourList(1.0, EDGES)(Tensor(np.zeros((5, 3), dtype)))


def test_a_batch_waits_once(bindings, positions):
    search, offsets = NeighbourList(1.0, periodic=True), np.arange(0, 2001, 50)
    for _ in range(2):
        bindings.launched.clear()
        found = search(positions, batch=offsets, box=np.tri(3) * 12)
    names = [name for name, *_ in bindings.launched]
    assert names == ["place", "count_pairs", "scan_lookback", "note_pairs", "write_pairs"]
    assert type(found.shifts) is Tensor and found.shifts.shape == (len(found), 3)


def test_a_tilted_cell_of_few_particles_is_searched_without_images_on_the_stream(
    bindings, positions
):
    search = NeighbourList(1.0, np.tri(3) * 12, True, method="counting-sort")
    search(positions)
    bindings.launched.clear()
    found = search(positions)
    names = [name for name, *_ in bindings.launched]
    assert names == ["wrap_cells", "sort_shares", "count", "scan_lookback", "note_pairs", "fill"]
    assert all(grid[-1] == STREAM for _, grid, _ in bindings.launched)
    assert type(found.shifts) is Tensor and found.shifts.shape == (len(found), 3)


@pytest.mark.parametrize("half", [False, True])
def test_a_cell_is_searched_with_its_images_on_the_stream(bindings, positions, half):
    """Also where an axis is measured; the bindings say that there are as many images as pairs."""
    for box in (np.tri(3) * (12, 12, 2), np.diag((12, 2, 0))):
        search = NeighbourList(1.0, box, True, half=half, method="counting-sort")
        found = search(positions)
        search.count(positions)
        bindings.launched.clear()
        found = search(positions)
        names = [name for name, *_ in bindings.launched]
        assert names[:1] == ["measure"] * (not box[2, 2]) + ["wrap"] * bool(box[2, 2])
        assert names.count("images") == 2  # which are counted, then placed
        listing = ["take_rows"] if not half else ["pairs", "scan_lookback", "pairs"]
        assert (
            names[-len(listing) :] == listing and names.count("count") == names.count("fill") == 1
        )
        assert all(grid[-1] == STREAM for _, grid, _ in bindings.launched)
        assert type(found.neighbours) is Tensor and found.counts.shape == (2000,)
        assert found.shifts.shape == found.vectors().shape == (len(found), 3)
        other = copy.deepcopy(found)
        bindings.launched.clear()
        other.distances()
        assert [name for name, *_ in bindings.launched] == ["write_image_geometry"]
