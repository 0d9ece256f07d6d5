"""What the report of before the rules of evidence showed, beside what it shows now.

The files in `golden` are tables of the report at 8f1575c. They may differ from what is shown now
in what the rules ask for: times of several timings are pooled, intervals are widened, and times by
newer code take the place of those by older code.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gpubench.evidence.inputs import names

FROZEN = "2026-11-21"  # when they were measured, at the latest
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
    axes = [
        name for name in (*names(), "algorithm", "form", "parameters", "mode") if name in golden
    ]
    ours = measured[measured.study == path.stem]
    places = {}
    for now in ours.itertuples():
        places.setdefault(place(now, axes), []).append(now)
    for was in golden.itertuples():
        assert any(agrees(was, now) for now in places[place(was, axes)]), was


def place(row, axes):
    return tuple(None if pd.isna(value := getattr(row, axis)) else value for axis in axes)


def agrees(was, now) -> bool:
    """Say whether a time is the one that was shown, pools it with others, or was measured anew.

    Launches that the host waits for take up to a quarter longer on another host.
    """
    if now.date > FROZEN:
        return now.median_ms == pytest.approx(was.median_ms, rel=0.3)
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
