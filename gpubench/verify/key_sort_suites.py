"""The inputs of the conformance suite of key sorts."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpubench.inputs.keys import KEY_ORDERS, KeySet, make_keys
from gpubench.verify.case import Case


def _extremes() -> KeySet:
    """Return the least and the largest keys, and those about the sign bit, several times."""
    keys = np.tile(np.array([2**32 - 1, 2**31, 0, 2**31 - 1, 1], np.uint32), 301)
    return KeySet(keys, np.arange(len(keys), dtype=np.int32))


def keys() -> list[Case]:
    """Return keys of every order, about the sizes of blocks and tiles, alone and with values."""
    sizes = (1, 2, 31, 33, 511, 513, 1023, 1024, 1025, 2049, 5000)
    return [
        Case("extreme keys", _extremes),
        *(
            Case(
                f"{size} keys, {order}, values of {width} bytes",
                partial(make_keys, size, width, order, size),
            )
            for size in sizes
            for order in (KEY_ORDERS if size in (1025, 5000) else ("uniform", "few-distinct"))
            for width in (4, 0)
        ),
    ]
