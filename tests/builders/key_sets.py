"""Keys that an algorithm sorts, and made-up records of sorts."""

from __future__ import annotations

from typing import Any

from report_pages import record

from gpubench.core import registry
from gpubench.evidence.records import make_record
from gpubench.inputs import KeySet, make_keys


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


def key_records(times: dict[str, Any], **axes: Any) -> list[dict[str, Any]]:
    """Make records of sorts: times in ms by size, by the name of the algorithm; made-up ones."""
    no_particles = ("particles", "per_cell", "cells", "periodic", "distribution", "order")
    usual = {"value_bytes": 4, "key_order": "uniform", "key_type": "uint32", "key_entropy": 1.0}
    made = []
    for algorithm, by_size in times.items():
        form = next(iter(registry.find_algorithm(algorithm).forms))
        for keys, median in by_size.items():
            fields = record(algorithm, form, study="key-sort", median=median, bytes_moved=16 * keys)
            fields |= dict.fromkeys(no_particles)
            del fields["key"]
            made.append(make_record(**fields | usual | {"key_count": keys} | axes))
    return made
