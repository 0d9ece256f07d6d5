"""Philox against Random123's known answers; what the noise of pairs promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from gpubench.physics.noise import pair_noise, philox4x32

ids = st.integers(0, 2**32 - 1)
words = st.integers(0, 2**64 - 1)

ONES = "ffffffff"


# Counter, key and answer of Random123's kat_vectors; the third row is the digits of pi.
@pytest.mark.parametrize(
    ("rounds", "counter", "key", "answer"),
    [
        (10, "0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, f"{ONES} " * 4, f"{ONES} " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            10,
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
        (7, "0 0 0 0", "0 0", "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ],
)
def test_philox_known_answers(rounds: int, counter: str, key: str, answer: str) -> None:
    given_words = [int(word, 16) for word in (counter + " " + key).split()]
    found = philox4x32(*given_words, rounds=rounds)
    assert [f"{int(word):08x}" for word in found] == answer.split()


def test_philox_takes_arrays() -> None:
    counters = np.arange(6, dtype=np.uint32).reshape(2, 3)
    found = philox4x32(counters, 1, 2, 3, 4, 5)
    assert all(word.shape == (2, 3) and word.dtype == np.uint32 for word in found)
    assert [int(word[1, 2]) for word in found] == [int(w) for w in philox4x32(5, 1, 2, 3, 4, 5)]


@given(ids, ids, words, words)
def test_pair_noise_is_symmetric_and_what_float32_holds(
    i: int, j: int, step: int, seed: int
) -> None:
    noise = pair_noise(np.array([i]), np.array([j]), step, seed)
    assert noise == pair_noise(np.array([j]), np.array([i]), step, seed)
    assert abs(noise[0]) < 1
    assert noise[0].astype(np.float32) == noise[0]
    assert noise[0] * 2**24 % 2 == 1


@given(ids, ids, words, words, st.integers(0, 63))
def test_every_bit_of_step_and_seed_counts(i: int, j: int, step: int, seed: int, bit: int) -> None:
    # Pairs of the same two particles differ; of 16 other pairs none may be left as it was.
    i, j = np.arange(16) ^ i, np.full(16, j)
    noise = pair_noise(i, j, step, seed)
    assert (noise != pair_noise(i, j, step ^ 1 << bit, seed)).any()
    assert (noise != pair_noise(i, j, step, seed ^ 1 << bit)).any()


def test_pair_noise_is_uniform_and_does_not_depend_on_its_neighbours() -> None:
    i, j = np.triu_indices(500, 1)
    noise = np.array([pair_noise(i, j, step, seed=2008) for step in (0, 1)])
    count = noise.size
    assert kstest(noise.ravel(), "uniform", (-1, 2)).pvalue > 1e-3
    # The standard errors of mean and variance of a uniform number, and of a mean of products.
    assert abs(noise.mean()) < 4 * np.sqrt(1 / 3 / count)
    assert abs(noise.var() - 1 / 3) < 4 * np.sqrt(4 / 45 / count)
    following = [noise[0] * noise[1], noise[0, 1:] * noise[0, :-1]]
    for products in following:
        assert abs(products.mean()) < 4 / 3 / np.sqrt(products.size)


def test_ids_and_clock_are_words_without_a_sign() -> None:
    with pytest.raises(OverflowError):
        pair_noise(np.array([1]), np.array([2]), step=-1, seed=0)
