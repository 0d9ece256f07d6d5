"""Joules and counters in a report, from synthetic records."""

from __future__ import annotations

from typing import Any

import pytest
from report_pages import ENVIRONMENT, record, run_of

from gpubench.report import study_charts, tables

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
    run = run_of(measured(10**6, 2 * 10**6, energy=ENERGY, counters=COUNTERS))
    [table] = tables.outcomes(run)
    assert {len(row.items) for row in table.rows} == {len(table.columns) - 1}
    head = table.columns.index("atomic-list") - 1
    found = {row.head: row.items[head].text for row in table.rows}
    assert found["J per 10⁶"] == "0.0500 (0.0480 to 0.0520), 400 W, idle 70.0"
    assert found["Least, MB"] == "24.0" and found["DRAM over least"] == "1.00"
    assert (found["DRAM, MB"], found["L2, MB"], found["Issue slots, %"]) == ("24.0", "90.0", "70.0")
    other = {row.head: row.items[1 - head].text for row in table.rows}
    assert other["Registers"] == other["J per 10⁶"] == "\N{EN DASH}"
    assert any("Nsight Compute" in note for note in table.notes)


def test_nothing_read_is_nothing_shown() -> None:
    run = run_of(measured(10**6, 2 * 10**6))
    assert tables.outcomes(run) == []
    assert [c.slug for c in study_charts.charts(run, "x") if c.slug.endswith("roofline")] == []


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
