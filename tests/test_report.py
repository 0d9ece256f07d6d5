from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench import report
from gpubench.report import cells, figures, formats, tables, verdict
from gpubench.results import Results, make_record
from gpubench.studies.study import load_study

STUDY = "rozen2008-table1"
SIZES = (65536, 131072, 262144, 524288, 1048576)
OCCUPANCIES = (1, 2, 4, 8, 16)

# Clearly synthetic: a device that does not exist, and times by a formula.
ENVIRONMENT: dict[str, Any] = {
    "machine": "synthetic-gpu",
    "device": {
        "backend": "cuda",
        "name": "Synthetic GPU",
        "is_cpu": False,
        "driver": "0.0",
        "memory_bytes": 10**11,
    },
    "host": {"cpu": "Synthetic CPU", "cores": 2, "memory_bytes": 8 * 10**9, "os": "none"},
    "libraries": {"numpy": "0", "pycuda": None},
    "commit": "0123456789abcdef",
    "dirty": False,
    "code_hash": "feedbeef",
    "copy_bandwidth_gb_s": 4000.0,
    "empty_launch_ms": 0.002,
    "started": "2000-01-02T03:04:05+00:00",
}
FACTORS = {
    ("bucket-sort", "host-loop"): 30.0,
    ("bucket-sort", "device-loop"): 6.0,
    ("bucket-sort-partial", "host-loop"): 24.0,
    ("atomic-list", "one-pass"): 1.0,
    ("counting-sort", "order"): 1.9,
    ("counting-sort", "reorder"): 2.5,
    ("radix-grid", "order"): 2.48,
    ("radix-grid", "reorder"): 3.4,
    ("bitonic-search", "order"): 11.0,
}


def record(
    algorithm: str = "atomic-list",
    form: str = "one-pass",
    particles: int = 65536,
    per_cell: float = 4,
    *,
    median: float = 1.0,
    width: float = 0.01,
    **changes: Any,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "study": STUDY,
        "sweep": "table",
        "algorithm": algorithm,
        "form": form,
        "device": "cuda",
        "particles": particles,
        "per_cell": per_cell,
        "cells": [1, 1, round(particles / per_cell)],
        "periodic": [False, False, False],
        "distribution": "uniform",
        "order": "random",
        "mode": "hot",
        "status": "ok",
        "bytes_moved": 12 * particles,
        "workspace_bytes": 8 * particles,
        "seed": 7,
    } | changes
    if fields["status"] == "ok":
        fields |= {
            "batch": 4,
            "samples_ms": [median * (1 - width), median, median * (1 + width)],
            "median_ms": median,
            "ci95_low_ms": median * (1 - width),
            "ci95_high_ms": median * (1 + width),
        }
    return make_record(**fields)


def skipped(reason: str, **changes: Any) -> dict[str, Any]:
    return record(status="skipped", reason=reason, **changes)


def results(records: list[dict[str, Any]], name: str = "synthetic.json", **changes: Any) -> Results:
    return Results(ENVIRONMENT | changes, records, Path("/nowhere") / name)


def synthetic_time(algorithm: str, form: str, particles: int, per_cell: float) -> float:
    growth = per_cell**0.6 if "bucket" in algorithm else per_cell**-0.05
    return FACTORS[algorithm, form] * growth * (0.004 + particles / 5e7)


def full_records() -> list[dict[str, Any]]:
    """Make what a run of the whole study on a GPU would leave."""
    records = []
    order_factor = {"random": 1.0, "nearly-sorted": 0.6, "morton": 0.55, "cell": 0.5}
    places = [(n, p, "random") for n in SIZES for p in OCCUPANCIES]
    places += [(n, p, "random") for n in (2**22, 2**24) for p in (1, 4, 16)]
    places += [(2**20, 4, order) for order in order_factor if order != "random"]
    for particles, per_cell, order in places:
        for algorithm, form in FACTORS:
            time = synthetic_time(algorithm, form, particles, per_cell) * order_factor[order]
            rounds = round(math.log2(particles) / 4 + 2 * per_cell)
            for mode, factor in (("hot", 1.2), ("cold", 1.7), ("graph", 1.0)):
                about: dict[str, Any] = {"mode": mode, "order": order}
                if form == "host-loop" and mode == "graph":
                    about |= {
                        "status": "skipped",
                        "reason": "the host reads back in the middle, which no CUDA graph can hold",
                    }
                if algorithm == "bitonic-search" and particles > 2**22:
                    about |= {"status": "skipped", "reason": "more memory than the device has"}
                if "bucket" in algorithm:
                    about["outcome"] = {"rounds": rounds}
                records.append(
                    record(algorithm, form, particles, per_cell, median=time * factor, **about)
                )
    return records


