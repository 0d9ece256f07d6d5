"""Made-up records of sorts."""

from __future__ import annotations

from typing import Any

from kinds import flat_fields
from report_pages import record

from gpubench import registry
from gpubench.evidence.records import make_record


def key_records(times: dict[str, Any], **axes: Any) -> list[dict[str, Any]]:
    """Make records of sorts: times in ms by size, by the name of the algorithm; made-up ones."""
    no_particles = ("particles", "per_cell", "cells", "periodic", "distribution", "order")
    usual = {"value_bytes": 4, "key_order": "uniform", "key_type": "uint32", "key_entropy": 1.0}
    made = []
    for algorithm, by_size in times.items():
        form = next(iter(registry.find_algorithm(algorithm).forms))
        for keys, median in by_size.items():
            made_up = record(
                algorithm, form, study="key-sort", median=median, bytes_moved=16 * keys
            )
            fields = flat_fields(made_up) | dict.fromkeys(no_particles)
            del fields["key"]
            made.append(make_record(**fields | usual | {"key_count": keys} | axes))
    return made
