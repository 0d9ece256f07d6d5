"""Random numbers of pairs of particles in NumPy, bit for bit those of kernels/common/noise.h.

Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a bijection
of a counter under a key: a pair's number at a step needs no state, and either side can draw it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]

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
    """Return the four words that Philox4x32 makes of a counter of four, under a key of two.

    Counters and keys are 32-bit words, of any shapes that broadcast.
    """
    # Words are held in 64 bits, where their products fit.
    c0, c1, c2, c3, k0, k1 = (np.asarray(word, np.uint64) for word in (c0, c1, c2, c3, k0, k1))
    for _ in range(rounds):
        product0, product1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c2 = (product1 >> WORD_BITS) ^ c1 ^ k0, (product0 >> WORD_BITS) ^ c3 ^ k1
        c1, c3 = product1 & WORD, product0 & WORD
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    w0, w1, w2, w3 = (np.asarray(word, np.uint32) for word in (c0, c1, c2, c3))
    return w0, w1, w2, w3


def pair_noise(
    i: NDArray[np.integer[Any]], j: NDArray[np.integer[Any]], step: int, seed: int
) -> NDArray[np.float64]:
    """Return a number uniform in (-1, 1) for each pair of ids, the same for (i, j) and (j, i).

    i, j: ids, 0 to 2^32 - 1, of shapes that broadcast. step, seed: 0 to 2^64 - 1.
    The numbers are the odd multiples of 2^-24: float32 holds them, and their mean is 0.
    """
    word, *_ = philox4x32(
        np.minimum(i, j), np.maximum(i, j), step & 0xFFFFFFFF, step >> 32, seed & 0xFFFFFFFF,
        seed >> 32,
    )  # fmt: skip
    odd = word.view(np.int32) >> 7 | 1
    return odd.astype(np.float64) * 2.0**-24
