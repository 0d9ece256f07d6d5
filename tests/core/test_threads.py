"""Work on parts of arrays in threads: every row once, in order, and errors come out."""

import numpy as np
import pytest

from gpubench.core import threads


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
