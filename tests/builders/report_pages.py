"""Results with made-up times, and the pages that a report makes of them."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from kinds import of_kind

from gpubench import report
from gpubench.evidence.records import make_record, record_of
from gpubench.evidence.results import Results
from gpubench.report.machines import StudyRun, machines
from gpubench.report.sources import Sources

STUDY = "rozen2008-table1"


SIZES = (65536, 131072, 262144, 524288, 1048576)


OCCUPANCIES = (1, 2, 4, 8, 16)


OF_STEPS = ("steps", "phases_ms", "outcome", "input_hash")  # what only a record with times has


# Clearly synthetic: a device that does not exist, and times by a formula.
ENVIRONMENT: dict[str, Any] = {
    "machine": "synthetic-gpu",
    "device": {
        "backend": "cuda",
        "name": "Synthetic GPU",
        "is_cpu": False,
        "driver": "0.0",
        "memory_bytes": 10**11,
    },
    "host": {"cpu": "Synthetic CPU", "cores": 2, "memory_bytes": 8 * 10**9, "os": "none"},
    "libraries": {"numpy": "0", "pycuda": None},
    "commit": "0123456789abcdef",
    "dirty": False,
    "code_hash": "feedbeef",
    "copy_bandwidth_gb_s": 4000.0,
    "overhead_ms": {"cold": 0.002, "hot": 0.002},
    "started": "2000-01-02T03:04:05+00:00",
}


FACTORS = {
    ("bucket-sort", "host-loop"): 30.0,
    ("bucket-sort", "device-loop"): 6.0,
    ("bucket-sort-partial", "host-loop"): 24.0,
    ("atomic-list", "one-pass"): 1.0,
    ("counting-sort", "order"): 1.9,
    ("counting-sort", "reorder"): 2.5,
    ("radix-grid", "order"): 2.48,
    ("radix-grid", "reorder"): 3.4,
    ("bitonic-search", "order"): 11.0,
}


def record(
    algorithm: str = "atomic-list",
    form: str = "one-pass",
    particles: int = 65536,
    per_cell: float = 4,
    *,
    median: float = 1.0,
    width: float = 0.01,
    **changes: Any,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "study": STUDY,
        "sweep": "table",
        "algorithm": algorithm,
        "form": form,
        "device": "cuda",
        "particles": particles,
        "per_cell": per_cell,
        "cells": [1, 1, round(particles / per_cell)],
        "periodic": [False, False, False],
        "distribution": "uniform",
        "order": "random",
        "mode": "hot",
        "status": "ok",
        "bytes_moved": 12 * particles,
        "workspace_bytes": 8 * particles,
        "seed": 7,
    } | changes
    if fields["status"] == "ok":
        fields |= {
            "batch": 4,
            "samples_ms": [median * (1 - width), median, median * (1 + width)],
            "median_ms": median,
            "ci95_low_ms": median * (1 - width),
            "ci95_high_ms": median * (1 + width),
        }
    return make_record(**of_kind(fields))


def step_record(median: float, **fields: Any) -> dict[str, Any]:
    """Make a record of steps of a workload on a GPU: its times, where its status is ok."""
    about = {"device": "cuda", "status": "ok", "seed": 7} | fields
    if about["status"] == "ok":
        about |= {
            "batch": 20,
            "samples_ms": [median],
            "median_ms": median,
            "ci95_low_ms": 0.99 * median,
            "ci95_high_ms": 1.01 * median,
            "particle_steps_per_s": 1e3 * fields["particles"] / median,
        }
    else:
        about = {name: about[name] for name in about if name not in OF_STEPS}
    return make_record(**about)


def skipped(reason: str, **changes: Any) -> dict[str, Any]:
    return record(status="skipped", reason=reason, **changes)


def results(records: list[dict[str, Any]], name: str = "synthetic.json", **changes: Any) -> Results:
    return Results(ENVIRONMENT | changes, list(map(record_of, records)), Path("/nowhere") / name)


def synthetic_time(algorithm: str, form: str, particles: int, per_cell: float) -> float:
    growth = per_cell**0.6 if "bucket" in algorithm else per_cell**-0.05
    return FACTORS[algorithm, form] * growth * (0.004 + particles / 5e7)


def full_records() -> list[dict[str, Any]]:
    """Make what a run of the whole study on a GPU would leave."""
    records = []
    order_factor = {"random": 1.0, "nearly-sorted": 0.6, "morton": 0.55, "cell": 0.5}
    places = [(n, p, "random") for n in SIZES for p in OCCUPANCIES]
    places += [(n, p, "random") for n in (2**22, 2**24) for p in (1, 4, 16)]
    places += [(2**20, 4, order) for order in order_factor if order != "random"]
    for particles, per_cell, order in places:
        for algorithm, form in FACTORS:
            time = synthetic_time(algorithm, form, particles, per_cell) * order_factor[order]
            rounds = round(math.log2(particles) / 4 + 2 * per_cell)
            for mode, factor in (("hot", 1.2), ("cold", 1.7), ("graph", 1.0)):
                about: dict[str, Any] = {"mode": mode, "order": order}
                if form == "host-loop" and mode == "graph":
                    about |= {
                        "status": "skipped",
                        "reason": "the host reads back in the middle, which no CUDA graph can hold",
                    }
                if algorithm == "bitonic-search" and particles > 2**22:
                    about |= {"status": "skipped", "reason": "more memory than the device has"}
                if "bucket" in algorithm:
                    about["outcome"] = {"rounds": rounds}
                records.append(
                    record(algorithm, form, particles, per_cell, median=time * factor, **about)
                )
    return records


def cpu_results() -> Results:
    """Make what a quick run on a CPU would leave, with one wrong answer and one failure."""
    records = []
    for particles in (65536, 262144):
        for per_cell in OCCUPANCIES:
            for algorithm, form in FACTORS:
                if form == "device-loop":
                    about = {"status": "skipped", "reason": "needs CUDA: run with --device cuda"}
                elif algorithm == "bitonic-search" and per_cell == 16:
                    about = {"status": "wrong", "reason": "3 pairs of (cell, particle) are missing"}
                else:
                    about = {}
                time = 40 * synthetic_time(algorithm, form, particles, per_cell)
                records.append(
                    record(
                        algorithm, form, particles, per_cell, median=time, device="opencl", **about
                    )
                )
    device = {"backend": "opencl", "name": "Synthetic CPU", "is_cpu": True}
    return results(
        records, "cpu.json", machine="synthetic-cpu", device=device, copy_bandwidth_gb_s=20.0
    )


class Page(HTMLParser):
    """The tags, the text and the tables of a page: by label, rows of texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._label: str | None = None
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "table":
            self._label = found["aria-label"] or ""
            self.tables[self._label] = []
        elif self._label is not None and tag == "tr":
            self.tables[self._label].append([])
        elif self._label is not None and tag in ("td", "th"):
            self.tables[self._label][-1].append("")
            self._open = True
        elif self._open and tag == "small":
            self.tables[self._label or ""][-1][-1] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._label = None
        elif tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._label is not None:
            self.tables[self._label][-1][-1] += data

    def attributes(self, *names: str) -> list[str]:
        return [v for _, found in self.tags for name, v in found.items() if v and name in names]


def write_page(shown: list[Results], out: Path) -> Page:
    report.write(Sources(shown), out)
    return read_pages(out)


def read_pages(out: Path) -> Page:
    """Read the front page and the pages of studies as if they were one."""
    return Page("".join(path.read_text("utf-8") for path in sorted(out.glob("*.html"))))


def run_of(records: list[dict[str, Any]]) -> StudyRun:
    [machine] = machines([results(records)])
    [study] = machine.studies
    return study


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Parse the pipe tables of Markdown."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            row = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            found[-1].append([part.strip() for part in row])
        inside = line.startswith("|")
    return found
