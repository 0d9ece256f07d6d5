"""The part of a report on neighbour searches over their regimes, from synthetic records."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from kinds import flat_fields
from regime_records import LIBRARIES, grid, moved, remade, rivals_study, run_of, search, steps
from report_pages import Page, results

from gpubench import report
from gpubench.report import formats, search_pages, tables, verdict
from gpubench.report.rankings import Searches
from gpubench.report.sources import Sources


def field_of(records: list[dict[str, Any]]) -> Searches:
    return Searches(run_of(records))


def race_of(*found: tuple[str, str, float, float]) -> Searches:
    """Return one race: algorithm, form, median, half width of the interval."""
    return field_of([search(a, form, median=t, width=w) for a, form, t, w in found])


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def records_in(folder: Path) -> list[dict[str, str]]:
    return read(gzip.decompress((folder / "regimes-records.csv.gz").read_bytes()).decode())


# Races and maps.


def test_the_best_variant_of_each_algorithm_competes_and_the_runner_up_is_another_algorithm() -> (
    None
):
    field = race_of(
        ("a", "list-matrix", 1.0, 0.01), ("a", "list-pairs", 1.1, 0.01), ("b", "list", 2.0, 0.01)
    )
    [race] = field.races
    assert race[0].subject.form == "list-matrix"
    assert [cell.subject.algorithm for cell in race] == ["a", "b"]
    ratio = race[1].standing.ratio
    assert ratio.value == 2.0
    half = math.hypot(math.log(1.01), math.log(0.99))
    assert ratio.low == pytest.approx(2 * math.exp(-half))
    assert ratio.high == pytest.approx(2 * math.exp(half))
    assert not any(cell.device_is_first for cell in race[1:])


@pytest.mark.parametrize(
    ("others", "unclear"),
    [
        ([("b", 1.03, 0.01)], False),
        ([("b", 1.013, 0.01)], True),
        ([("b", 1.3, 0.01), ("c", 1.5, 0.5)], True),  # of the third it cannot be told
    ],
)
def test_a_tile_is_hatched_where_an_interval_holds_one(
    others: list[tuple[str, float, float]], unclear: bool
) -> None:
    [race] = race_of(("a", "count", 1.0, 0.01), *((n, "count", t, w) for n, t, w in others)).races
    assert any(cell.device_is_first for cell in race[1:]) == unclear


def test_graphs_are_ranked_and_what_none_holds_by_its_launches() -> None:
    field = field_of(
        [
            search("search-counting-sort", "count", median=2.0),
            search("search-counting-sort", "count", median=0.5, mode="graph"),
            search("search-radix-grid", "count", median=1.0, mode="graph"),
            search("search-atomic-list", "count", median=1.0, mode="graph"),
            search("search-atomic-list", "count", status="failed", reason="bad luck", mode="hot"),
            search("warp-hash-grid", "count", median=3.0),
        ]
    )
    [race] = field.races
    assert [(cell.subject.algorithm, cell.median_ms) for cell in race] == [
        ("search-counting-sort", 0.5),
        ("warp-hash-grid", 3.0),
        ("search-radix-grid", 1.0),
        ("search-atomic-list", 1.0),
    ]
    assert [round(cell.standing.ratio.value, 6) for cell in race] == [1.0, 1.5, 2.0, 2.0]
    tried = field.of("count").cells.values()
    assert [(cell.subject.algorithm, cell.status) for cell in tried] == [
        ("search-counting-sort", "ok"),
        ("search-radix-grid", "ok"),
        ("search-atomic-list", "ok"),
        ("warp-hash-grid", "ok"),
    ]


def test_times_that_may_be_none_are_left_out() -> None:
    records = [
        search(name, form, size, median=time, width=width, **about)
        for size in (2**12, 2**14, 2**16)
        for name, form, time, width, about in (
            ("search-counting-sort", "count", 1.0, 0.01, {}),
            ("search-radix-grid", "count", 1e-3, 1.0, {}),
            ("search-atomic-list", "count", 0.0, 0.0, {}),
            ("warp-hash-grid", "count", 2.0, 0.01, {}),
            ("search-counting-resort", "update", 1e-3, 1.0, {"moved": 9, "destination": "next"}),
            ("search-counting-sort", "count", 0.0, 0.0, {"moved": 9, "destination": "next"}),
        )
    ]
    field = field_of(records)
    assert {c.subject.algorithm for race in field.races for c in race} == {
        "search-counting-sort",
        "warp-hash-grid",
    }
    said = search_pages.libraries_verdict(field)
    assert said.startswith(
        "Against the fastest library on each input, ours are first in all 3 comparisons ("
    )
    assert said.endswith("; smallest lead 2.00\N{MULTIPLICATION SIGN} (count, 2¹² particles).")


def test_tasks_of_the_front_page_come_first() -> None:
    field = field_of(grid(("search-counting-sort", "search-radix-grid"), (2**12,), (1,)))
    assert [name.partition(":")[0] for name in field.by_question] == [
        "count", "list", "build", "ten-counts",
    ]  # fmt: skip


def test_a_library_s_sort_is_no_whole_library_in_the_table() -> None:
    names = {"warp-hash-grid": "all", "search-cuda-compute-sort": "its sort"}
    table = search_pages.libraries_table(field_of([search(name, "count") for name in names]))
    assert {row.head: row.items[1].text for row in table.rows} == names


def test_moved_particles_are_one_question_for_updates_and_rebuilds() -> None:
    about: dict[str, Any] = {"moved": 10486, "destination": "next"}
    field = field_of(
        [
            search("search-counting-resort", "update", median=1.0, **about),
            search("search-counting-sort", "count", median=2.0, **about),
            search("search-counting-sort", "count", median=2.1),
        ]
    )
    assert [(task, len(race)) for task, own in field.by_question.items() for race in own] == [
        ("count", 1),
        ("update", 2),
    ]


def test_a_wrong_answer_is_told_with_its_reason_and_on_the_front_page(tmp_path: Path) -> None:
    bad = {"status": "wrong", "reason": "it loses pairs", "mode": "hot", "library": None}
    records = [
        search("vesin", "list-pairs", 2**12, median=1.0),
        search("vesin", "list-pairs", 2**16, distribution="coincident", **bad),
        search("search-counting-sort", "list", 2**12, median=0.5),
    ]
    report.write(Sources([results(records)]), tmp_path)
    page = Page((tmp_path / "regimes.html").read_text("utf-8"))
    rows = page.tables["Measurements without a time"]
    where = "2¹⁶ particles, 4 per cell, hot"
    assert rows[1] == ["wrong", "1", "vesin list-pairs", where, "it loses pairs"]
    front = (tmp_path / "index.html").read_text("utf-8")
    assert (
        "Wrong: vesin, coincident distribution, on a GPU (it loses pairs)." in front
        and "1 wrong" in front
    )


# Re-sorts.


def test_the_share_at_which_a_rebuild_overtakes_a_resort_is_the_closed_form() -> None:
    n = 2**20
    records = [
        search(
            algorithm, form, n, median=time, width=1e-6, moved=round(share * n), destination="next"
        )
        for share in (0, 0.25, 0.5, 1)
        for algorithm, form, time in (
            ("search-counting-resort", "update", math.exp(share)),
            ("search-counting-sort", "count", 2.0),
            ("search-radix-grid", "count", 4.0),
        )
    ]
    table = verdict.overtakings(field_of(records).of("update"), ("moved",))
    [row] = table.rows
    first, second, at, _ = (item.text for item in row.items)
    assert (first, second) == ("search-counting-resort", "search-counting-sort")
    assert at == f"{math.log(2) * n:,.0f} particles moved"


# Rivals.


def test_a_rival_that_wins_is_said_first() -> None:
    records = [
        search("search-counting-sort", "count", median=2.0),
        search("warp-hash-grid", "count", median=1.0, library="warp-lang 0.0"),
        search("search-counting-sort", "list", median=1.0),
        search("warp-hash-grid", "list", median=2.0, library="warp-lang 0.0"),
    ]
    said = search_pages.libraries_verdict(field_of(records))
    assert said.startswith(
        "Where a library wins: in “count” warp-hash-grid on 1 of 1 inputs, where the best of ours"
        " takes 2.00 times as long. Against the fastest library on each input, ours are first in 1"
        " of 2 comparisons (warp-hash-grid in 2; launched), behind in 1."
    )
    assert search_pages.gist(field_of(records)) == (
        "For count take warp-hash-grid: fastest on the one input; for list take"
        " search-counting-sort: fastest on the one input."
    )


def test_ours_are_first_only_where_they_can_be_told_to_be() -> None:
    def said(time: float) -> str:
        return search_pages.libraries_verdict(
            field_of(
                [
                    search("search-counting-sort", "count", median=1.0),
                    search("warp-hash-grid", "count", median=time, library="warp-lang 0.0"),
                ]
            )
        )

    first = "Against the fastest library on each input, ours are first in"
    compared = "(warp-hash-grid in 1; launched), behind in none"
    assert (
        said(2.0)
        == f"{first} all 1 comparisons {compared}; smallest lead {formats.ratio(2)} (count)."
    )
    assert said(1.01) == (
        f"{first} 0 of 1 comparisons {compared}, inconclusive in 1 (count);"
        " smallest lead 1.01\N{MULTIPLICATION SIGN} (count, inconclusive)."
    )
    assert said(0.5).startswith("Where a library wins: in “count” warp-hash-grid")


def test_a_library_s_sort_under_our_query_is_counted_apart_from_libraries_own_searches() -> None:
    records = [
        search(name, "count", 2**14, median=time, mode=mode)
        for name, times in (
            ("search-counting-sort", {"graph": 0.1, "hot": 1.0}),
            ("search-cuda-compute-sort", {"graph": 0.2, "hot": 1.1}),
            ("warp-hash-grid", {"hot": 3.0}),
        )
        for mode, time in times.items()
    ]
    field = field_of(records)
    assert (field.hybrids, field.rivals) == ({"search-cuda-compute-sort"}, {"warp-hash-grid"})
    [race] = field.races
    assert [cell.subject.algorithm for cell in field.ours(race)] == ["search-counting-sort"]
    assert search_pages.libraries_verdict(field) == (
        "Against the fastest library on each input, ours are first in all 1 comparisons"
        f" (warp-hash-grid in 1; launched), behind in none; smallest lead {formats.ratio(3)}"
        " (count). Against our query over the fastest of libraries' sorts on each input, ours are"
        " first in all 1 comparisons (search-cuda-compute-sort in 1; graph replay), behind in none;"
        f" smallest lead {formats.ratio(2)} (count)."
    )


def test_libraries_are_drawn_by_device_time_or_as_launched_beside_ours_as_launched() -> None:
    records = [
        search(name, "count", 2**n, median=time, mode=mode)
        for n in (12, 14)
        for name, times in (
            ("search-counting-sort", {"graph": 0.1, "hot": 1.0}),
            ("search-cuda-compute-sort", {"graph": 0.2, "hot": 1.1}),
            ("warp-hash-grid", {"hot": 3.0}),
        )
        for mode, time in times.items()
    ]
    chart = search_pages.libraries_chart(field_of(records), "slug")
    [panel] = chart.panels
    assert {line.label: [p.y for p in line.points] for line in panel.lines} == {
        "search-cuda-compute-sort": pytest.approx([2, 2]),
        "warp-hash-grid, launched": pytest.approx([3, 3]),
    }
    sections = {each.title: each for each in search_pages.sections(field_of(records), "s")}
    [table] = sections[tables.LAUNCHED].tables
    assert table.caption == "count, called from Python, ms by particles"
    rows = {row.head: [item.text for item in row.items] for row in table.rows}
    assert rows["search-counting-sort"] == ["1.00", "1.00"]


def test_the_page_of_libraries_begins_with_the_smallest_lead_and_names_each_best_method() -> None:
    def timed(name: str, form: str, per_cell: int, particles: int, **more: Any) -> Any:
        return search(name, form, particles, per_cell, study="rivals", sweep="neighbours", **more)

    images = {"outcome": {"writes": "each neighbour's image"}}
    places = [(per_cell, 2**n) for per_cell in (2, 8) for n in (12, 14)]
    records = [timed("search-counting-sort", "list", *at, median=1.0) for at in places]
    records += [timed("warp-hash-grid", "list", *at, median=4.0 + at[0]) for at in places]
    for form, time in (("list-matrix", 3.0), ("list-pairs", 9.0)):
        own = {"median": time, "periodic": [True] * 3, **images}
        records.append(timed("nvalchemi-cell-list", form, 8, 2**14, **own))
    records.append(timed("search-counting-sort", "list", 8, 2**14, median=2.0, periodic=[True] * 3))
    field = field_of(records)
    assert search_pages.gist(field).startswith(
        f"The smallest lead {formats.ratio(1.5)} (list, 2¹⁴ particles, 8 per cell, periodic box)"
        " is over nvalchemi-cell-list list-matrix, launched: the best method of the fastest library"
    )
    tables = {table.caption: table for table in search_pages.leads(field)}
    [open_, closed] = (
        next(t for caption, t in tables.items() if f", {kind}" in caption)
        for kind in ("open", "periodic")
    )
    assert open_.columns[1:] == ["8.4 neighbours, 2 per cell", "34 neighbours, 8 per cell"]
    assert [[(i.text, i.detail) for i in row.items] for row in open_.rows] == [
        [("6.00", "warp-hash-grid list"), ("12.0", "warp-hash-grid list")]
    ] * 2
    assert [(row.head, row.items[0].text) for row in closed.rows] == [("2¹⁴", "1.50")]
    assert "nvalchemi-cell-list list-matrix also writes each neighbour's image." in closed.notes
    assert not any("list-pairs also" in note for note in closed.notes)


def test_what_a_reader_of_a_study_s_times_must_know_begins_its_page(folder: Path) -> None:
    html = folder.joinpath("rivals.html").read_text("utf-8")
    lead = html.partition('<p class="lead">')[2].partition("</p>")[0]
    assert lead.endswith("vesin caps the grid at 8,192 cells, also here.")


def test_without_a_rival_nothing_is_claimed() -> None:
    said = search_pages.libraries_verdict(race_of(("search-counting-sort", "count", 1.0, 0.01)))
    assert said.startswith("No library was timed")


def test_many_losses_are_told_by_task_with_their_share() -> None:
    field = field_of(grid(sizes=(2**12, 2**16, 2**20), occupancies=(0.5, 4)))
    lost = [each for each in field.comparisons(field.rivals) if each.ratio.high < 1]
    said = search_pages.libraries_verdict(field)
    count = sum(each.ours.record.form == "count" for each in lost)
    assert f"on {count} of 6 inputs" in said
    assert said.startswith("Where a library wins: in “count”")


def test_what_is_wrong_did_not_run_or_is_a_replay_is_not_compared(folder: Path) -> None:
    tables = Page(folder.joinpath("rivals.html").read_text("utf-8")).tables
    assert ["vesin", "wrong", "wrong"] in tables["list, ms by particles"]
    assert "search-torch-sort" not in {row[0] for row in tables["count, ms by particles"]}


def test_versions_and_prices_of_libraries_stand_in_a_table_of_their_own() -> None:
    # What one form compiles, at another size than the last, its other forms pay as well.
    slow = {"algorithm": "warp-hash-grid", "form": "count", "particles": 2**20}
    table = search_pages.libraries_table(
        field_of(
            [
                remade(each, first_call_ms=2170.0)
                if slow.items() <= flat_fields(each).items()
                else each
                for each in rivals_study()
            ]
        )
    )
    rows = {row.head: [item.text for item in row.items] for row in table.rows}
    assert rows["warp-hash-grid"] == [
        LIBRARIES["warp-hash-grid"], "all", "2,170", formats.size(90 * 2**22),
    ]  # fmt: skip
    assert "search-counting-sort" not in rows


# Memory.


def test_peak_memory_counts_where_it_is_known() -> None:
    [race] = field_of([search("warp-hash-grid", "count", peak_bytes=7, workspace_bytes=5)]).races
    assert race[0].memory_bytes == 7
    [race] = field_of([search("a", "count", peak_bytes=None, workspace_bytes=5)]).races
    assert race[0].memory_bytes == 5


# Pages.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("regimes")
    small = grid(sizes=(2**12, 2**16, 2**20), occupancies=(1, 4, 16))
    regime = [*small, *moved(sizes=(2**20,)), *steps(sizes=(2**17,))]
    report.write(Sources([results(regime), results(rivals_study(), "rivals.json")]), out)
    return out


def test_the_page_begins_with_the_winners_and_so_does_the_front_page(folder: Path) -> None:
    front = folder.joinpath("index.html").read_text("utf-8")
    for name, first in (("regimes.html", "For count take "), ("rivals.html", "The smallest lead ")):
        verdict = folder.joinpath(name).read_text("utf-8").partition('<p class="verdict">')[2]
        said = verdict.partition("</p>")[0]
        assert said.startswith(first) and " take " in said and said in front


def test_pages_are_small_and_lead_to_files(folder: Path) -> None:
    assert all(page.stat().st_size < 500 * 1024 for page in folder.glob("*.html"))
    page = Page(folder.joinpath("rivals.html").read_text("utf-8"))
    assert "Equal work: count" in page.text
    linked = set(
        re.findall(r'href="([\w.-]+)', "".join(p.read_text("utf-8") for p in folder.glob("*.html")))
    )
    assert {name for name in linked if not (folder / name).is_file()} == set()


def test_machines_stand_on_one_page_with_figures_of_their_own(tmp_path: Path) -> None:
    cpu = {"backend": "opencl", "name": "Synthetic CPU", "is_cpu": True}
    small = grid(["search-counting-sort", "search-radix-grid"], (2**12, 2**14), (1, 4), ("count",))
    slower = results(small, machine="synthetic-cpu", device=cpu)
    report.write(Sources([results(small), slower]), tmp_path)
    html = (tmp_path / "regimes.html").read_text("utf-8")
    assert html.count("-map-count") == 4
    assert "Machines compared" not in html  # the page begins with what was found
    assert len(set(re.findall(r'<strong id="([^"]+)"', html))) == html.count("<strong id=")
    assert {row["machine"] for row in records_in(tmp_path)} == {"synthetic-gpu", "synthetic-cpu"}


def test_the_front_page_answers_for_every_gpu_the_one_measured_last_first(tmp_path: Path) -> None:
    small = grid(["search-counting-sort", "search-radix-grid"], (2**12, 2**14), (1, 4))
    device = {"backend": "cuda", "is_cpu": False}
    gpus = [
        results(
            small,
            machine=name,
            started=f"2026-01-{day}T10:00:00Z",
            device={**device, "name": name},
        )
        for name, day in (("older", 10), ("latest", 20), ("oldest", "05"))
    ]
    report.write(Sources(gpus), tmp_path)
    html = (tmp_path / "index.html").read_text("utf-8")
    assert html.count('class="half"') == html.count('<p class="verdict">Take ') == 6
    shown = list(dict.fromkeys(re.findall(r'data-machine="([^"]*)"', html)))
    assert shown == [
        f"{name}, CUDA, on 2026-01-{day}, commit 0123456"
        for name, day in (("latest", 20), ("older", 10), ("oldest", "05"))
    ]
    page = (tmp_path / "regimes.html").read_text("utf-8")
    assert list(dict.fromkeys(re.findall(r'data-machine="([^"]*)"', page))) == shown
    said = re.findall(r'<a href="([^"]*)">All maps as launched', html)
    assert len(said) == 3
    assert all(f'id="{href.partition("#")[2]}"' in page for href in said)


def test_ranks_are_in_the_csv_file(folder: Path) -> None:
    at = ("count", 2**16, 4)
    first = [
        row
        for row in records_in(folder)
        if row["rank"] == "1" and row["task"] == "count"
        and (row["task"], int(row["particles"]), float(row["per_cell"])) == at
    ]  # fmt: skip
    times = {
        r.algorithm: r.median_ms for r in grid(sizes=(2**16,), occupancies=(4,), tasks=("count",))
    }
    assert [row["algorithm"] for row in first] == [min(times, key=lambda name: times[name])]


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        (
            grid(["search-counting-sort", "search-radix-grid"], (2**12, 2**14), (4,)),
            "No library was timed",
        ),
        (moved(sizes=(2**14,)), "Where particles have moved"),
        (steps(sizes=(2**12,)), "Whole steps: rebuild, re-sort, or a skin"),
        ([search("search-counting-sort", "count")], "No library was timed"),
        (
            [search("search-radix-grid", "count", status="failed", reason="bad luck", mode="hot")],
            "Measurements without a time",
        ),
        (
            [search("vesin", "list-pairs", status="wrong", reason="loses pairs", mode="hot")],
            "vesin list-pairs",
        ),
    ],
    ids=["two sizes", "moved alone", "steps alone", "one record", "failed", "wrong"],
)
def test_pages_render_from_parts_of_the_study(
    records: list[dict[str, Any]], shown: str, tmp_path: Path
) -> None:
    cpu = {"backend": "opencl", "name": "Synthetic CPU", "is_cpu": True}
    report.write(Sources([results(records, device=cpu, copy_bandwidth_gb_s=None)]), tmp_path)
    page = Page((tmp_path / "regimes.html").read_text("utf-8"))
    assert shown in page.text
    assert "Share of the copy bandwidth" not in page.text  # which is not known
    assert (tmp_path / "report.md").is_file()
