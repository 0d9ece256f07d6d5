"""Keys to sort: seeded, from several distributions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.errors import UserError

MAX_KEYS = 2**28
VALUE_BYTES = (0, 4)
FEW = 16  # distinct keys
KEY_ORDERS = ("uniform", "sorted", "reversed", "few-distinct")


@dataclass(frozen=True, eq=False)
class KeySet:
    """Keys to be sorted.

    keys: uint32, shape (n,). values: int32, shape (n,), not negative; or None.
    """

    keys: NDArray[np.uint32]
    values: NDArray[np.int32] | None
    seed: int | None = None

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these keys takes."""
        return {"keys": len(self.keys), "value_bytes": 0 if self.values is None else 4}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over keys and values, first 16 hex digits."""
        digest = hashlib.sha256(self.keys.data)
        if self.values is not None:
            digest.update(b"values")
            digest.update(self.values.data)
        return digest.hexdigest()[:16]


def make_keys(keys: int, value_bytes: int = 4, key_order: str = "uniform", seed: int = 0) -> KeySet:
    """Draw keys over all 32 bits, in an order; values are drawn too, so that they show a swap.

    Orders: `uniform`, independent; `sorted` and `reversed`, the same keys, in rising or falling
    order; `few-distinct`, independent, of 16 keys. Raises UserError for what does not exist.
    """
    check_keys(keys, value_bytes, key_order)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 2**32, keys, np.uint32)
    if key_order == "few-distinct":
        drawn = rng.integers(0, 2**32, FEW, np.uint32)[rng.integers(0, FEW, keys)]
    elif key_order != "uniform":
        drawn.sort()
    if key_order == "reversed":
        drawn = drawn[::-1].copy()
    values = rng.integers(0, 2**31, keys, np.int32) if value_bytes else None
    return KeySet(drawn, values, seed)


def check_keys(keys: int, value_bytes: int, key_order: str) -> None:
    """Raise UserError for a size, a value or an order of keys that does not exist."""
    if not 0 <= keys <= MAX_KEYS:
        raise UserError(f"0 to {MAX_KEYS} keys can be sorted, not {keys}")
    if value_bytes not in VALUE_BYTES:
        raise UserError(f"a key has a value of 0 or 4 bytes, not {value_bytes}")
    if key_order not in KEY_ORDERS:
        raise UserError(f"no order of keys {key_order!r}: one of {', '.join(KEY_ORDERS)}")
