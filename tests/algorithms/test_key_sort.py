"""Sorting of keys: inputs, and what the oracle notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpubench.algorithms.bitonic_sort import BitonicSort
from gpubench.core.errors import UserError
from gpubench.devices import Device
from gpubench.inputs import KeySet, make_keys
from gpubench.inputs.keys import FEW
from gpubench.verify.key_sort_oracle import check_sorted_keys
from gpubench.verify.problems import FAMILIES


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


def test_a_changed_answer_is_wrong(device: Device) -> None:
    inputs: KeySet = make_keys(3000, 4, "few-distinct", 1)
    sort = BitonicSort(device, "index", {}, **inputs.made_for)
    sort.load(inputs)
    sort.launch()
    check = FAMILIES["key-sort"].check
    assert check(sort, inputs) is None
    keys = device.download(sort.answer.keys)
    keys[1500] ^= 1
    device.write(sort.answer.keys, keys)
    assert "key 1500 is" in str(check(sort, inputs))
