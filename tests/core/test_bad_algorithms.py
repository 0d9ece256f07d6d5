"""What an algorithm from outside does wrong costs its own measurement, and nothing else."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_algorithms import ALGORITHMS, ENVIRONMENT, RightSort
from fakes import FakeDevice

from gpubench import registry
from gpubench.base import plugins
from gpubench.base.errors import NotSupported, UserError
from gpubench.evidence import results
from gpubench.measure.sampling import Budget
from gpubench.problems.particles.axes import Particles
from gpubench.studies import runner
from gpubench.studies.study import parse_study

BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)
STUDY = """
title = "A study"
question = "Which?"
seed = 7
[[sweeps]]
name = "table"
particles = [64, 128]
per_cell = [4]
modes = ["hot"]
[[subjects]]
algorithm = "bad-sort"
form = "plain"
[[subjects]]
algorithm = "right-sort"
form = "plain"
"""


@pytest.fixture
def measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """Measure a study with an algorithm whose members are those given; return all its records."""

    def measure(**members: Any) -> list[dict[str, Any]]:
        bad = type("BadSort", (RightSort,), {"name": "bad-sort", **members})
        monkeypatch.setattr(registry, "algorithms", lambda: {**ALGORITHMS, "bad-sort": bad})
        monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
        summary = runner.run(parse_study("s", STUDY), FakeDevice(), tmp_path, budget=BUDGET)
        return results.load(summary.path).records

    return measure


def reason_of(records: list[dict[str, Any]], status: str = "failed") -> str:
    """Return why both measurements of the bad one failed; those of the other must be there."""
    found = {(r.algorithm, r.status): r.reason for r in records}
    assert len(records) == 4
    assert found.keys() == {("bad-sort", status), ("right-sort", "ok")}
    reason: str = found["bad-sort", status]
    return reason


def leaves(*_: Any, **__: Any) -> Any:
    sys.exit(3)


def leaves_late(self: RightSort) -> None:
    """End the program in the third launch, which is timed."""
    if self.runs >= 2:
        sys.exit("enough")
    RightSort.launch(self)


METHODS = ("__init__", "load", "launch", "download", "traffic_bytes", "outcome", "peak_bytes")
LEAVING: dict[str, Any] = {
    **dict.fromkeys(METHODS, leaves),
    **{name: property(leaves) for name in ("answer", "no_graph", "library")},
}


@pytest.mark.parametrize("member", LEAVING)
def test_one_that_ends_the_program_fails(
    measured: Callable[..., list[dict[str, Any]]], member: str
) -> None:
    assert reason_of(measured(**{member: LEAVING[member]})) == "SystemExit: 3"


def test_one_that_ends_the_program_while_it_is_timed_fails(
    measured: Callable[..., list[dict[str, Any]]],
) -> None:
    assert reason_of(measured(launch=leaves_late)) == "SystemExit: enough"


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("traffic_bytes", math.nan, "TypeError: traffic_bytes must be a whole number, not nan"),
        ("traffic_bytes", math.inf, "TypeError: traffic_bytes must be a whole number, not inf"),
        ("traffic_bytes", "12", "TypeError: traffic_bytes must be a whole number, not '12'"),
        ("traffic_bytes", -1, f"ValueError: traffic_bytes must be 0 to {2**63 - 1}, not -1"),
        ("traffic_bytes", 2**63, f"must be 0 to {2**63 - 1}, not {2**63}"),
        ("peak_bytes", 1.5, "TypeError: peak_bytes must be a whole number, not 1.5"),
        ("outcome", {"rounds": math.nan}, "'rounds' must be a finite number or a text, not nan"),
        ("outcome", {"rounds": [1]}, "'rounds' must be a finite number or a text, not [1]"),
        ("outcome", {"rounds": 2**70}, "'rounds' must be a finite number or a text"),
        ("outcome", {3: 4}, "TypeError: outcome must be values by their names, not {3: 4}"),
        ("outcome", None, "TypeError: outcome must be values by their names, not None"),
        ("library", 3, "TypeError: library must be a text or None, not 3"),
        ("no_graph", 3, "TypeError: no_graph must be a text or None, not 3"),
        ("launches", 0, "ValueError: launches must be at least 1"),
        ("launches", math.nan, "TypeError: launches must be a whole number, not nan"),
    ],
)
def test_one_that_says_what_no_record_holds_fails(
    measured: Callable[..., list[dict[str, Any]]], member: str, value: Any, says: str
) -> None:
    is_method = member in ("traffic_bytes", "peak_bytes", "outcome")
    assert says in reason_of(measured(**{member: (lambda self: value) if is_method else value}))


def test_plain_values_of_numpy_are_kept(measured: Callable[..., list[dict[str, Any]]]) -> None:
    records = measured(
        traffic_bytes=lambda self: np.int64(12),
        outcome=lambda self: {"rounds": np.float32(1.5), "why": "\udc80\0"},
    )
    bad = records[0]
    assert (bad.algorithm, bad.status, bad.bytes_moved) == ("bad-sort", "ok", 12)
    assert bad.outcome == {"rounds": 1.5, "why": "\\udc80\\x00"}


@pytest.mark.parametrize(
    ("raised", "status", "says"),
    [
        (NotSupported(""), "skipped", "NotSupported"),
        (ValueError("no \udc80"), "failed", "ValueError: no \\udc80"),
        (MemoryError(), "failed", "MemoryError"),
    ],
)
def test_a_reason_is_a_line_that_a_file_takes(
    measured: Callable[..., list[dict[str, Any]]], raised: Exception, status: str, says: str
) -> None:
    def load(self: Any, inputs: Any) -> None:
        raise raised

    assert reason_of(measured(load=load), status) == says


def test_an_input_that_memory_cannot_hold_costs_itself(
    measured: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Particles.make

    def make_small(recipe: Particles, seed: int) -> Any:
        if recipe.particles == 64:
            raise MemoryError("Unable to allocate 64 GiB")
        return make(recipe, seed)

    monkeypatch.setattr(Particles, "make", make_small)
    records = measured()
    assert [(r.at("particles"), r.status) for r in records] == [
        (64, "failed"), (64, "failed"), (128, "ok"), (128, "ok"),
    ]  # fmt: skip
    assert records[0].reason == "MemoryError: Unable to allocate 64 GiB"


def test_a_module_that_ends_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving_module.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path / "leaving_module.py"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    plugins.additions.cache_clear()
    try:
        with pytest.raises(UserError, match=r"leaving_module\.py ends the program when it is"):
            plugins.additions()
    finally:
        plugins.additions.cache_clear()
