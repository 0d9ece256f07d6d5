"""The data frame of measurements: one row each, ranked among equal work."""

from __future__ import annotations

import pytest
from report_pages import record, results

from gpubench import problems
from gpubench.base.errors import UserError
from gpubench.evidence.frame import frame, load
from gpubench.evidence.inputs import names
from gpubench.evidence.records import HEADER
from gpubench.evidence.results import Store


def test_a_row_has_its_time_rank_and_share_of_the_bound():
    table = frame(
        [
            results(
                [
                    record(median=1.0, width=0.0),
                    record("bucket-sort", "host-loop", median=3.0, width=0.0),
                    record("counting-sort", "order", status="failed", reason="lost"),
                ]
            )
        ]
    )
    linked = table[table.answer == "linked"].set_index("algorithm")
    assert linked["rank"].to_dict() == {"atomic-list": 1, "bucket-sort": 2}
    assert linked["over_best"].to_dict() == {"atomic-list": 1.0, "bucket-sort": 3.0}
    assert linked.loc["atomic-list", ["low_ms", "median_ms", "high_ms"]].tolist() == [1.0] * 3
    # 12 bytes a particle in 1 ms, where 4000 GB/s can be copied.
    assert linked.bound["atomic-list"] == pytest.approx(12 * 65536 / 1e6 / 4000)
    (failed,) = table[table.status == "failed"].itertuples()
    assert (failed.reason, failed.is_first) == ("lost", False)
    assert table[table.status == "failed"]["rank"].isna().all()


def test_the_results_that_come_along_are_loaded(shipped_frame):
    table = shipped_frame
    assert {"cuda", "opencl"} <= set(table.backend) and (table.status == "ok").sum() > 3000
    assert table.problem.notna().all()
    ranked = table[table["rank"].notna()]
    assert (ranked.low_ms <= ranked.median_ms).all() and (ranked.over_best >= 1).all()
    assert not (ranked.lost > 0).any() and (table.lost > 0).any()


def test_no_axis_can_be_named_as_what_results_have_beside_it(shipped_frame):
    beside = {*HEADER, *shipped_frame.columns, "cells", "kind"} - {*names()}
    assert beside <= problems.RESERVED


def test_nothing_measured_is_an_empty_frame():
    assert frame([]).empty


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UserError, match="no results of studies in"):
        load(tmp_path)
    Store(tmp_path / "one.json", results([]).environment).add([record()])
    (tmp_path / "other.json").write_text('{"of another tool": NaN}')
    assert len(load(tmp_path)) == 1
    with pytest.raises(UserError, match=r"other\.json"):
        load(tmp_path / "other.json")


@pytest.mark.parametrize("path", [3, None, b"x", ["results"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(UserError, match="load takes a path, not "):
        load(path)
