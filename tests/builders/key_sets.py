"""Keys that an algorithm sorts."""

from __future__ import annotations

from typing import Any

from gpubench.problems.key_sort.inputs import KeySet, make_keys


def keys_for(cls: Any, size: int, order: str = "uniform", seed: int = 0) -> KeySet:
    """Draw pairs as an algorithm takes them: of few bits, in segments, or neither."""
    only_segments = set(cls.segment_forms) == set(cls.forms)
    key_type = "uint32" if "uint32" in cls.key_types else cls.key_types[0]
    resorts = cls.name == "key-resort"
    return make_keys(
        size,
        4,
        "nearly-sorted" if resorts else order,
        seed,
        key_type=key_type,
        moved=0.2 if resorts else None,
        bits=9 if cls.name == "counting-key-sort" else None,
        segment_keys=20 if only_segments else None,
    )