def cpu_results() -> Results:
    """Make what a quick run on a CPU would leave, with one wrong answer and one failure."""
    records = []
    for particles in (65536, 262144):
        for per_cell in OCCUPANCIES:
            for algorithm, form in FACTORS:
                if form == "device-loop":
                    about = {"status": "skipped", "reason": "needs CUDA: run with --device cuda"}
                elif algorithm == "bitonic-search" and per_cell == 16:
                    about = {"status": "wrong", "reason": "3 pairs of (cell, particle) are missing"}
                else:
                    about = {}
                time = 40 * synthetic_time(algorithm, form, particles, per_cell)
                records.append(
                    record(
                        algorithm, form, particles, per_cell, median=time, device="opencl", **about
                    )
                )
    device = {"backend": "opencl", "name": "Synthetic CPU", "is_cpu": True}
    return results(
        records, "cpu.json", machine="synthetic-cpu", device=device, copy_bandwidth_gb_s=20.0
    )


class Page(HTMLParser):
    """The tags, the text and the tables of a page: by label, rows of texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._label: str | None = None
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "table":
            self._label = found["aria-label"] or ""
            self.tables[self._label] = []
        elif self._label is not None and tag == "tr":
            self.tables[self._label].append([])
        elif self._label is not None and tag in ("td", "th"):
            self.tables[self._label][-1].append("")
            self._open = True
        elif self._open and tag == "small":
            self.tables[self._label or ""][-1][-1] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._label = None
        elif tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._label is not None:
            self.tables[self._label][-1][-1] += data

    def attributes(self, *names: str) -> list[str]:
        return [v for _, found in self.tags for name, v in found.items() if v and name in names]


def write_page(shown: list[Results], out: Path) -> Page:
    return Page(report.write(shown, out).read_text(encoding="utf-8"))


def run_of(records: list[dict[str, Any]]) -> cells.StudyRun:
    [machine] = cells.machines([results(records)])
    [study] = machine.studies
    return study


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Parse the pipe tables of Markdown."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            row = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            found[-1].append([part.strip() for part in row])
        inside = line.startswith("|")
    return found


@pytest.fixture(scope="module")
def gpu_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gpu")
    report.write([results(full_records())], out)
    return out


@pytest.fixture(scope="module")
def gpu_page(gpu_folder: Path) -> Page:
    return Page((gpu_folder / "index.html").read_text(encoding="utf-8"))


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
    rows = gpu_page.tables["As printed: GeForce 6800 Ultra, ms"][2:]
    assert [[float(text) for text in row[1:]] for row in rows] == [
        list(r) for r in published.values
    ]
    assert published.note in gpu_page.text


def test_measured_table_holds_median_and_speedup_of_the_best_form(gpu_page: Page) -> None:
    published = load_study(STUDY).published
    assert published is not None
    rows = gpu_page.tables["Measured: bucket-sort device-loop, median, ms"][2:]
    for size, row, printed in zip(SIZES, rows, published.values, strict=True):
        assert row[0] == formats.count(size)
        for per_cell, text, value in zip(OCCUPANCIES, row[1:], printed, strict=True):
            time = synthetic_time("bucket-sort", "device-loop", size, per_cell)
            assert text == f"{formats.significant(time)} {formats.ratio(value / time)}"


def test_headline_is_the_graph_replay_and_hot_is_marked_where_it_is_all_there_is(
    gpu_page: Page,
) -> None:
    rows = {row[0]: row[1:] for row in gpu_page.tables["2²⁰ (1,048,576) particles"]}
    graph = synthetic_time("atomic-list", "one-pass", 2**20, 1)
    hot = 1.2 * synthetic_time("bucket-sort", "host-loop", 2**20, 1)
    assert rows["atomic-list"][0] == formats.significant(graph)
    assert rows["bucket-sort host-loop"][0] == formats.significant(hot) + "ʰ"
    assert "ʰ hot (launches back to back, caches warm), where there is no graph timing" in (
        gpu_page.text
    )


def test_every_record_has_its_row_with_mode_and_command(gpu_page: Page) -> None:
    head, *rows = gpu_page.tables["Every cell in every mode"]
    assert len(rows) == len(full_records())
    wanted = ["atomic-list", "one-pass", "65,536", "4", "random", "cold"]
    [row] = [row for row in rows if row[:6] == wanted]
    found = dict(zip(head, row, strict=True))
    time = 1.7 * synthetic_time("atomic-list", "one-pass", 65536, 4)
    assert found["Median, ms"] == formats.significant(time)
    assert found["Samples"] == "3"
    assert found["Batch"] == "4"
    assert found["Repeat"] == (
        f"gpubench run {STUDY} --device cuda --algorithms atomic-list"
        " --particles 65536 --per-cell 4"
    )
    share = 100 * 12 * 65536 / (time * 1e6) / 4000
    assert found["Copy bandwidth"] == f"{formats.significant(share)} %"


def test_verdict_names_the_winner_and_its_lead() -> None:
    text = " ".join(verdict.sentences(run_of(full_records())))
    assert (
        "At 2²⁰ (1,048,576) particles, atomic-list is fastest at 1, 2, 4, 8 and 16 per cell" in text
    )
    assert "the next takes 1.90 times as long" in text
    assert "bucket-sort device-loop, runs 227 to 1,380 times as fast here as printed" in text
    assert "takes 6.00 to 36.4 times as long as the fastest" in text
    assert "none was wrong" in text


def test_verdict_claims_no_winner_where_intervals_overlap() -> None:
    close = [
        record("atomic-list", "one-pass", median=1.0, width=0.02),
        record("counting-sort", "order", median=1.03, width=0.02),
        record("radix-grid", "order", median=2.0, width=0.02),
    ]
    text = " ".join(verdict.sentences(run_of(close)))
    assert (
        "atomic-list and counting-sort are fastest at 4 per cell and cannot be told apart" in text
    )
    assert "times as long" not in text
    [row] = tables.fastest(run_of(close), 65536).rows
    assert row.items[-1].text == "intervals overlap"


def test_intervals_that_touch_cannot_be_told_apart() -> None:
    pair = [
        record(median=1.0, width=0.25),
        record("counting-sort", "order", median=2.0, width=0.375),
    ]
    run = run_of(pair)
    faster, slower = run.at(particles=65536, per_cell=4)
    assert faster.interval_ms[1] == slower.interval_ms[0]
    assert not cells.told_apart(faster, slower)


def test_a_wrong_answer_in_any_mode_leaves_the_cell_without_a_time() -> None:
    run = run_of([record(), record(mode="graph", status="wrong", reason="two are missing")])
    [cell] = run.cells.values()
    assert not cell.ok
    assert "1 of 2 measurements gave a wrong answer" in " ".join(verdict.sentences(run))


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
            "2¹⁶ to 2²⁰ particles; 2, 4 per cell; hot",
            reason,
        ]
    ]
    assert "script" not in {tag for tag, _ in page.tags}
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<script>" not in text
    [table] = [t for t in markdown_tables(text) if t[0][0] == "Status"]
    assert len(table[2]) == len(table[0])


def test_cpu_times_are_called_cpu_times(tmp_path: Path, gpu_page: Page) -> None:
    page = write_page([cpu_results()], tmp_path)
    warning = "These are CPU times, not GPU times."
    assert warning in page.text
    assert warning in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert warning not in gpu_page.text
    assert "At 2¹⁸ (262,144) particles" in page.text
    rows = {row[0]: row[1:] for row in page.tables["2¹⁸ (262,144) particles"]}
    assert rows["bucket-sort device-loop"] == ["skipped"] * 5
    assert rows["bitonic-search"][-1] == "wrong"


def test_page_loads_nothing(gpu_folder: Path, gpu_page: Page) -> None:
    assert all(
        target.startswith("#") for target in gpu_page.attributes("src", "href", "xlink:href")
    )
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in gpu_page.tags}
    html = (gpu_folder / "index.html").read_text(encoding="utf-8")
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}


def test_page_structure(gpu_page: Page) -> None:
    ids = gpu_page.attributes("id")
    assert len(ids) == len(set(ids))
    links = {v.removeprefix("#") for v in gpu_page.attributes("href", "xlink:href")}
    assert links <= set(ids)
    figures_shown = [found for tag, found in gpu_page.tags if tag == "svg"]
    assert len(figures_shown) == 5 + 3 + 2 + 1
    assert all(found["role"] == "img" and found["aria-label"] for found in figures_shown)
    levels = [int(tag[1]) for tag, _ in gpu_page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_figures_follow_the_colours_of_the_page(gpu_folder: Path) -> None:
    html = (gpu_folder / "index.html").read_text(encoding="utf-8")
    assert not re.search("#0[123]0[123]0", html)
    assert "currentColor" in html
    assert "prefers-color-scheme: dark" in html
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
    assert len(pictures) == 11
    assert all((gpu_folder / picture).is_file() for picture in pictures)
    [fastest] = [t for t in found if t[0][1] == "Fastest"]
    assert fastest[2][1:3] == [
        "atomic-list",
        formats.significant(synthetic_time("atomic-list", "one-pass", 2**20, 1)),
    ]


def test_csv_reads_back_as_the_records(gpu_folder: Path) -> None:
    read = pd.read_csv(gpu_folder / "records.csv")
    records = full_records()
    assert len(read) == len(records)
    assert "samples_ms" not in read
    for name in ("key", "algorithm", "form", "particles", "per_cell", "mode", "status"):
        assert read[name].tolist() == [r[name] for r in records]
    for name in ("median_ms", "ci95_low_ms", "ci95_high_ms"):
        values = [math.nan if r[name] is None else r[name] for r in records]
        assert np.array_equal(read[name].to_numpy(), values, equal_nan=True)
    assert [json.loads(text) for text in read["outcome"]] == [r["outcome"] for r in records]


def test_csv_of_the_published_table(gpu_folder: Path) -> None:
    published = load_study(STUDY).published
    assert published is not None
    printed = pd.read_csv(gpu_folder / f"{STUDY}-printed.csv", index_col="particles")
    assert printed.to_numpy().tolist() == [list(row) for row in published.values]
    measured = pd.read_csv(gpu_folder / f"{STUDY}-measured.csv")
    assert len(measured) == 25 * len(FACTORS)
    own = measured[measured["algorithm"] == "bucket-sort"]
    assert own["printed_over_measured"].to_numpy() == pytest.approx(
        (own["printed_ms"] / own["median_ms"]).to_numpy()
    )
    others = measured[measured["algorithm"] != "bucket-sort"]
    assert others["printed_ms"].isna().all()


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
    assert page.tags[-1][0] == "footer"
    assert {path.name for path in tmp_path.iterdir()} >= {"index.html", "report.md", "records.csv"}
    assert not list(tmp_path.rglob("*.partial"))
    assert len(pd.read_csv(tmp_path / "records.csv")) == len(records)
    assert "nan" not in page.text.lower().split()


def test_no_results_make_a_page_that_says_what_to_do(tmp_path: Path) -> None:
    page = write_page([], tmp_path)
    assert "There are no results to report on." in page.text


def test_study_without_a_published_table_has_medians_with_intervals(tmp_path: Path) -> None:
    page = write_page([results([record(study="not-shipped-here", median=2.0)])], tmp_path)
    assert page.tables["Medians, ms"][1] == [
        "atomic-list", formats.count(65536), "2.00", f"1.98 {formats.DASH} 2.02",
    ]  # fmt: skip


def test_parameters_tell_subjects_apart() -> None:
    run = run_of([record(parameters={"parts": 4}), record(parameters={"parts": 8})])
    assert list(run.labels.values()) == ["atomic-list parts=4", "atomic-list parts=8"]


def test_newer_results_of_one_machine_replace_older() -> None:
    older = results([record(median=1.0), record(per_cell=1, median=3.0)], "older.json")
    newer = results([record(median=2.0)], "newer.json", started="2001-01-01T00:00:00+00:00")
    [machine] = cells.machines([newer, older])
    [run] = machine.studies
    [cell] = run.at(particles=65536, per_cell=4)
    assert cell.median_ms == 2.0
    [kept] = run.at(particles=65536, per_cell=1)
    assert kept.median_ms == 3.0
    assert run.replaced == 1
    assert [run.path.name for run in machine.runs] == ["older.json", "newer.json"]


def test_of_two_sweeps_that_share_a_cell_the_first_counts() -> None:
    run = run_of([record(median=1.0), record(median=2.0, sweep="order")])
    [cell] = run.cells.values()
    assert cell.median_ms == 1.0
    assert run.replaced == 1


def test_repeated_attempt_replaces_the_failed_one_before_it() -> None:
    run = run_of([record(status="failed", reason="the driver timed out"), record(median=2.0)])
    [cell] = run.cells.values()
    assert cell.ok


def test_machines_are_compared_at_their_largest_common_size(tmp_path: Path) -> None:
    page = write_page([results(full_records()), cpu_results()], tmp_path)
    rows = page.tables["Sorting particles into cells: 2¹⁸ (262,144) particles, 4 per cell"]
    assert rows[1] == ["Algorithm", "Synthetic GPU", "Synthetic CPU (CPU)"]
    by_name = {row[0]: row[1:] for row in rows[2:]}
    time = synthetic_time("atomic-list", "one-pass", 2**18, 4)
    assert by_name["atomic-list"] == [
        formats.significant(time),
        f"{formats.significant(40 * time)}ʰ {formats.ratio(40)}",
    ]
    assert page.text.count("These are CPU times") == 1
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))


def test_environment_is_shown_with_units(gpu_page: Page) -> None:
    rows = {row[0]: row[1] for row in gpu_page.tables["The machine"][1:]}
    assert rows["device: memory"] == "100 GB"
    assert rows["copy bandwidth"] == "4,000 GB/s"
    assert rows["empty launch"] == "0.00200 ms"
    assert rows["libraries: pycuda"] == "not known"


def test_states_are_summarised_over_the_measurements() -> None:
    states = [
        {"clocks_sm_mhz": 1980, "throttle_reasons": []},
        {"clocks_sm_mhz": 1755, "throttle_reasons": ["sw_power_cap"]},
    ]
    measured = results([record(state_before=states[0], state_after=states[1])])
    [machine] = cells.machines([measured])
    rows = {row.head: row.items[0].text for row in tables.environment(machine).rows}
    assert rows["while measuring: clocks sm mhz"] == "1,755 to 1,980"
    assert rows["while measuring: throttle reasons"] == "sw_power_cap"


@given(st.lists(st.floats(0, 200), max_size=12))
def test_labels_never_overlap_and_keep_their_order(heights: list[float]) -> None:
    wanted = sorted(heights)
    placed = figures.spread(wanted, 11.5, 0, 200)
    assert len(placed) == len(wanted)
    assert all(b - a >= 11.5 - 1e-9 for a, b in pairwise(placed))
    assert all(-1e-9 <= p <= 200 + 1e-9 for p in placed)


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    first = report.write([cpu_results()], tmp_path / "a").read_bytes()
    second = report.write([cpu_results()], tmp_path / "b").read_bytes()
    assert first == second
