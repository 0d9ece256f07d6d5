"""What a report says of samples: what is odd about them, and what a measurement adds to them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kinds import flat_fields
from report_pages import STUDY, Page, cpu_results, record, results, run_of, write_page

from gpubench import report
from gpubench.evidence.records import make_record
from gpubench.report import background, document, formats, published, study_charts, tables, verdict
from gpubench.report.document import Told
from gpubench.report.machines import Machine, machines
from gpubench.report.sources import Sources

DRIFT = "drift: slower by 3.1% from first to last"
HUMPS = "two humps: at 1 and 1.2 ms, 40% of the samples in the slower"
WARNING = "⚠\ufe0e"


def odd_records() -> list[dict[str, Any]]:
    return [
        record(mode="graph"),
        record(remarks=[DRIFT, HUMPS], stopped="time", clocks_sm_mhz=[1755, 1980]),
        record("counting-sort", "order", throttled_ms=[1.4, 1.5], throttled_by=["power", "heat"],
               stopped="narrow"),
    ]  # fmt: skip


def test_odd_samples_are_counted_and_explained(tmp_path: Path) -> None:
    page = write_page([results(odd_records())], tmp_path)
    said = "Unusual samples, which the CSV file names: drift in 1, bimodal in 1, throttled in 1."
    assert said in page.text
    assert said in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert tables.oddities(run_of([record()])) == []


def test_csv_tells_the_same(tmp_path: Path) -> None:
    report.write(Sources([results(odd_records())]), tmp_path)
    read = pd.read_csv(tmp_path / f"{STUDY}-records.csv.gz")
    assert "throttled_ms" not in read and "samples_ms" not in read
    assert read["samples"].tolist() == [3, 3, 3]
    assert read["throttled"].isna().tolist() == [True, True, False]
    assert read["throttled"][2] == 2
    assert read["throttled_by"][2] == "power; heat"
    assert read["remarks"][1] == f"{DRIFT}; {HUMPS}"
    assert json.loads(read["clocks_sm_mhz"][1]) == [1755, 1980]


# What a measurement adds


@pytest.mark.parametrize(("median", "short"), [(0.0099, True), (0.0101, False)])
def test_a_short_sample_is_marked_in_every_table_and_explained(
    median: float, short: bool, tmp_path: Path
) -> None:
    # Four launches a sample, and 20 times 0.002 ms.
    page = write_page([results([record(median=median), record(per_cell=1, median=5.0)])], tmp_path)
    text = formats.significant(median) + (WARNING if short else "")
    [row] = [r for r in page.tables["ms by particles per cell"] if r[0] == "atomic-list"]
    assert [shown.split()[0] for shown in row[1:]] == ["5.00", text]
    assert ("less than 20 times as long as one of nothing" in page.text) == short


def test_the_overhead_is_that_of_the_same_mode_and_run() -> None:
    pair = [record(median=0.006), record(median=0.006, mode="cold")]
    for given, expected in (
        ({"overhead_ms": {"hot": 0.002, "cold": 0.0001}}, {"hot": True, "cold": False}),
        ({"overhead_ms": {"hot": 0.0001, "cold": 0.002}}, {"hot": False, "cold": True}),
        ({"overhead_ms": {}}, {"hot": False, "cold": False}),
    ):
        for mode, is_short in expected.items():
            run = machines([results([r for r in pair if r.mode == mode], **given)])
            [cell] = run[0].studies[0].cells.values()
            assert cell.is_short == is_short


def shown_of(machine: Machine) -> dict[str, str]:
    """Return what the table of machines has of one, by its columns."""
    table = background.machines_table([machine])
    return dict(zip(table.columns[1:], (item.text for item in table.rows[0].items), strict=True))


def test_older_results_know_the_overhead_of_hot_samples() -> None:
    older = results([record(median=0.006), record(median=0.006, mode="cold", per_cell=1)])
    known = {k: v for k, v in older.environment.items() if k != "overhead_ms"}
    known["empty_launch_ms"] = 0.002
    older = type(older)(known, older.records, older.path)
    [machine] = machines([older])
    short = {c.record.mode: c.is_short for c in machine.studies[0].cells.values()}
    assert short == {"hot": True, "cold": False}
    assert shown_of(machine)["Overhead, ms"] == "0.00200"


def test_the_overhead_stands_with_the_machine_and_is_explained(tmp_path: Path) -> None:
    page = write_page([results([record()])], tmp_path)
    assert page.tables["Machines"][1][-1] == "0.00200"
    assert "each sample holds it once" in page.text


def test_runs_of_many_times_are_summed_up() -> None:
    runs = [
        results([record()], f"{n}.json", overhead_ms={"hot": n / 1000}, copy_bandwidth_gb_s=90 + n)
        for n in (3, 1, 2)
    ]
    [machine] = machines(runs)
    shown = shown_of(machine)
    assert shown["Overhead, ms"] == "0.00100 to 0.00300"
    assert shown["Copy, GB/s"] == "91.0 to 93.0"


# Inputs that take turns


def turning_records() -> list[dict[str, Any]]:
    both = (("atomic-list", "one-pass", 1.0), ("radix-grid", "order", 3.0))
    return [
        record(algorithm, form, median=factor * (inputs or 1), inputs=inputs)
        for algorithm, form, factor in both
        for inputs in (None, 4)
    ]


def test_inputs_that_take_turns_are_cells_of_their_own(tmp_path: Path) -> None:
    report.write(Sources([results(turning_records())]), tmp_path)
    rows = pd.read_csv(tmp_path / f"{STUDY}-records.csv.gz")
    turning = rows.inputs == 4
    assert turning.sum() == 2 and rows.inputs.isna().sum() == 2
    assert rows[turning].command.str.endswith(" --inputs 4").all()
    assert not rows[~turning].command.str.contains("--inputs").any()
    run = run_of(turning_records())
    assert run.replaced == 0 and len(run.cells) == 4


def test_inputs_that_take_turns_are_drawn_beside_one() -> None:
    charts = {chart.slug: chart for chart in study_charts.charts(run_of(turning_records()), "s")}
    chart = charts["s-inputs"]
    assert chart.x.names == ("1", "4")
    assert {line.label: [p.y for p in line.points] for line in chart.panels[0].lines} == {
        "atomic-list": [1.0, 4.0],
        "radix-grid": [3.0, 12.0],
    }
    replayed = [flat_fields(r) | {"mode": "graph"} for r in turning_records() if not r.inputs]
    for each in replayed:
        del each["key"]
        each |= {name: each[name] / 10 for name in ("median_ms", "ci95_low_ms", "ci95_high_ms")}
    both = run_of([*turning_records(), *(make_record(**each) for each in replayed)])
    assert next(iter(both.cells.values())).mode == "graph"
    # What is timed in one mode here and in another there is drawn in the one that both have.
    drawn = {chart.slug: chart for chart in study_charts.charts(both, "s")}["s-inputs"]
    assert [[p.y for p in line.points] for line in drawn.panels[0].lines] == [
        [1.0, 4.0],
        [3.0, 12.0],
    ]
    alone = study_charts.charts(run_of([record(), record("radix-grid", "order")]), "s")
    assert "s-inputs" not in {chart.slug for chart in alone}


def test_what_tables_hold_fixed_names_the_inputs() -> None:
    run = run_of([r for r in turning_records() if r.inputs])
    assert tables.kind(run).endswith("4 inputs in turn")
    assert "inputs" not in tables.kind(run_of([record()]))


# Front page and names


def test_the_gist_is_short_and_counts() -> None:
    made = []
    for per_cell, times in ((1, (1, 2)), (2, (2, 1)), (4, (1, 2)), (8, (1, 1))):
        for (algorithm, form), time in zip(
            (("atomic-list", "one-pass"), ("bucket-sort", "host-loop")), times, strict=True
        ):
            made.append(record(algorithm, form, per_cell=per_cell, median=time))
    twice = formats.ratio(2)
    assert verdict.gist(run_of(made)) == (
        "Take atomic-list one-pass: known slower than bucket-sort host-loop on 1 of 4 inputs, at"
        f" worst {twice}."
    )
    failed = [record(status="failed", reason="no")]
    assert verdict.gist(run_of(failed)).startswith("Nothing was timed")


def test_the_front_page_counts_wrong_answers_and_what_was_skipped() -> None:
    [machine] = machines([cpu_results()])
    told = [Told(run, "gist", "page.html", []) for run in machine.studies]
    table = document._overview(told, is_cpu=True)[0]
    assert table.rows[0].items[-1].detail == "2 wrong, 10 skipped"
    assert table.rows[0].link == "page.html"
    assert table.rows[0].items[0].text.startswith("gist ")


def test_the_front_page_says_how_many_times_faster_than_published() -> None:
    run = run_of([record("bucket-sort", "host-loop")])
    table = document._overview([Told(run, "Gist.", "", [])], is_cpu=False)[0]
    assert table.rows[0].items[0].text == (
        "Gist. Times as fast as published: the paper's variant 19.8 (launched)."
    )
    both = [record("bucket-sort", "host-loop"), record("bucket-sort", "device-loop", median=0.5)]
    assert published.faster(run_of(both)).endswith(
        "variant 19.8 (launched), the best 39.7 (launched)."
    )
    both += [record("bucket-sort", "device-loop", median=0.25, mode="graph")]
    assert published.faster(run_of(both)).endswith("the best 79.4 (graph replay).")
    assert published.faster(run_of([record("atomic-list")])) == ""


def test_studies_whose_names_are_taken_have_files_of_their_own(tmp_path: Path) -> None:
    names = ["index", "checks", "a", "A", "../b", "?"]
    report.write(Sources([results([record(study=name) for name in names])]), tmp_path)
    [machine] = machines([results([record(study=name) for name in names])])
    stems = document.stems([machine])
    assert stems == {
        "../b": "b",
        "?": "study",
        "A": "a",
        "a": "a-2",
        "checks": "checks-2",
        "index": "index-2",
    }
    for name, stem in stems.items():
        page = Page((tmp_path / f"{stem}.html").read_text(encoding="utf-8"))
        assert f"gpubench run {shlex.quote(name)} " in page.text
        assert pd.read_csv(tmp_path / f"{stem}-records.csv.gz")["study"].tolist() == [name]


def test_an_answer_that_lost_particles_is_listed_and_never_ranked(tmp_path: Path) -> None:
    records = [
        record("fixed-capacity", "one-pass", median=0.5, outcome={"lost": 2**13}),
        record("atomic-list", median=1.0),
        record("counting-sort", "order", median=2.0),
    ]
    run = run_of(records)
    [place] = run.by_place
    ranked = [cell.subject.algorithm for cell in run.ranked_at(place)]
    assert sorted(ranked) == ["atomic-list", "counting-sort"]
    page = write_page([results(records)], tmp_path)
    [row] = [r for r in page.tables["ms by particles"] if r[0] == "fixed-capacity"]
    assert row[1] == "0.500 lost 12.5 %"
