"""The work of a report grows with the number of inputs, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import searches
from report_pages import record, results

from gpubench.report import document, search_pages, spreadsheets
from gpubench.report.machines import machines
from gpubench.report.sources import Sources

Records = list[dict[str, Any]]
TWO = ("counting-sort", "radix-grid")


def sorts(count: int) -> Records:
    """Return a study of which each input has a size and an occupancy of its own."""
    return [
        record(name, "order", 1024 + 64 * i, 1 + i / 1000, study="a-study", order=order)
        for i in range(count)
        for name in TWO
        for order in ("random", "cell")[: 1 + (i < 3)]
    ]


def steps(count: int) -> Records:
    """Return steps of a simulation at many sizes."""
    times = {"phases_ms": {"sort": 0.4, "force": 0.6}, "particle_steps_per_s": 1e9, "steps": 2}
    place = {"workload": "dpd-standard", "skin": 0.0, "time_step": 0.04}
    return [
        record(name, "order", 1024 + 64 * i, study="dpd-step", **place, **times)
        for i in range(count)
        for name in TWO
    ]


def regimes(count: int) -> Records:
    """Return searches of which one is timed at the smaller half of the sizes alone."""
    return [
        searches.record(name, 1.0 + i, 1024 + 64 * i, 4.0)
        for i in range(count)
        for name in ("search-counting-sort", "vesin", "brute-force")[: 3 if i < count / 2 else 2]
    ]


def lines_run(make: Callable[[int], Records], count: int) -> int:
    """Return how many lines of the package run to work out a report, figures not drawn."""
    found = machines([results(make(count))])
    stems = document.stems(found)
    lines = 0

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        return on_line if "/gpubench/report/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        spreadsheets.files(found, stems)
        document.build(found, stems, Sources())
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize(
    "make", [*(pytest.param(make, marks=pytest.mark.long) for make in (sorts, steps)), regimes]
)
def test_twice_the_inputs_take_twice_the_work(make, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (document, search_pages):
        monkeypatch.setattr(module, "draw_all", lambda charts: [])
    small, large = (lines_run(make, count) for count in (40, 80))
    assert large < 2.4 * small
