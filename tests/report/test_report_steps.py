"""The part of a report on whole simulation steps, from synthetic records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from kinds import flat_fields
from report_pages import Page, read_pages, record, results, run_of, step_record, write_page

from gpubench import report
from gpubench.evidence.results import Results
from gpubench.report import formats, scans, study_charts, tables, vega
from gpubench.report.figures import BarChart, StackedBar
from gpubench.report.sources import Sources

SIZES = (65536, 262144, 1048576)
# Milliseconds per million particles: sort, force. The order of the sorts is not that of the steps.
PARTS = {
    ("counting-sort", "order"): (0.10, 0.50),
    ("counting-sort", "reorder"): (0.12, 0.40),
    ("counting-resort", "order"): (0.14, 0.50),
    ("radix-grid", "reorder"): (0.20, 0.41),
    ("atomic-list", "one-pass"): (0.06, 1.30),
    ("atomic-resort", "one-pass"): (0.03, 1.30),
    ("bucket-sort", "device-loop"): (0.70, 1.31),
    ("bitonic-search", "order"): (3.00, 0.50),
}


def step(
    algorithm: str,
    form: str,
    particles: int = 1048576,
    *,
    skin: float = 0.0,
    time_step: float = 0.04,
    **changes: Any,
) -> dict[str, Any]:
    sort, force = PARTS[algorithm, form]
    scale = particles / 1e6
    phases = {"cell ids": 0.02, "sort": sort, "force": force, "integrate": 0.08}
    if skin > 0:
        share = 0.04 / skin * time_step  # of the steps that make lists anew
        lists = {"cell ids": 0.02 * share, "sort": sort * share, "lists": force * share}
        phases = {"test": 0.01, **lists, "force": 0.6 * force, "integrate": 0.08}
    phases = {name: time * scale for name, time in phases.items()}
    median = sum(phases.values())
    about: dict[str, Any] = {
        "study": "dpd-step", "sweep": "size", "algorithm": algorithm, "form": form,
        "particles": particles, "workload": "dpd-standard", "skin": skin, "time_step": time_step,
        "mode": "hot" if skin > 0 else "graph", "steps": 20 if skin > 0 else 2,
        "phases_ms": phases, "outcome": {"steps_done": round(1e3 / median)},
    }  # fmt: skip
    return step_record(median, **about | changes)


def size_records() -> list[dict[str, Any]]:
    return [step(*subject, particles) for particles in SIZES for subject in PARTS]


def skin_records() -> list[dict[str, Any]]:
    return [
        step(algorithm, form, skin=skin, time_step=time_step, sweep="skin")
        for algorithm, form in (("counting-sort", "reorder"), ("atomic-list", "one-pass"))
        for time_step in (0.01, 0.04)
        for skin in (0.0, 0.15, 0.3)
    ]


def sorts_alone() -> Results:
    alone = [
        record(a, f, 1048576, 4, median=sort, mode="graph") for (a, f), (sort, _) in PARTS.items()
    ]
    return results(alone, "alone.json")


def simulated() -> Results:
    gone = {"status": "skipped", "reason": "the host reads back"}
    more = [step("counting-sort", "reorder", skin=0.3, mode="cold", **gone)]
    return results([*size_records(), *skin_records(), *more], "steps.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("steps")
    report.write(Sources([simulated(), sorts_alone()]), out)
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return read_pages(folder)


# What is shown


def test_phases_are_in_the_csv_file(folder):
    rows = pd.read_csv(folder / "dpd-step-records.csv.gz")
    one = rows.query(
        "algorithm == 'counting-sort' and form == 'reorder' and particles == 2**20"
        " and skin == 0.3 and time_step == 0.01"
    ).iloc[0]
    parts = json.loads(one.phases_ms)
    assert list(parts) == ["test", "cell ids", "sort", "lists", "force", "integrate"]
    assert sum(parts.values()) == pytest.approx(one.median_ms)
    assert "phases_ms" not in pd.read_csv(folder / "rozen2008-table1-records.csv.gz")


def chart(run: Any, slug: str) -> Any:
    [found] = [chart for chart in study_charts.charts(run, "s") if chart.slug == slug]
    return found


def test_bars_are_the_steps_divided_as_their_phases(page):
    run = run_of([*size_records(), *skin_records()])
    bars = chart(run, "s-phases")
    assert list(bars.panels)[:3] == [
        f"{formats.power(n)} particles, time step 0.04, skin 0" for n in SIZES
    ]
    assert len(bars.panels) == 3 + 5  # inputs of one size with another time step or skin
    first, *_, last = bars.panels.values()
    assert first[0].label == f"counting-sort reorder, {formats.significant(0.62 * 0.065536)} ms"
    assert first[0].parts["force"] == pytest.approx(0.40) and "lists" not in first[0].parts
    assert sum(first[0].parts.values()) == pytest.approx(0.62)  # ns, as ms for a million
    names = [bar.label.partition(",")[0] for bar in last]
    assert names == ["counting-sort reorder", "atomic-list"]


def test_bars_are_drawn_with_labels_lengths_and_a_key():
    run = run_of([*size_records(), *skin_records()])
    drawn = vega.draw(chart(run, "s-phases"))
    alt.LayerChart.from_dict(drawn.spec, validate=True)
    assert "counting-sort reorder, 0.0406 ms" in drawn.description
    parts = {row["k"] for row in drawn.spec["datasets"]["rows"] if row["p"] == 0}
    assert {"sort", "force"} < parts and "lists" not in parts
    assert "ns per particle and step" in drawn.svg and "counting-sort reorder" in drawn.svg


def test_labels_of_bars_fit():
    long = "2¹⁴ particles, lanes=1, skin 0.4, 0.0329 ms"
    panel = [StackedBar(label, {"force": 1.0}) for label in (long, "2¹⁴ particles, 0.0357 ms")]
    drawn = vega.draw(BarChart("s", "Phases", "", "ns", {"": panel}))
    broken, whole = (row["n"].split("\n") for row in drawn.spec["datasets"]["rows"])
    assert broken == ["2¹⁴ particles, lanes=1, skin 0.4,", "0.0329 ms"]
    assert whole == [panel[1].label]
    for line in (*broken, *whole):
        assert f">{line}<" in drawn.svg  # and not cut


def test_records_without_phases_make_no_such_part(tmp_path):
    gone = {"status": "skipped", "reason": "needs CUDA"}
    records = [step("bucket-sort", "device-loop", **gone)]
    text = write_page([results(records)], tmp_path).text
    assert "Phases of a step" not in text and "Nothing was timed" in text


def test_a_study_of_sorts_has_no_part_on_steps(tmp_path):
    shown = write_page([sorts_alone()], tmp_path)
    assert "particle-steps" not in shown.text and "Phases of a step" not in shown.text
    assert scans.scans(run_of(sorts_alone().records))[0].axis == "particles"


# Workloads with time steps of their own


def fluid(particles: int, time_step: float, **changes: Any) -> dict[str, Any]:
    """A step of a fluid that takes 4 ms a million particles more than one of another."""
    made = step("counting-sort", "reorder", particles, time_step=time_step, mode="hot")
    found = flat_fields(made)
    more = {
        "study": "constraint-fluid",
        "workload": "constraint-fluid",
        "outcome": {"steps_done": 9, "iterations": 4 * time_step, "residual": 1e-4},
    }
    longer = {
        name: found[name] + 4 * particles / 1e6
        for name in ("median_ms", "ci95_low_ms", "ci95_high_ms")
    }
    return found | more | longer | changes


def two_fluids() -> list[dict[str, Any]]:
    other = {"study": "constraint-fluid", "workload": "sph-dam-break"}
    return [
        *(step("counting-sort", "reorder", n, time_step=0.25, **other) for n in SIZES),
        *(fluid(n, 1.0) for n in SIZES),
        *(fluid(SIZES[-1], time_step, sweep="step") for time_step in (0.5, 2.0)),
    ]


def test_workloads_with_other_time_steps_are_scans_of_their_own():
    run = run_of(two_fluids())
    assert [(scan.axis, scan.title) for scan in scans.scans(run)] == [
        ("particles", "sph-dam-break, time step 0.25"),
        ("particles", "constraint-fluid, time step 1"),
        ("time_step", "constraint-fluid, 2²⁰ particles"),
    ]


def column(table, heading):
    at = next(n for n, each in enumerate(table.columns) if each.startswith(heading))
    return [row.items[at - 1].text for row in table.rows]


def test_what_steps_report_is_told_of_each_time_step():
    found = tables.outcomes(run_of(two_fluids()))
    along = next(table for table in found if "time step 2" in table.rows[-1].head)
    assert column(along, "Iterations of a step") == ["2.00", "4.00", "8.00"]


def test_what_steps_report_is_told_of_each_setting():
    about = {"study": "silva2012-stability", "workload": "sph-silva2012-at-rest", "mode": "hot"}
    longest = {"wall_epsilon=0": 0.3, "wall_epsilon=0.4": 0.05, "wall_distance=0": 0.2}
    records = []
    for wall, found in longest.items():
        made = step("counting-sort", "reorder", 64000, time_step=0.1, setting=wall, **about)
        records.append(flat_fields(made) | {"outcome": {"longest_step": found}})
    [table] = tables.outcomes(run_of(records))
    assert column(table, "Longest stable step") == ["0.300", "0.0500", "0.200"]
    assert all(wall in row.head for wall, row in zip(longest, table.rows, strict=True))


def test_what_subdivision_reports_is_told_at_each_focal_length():
    triangles = {("uniform", 450): 4096, ("uniform", 3550): 4096, ("by-screen", 450): 41,
                 ("by-screen", 3550): 2048}  # fmt: skip
    records = []
    for (form, focal), found in triangles.items():
        mesh = {"surface": "torus", "faces": 1024, "depth": 6, "focal": focal}
        about = {"study": "horn2005-subdivision", "outcome": {"triangles": found}, **mesh}
        records.append(record("loop-subdivision", form, **about))
    [table] = tables.outcomes(run_of(records))
    assert column(table, "Triangles of the answer") == ["4,096", "41", "4,096", "2,048"]
    lengths = [row.head.rpartition(", focal length ")[2] for row in table.rows]
    assert lengths == [*["450 pixels"] * 2, *["3,550 pixels"] * 2]
