"""What the report of before the rules of evidence showed, beside what it shows now.

The files in `golden` are tables of the report at 8f1575c. They may differ from what is shown now
in what the rules ask for: times of several timings are pooled, and intervals are widened.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gpubench.evidence.frame import AXES

TABLES = sorted(Path(__file__).with_name("golden").glob("*.csv"))


@pytest.fixture(scope="module")
def measured(shipped_frame):
    found = shipped_frame[shipped_frame.machine == "nvidia-h200"]
    return found.assign(parameters=found.parameters.map(lambda p: json.dumps(p, sort_keys=True)))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_shown_time_is_still_shown(path, measured):
    golden = pd.read_csv(path, dtype={"parameters": str})
    golden["parameters"] = golden.parameters.map(
        lambda p: json.dumps(json.loads(p), sort_keys=True)
    )
    axes = [name for name in (*AXES, "algorithm", "form", "parameters", "mode") if name in golden]
    ours = measured[measured.study == path.stem]
    for was in golden.itertuples():
        rows = ours
        for axis in axes:
            value = getattr(was, axis)
            same = rows[axis].isna() if pd.isna(value) else rows[axis] == value
            rows = rows[same.fillna(False)]
        assert len(rows) >= 1, was
        assert any(agrees(was, now) for now in rows.itertuples()), (was, rows)


def agrees(was, now) -> bool:
    """Say whether a time is the one that was shown, or pools it with other timings."""
    if now.timings == 1:
        is_wider = (
            now.low_ms
            <= was.ci95_low_ms * (1 + 1e-9)
            <= was.ci95_high_ms
            <= now.high_ms * (1 + 1e-9)
        )
        return now.median_ms == pytest.approx(was.median_ms, rel=1e-9) and is_wider
    return now.median_ms == pytest.approx(was.median_ms, rel=0.2)


def test_there_are_tables_to_compare():
    assert len(TABLES) == 4
