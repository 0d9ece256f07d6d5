"""Keys that an algorithm sorts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gpubench.problems.key_sort.axes import KEY_ORDERS
from gpubench.problems.key_sort.inputs import KeySet, make_keys

MOST_BITS = {"counting-key-sort": 9}


def keys_for(cls: Any, form: str, size: int, order: str = "uniform", seed: int = 0) -> KeySet:
    """Draw pairs as an algorithm takes them: of few bits, in segments, or neither."""
    key_type = "uint32" if "uint32" in cls.key_types else cls.key_types[0]
    resorts = cls.name == "key-resort"
    return make_keys(
        size,
        4,
        "nearly-sorted" if resorts else order,
        seed,
        key_type=key_type,
        moved=0.2 if resorts else None,
        bits=MOST_BITS.get(cls.name),
        segment_keys=20 if form in cls.segment_forms else None,
    )


def any_keys(cls: Any, form: str) -> st.SearchStrategy[KeySet]:
    """Return a strategy of everything that an algorithm sorts in a form."""
    sizes, seeds = st.integers(1, 5000), st.integers(0, 2**32)
    given: dict[str, Any] = {"bits": st.just(MOST_BITS.get(cls.name))}
    if form in cls.segment_forms:
        given["segment_keys"] = st.integers(1, 50)
    nearly = st.builds(
        make_keys, sizes, st.sampled_from(cls.widths), st.just("nearly-sorted"), seeds,
        moved=st.floats(0, 1), **given,
    )  # fmt: skip
    if cls.name == "key-resort":
        return nearly
    others = [order for order in KEY_ORDERS if order != "nearly-sorted"]
    types = [each for each in cls.key_types if cls.name not in MOST_BITS or each[0] == "u"]
    return nearly | st.builds(
        make_keys, sizes, st.sampled_from(cls.widths), st.sampled_from(others), seeds,
        key_type=st.sampled_from(types), **given,
    )  # fmt: skip
