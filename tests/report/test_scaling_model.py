"""The model of steps on many GPUs, fitted to made-up times."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_pages import results
from test_report_ranks import step

from gpubench import report
from gpubench.report.scaling_model import Model, Step, column_planes, fit

TRUTH = Model(alone=0.05, shared=0.13, each=4e-7, latency=0.5)
SIZES = (32000, 256000, 1024000, 2**22, 2**23, 2**24)


def made_up(ranks: tuple[int, ...] = (1, 2), sizes: tuple[int, ...] = SIZES) -> list[Step]:
    return [Step(r, n, TRUTH.ms(r, n)) for r in ranks for n in sizes]


def test_a_fit_recovers_the_constants_of_made_up_times():
    found = fit(made_up())
    assert found is not None
    for name in ("alone", "shared", "each", "latency"):
        assert getattr(found, name) == pytest.approx(getattr(TRUTH, name), rel=1e-4)
    assert max(map(abs, found.residuals(made_up()))) < 1e-4


@pytest.mark.parametrize(
    "steps",
    [made_up((1,)), made_up((2,)), made_up(sizes=SIZES[-3:]), made_up(sizes=SIZES[:3])],
    ids=["one rank", "several ranks", "no step at the latency", "no step above it"],
)
def test_steps_that_leave_a_constant_open_give_no_model(steps):
    assert fit(steps) is None


def test_the_largest_slab_has_whole_planes_and_the_halo_hides_behind_inner_ones():
    n, planes = 2**26, column_planes(2**26)
    assert planes == 167  # (2²⁵)^(1/3) spacings of 0.519 kernel radii
    assert TRUTH.computed(2, n) == pytest.approx(0.13 + 4e-7 * n * 84 / planes)
    # Three planes a rank of 64: two edges of 32 bytes a particle at 50 GB/s, behind one plane.
    halo, inner = 2 * 32 * n / planes / 50e6, 4e-7 * n / planes
    assert TRUTH.computed(64, n) == pytest.approx(0.13 + 3 * inner + halo - inner)


@pytest.mark.parametrize("is_determined", [True, False])
def test_the_page_marks_the_model_as_one(tmp_path: Path, is_determined: bool):
    records = []
    for ranks, n, ms in made_up(sizes=SIZES if is_determined else SIZES[-2:]):
        study = "silva2012-table1" if n < 2**22 else "silva2012-scaling"
        way = (None, None) if ranks == 1 else (ranks, "slab")
        timed = {"median_ms": ms, "samples_ms": [ms], "ci95_low_ms": ms, "ci95_high_ms": ms}
        made = step("counting-sort", "order", n, *way, study=study)
        records.append(made | timed)
    records.append(step("radix-grid", "reorder", study="silva2012-bodies"))  # of another
    report.write([results(records)], tmp_path)
    page = (tmp_path / "silva2012-scaling.html").read_text(encoding="utf-8")
    mark = "model, fitted to 12 measured points on 1 and 2 GPUs"
    assert (mark in page) == is_determined
    assert ("Dashed: no measurement, but a model" in page) == is_determined
