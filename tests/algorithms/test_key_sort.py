"""Sorting of keys: inputs, and what the oracle notices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpubench import problems
from gpubench.algorithms.bitonic_sort import BitonicSort
from gpubench.algorithms.counting_key_sort import CountingKeySort
from gpubench.algorithms.key_resort import KeyResort
from gpubench.algorithms.segment_sort import SegmentSort
from gpubench.base.errors import NotSupported, UserError
from gpubench.devices import Device
from gpubench.problems.key_sort.axes import ENTROPIES, KEY_TYPES
from gpubench.problems.key_sort.inputs import FEW, KeySet, make_keys, ordered_bits
from gpubench.problems.key_sort.oracle import KeySortOracle, check_sorted_keys, stable_order


@pytest.mark.parametrize("order", ["sorted", "reversed", "few-distinct"])
def test_orders_are_what_they_are_named(order: str) -> None:
    drawn = make_keys(1000, 0, order, 3)
    steps = np.diff(drawn.keys.astype(np.int64))
    held = {"sorted": (steps >= 0).all(), "reversed": (steps <= 0).all()}
    assert held.get(order, len(np.unique(drawn.keys)) == FEW)
    assert drawn.hash == make_keys(1000, 0, order, 3).hash != make_keys(1000, 4, order, 3).hash


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [((-1,), "not -1"), ((9, 8), "no value of 8 bytes"), ((9, 4, "up"), "no order of keys 'up'")],
)
def test_keys_that_do_not_exist_are_one_line(arguments: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make_keys(*arguments)


def test_only_an_unstable_sort_may_exchange_values_of_equal_keys() -> None:
    keys, values = np.array([1, 1, 2], np.uint32), np.array([7, 5, 6], np.int32)
    exchanged = values[[1, 0, 2]]
    assert check_sorted_keys(keys, values, keys, values, True) is None
    assert check_sorted_keys(keys, values, keys, exchanged, False) is None
    assert "value 0, of key 1, is 5" in str(check_sorted_keys(keys, values, keys, exchanged, True))
    moved = values[[2, 1, 0]]  # a value of another key
    assert "values differ" in str(check_sorted_keys(keys, values, keys, moved, False))
    assert "not both" in str(check_sorted_keys(keys, values, keys, None, True))


@pytest.mark.parametrize("stable", [True, False])
def test_ties_are_found_among_many_keys_and_none(stable: bool) -> None:
    rng = np.random.default_rng(5)
    keys = np.sort(rng.integers(0, 40, 100, np.uint32))
    values = rng.integers(0, 9, (100, 4), np.uint32)
    mixed = values[np.lexsort((rng.random(100), keys))]
    assert (check_sorted_keys(keys, values, keys, mixed, stable) is None) is not stable
    mixed[50, 3] += 1
    assert "differ" in str(check_sorted_keys(keys, values, keys, mixed, stable))
    assert check_sorted_keys(keys[:0], values[:0], keys[:0], values[:0], stable) is None


@pytest.mark.parametrize("count", [0, 1, 5000])
@pytest.mark.parametrize("unsigned", [np.uint32, np.uint64])
def test_the_stable_order_is_that_of_numpy(count: int, unsigned: Any) -> None:
    bits = np.random.default_rng(4).integers(0, np.iinfo(unsigned).max, 50, unsigned, endpoint=True)
    bits = np.append(bits, np.iinfo(unsigned).max)[np.arange(count) * 7 % 51]
    assert np.array_equal(stable_order(bits), np.argsort(bits, kind="stable"))


def test_a_changed_answer_is_wrong(device: Device) -> None:
    inputs: KeySet = make_keys(3000, 4, "few-distinct", 1)
    sort = BitonicSort(device, "index", {}, **inputs.made_for)
    sort.load(inputs)
    sort.launch()
    check = problems.problems()["key-sort"].check
    assert check(sort, inputs) is None
    keys = device.download(sort.answer.keys)
    keys[1500] ^= 1
    device.write(sort.answer.keys, keys)
    assert "key 1500 is" in str(check(sort, inputs))


def test_entropy_is_that_of_its_name() -> None:
    for words, entropy in enumerate(ENTROPIES, 1):
        keys = make_keys(20000, 0, entropy=entropy, seed=1).keys
        share = np.unpackbits(keys.view(np.uint8)).mean()
        assert share == pytest.approx(0.5**words, abs=0.003)
        assert -share * np.log2(share) - (1 - share) * np.log2(1 - share) == pytest.approx(
            entropy, abs=0.01
        )


def test_bits_moves_and_segments_are_as_asked_for() -> None:
    assert make_keys(5000, 0, bits=9).keys.max() == 2**9 - 1
    nearly = make_keys(5000, 0, "nearly-sorted", moved=0.1)
    assert nearly.before is not None and (np.diff(nearly.before.astype(np.int64)) >= 0).all()
    assert np.count_nonzero(nearly.before != nearly.keys) == 500
    starts = make_keys(5000, 0, segment_keys=50).starts
    assert starts is not None and (len(starts), starts[0], starts[-1]) == (101, 0, 5000)
    lengths = np.diff(starts)
    assert lengths.mean() == 50 and 5 < lengths.std() < 9  # of a Poisson distribution, 7.1
    payload = make_keys(50, 16).values
    assert payload is not None and payload.shape == (50, 4)


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_ordered_bits_are_in_the_order_of_keys(key_type: str) -> None:
    keys = make_keys(3000, 0, key_type=key_type, seed=2).keys
    ordered = keys[np.argsort(ordered_bits(keys), kind="stable")]
    np.testing.assert_array_equal(ordered, np.sort(keys))
    if key_type == "float32":
        zeros = ordered[ordered == 0]
        assert (np.diff(np.signbit(zeros).astype(int)) <= 0).all()
        assert np.signbit(zeros).any() and not np.signbit(zeros).all()
        assert np.isnan(keys).any()
        assert len(np.unique(ordered_bits(zeros, equal_zeros=True))) == 1


def test_what_becomes_of_zeros_is_checked() -> None:
    keys = np.array([0.0, -0.0, 1.0], np.float32)
    values = np.arange(3, dtype=np.int32)
    reference = KeySortOracle(KeySet(keys, values))
    by_bits, by_number = reference.sorted(False), reference.sorted(True)
    assert by_bits[1] is not None and by_bits[1].tolist() == [1, 0, 2]
    assert by_number[1] is not None and by_number[1].tolist() == [0, 1, 2]
    for asked, given, problem in ((False, by_number, "key 0 is 0.0"), (True, by_bits, "value 0")):
        said = check_sorted_keys(*reference.sorted(asked), *given, True, asked)
        assert said is not None and said.startswith(problem)


def test_segments_are_sorted_each_by_itself() -> None:
    inputs = make_keys(600, 4, "few-distinct", 3, segment_keys=20)
    keys, values = KeySortOracle(inputs).sorted(False)
    assert inputs.starts is not None and values is not None and inputs.values is not None
    for begin, end in pairwise(inputs.starts):
        order = np.argsort(inputs.keys[begin:end], kind="stable")
        np.testing.assert_array_equal(keys[begin:end], inputs.keys[begin:end][order])
        np.testing.assert_array_equal(values[begin:end], inputs.values[begin:end][order])


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({"key_type": "text"}, "no type of keys 'text'"),
        ({"entropy": 0.5}, "no entropy 0.5 of a bit"),
        ({"entropy": 0.201, "key_type": "float32"}, "have an entropy of 1"),
        ({"bits": 33}, "cannot have 33 bits"),
        ({"bits": 8, "key_type": "int32"}, "keys of int32 cannot have 8 bits"),
        ({"moved": 0.1}, "and no others, need the share"),
        ({"key_order": "nearly-sorted"}, "need the share"),
        ({"key_order": "nearly-sorted", "moved": 2}, "0 to 1 of the keys"),
        ({"segment_keys": 0}, "at least 1 key on average"),
    ],
)
def test_axes_that_disagree_are_one_line(axes: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make_keys(9, **axes)


def test_a_sort_refuses_what_it_does_not_sort(opencl_device: Device) -> None:
    for cls, form, inputs, said in (
        (BitonicSort, "index", make_keys(9, key_type="uint64"), "no keys of uint64"),
        (BitonicSort, "index", make_keys(9, segment_keys=3), "no segments"),
        (KeyResort, "merge", make_keys(9), "not sorted before"),
        (SegmentSort, "bitonic", make_keys(9000, segment_keys=9000), "more than 4096 keys"),
        (SegmentSort, "bitonic", make_keys(9), "no keys that are not in segments"),
        (CountingKeySort, "order", make_keys(9), "more than 22 bits"),
    ):
        with pytest.raises(NotSupported, match=f"{cls.name} sorts .*{said}"):
            cls(opencl_device, form, {}, **inputs.made_for)
