"""Streams of records: which are null, what they hold, and how a filter's answer is checked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.problems.stream_filter.axes import NULLS, RECORD_BYTES
from gpubench.problems.stream_filter.inputs import SPECIAL_BITS, RecordSet, make_records
from gpubench.problems.stream_filter.oracle import check_compacted


@given(
    st.integers(0, 300),
    st.floats(0, 1),
    st.sampled_from(RECORD_BYTES),
    st.sampled_from(NULLS),
    st.integers(0, 2**63),
)
def test_exactly_the_share_asked_for_is_kept(n, kept, record_bytes, nulls, seed) -> None:
    made = make_records(n, kept, record_bytes, nulls, seed)
    assert made.records.dtype == np.float32 and made.records.shape == (n, record_bytes // 4)
    assert np.count_nonzero(made.is_kept) == round(kept * n)
    assert made.hash == make_records(n, kept, record_bytes, nulls, seed).hash
    assert made.made_for == {"records": n, "record_bytes": record_bytes, "nulls": nulls}
    if nulls == "infinity":
        assert made.keep is None
        assert np.array_equal(made.is_kept, made.records[:, 0] != np.inf)
    else:
        assert made.keep is not None and made.keep.dtype == np.int32
        assert np.array_equal(made.is_kept, made.keep != 0)


@pytest.mark.parametrize("nulls", NULLS)
def test_records_hold_what_is_easily_lost(nulls) -> None:
    made = make_records(2000, 0.5, 4, nulls)
    bits = made.records[made.is_kept].view(np.uint32)
    assert set(SPECIAL_BITS.tolist()) <= set(bits.ravel().tolist())
    assert (np.inf in made.records[made.is_kept]) == (nulls == "predicate")
    nan = np.isnan(made.records).ravel()
    assert len(set(made.records.view(np.uint32).ravel()[nan].tolist())) > 3


def test_places_vary_with_the_seed() -> None:
    assert make_records(99, 0.5, seed=1).hash != make_records(99, 0.5, seed=2).hash
    hashes = {make_records(64, 1, b, nulls).hash for b in RECORD_BYTES for nulls in NULLS}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0.5), "number of records"),
        ((2**31, 0.5), "2147483647"),
        ((8, -0.1), "0 to 1, not -0.1"),
        ((8, 1.1), "0 to 1, not 1.1"),
        ((8, math.nan), "0 to 1, not nan"),
        ((8, 0.5, 6), "4 to 256 bytes in words, not 6"),
        ((8, 0.5, 4, "zero"), "infinity or predicate, not by 'zero'"),
        ((8, 0.5, 4, "infinity", -1), "a seed"),
    ],
)
def test_bad_arguments_are_refused(arguments, message) -> None:
    with pytest.raises(UserError, match=message) as raised:
        make_records(*arguments)
    assert "\n" not in str(raised.value)


KEPT = np.array([[1.0], [np.nan], [-0.0]], np.float32)


def answer(*values: float, rows: int = 5) -> np.ndarray:
    found = np.full((rows, 1), 7.0, np.float32)
    found[: len(values), 0] = values
    return found


def count(n: int) -> np.ndarray:
    return np.array([n], np.int32)


def test_right_answers_pass() -> None:
    assert check_compacted(KEPT, answer(1.0, np.nan, -0.0), count(3), stable=True) is None
    assert check_compacted(KEPT, answer(-0.0, 1.0, np.nan), count(3), stable=False) is None
    assert check_compacted(KEPT[:0], answer(rows=0), count(0), stable=True) is None
    wide = make_records(500, 1, 16, "predicate").records
    shuffled = np.random.default_rng(1).permutation(wide)
    assert check_compacted(wide, shuffled, count(500), stable=False) is None


@pytest.mark.parametrize(
    ("records", "n", "stable", "message"),
    [
        (answer(1.0, np.nan, -0.0), count(2), True, "count is 2, expected 3"),
        (answer(1.0, np.nan, -0.0), np.array([3]), True, "count has type int64"),
        (answer(-0.0, 1.0, np.nan), count(3), True, "record 0 is 80000000, expected 3f800000"),
        (answer(1.0, np.nan, 0.0), count(3), True, "record 2 is 00000000, expected 80000000"),
        (answer(1.0, -np.nan, -0.0), count(3), False, "expected 7fc00000"),
        (answer(1.0, 1.0, np.nan), count(3), False, "in sorted order"),
        (answer(1.0, np.nan, rows=2), count(3), True, "records has shape"),
        (answer(1.0, np.nan, -0.0).astype(np.float64), count(3), True, "type float64"),
        (answer(1.0, np.nan, -0.0)[:, 0], count(3), True, "records has shape"),
    ],
)
def test_wrong_answers_are_named(records, n, stable, message) -> None:
    found = check_compacted(KEPT, records, n, stable)
    assert found is not None and message in found and "\n" not in found


def test_words_stay_together_also_without_an_order() -> None:
    wide = make_records(500, 1, 16, "predicate").records
    mixed = wide.copy()
    mixed[[3, 4], 2] = wide[[4, 3], 2]
    assert check_compacted(wide, mixed, count(500), stable=False) is not None


def test_infinity_is_a_record_under_a_predicate_and_minus_infinity_always() -> None:
    values = np.array([[np.inf], [-np.inf], [np.nan]], np.float32)
    assert RecordSet(values, None, None).is_kept.tolist() == [False, True, True]
    keep = np.array([-5, 0, 1], np.int32)
    assert RecordSet(values, keep, None).is_kept.tolist() == [True, False, True]
