"""The model of several GPUs: what it is fitted to, what it says, and where none is drawn."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from fluid_steps import step
from hypothesis import given
from hypothesis import strategies as st
from regime_records import remade
from report_pages import run_of

from gpubench.core.version import version_of
from gpubench.report import scaling
from gpubench.report.scaling import GPUS, Step, fit

STEPS = [Step(gpus, 2.0**n) for gpus, n in product((1, 2, 4), (20, 22, 24, 26))]
RIGHT = [0.02, 0.05, 0.25, 0.6]  # ms, ms, ns a particle, ns a particle of an edge


def times(constants: list[float]) -> dict[Step, float]:
    return {step: step.modelled(constants) for step in STEPS}


def records(noise: float = 0.0, mode: str = "graph", gpus: Any = (1, 2, 4), is_new: bool = True):
    """Steps on one GPU and in slabs on several, by a model, every other one slower by `noise`."""
    each = [at for at in STEPS if at.gpus in gpus]
    for number, at in enumerate(each):
        ms = at.modelled(RIGHT) * (1 + noise * (number % 2))
        shares = at.gpus if at.gpus > 1 else None
        made = step(
            particles=int(at.particles), shares=shares, decomposition=shares and "slab", mode=mode
        )
        timed = remade(made, median_ms=ms, ci95_low_ms=0.99 * ms, ci95_high_ms=1.01 * ms)
        version = version_of(timed.algorithm, timed.input.workload, timed.device, shares)
        yield remade(timed, version=version if is_new else "1.0")


@given(st.lists(st.floats(0.01, 10), min_size=4, max_size=4))
def test_a_fit_finds_the_constants(constants):
    assert fit(times(constants)) == pytest.approx(constants, rel=1e-6)


def test_a_step_by_hand():
    assert Step(1, 1e6).modelled([1, 2, 3, 4]) == pytest.approx(1 + 3)
    assert Step(2, 1e6).modelled([1, 2, 3, 4]) == pytest.approx(1 + 2 + 3 / 2 + 4 * 0.01)
    assert Step(8, 1e6).modelled([1, 2, 3, 4]) == pytest.approx(1 + 2 + 3 / 8 + 4 * 0.02)


@pytest.mark.parametrize("kept", [STEPS[:7], [s for s in STEPS if s.gpus < 4]], ids=["few", "two"])
def test_there_is_no_fit_to_few_times_or_numbers_of_gpus(kept):
    assert fit(dict.fromkeys(kept, 1.0)) == []


def test_a_chart_has_the_measured_and_the_modelled_series():
    [chart] = scaling.charts(run_of(records(0.02)), "s")
    [panel] = chart.panels
    assert [line.label for line in panel.lines] == [
        f"{size}, {what}"
        for size in ("2²⁴", "2²⁶", "2²² a GPU", "2²⁴ a GPU")
        for what in ("measured", "model")
    ]
    weak, model = panel.lines[4:6]
    assert [(p.x, p.y) for p in weak.points] == [
        (gpus, pytest.approx(Step(gpus, gpus * 2**22).modelled(RIGHT), rel=0.021))
        for gpus in (1, 4)
    ]
    assert [point.x for point in model.points] == [*GPUS] and not model.marked
    assert model.points[-1].y == pytest.approx(Step(64, 64 * 2**22).modelled(RIGHT), rel=0.03)
    assert "not a measurement" in chart.caption and "on 1, 2 and 4 GPUs" in chart.caption
    assert "12 times" in chart.caption


@pytest.mark.parametrize(
    "made",
    [records(0.3), records(mode="hot"), records(gpus=(1, 2)), records(is_new=False)],
    ids=["unlike", "launched", "two", "older"],
)
def test_no_model_is_drawn_that_does_not_hold(made):
    assert scaling.charts(run_of(made), "s") == []
