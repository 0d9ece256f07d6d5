"""What the page of a study of sorts says."""

from __future__ import annotations

from key_records import key_records
from report_pages import run_of

from gpubench.report import study_charts, verdict
from gpubench.report.scans import scans

# Made up: the second is twice as fast from the third size on.
CROSSING = {
    "bitonic-sort": {1024: 0.01, 4096: 0.04, 16384: 0.16, 65536: 0.64},
    "radix-sort": {1024: 0.04, 4096: 0.08, 16384: 0.16 / 2, 65536: 0.32},
}


def test_a_page_of_sorts_goes_along_each_axis_that_varies() -> None:
    records = [
        *key_records(CROSSING),
        *key_records(CROSSING, value_bytes=16),
        *[
            each
            for moved in (0.01, 0.5)
            for each in key_records(
                {"radix-sort": {1024: 0.1}}, key_order="nearly-sorted", keys_moved=moved
            )
        ],
    ]
    found = scans(run_of(records))
    assert [(scan.axis, scan.title) for scan in found[:2]] == [
        ("key_count", ""),
        ("key_count", "values of 16 bytes"),
    ]
    assert [scan.axis for scan in found[2:]] == ["value_bytes"] * 4 + ["keys_moved"]
    assert list(found[-1].columns) == [0.01, 0.5]


def test_where_a_sort_overtakes_another_is_said_with_its_interval() -> None:
    table = verdict.overtakings(run_of(key_records(CROSSING)))
    [row] = table.rows
    assert [item.text for item in row.items][:3] == [
        "bitonic-sort", "radix-sort", "8,192 keys",
    ]  # fmt: skip
    assert not verdict.overtakings(run_of(key_records({"radix-sort": CROSSING["radix-sort"]}))).rows


def test_orders_of_keys_are_drawn() -> None:
    records = [*key_records(CROSSING), *key_records(CROSSING, key_order="sorted")]
    charts = {chart.slug: chart for chart in study_charts.charts(run_of(records), "s")}
    assert len(charts["s-key-order"].panels) == 4
