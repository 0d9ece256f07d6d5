"""Joules and counters in a report, from synthetic records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_pages import ENVIRONMENT, read_pages, record, results, run_of

from gpubench import report
from gpubench.report import formats, study_charts, tables
from gpubench.report.sources import Sources

ENERGY = {"joules_per_million": 0.05, "low": 0.048, "high": 0.052, "watts": 400.0,
          "idle_watts": 70.0, "update_s": 0.1, "loop_s": 2.0}  # fmt: skip
COUNTERS = {"kernels": 3, "kernel_ns": 9e5, "dram_bytes": 24e6, "l2_bytes": 90e6,
            "l1_wavefronts": 2e6, "instructions": 48e6, "issue_percent": 70.0,
            "occupancy_percent": 80.5, "registers": 40}  # fmt: skip


def measured(*sizes: int, **read: Any) -> list[dict[str, Any]]:
    return [
        record(algorithm, "one-pass", particles, median=0.5, clocks_sm_mhz=[1900, 1980], **own)
        for particles in sizes
        for algorithm, own in (("atomic-list", read), ("fixed-capacity", {}))
    ]


def test_a_table_has_joules_and_counters_beside_the_least_bytes() -> None:
    """Where they were read, which need not be at the largest input."""
    run = run_of(measured(10**6, energy=ENERGY, counters=COUNTERS) + measured(2 * 10**6))
    table = tables.hardware(run)
    [row] = table.rows
    assert row.head.startswith("atomic-list, ") and "1,000,000" in row.head
    found = dict(zip(table.columns[1:], (item.text for item in row.items), strict=True))
    assert found["J per 10⁶"] == "0.0500 (0.0480 to 0.0520), 400 W, idle 70.0"
    assert found["Least, MB"] == "12.0" and found["DRAM over least"] == "2.00"
    assert (found["DRAM, MB"], found["L2, MB"], found["Issue slots, %"]) == ("24.0", "90.0", "70.0")
    assert any("Nsight Compute" in note for note in table.notes)


def test_what_was_not_read_has_a_dash() -> None:
    joules, counted = measured(10**6, energy=ENERGY), measured(2 * 10**6, counters=COUNTERS)
    table = tables.hardware(run_of(joules + counted))
    found = {
        row.head.rpartition(", ")[2]: [item.text == formats.DASH for item in row.items]
        for row in table.rows
    }
    assert len(found) == 2
    assert all(sum(gone) == 1 for gone in zip(*found.values(), strict=True))


def test_nothing_read_is_nothing_shown() -> None:
    run = run_of(measured(10**6, 2 * 10**6))
    assert tables.hardware(run).rows == []
    assert [c.slug for c in study_charts.charts(run, "x") if c.slug.endswith("roofline")] == []


def test_pages_show_it(tmp_path: Path) -> None:
    every = measured(10**6, energy=ENERGY) + measured(2 * 10**6)
    report.write(Sources([results(every)]), tmp_path)
    assert "What the hardware did" in read_pages(tmp_path).tables


def test_a_roofline_has_the_limits_of_the_gpu_and_a_point_of_each_algorithm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENVIRONMENT["device"], "multiprocessors", 132)
    run = run_of(measured(10**6, 2 * 10**6, counters=COUNTERS))
    (chart,) = [c for c in study_charts.charts(run, "x") if c.slug == "x-roofline"]
    roof, point = chart.panels[0].lines  # type: ignore[union-attr]
    peak = 4 * 132 * 1.98  # 10^9 warp instructions per second
    assert [tuple(p[:2]) for p in point.points] == [(2, 96)]  # type: ignore[union-attr]
    bandwidth = ENVIRONMENT["copy_bandwidth_gb_s"]
    ridge = peak / bandwidth
    assert [p.x for p in roof.points] == pytest.approx([ridge, 1, 4])  # type: ignore[union-attr]
    assert [p.y for p in roof.points] == pytest.approx([peak] * 3)  # type: ignore[union-attr]
    monkeypatch.delitem(ENVIRONMENT["device"], "multiprocessors")
    (chart,) = [c for c in study_charts.charts(run, "x") if c.slug == "x-roofline"]
    roof = chart.panels[0].lines[0]  # type: ignore[union-attr]
    assert [p.y for p in roof.points] == pytest.approx([bandwidth, 4 * bandwidth])  # type: ignore[union-attr]
