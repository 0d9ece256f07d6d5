"""Random numbers of particle pairs in NumPy, bitwise equal to kernels/common/noise.h.

Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a bijection of
a counter under a key: a pair's number needs no state, and both particles can compute it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.physics.arrays import Floats, Integers, Words

MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
WORD = np.uint64(0xFFFFFFFF)
WORD_BITS = np.uint64(32)


def philox4x32(
    c0: ArrayLike,
    c1: ArrayLike,
    c2: ArrayLike,
    c3: ArrayLike,
    k0: ArrayLike,
    k1: ArrayLike,
    rounds: int = 10,
) -> tuple[Words, Words, Words, Words]:
    """Return the four words of Philox4x32 for a counter of four words and a key of two.

    Counters and keys are 32-bit words, of any shapes that broadcast.
    """
    # Words are held in 64 bits, so that products of two fit.
    c0, c1, c2, c3, k0, k1 = (np.asarray(word, np.uint64) for word in (c0, c1, c2, c3, k0, k1))
    for _ in range(rounds):
        product0, product1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c2 = (product1 >> WORD_BITS) ^ c1 ^ k0, (product0 >> WORD_BITS) ^ c3 ^ k1
        c1, c3 = product1 & WORD, product0 & WORD
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    w0, w1, w2, w3 = (np.asarray(word, np.uint32) for word in (c0, c1, c2, c3))
    return w0, w1, w2, w3


def symmetric(words: Words) -> NDArray[np.float32]:
    """Map the high 24 bits of each word to an odd multiple of 2^-24 between -1 and 1.

    The 2^24 values are evenly spaced and symmetric about 0; float32 holds each exactly.
    """
    odd = words.view(np.int32) >> 7 | 1
    return np.ldexp(odd.astype(np.float32), -24)


def rozen_next(r: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the random numbers that follow r, in [0, 1), with float32 rounding of each operation.

    Source: rozen2008, section 4.2: the fractional part of x = 1.000005 (r + sqrt(3))^5.
    """
    root = r + np.float32(math.sqrt(3))
    square = root * root
    x = np.float32(1.000005) * (square * square * root)
    fraction: NDArray[np.float32] = x - np.floor(x)
    return fraction


def pair_noise(
    i: Integers, j: Integers, step: int, seed: int, generator: str = "philox-10"
) -> Floats:
    """Return a number uniform from -1 to 1 for each pair of ids, the same for (i, j) and (j, i).

    i, j: ids, 0 to 2^32 - 1, of shapes that broadcast. step, seed: 0 to 2^64 - 1.
    generator: one of GENERATORS. Philox gives the odd multiples of 2^-24, whose mean is 0.
    Float32 holds each number exactly.
    """
    low, high = (np.asarray(ids, np.uint32) for ids in (np.minimum(i, j), np.maximum(i, j)))
    clock = tuple(word for number in (step, seed) for word in (number & 0xFFFFFFFF, number >> 32))
    return GENERATORS[generator](low, high, clock).astype(np.float64)


def _philox_noise(low: Words, high: Words, clock: tuple[int, ...], rounds: int) -> Any:
    c2, c3, k0, k1 = clock
    return symmetric(philox4x32(low, high, c2, c3, k0, k1, rounds)[0])


def _rozen_noise(low: Words, high: Words, clock: tuple[int, ...]) -> Any:
    factors = 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0x2C1B3C6D
    now = sum(word * factor for word, factor in zip(clock, factors, strict=True)) % 2**32
    pair = (low * np.uint32(0x9E3779B1)) ^ (high * np.uint32(0x85EBCA77))
    draw = np.ldexp(((pair + np.uint32(now)) >> np.uint32(8)).astype(np.float32), -24)
    for _ in range(4):
        draw = rozen_next(draw)
    return np.float32(2) * draw - np.float32(1)


# Generators by name: functions of lower and higher ids, and low and high words of step and seed.
GENERATORS: Mapping[str, Callable[[Words, Words, tuple[int, ...]], NDArray[np.float32]]] = {
    "philox-10": partial(_philox_noise, rounds=10),
    "philox-7": partial(_philox_noise, rounds=7),
    "rozen2008": _rozen_noise,
}
