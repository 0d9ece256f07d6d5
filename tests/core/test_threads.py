"""Work on parts of arrays in threads: every row once, in order, and errors come out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpubench.base import threads


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 95])
def test_every_row_is_in_one_part(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(threads, "ROWS", 10)
    parts = threads.over(rows, lambda begin, end: list(range(begin, end)))
    assert [row for part in parts for row in part] == list(range(rows))
    assert max(map(len, parts), default=0) <= 10


def test_parts_between_edges_write_to_one_array() -> None:
    found = np.zeros(100, np.int64)

    def write(begin: int, end: int) -> int:
        found[begin:end] = np.arange(begin, end)
        return end - begin

    assert threads.between([0, 3, 50, 100], write) == [3, 47, 50]
    np.testing.assert_array_equal(found, np.arange(100))


def test_what_a_part_raises_is_raised() -> None:
    def fail(begin: int, end: int) -> None:
        raise ValueError(f"rows from {begin}")

    with pytest.raises(ValueError, match="rows from 0"):
        threads.between([0, 1, 2], fail)


keys = st.one_of(
    hnp.arrays(dtype, st.integers(0, 300), elements=st.integers(*bounds))
    for dtype, bounds in (
        (np.int32, (-3, 3)),
        (np.int32, (-(2**31), 2**31 - 1)),
        (np.uint64, (0, 2**64 - 1)),
    )
)


@given(keys, st.integers(1, 40), st.integers(1, 5))
def test_the_order_is_that_of_a_stable_sort(keys: np.ndarray, few: int, cores: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "FEW_KEYS", few)
        patch.setattr(threads.os, "cpu_count", lambda: cores)
        found = threads.stable_order(keys)
    np.testing.assert_array_equal(found, np.argsort(keys, kind="stable"))


def test_many_keys_are_sorted_as_few_are() -> None:
    keys = np.random.default_rng(1).integers(0, 2**20, 2**19).astype(np.int32)
    for each in (keys, np.zeros_like(keys), np.sort(keys)):
        np.testing.assert_array_equal(threads.stable_order(each), np.argsort(each, kind="stable"))


@pytest.mark.parametrize("shape", [(7,), (7, 4)])
def test_rows_are_taken(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    monkeypatch.setattr(threads, "ROWS", 2)
    rows = np.random.default_rng(2).random(shape, np.float32)
    for order in ([], [3], [6, 0, 0, 5, 2]):
        taken = threads.take(rows, np.asarray(order, np.intp))
        np.testing.assert_array_equal(taken, rows[np.asarray(order, np.intp)])
        assert taken.dtype == rows.dtype


@pytest.mark.parametrize("shape", [(0,), (7,), (7, 4)])
def test_rows_are_put_where_they_belong(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(threads, "ROWS", 2)
    rng = np.random.default_rng(3)
    rows = rng.random(shape, np.float32)
    order = rng.permutation(shape[0])
    moved = threads.put(rows, order)
    np.testing.assert_array_equal(moved[order], rows)
    assert moved.dtype == rows.dtype and not np.shares_memory(moved, rows)


@pytest.mark.parametrize("changed", [0, 1, 2, 6])
def test_arrays_are_the_same_if_every_part_is(
    monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    monkeypatch.setattr(threads, "ROWS", 2)
    some = np.arange(7)
    assert threads.same(some, some.astype(np.int32)) and threads.same(some[:0], some[:0])
    assert not threads.same(some, some[:6]) and not threads.same(some[:6], some)
    others = some.copy()
    others[changed] += 1
    assert not threads.same(some, others)
