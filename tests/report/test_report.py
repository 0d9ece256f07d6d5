from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import flat_fields
from report_pages import (
    OCCUPANCIES,
    SIZES,
    STUDY,
    Page,
    cpu_results,
    full_records,
    markdown_tables,
    read_pages,
    record,
    results,
    run_of,
    skipped,
    synthetic_time,
    write_page,
)

from gpubench import report
from gpubench.evidence.records import make_record, waits_for
from gpubench.report import figures, formats, study_charts, tables, vega, verdict
from gpubench.report import published as published_tables
from gpubench.report.folder import MANIFEST
from gpubench.report.machines import machines, when
from gpubench.report.sources import Sources
from gpubench.studies.study import load_study

BY = ": ms by particles"


@pytest.fixture(scope="module")
def gpu_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gpu")
    report.write(Sources([results(full_records())]), out)
    return out


@pytest.fixture(scope="module")
def gpu_page(gpu_folder: Path) -> Page:
    return read_pages(gpu_folder)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0226, "0.0226"),
        (0.02, "0.0200"),
        (0.9996, "1.00"),
        (1.405, "1.41"),
        (999.6, "1,000"),
        (1409.3, "1,410"),
        (1234567.0, "1,230,000"),
        (0.0, "0"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert formats.significant(value) == text


@given(value=st.floats(1e-6, 1e9))
def test_a_shown_number_is_within_half_a_unit_of_its_third_digit(value: float) -> None:
    shown = float(formats.significant(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=5.001e-3)


def test_counts_and_sizes() -> None:
    assert formats.count(2**20) == "2²⁰ (1,048,576)"
    assert formats.count(1_000_000) == "1,000,000"
    assert formats.size(8_388_608) == "8.39 MB"
    assert formats.size(12) == "12 bytes"
    assert formats.size(0) == "0 bytes"


def test_printed_table_stands_as_in_the_paper(gpu_page: Page) -> None:
    published = load_study(STUDY).published
    assert published is not None
    rows = gpu_page.tables["Published: GeForce 6800 Ultra, ms"][1:]
    assert [[float(text) for text in row[1:]] for row in rows] == [
        list(r) for r in published.values
    ]
    assert published.note in gpu_page.text


def test_measured_table_holds_median_and_speedup_of_the_best_variant(gpu_page: Page) -> None:
    published = load_study(STUDY).published
    assert published is not None
    rows = gpu_page.tables["Measured: bucket-sort device-loop, the best variant, ms"][1:]
    for size, row, printed in zip(SIZES, rows, published.values, strict=True):
        assert row[0] == formats.count(size)
        for per_cell, text, value in zip(OCCUPANCIES, row[1:], printed, strict=True):
            time = synthetic_time("bucket-sort", "device-loop", size, per_cell)
            assert text == f"{formats.significant(time)} {formats.ratio(value / time)}"


def test_headline_is_the_graph_replay_and_hot_is_marked_where_it_is_all_there_is(
    gpu_page: Page,
) -> None:
    rows = {row[0]: row[1:] for row in gpu_page.tables[f"1 per cell{BY}"]}
    graph = synthetic_time("atomic-list", "one-pass", 2**16, 1)
    hot = 1.2 * synthetic_time("bucket-sort", "host-loop", 2**16, 1)
    assert rows["atomic-list"][0].split()[0] == formats.significant(graph)
    assert rows["bucket-sort host-loop"][0].split()[0] == formats.significant(hot) + "ˡ"
    note = "ˡ launched (called from Python, warm), where that is all there is"
    assert f"Timing: device time (CUDA graph replay); {note}" in gpu_page.text


def test_launched_times_of_the_same_inputs_stand_beside_device_times(gpu_page: Page) -> None:
    rows = {row[0]: row[1:] for row in gpu_page.tables[f"called from Python, 1 per cell{BY}"]}
    hot = 1.2 * synthetic_time("atomic-list", "one-pass", 2**16, 1)
    assert rows["atomic-list"][0].split()[0].startswith(formats.significant(hot))
    assert "Compared by device time (CUDA graph replay)" in gpu_page.text


def test_lines_are_of_device_time_and_say_what_was_launched() -> None:
    [chart, *_] = study_charts.charts(run_of(full_records()), "s")
    labels = {line.label for line in chart.panels[0].lines}
    assert chart.y.label == "median device time, ms"
    assert {"bucket-sort host-loop, launched", "bucket-sort device-loop"} < labels
    hot = [each for each in full_records() if each.mode == "hot"]
    [chart, *_] = study_charts.charts(run_of(hot), "s")
    assert chart.y.label == "median time, ms"
    assert "bucket-sort host-loop" in {line.label for line in chart.panels[0].lines}


def test_a_page_says_where_all_was_timed_as_launched(tmp_path: Path) -> None:
    page = write_page([results([record(), record(per_cell=2)])], tmp_path)
    assert "Compared as launched from Python: no CUDA graph was timed here." in page.text
    assert not any(caption.startswith("called from Python") for caption in page.tables)


def test_every_record_has_its_row_with_mode_and_command(gpu_folder: Path) -> None:
    rows = pd.read_csv(gpu_folder / f"{STUDY}-records.csv.gz")
    assert len(rows) == len(full_records())
    of_list = (rows.algorithm == "atomic-list") & (rows.particles == 65536) & (rows.per_cell == 4)
    [row] = rows[of_list & (rows["mode"] == "cold")].itertuples()
    time = 1.7 * synthetic_time("atomic-list", "one-pass", 65536, 4)
    assert row.median_ms == pytest.approx(time)
    assert (row.samples, row.batch) == (3, 4)
    assert row.command == (
        f"gpubench run {STUDY} --device cuda --algorithms atomic-list"
        " --particles 65536 --per-cell 4"
    )
    assert row.bound == pytest.approx(12 * 65536 / (time * 1e6) / 4000)


def test_gist_names_a_choice_for_each_kind_of_answer() -> None:
    assert verdict.gist(run_of(full_records())) == (
        "For linked lists take atomic-list one-pass: fastest on all 34 inputs; for sorted cells"
        " take counting-sort order: fastest on all 34 inputs."
    )


def test_gist_claims_no_winner_where_intervals_overlap() -> None:
    close = [
        record("atomic-list", "one-pass", median=1.0, width=0.02),
        record("bucket-sort", "host-loop", median=1.025, width=0.02),
        record("bucket-sort-partial", "host-loop", median=2.0, width=0.02),
    ]
    assert (
        verdict.gist(run_of(close))
        == "Take atomic-list one-pass: known slower on none of 1 inputs."
    )


def test_gist_names_what_beats_the_usual_choice_wherever_both_were_timed() -> None:
    """If it was timed on a third of the inputs or more."""
    usual = [record("radix-grid", "reorder", n, median=2.0) for n in SIZES]
    more = [record("bitonic-search", "order", n, median=4.0) for n in SIZES]
    fast = [record("counting-sort", "order", n, median=1.0) for n in SIZES]

    def gist(*some: dict[str, Any]) -> str:
        return verdict.gist(run_of([*usual, *more, *some]))

    assert gist(*fast[:2]) == (
        "Take counting-sort order: fastest on all 2 inputs, not measured on 3 more."
    )
    once = "Take radix-grid reorder: known slower than counting-sort order on 1 of 5 inputs"
    assert gist(fast[0]).startswith(once)
    assert gist(fast[0], record("counting-sort", "order", SIZES[1], median=3.0)).startswith(once)


def test_gist_does_not_count_inputs_of_one_entrant() -> None:
    made = [record("atomic-list", "one-pass", per_cell=n) for n in (1, 2, 4)]
    made.append(record("bucket-sort", "host-loop", per_cell=1, median=2.0))
    made.append(record("bucket-sort", "host-loop", per_cell=2, median=1.0))
    assert (
        verdict.gist(run_of(made)) == "Take atomic-list one-pass: known slower on none of 2 inputs."
    )
    assert verdict.gist(run_of(made[:3])).startswith("Only one choice was measured")


def test_a_wrong_answer_in_any_mode_leaves_the_cell_without_a_time() -> None:
    run = run_of([record(), record(mode="graph", status="wrong", reason="two are missing")])
    [cell] = run.cells.values()
    assert not cell.ok


def test_reasons_are_grouped_and_escaped(tmp_path: Path) -> None:
    reason = "<script>alert(1)</script> & | `pipe`"
    records = [record(per_cell=1)]
    records += [skipped(reason, particles=n, per_cell=p) for n in SIZES for p in (2, 4)]
    page = write_page([results(records)], tmp_path)
    rows = page.tables["Measurements without a time"][1:]
    assert rows == [
        [
            "skipped",
            "10",
            "atomic-list one-pass",
            "2¹⁶ to 2²⁰ particles, 2 to 4 per cell, hot",
            reason,
        ]
    ]
    assert "<script>alert" not in (tmp_path / f"{STUDY}.html").read_text(encoding="utf-8")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<script>" not in text
    [table] = [t for t in markdown_tables(text) if t[0][0] == "Status"]
    assert len(table[2]) == len(table[0])


def test_gpus_come_before_cpus() -> None:
    shown = [cpu_results(), results(full_records())]
    assert [machine.is_cpu for machine in machines(shown)] == [False, True]


def test_cpu_times_are_called_cpu_times(tmp_path: Path, gpu_page: Page) -> None:
    page = write_page([cpu_results()], tmp_path)
    warning = "These are CPU times, not GPU times."
    assert warning in page.text
    assert warning in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert warning not in gpu_page.text
    rows = {row[0]: row[1:] for row in page.tables[f"16 per cell{BY}"]}
    assert "bucket-sort device-loop" not in rows
    assert rows["bitonic-search"][-1] == "wrong"


PAGES = ("index", STUDY)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_the_script_beside_it_alone(name: str, gpu_folder: Path) -> None:
    html = (gpu_folder / f"{name}.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.attributes("src") == [vega.SCRIPT]
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert "@import" not in html and "url(" not in html
    assert (gpu_folder / vega.SCRIPT).is_file()


@pytest.mark.parametrize("name", PAGES)
def test_page_structure(name: str, gpu_folder: Path) -> None:
    page = Page((gpu_folder / f"{name}.html").read_text(encoding="utf-8"))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    figures_shown = [found for _, found in page.tags if found.get("class") == "chart"]
    assert len(figures_shown) == {STUDY: 3}.get(name, 0)
    assert all(found["role"] == "img" and found["aria-label"] for found in figures_shown)


def test_every_link_leads_to_a_file_of_the_report_and_a_place_there(tmp_path: Path) -> None:
    report.write(
        Sources([results(full_records()), cpu_results(), results(resort_records())]), tmp_path
    )
    pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.html")}
    assert len(pages) == 1 + 2 + 1  # the front page, studies, claims
    led_to = set()
    for name, page in pages.items():
        for link in page.attributes("href", "xlink:href"):
            file, _, place = link.partition("#")
            assert (tmp_path / (file or name)).is_file(), link
            led_to.add(file or name)
            if place:
                assert place in pages[file or name].attributes("id"), link
    spreadsheets = {path.name for path in tmp_path.glob("*.csv*")}
    assert led_to >= {*pages, *spreadsheets, "report.md"}


def test_figures_follow_the_colours_of_the_page(gpu_folder: Path) -> None:
    html = (gpu_folder / f"{STUDY}.html").read_text(encoding="utf-8")
    assert "var(--line-0)" in html
    assert "--ink: light-dark(" in html
    for path in (gpu_folder / "figures").iterdir():
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag.endswith("svg")
        assert "var(" not in path.read_text(encoding="utf-8")


def test_markdown_tables_parse_and_its_figures_exist(gpu_folder: Path, gpu_page: Page) -> None:
    text = (gpu_folder / "report.md").read_text(encoding="utf-8")
    found = markdown_tables(text)
    for table in found:
        assert {len(row) for row in table} == {len(table[0])}
        assert all(re.fullmatch(":?-+:?", part) for part in table[1])
    assert len(found) == len(gpu_page.tables)
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert len(pictures) == 3
    assert all((gpu_folder / picture).is_file() for picture in pictures)
    time = formats.significant(synthetic_time("atomic-list", "one-pass", 2**24, 1))
    shown = [(row[0], row[-1].split()[0]) for table in found for row in table if row[-1]]
    assert ("atomic-list", f"**{time}**") in shown


def test_csv_reads_back_as_the_records(gpu_folder: Path) -> None:
    read = pd.read_csv(gpu_folder / f"{STUDY}-records.csv.gz")
    records = full_records()
    assert len(read) == len(records)
    assert "samples_ms" not in read
    read = read.set_index("key").loc[[r.key for r in records]]
    for name in ("algorithm", "form", "particles", "per_cell", "mode", "status"):
        assert read[name].tolist() == [flat_fields(r)[name] for r in records]
    for name, of_record in (("median_ms",) * 2, ("low_ms", "ci95_low_ms")):
        values = [math.nan if (v := getattr(r, of_record)) is None else v for r in records]
        assert np.array_equal(read[name].to_numpy(), values, equal_nan=True)
    first = read[(read["rank"] == 1) & (read["mode"] == "graph") & (read["answer"] == "linked")]
    assert set(first["algorithm"]) == {"atomic-list"} and first["is_first"].all()
    assert [json.loads(text) for text in read["outcome"]] == [r.outcome for r in records]


def test_csv_of_records_leaves_out_what_was_replaced_and_what_is_empty(tmp_path: Path) -> None:
    again = record(median=2.0, state_before={"clock_sm_mhz": 1980})
    other = record(per_cell=1, median=3.0)
    waiting = skipped(waits_for(STUDY, 4), workload="dpd", ranks=4)
    done = record(workload="dpd", ranks=4, median=5.0)
    older = results([record(median=1.0), other, done], "older.json")
    newer = results([again, waiting], "newer.json", started="2001-01-01T00:00:00+00:00")
    elsewhere = results([record(median=4.0)], "elsewhere.json", machine="another")
    report.write(Sources([newer, elsewhere, older]), tmp_path)
    read = pd.read_csv(tmp_path / f"{STUDY}-records.csv.gz")
    kept = sorted(zip(read["machine"], read["file"], read["median_ms"], strict=True))
    assert kept == [
        ("another", "elsewhere.json", 4.0),
        ("synthetic-gpu", "older.json", pytest.approx(math.sqrt(1.0 * 2.0))),
        ("synthetic-gpu", "older.json", 3.0),
        ("synthetic-gpu", "older.json", 5.0),
    ]
    assert not read.isna().all().any()
    assert not {"state_before", "state_after", "reason", "skin"} & set(read)
    assert {"median_ms", "ranks", "key", "library"} - set(read) == {"library"}


def test_no_results_make_a_page_that_says_what_to_do(tmp_path: Path) -> None:
    page = write_page([], tmp_path)
    assert "There are no results to report on." in page.text


@pytest.mark.parametrize(
    "records",
    [
        [],
        [skipped("needs CUDA")],
        [record()],
        [record(particles=100000, per_cell=2.5)],
        [record(), record(median=2.0, order="cell")],
        [record(bytes_moved=None, workspace_bytes=None)],
        [record(study="not-shipped-here")],
        [record(parameters={"parts": 4}), record(parameters={"parts": 8}, median=2.0)],
    ],
    ids=["none", "skipped", "one", "odd", "orders", "nulls", "unknown-study", "parameters"],
)
def test_small_results_make_a_whole_report(records: list[dict[str, Any]], tmp_path: Path) -> None:
    page = write_page([results(records)], tmp_path)
    assert [tag for tag, _ in page.tags if tag in ("header", "main", "footer")][-1] == "footer"
    assert {path.name for path in tmp_path.iterdir()} >= {"index.html", "report.md", MANIFEST}
    read = [pd.read_csv(path) for path in tmp_path.glob("*-records.csv.gz")]
    assert sum(map(len, read)) == len(records)
    assert "nan" not in page.text.lower().split()


OWN_STUDY = """
title = "Lists of mine"
question = "Is my list the fastest?"
paper = "mine2026"
table = "Table 9"
seed = 1
[published]
caption = "Times of mine"
source = "section 2"
device = "GeForce 1"
unit = "ms"
algorithm = "atomic-list"
row_axis = "particles"
column_axis = "per_cell"
rows = [65536]
columns = [4]
values = [[123.4]]
[[sweeps]]
name = "table"
particles = [65536]
per_cell = [4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot"]
[[subjects]]
algorithm = "atomic-list"
form = "one-pass"
"""


def test_a_study_that_is_not_shipped_has_its_title_question_and_table(tmp_path: Path) -> None:
    found = replace(results([record(study="mine")]), study=OWN_STUDY)
    page = write_page([found], tmp_path)
    for words in ("Lists of mine", "Is my list the fastest?", "GeForce 1", "123.4"):
        assert words in page.text


@pytest.mark.parametrize(
    "text", ["no study", "a = " + "[" * 10_000, 'title = "of a later version"']
)
def test_a_study_that_cannot_be_read_is_shown_by_its_name(text: str, tmp_path: Path) -> None:
    page = write_page([replace(results([record(study="mine")]), study=text)], tmp_path)
    assert "mine" in page.text and "The study in these results cannot be read" in page.text


def test_parameters_tell_subjects_apart() -> None:
    run = run_of([record(parameters={"parts": 4}), record(parameters={"parts": 8})])
    assert list(run.labels.values()) == ["atomic-list parts=4", "atomic-list parts=8"]


def test_newer_results_of_one_machine_replace_older() -> None:
    older = results([record(median=1.0), record(per_cell=1, median=3.0)], "older.json")
    started = {"started": "2001-01-01T00:00:00+00:00", "code_hash": "another"}
    newer = results([record(median=2.0)], "newer.json", **started)
    [machine] = machines([newer, older])
    [run] = machine.studies
    [subject] = run.subjects
    times = {n: run.find(subject, particles=65536, per_cell=n).median_ms for n in (4, 1)}
    assert times == {4: 2.0, 1: 3.0}
    assert run.replaced == 1
    assert [run.path.name for run in machine.runs] == ["older.json", "newer.json"]


def test_a_study_has_the_days_of_what_it_shows(tmp_path: Path) -> None:
    """The machine's are those of all its runs."""
    older = results([record(), record(study="another-study")], "older.json")
    newer = results(
        [record(study="another-study")], started="2001-01-01T00:00:00+00:00", commit="fedcba9876"
    )
    [machine] = machines([newer, older])
    assert when(machine.environments) == "from 2000-01-02 to 2001-01-01, commits 0123456 to fedcba9"
    days = {run.study.name: when(run.environments) for run in machine.studies}
    assert days == {
        STUDY: "on 2000-01-02, commit 0123456",
        "another-study": "on 2001-01-01, commit fedcba9",
    }
    assert list(days) == sorted(days)
    report.write(Sources([newer, older]), tmp_path)
    page = (tmp_path / f"{STUDY}.html").read_text(encoding="utf-8")
    assert "through CUDA on 2000-01-02, commit 0123456" in page


def test_of_two_sweeps_that_share_a_cell_both_count() -> None:
    run = run_of([record(median=1.0), record(median=4.0, sweep="order")])
    [cell] = run.cells.values()
    assert cell.median_ms == pytest.approx(2.0)
    assert run.replaced == 0


@pytest.mark.parametrize("status", ["ok", "wrong", "failed"])
@pytest.mark.parametrize("skipped_first", [True, False])
def test_of_two_sweeps_that_share_a_cell_the_one_that_skipped_it_is_hidden(
    status: str, skipped_first: bool
) -> None:
    skipped = record(status="skipped", reason="needs CUDA", sweep="gpu")
    tried = record() if status == "ok" else record(status=status, reason="out of luck")
    run = run_of([skipped, tried] if skipped_first else [tried, skipped])
    [cell] = run.cells.values()
    assert cell.record.status == status
    assert run.replaced == 1


def test_repeated_attempt_replaces_the_failed_one_before_it() -> None:
    run = run_of([record(status="failed", reason="the driver timed out"), record(median=2.0)])
    [cell] = run.cells.values()
    assert cell.ok


def test_a_machine_is_shown_with_units(gpu_page: Page) -> None:
    columns, row = gpu_page.tables["Machines"]
    shown = dict(zip(columns, row, strict=True))
    assert shown["Driver, memory"].endswith("100 GB")
    assert (shown["Copy, GB/s"], shown["Overhead, ms"]) == ("4,000", "0.00200")
    assert "pycuda" not in shown["Libraries"]  # not known


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    first = report.write(Sources([cpu_results()]), tmp_path / "a").read_bytes()
    second = report.write(Sources([cpu_results()]), tmp_path / "b").read_bytes()
    assert first == second


TABLE_2, TABLE_3, TABLE_36_1 = "rozen2008-table2", "rozen2008-table3", "horn2005-table36-1"
NOISE = "rozen2008-random-numbers"
MOVED = (0, 256, 4096, 20971, 209715, 419430, 1048576)


def resort_time(algorithm: str, moved: int, destination: str = "random") -> float:
    """Re-sorts cost a tenth of their full sort and more for each that moved."""
    full = {"bucket-sort": 2.0, "atomic-list": 1.0}
    if algorithm in full:
        return full[algorithm]
    own = full[{"bucket-resort": "bucket-sort", "atomic-resort": "atomic-list"}[algorithm]]
    return own * (0.1 + moved / 500000) * (0.5 if destination == "next" else 1)


def resort_records() -> list[dict[str, Any]]:
    return [
        record(
            algorithm, form, 2**20, study=TABLE_2, moved=moved, destination=destination,
            median=resort_time(algorithm, moved, destination),
        )
        for moved in MOVED
        for destination in ("random", "next")
        for algorithm, form in (
            ("bucket-sort", "host-loop"), ("bucket-resort", "host-loop"),
            ("atomic-list", "one-pass"), ("atomic-resort", "one-pass"),
        )
    ]  # fmt: skip


def filter_time(algorithm: str, records: int, kept: float = 0.5) -> float:
    """Return milliseconds: the sort takes log2 n times as long, keeping more takes longer."""
    scan = records * (1 + kept) / 1e6
    return scan * (math.log2(records) if algorithm == "filter-bitonic" else 1)


PAPER_FORMS = (
    ("filter-scan-search", "one-pass-per-step"),
    ("filter-bitonic", "one-launch-per-step"),
)


def filter_records() -> list[dict[str, Any]]:
    published = load_study(TABLE_36_1).published
    assert published is not None
    places = [(int(n), 0.5) for n in published.rows]
    places += [(2**22, kept) for kept in (0.0, 0.1, 1.0)]
    return [
        stream_record(algorithm, form, n, kept)
        for n, kept in places
        for algorithm, form in PAPER_FORMS
    ]


def stream_record(
    algorithm: str, form: str, records: int, kept: float, faster: float = 1, **changes: Any
) -> dict[str, Any]:
    time = filter_time(algorithm, records, kept) / faster
    made = record(algorithm, form, study=TABLE_36_1, median=time, **changes)
    return of_other_input(made, records=records, kept=kept, record_bytes=4, nulls="infinity")


def of_other_input(made: dict[str, Any], **axes: Any) -> dict[str, Any]:
    """Remake a record with axes of another input than particles."""
    no_particles = ("particles", "per_cell", "cells", "periodic", "distribution", "order")
    fields = flat_fields(made) | dict.fromkeys(no_particles) | axes
    del fields["key"]
    return make_record(**fields)


def number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def test_table_of_moved_particles_stands_beside_its_print(tmp_path: Path) -> None:
    page = write_page([results(resort_records())], tmp_path)
    published = load_study(TABLE_2).published
    assert published is not None
    head, *rows = page.tables["Measured: the paper's variant, which is the best, ms"]
    assert head == ["Moved", "Sort: bucket-sort", "Re-sort: bucket-resort"]
    for moved, row, printed in zip(MOVED, rows, published.values, strict=True):
        assert row[0] == f"{moved:,}"
        for algorithm, text, value in zip(published.algorithms, row[1:], printed, strict=True):
            time = resort_time(algorithm, moved)
            assert text == f"{formats.significant(time)} {formats.ratio(value / time)}"


def test_times_per_record_have_the_published_unit(tmp_path: Path) -> None:
    page = write_page([results(filter_records())], tmp_path)
    published = load_study(TABLE_36_1).published
    assert published is not None
    rows = page.tables["Measured: the paper's variant, which is the best, µs per record"][1:]
    for n, row, printed in zip(published.rows, rows, published.values, strict=True):
        for algorithm, text, value in zip(published.algorithms, row[1:], printed, strict=True):
            each = 1000 * filter_time(algorithm, int(n)) / n
            assert text == f"{formats.significant(each)} {formats.ratio(value / each)}"
    kept = {row[0]: row[1:] for row in page.tables[
        "2²² records: µs per record by share of the records kept"
    ]}  # fmt: skip
    assert kept["Algorithm"] == ["0", "0.1", "0.5", "1"]
    assert [number(text) for text in kept["filter-scan-search"]] == [0.001, 0.0011, 0.0015, 0.002]


def test_a_published_table_is_measured_in_one_mode_and_nothing_stands_in_for_what_was_not() -> None:
    published = load_study(TABLE_36_1).published
    assert published is not None
    made = [
        stream_record(algorithm, form, int(n), 0.5, faster, mode=mode)
        for n in published.rows
        for algorithm, form, mode, faster in (
            (*PAPER_FORMS[0], "hot", 1),
            (*PAPER_FORMS[0], "graph", 3),
            ("filter-bitonic", "sort", "hot", 1),
        )
    ]
    paper, best = published_tables.measured(run_of(made), published)
    n, values = int(published.rows[0]), published.values[0]
    scan, sort = (1000 * filter_time(name, n) / n for name, _ in PAPER_FORMS)
    # Of the sort the paper's form is missing: the graph of the scan is alone.
    own = (formats.significant(scan / 3), formats.ratio(3 * values[0] / scan))
    assert [(i.text, i.detail) for i in paper.rows[0].items[:1]] == [own]
    assert not [column for column in paper.columns if "Bitonic" in column]
    assert paper.notes[-1].startswith(f"Not measured: {published.columns[1]}")
    assert "device time" in paper.notes[0]
    # Beside the sort as launched the scan is as launched too, each over its own column.
    assert [(i.text, i.detail) for i in best.rows[0].items[:2]] == [
        (formats.significant(time), formats.ratio(value / time))
        for time, value in zip((scan, sort), values, strict=False)
    ]
    assert best.notes[0] == "Timing: launched (called from Python, warm)."


def test_no_two_of_many_lines_look_alike() -> None:
    lines = [figures.Curve("", [], colour) for colour in range(2 * figures.PALETTE)]
    looks = {(line.colour % figures.PALETTE, figures.marker(line)) for line in lines}
    assert len(looks) == len(lines)
    # Hollow markers and dashes are left to variants, which keep the shapes of their colour apart.
    variants = [replace(line, variant=1) for line in lines]
    assert not {figures.marker(line) for line in variants} & {
        figures.marker(line) for line in lines
    }
    for palette in (figures.LIGHT, figures.DARK):
        seen = np.array([[int(hue[i : i + 2], 16) for i in (1, 3, 5)] for hue in palette])
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
        assert apart[~np.eye(len(seen), dtype=bool)].min() > 40


def test_variants_share_the_colour_of_their_algorithm() -> None:
    charts = {c.slug: c for c in study_charts.charts(run_of(resort_records()), "s")}
    titles = [panel.title for panel in charts["s-moved"].panels]
    assert titles == ["the usual input", "destination next"]
    looks = {line.label: (line.colour, line.variant) for line in charts["s-moved"].panels[0].lines}
    assert len(set(looks.values())) == 4
    variants = [record("bucket-sort", form, n) for form in ("host-loop", "device-loop")
                for n in SIZES]  # fmt: skip
    lines = study_charts.charts(run_of(variants), "s")[0].panels[0].lines
    assert [(line.colour, line.variant) for line in lines] == [(0, 0), (0, 1)]
    assert [p.x for p in charts["s-moved"].panels[0].lines[0].points] == list(MOVED)


def noise_records() -> list[dict[str, Any]]:
    made = []
    for pairs in (65536, 262144):
        for algorithm, form, factor, outcome in (
            ("noise-philox", "rounds-10", 2.0, {}),
            ("noise-rozen", "fourth-draw", 1.0,
             {"tail": 30, "cycle": 1200, "longest_cycle": 4000, "cycle_mean": -0.0625}),
        ):  # fmt: skip
            outcome |= {"mean": -0.00012345, "numbers": 8 * pairs, "not_named": 5}
            median = factor * pairs / 2**22
            drawn = record(algorithm, form, study=NOISE, median=median, outcome=outcome)
            made.append(of_other_input(drawn, pairs=pairs))
    return made


def test_what_algorithms_report_stands_below_their_times(tmp_path: Path) -> None:
    page = write_page([results(noise_records())], tmp_path)
    told = page.tables["What the algorithms report at 2¹⁸ pairs"]
    named = load_study(NOISE).outcomes
    assert list(map(list, zip(*told, strict=True))) == [
        ["Algorithm", "noise-philox", "noise-rozen"],
        ["Median, ms", "0.125", "0.0625"],
        ["Pairs per second, 10⁹", "2.10", "4.19"],
        [named["numbers"], "2,097,152", "2,097,152"],
        [named["mean"], "-0.000123", "-0.000123"],
        [named["tail"], formats.DASH, "30"],
        [named["cycle"], formats.DASH, "1,200"],
        [named["cycle_mean"], formats.DASH, "-0.0625"],
        [named["longest_cycle"], formats.DASH, "4,000"],
    ]
    rows = pd.read_csv(tmp_path / f"{NOISE}-records.csv.gz")
    largest = rows[rows.pairs == 262144]
    assert len(largest) and largest.command.str.contains("--particles 262144").all()


def test_a_rate_that_a_study_names_is_of_what_was_written(tmp_path: Path) -> None:
    """Of the faces of the base mesh it would say nothing."""
    divided = record(
        "loop-subdivision", "uniform", study="horn2005-subdivision", median=0.5,
        outcome={"triangles": 4096},
    )  # fmt: skip
    made = [
        of_other_input(divided, surface="icosphere", faces=1024, depth=depth) for depth in (1, 2)
    ]
    page = write_page([results(made)], tmp_path)
    [rows] = [rows for title, rows in page.tables.items() if title.startswith("What the algo")]
    head, row = rows
    assert row[head.index("Triangles written per second, 10⁹")] == "0.00819"


def hash_records() -> list[dict[str, Any]]:
    """Two forms at three numbers of buckets and at the default, beside a grid without any."""
    symmetric = {"study": "silva2012-hash-grid", "distribution": "symmetric"}
    made = [record("radix-grid", "reorder", median=1.0, **symmetric)]
    for form, factor in (("original", 2.0), ("world-limits", 3.0)):
        for buckets in (None, 1024, 4096, 65536):
            parameters = {} if buckets is None else {"buckets": buckets}
            outcome = {"buckets": buckets or 65536, "collisions": 7, "largest": 9}
            fields = symmetric | {"parameters": parameters, "outcome": outcome}
            median = factor + (buckets or 65536) / 65536
            made.append(record("hash-grid", form, median=median, **fields))
    return made


def test_a_figure_of_names_leaves_out_what_has_one_of_them() -> None:
    others = [
        record(algorithm, form, study="silva2012-hash-grid", distribution="uniform")
        for algorithm, form in (("radix-grid", "reorder"), ("hash-grid", "original"))
    ]
    charts = {c.slug: c for c in study_charts.charts(run_of([*hash_records(), *others]), "s")}
    [panel] = charts["s-distribution"].panels
    assert {line.label for line in panel.lines} == {"hash-grid original", "radix-grid"}


def test_time_is_drawn_against_pairs() -> None:
    charts = {c.slug: c for c in study_charts.charts(run_of(noise_records()), "s")}
    [panel] = charts["s-pairs"].panels
    assert [[p.x for p in line.points] for line in panel.lines] == [[65536, 262144]] * 2
    assert panel.description.startswith("Time against pairs. At the right end, ms: noise-philox")


def test_shares_of_the_copy_bandwidth_are_told():
    cell = record("counting-sort", "order", 1048576, 4, median=0.5, bytes_moved=10**9)
    shown, notes = tables.subjects(run_of([cell]))
    assert shown[0].rows[0].items[0].detail == "50 %"
    assert any("fraction of the copy bandwidth" in note for note in notes)
