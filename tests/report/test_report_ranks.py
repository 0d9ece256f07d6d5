"""The part of a report on one rank against several, from synthetic records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from fluid_steps import (
    PRINTED,
    PUBLISHED,
    SIZES,
    SUBJECTS,
    WAYS,
    every_record,
    phases,
    step,
    waiting,
)
from regime_records import remade
from report_pages import Page, markdown_tables, read_pages, results, run_of, write_page

from gpubench import report
from gpubench.evidence.frame import command_of
from gpubench.evidence.results import Results
from gpubench.report import document, formats, published, steps, study_charts, verdict
from gpubench.report.cells import phases_of
from gpubench.report.machines import machines
from gpubench.report.sources import Sources


def scaling_records() -> list[dict[str, Any]]:
    about = {"study": "silva2012-scaling"}
    one = [step(particles=n, **about) for n in (4194304, 8388608, 16777216)]
    two = [step(particles=n, shares=2, decomposition=d, **about)
           for d in ("slab", "master") for n in (8388608, 16777216)]  # fmt: skip
    four = [step(particles=n, shares=4, decomposition=d, **about)
            for d in ("slab", "master") for n in (16777216, 33554432)]  # fmt: skip
    return [*one, *two, *four]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ranks")
    report.write(Sources([results([*every_record(), *scaling_records()], "ranks.json")]), out)
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return read_pages(folder)


# What counts


def test_a_picture_is_no_part_of_a_step():
    [cell] = run_of([step(particles=64000)]).cells.values()
    parts = phases(1.0, 64000, None, None)
    assert "draw" not in cell.phases_ms
    assert cell.frame_ms == pytest.approx(sum(parts.values()))
    assert sum(cell.phase_share(name) or 0 for name in cell.phases_ms) == pytest.approx(1)
    assert cell.communication is None


def test_communication_is_the_share_of_the_phases_of_exchange():
    [cell] = run_of([step(particles=64000, shares=2, decomposition="slab")]).cells.values()
    parts = phases(1.0, 64000, 2, "slab")
    del parts["draw"]
    share = (parts["exchange halo"] + parts["exchange density"]) / sum(parts.values())
    assert cell.communication == pytest.approx(share)


def test_what_is_shown_of_the_whole_study_is_of_one_rank():
    records = [*every_record(), step(particles=96000, shares=2, decomposition="slab", mode="cold")]
    run = run_of(records)
    assert run.kind["ranks"] == 1 and run.common["ranks"] == 1
    assert run.winner(run.timed) == run.subjects[1]
    assert [way.label for way in steps.ways(run)] == [
        "2 ranks, slab", "2 ranks, master", "4 ranks, slab", "4 ranks, master",
    ]  # fmt: skip


def test_what_waits_gives_way_to_what_was_measured():
    measured = step(shares=2, decomposition="slab")
    missing = waiting(2, "slab", mode="hot")
    assert measured.key != missing.key  # what was not drawn has no hash
    for records in ([missing, measured], [measured, missing]):
        [cell] = run_of(records).cells.values()
        assert cell.ok
    older, newer = ("2000-01-02T03:04:05+00:00", "2000-02-02T03:04:05+00:00")
    [machine] = machines([results([measured], started=older), results([missing], started=newer)])
    [cell] = machine.studies[0].cells.values()
    assert cell.ok and machine.studies[0].replaced == 0


def test_a_failure_gives_way_to_its_repetition_of_another_hash():
    failed = step(status="failed", reason="RuntimeError")
    for records in ([failed, step()], [step(), failed]):
        [cell] = run_of(records).cells.values()
        assert cell.ok


# What is said


def test_published_values_stand_beside(monkeypatch):
    records = every_record()
    monkeypatch.setitem(SUBJECTS, ("hash-grid", "world-limits"), 1.6)
    monkeypatch.setitem(SUBJECTS, ("hash-grid", "original"), 1.5)
    both = [(form, n) for form in ("world-limits", "original") for n in (32000, 96000)]
    records += [step("hash-grid", *each) for each in both]
    # Of another workload, whose steps do other work, nothing stands in the table.
    other = step("hash-grid", "world-limits", 64000, workload="sph-silva2012", sweep="euler")
    run = run_of([*records, other])
    paper, best = published.measured(run, PUBLISHED)
    assert paper.caption == "Measured: hash-grid world-limits, the paper's variant, ms"
    assert best.caption == "Measured: hash-grid original, the best variant, ms"
    assert paper.columns == ["Particles", *map(str, PUBLISHED.columns[:2])]
    assert paper.notes[-1] == "Not measured: FPS, 2 GPUs, ms, 2 GPUs and Speed-up."
    cell = run.find(run.subjects[3], particles=32000, ranks=1)
    assert cell is not None and cell.frame_ms is not None
    rate = 1e3 / cell.frame_ms
    found = {row.head: row.items for row in paper.rows}
    assert found["32,000"][0].text == formats.significant(rate)
    assert found["32,000"][0].detail == formats.ratio(rate / 260)
    assert found["32,000"][1].text == formats.significant(cell.frame_ms)


def test_no_other_algorithm_takes_the_place_of_that_of_the_paper(page):
    run = run_of(every_record())  # without a hash grid
    assert published.measured(run, PUBLISHED) == []
    assert "Nothing of this table was measured here." in page.text
    assert published.faster(run) == ""


def test_published_values_keep_their_last_zeros(page):
    rows = page.tables["Published: one and two GeForce GTX 580, ms"]
    assert rows[1] == ["32,000", "260", "3.84", "310", "3.22", "1.19"]
    assert rows[4] == ["128,000", "80", "12.50", "130", "7.69", "1.62"]
    assert rows[7] == ["1,024,000", "5", "200.00", "9", "4", "1.8"]
    assert "are 111.11 ms, not 4" in page.text


def test_the_note_of_a_published_table_names_the_values_that_contradict():
    """Times are 1000 over the frames per second, and speed-ups their ratio, but for two cells."""
    wrong = [
        (int(row), name)
        for row, (fps1, ms1, fps2, ms2, factor) in zip(PRINTED, PUBLISHED.values, strict=True)
        for name, printed, derived in (
            ("single", ms1, 1e3 / fps1),
            ("multi", ms2, 1e3 / fps2),
            ("speed-up", factor, fps2 / fps1),
        )
        if abs(printed - derived) > 0.0101
    ]  # fmt: skip
    assert wrong == [(512000, "single"), (1024000, "multi")]


def test_cells_that_wait_are_named_with_their_command(tmp_path):
    records = [step(), waiting(2, "slab", mode="hot"), waiting(4, "master", mode="hot")]
    shown = write_page([results(records)], tmp_path)
    reasons = [row[-1] for row in shown.tables["Measurements without a time"][1:]]
    assert "is measured by 2 ranks: mpirun -n 2 gpubench run silva2012-table1" in reasons


def test_the_command_of_a_record_has_its_ranks():
    assert command_of(step(shares=4, decomposition="slab")).startswith(
        "mpirun -n 4 gpubench run silva2012-table1 --device cuda"
    )
    assert command_of(step()).startswith("gpubench run")


# What is shown


def test_a_row_for_each_size_and_way_beside_one_rank(page):
    head, *rows = page.tables["Steps and frames of counting-sort reorder"]
    assert head == ["Particles", "Ranks", "Step, ms", "Frame, ms", "Frames/s", "Speed-up",
                    "Of frames", "Communication"]  # fmt: skip
    assert [row[0] for row in rows] == [formats.count(n) for n in SIZES for _ in WAYS]
    one, two = (phases(1.0, SIZES[-1], *way) for way in ((None, None), (2, "slab")))
    frames = [sum(parts.values()) for parts in (one, two)]
    drawn = [parts.pop("draw") for parts in (one, two)]
    alone_and_two = [frame - draw for frame, draw in zip(frames, drawn, strict=True)]
    alone, slab = rows[-len(WAYS)], rows[1 - len(WAYS)]
    assert alone[1] == "1 rank" and alone[5:] == [formats.DASH] * 3
    assert slab[1] == "2 ranks, slab"
    assert slab[4:7] == [
        formats.significant(1e3 / frames[1]),
        formats.significant(alone_and_two[0] / alone_and_two[1]),
        formats.significant(frames[0] / frames[1]),
    ]
    assert slab[7].endswith("%")


def test_a_speed_up_is_of_one_mode():
    alone = [step(mode=mode, particles=64000) for mode in ("hot", "graph")]
    alone[1] = remade(alone[1], median_ms=alone[0].median_ms / 2)
    several = step(shares=2, decomposition="slab", particles=64000)
    table = steps.comparison(run_of([*alone, several]))
    assert table.rows[1].items[0].text == "2 ranks, slab"
    assert table.rows[1].items[4].text == formats.significant(
        alone[0].median_ms / several.median_ms
    )
    only_graph = steps.comparison(run_of([alone[1], several]))
    assert only_graph.rows[1].items[4].text == formats.DASH


@pytest.mark.parametrize(
    ("first", "second", "is_told"), [("a", "a", True), ("a", "b", False), (None, None, False)]
)
def test_a_speed_up_is_of_the_same_code(first, second, is_told):
    """By the older code of another commit, or of none, one rank is 64 times as slow."""
    one, two = crossing_records()[2:]
    old = {"version": "0.1old", "phases_ms": {"force": 64.0, "draw": 1.0}}
    slow = remade(one, median_ms=64.0, ci95_low_ms=63.0, ci95_high_ms=65.0, **old)
    [machine] = machines([results([slow], commit=first), results([two], commit=second)])
    table = steps.comparison(machine.studies[0])
    assert table.rows[1].items[0].text == "2 ranks, slab"
    assert (table.rows[1].items[4].text != formats.DASH) == is_told


def test_one_rank_by_the_same_code_counts_whatever_else_timed_it():
    """A time on one rank is pooled over commits; by that of the time on two, both are alike."""
    one, two = crossing_records()[2:]
    old = remade(two, version="0.1old")
    early, late = results([one], commit="a"), results([one, old], commit="b")
    [machine] = machines([early, late])
    [run] = machine.studies
    assert steps.comparison(run).rows[1].items[4].text == "2.00"
    [machine] = machines([early, results([old], commit="b")])
    assert steps.speed_ups(machine.studies[0]) == {steps.Way(2, "slab"): {}}


def test_a_page_of_one_choice_begins_with_what_several_ranks_gain():
    assert verdict.gist(run_of(crossing_records())) == (
        "2 ranks, slab: 2.00\N{MULTIPLICATION SIGN} as fast as one (2²⁰ particles)."
    )
    alone = [each for each in crossing_records() if each.input.ranks is None]
    assert verdict.gist(run_of(alone)).startswith("Only one choice was measured")


def test_phases_that_only_some_steps_have_come_where_they_belong():
    one, two, three = (
        step(particles=n, shares=s, decomposition=d)
        for n, s, d in ((32000, None, None), (64000, 2, "slab"), (96000, 4, "master"))
    )
    one = msgspec.structs.replace(
        one, phases_ms={"sort": 1.0, "force": 1.0, "integrate": 1.0, "draw": 1.0}
    )
    two = msgspec.structs.replace(
        two, phases_ms={"sort": 1.0, "exchange halo": 1.0, "force": 1.0, "integrate": 1.0}
    )
    three = msgspec.structs.replace(
        three, phases_ms={"exchange deal": 1.0, "sort": 1.0, "integrate": 1.0}
    )
    run = run_of([one, two, three])
    [[bar]] = chart(run, "s-phases").panels.values()  # of the fewest ranks alone
    assert list(bar.parts) == ["sort", "force", "integrate"]
    assert phases_of(list(run.cells.values())) == [
        "exchange deal", "sort", "exchange halo", "force", "integrate",
    ]  # fmt: skip


def chart(run: Any, slug: str) -> Any:
    [found] = [chart for chart in study_charts.charts(run, "s") if chart.slug == slug]
    return found


def test_markdown_has_the_same_tables(folder):
    text = (folder / "report.md").read_text(encoding="utf-8")
    heads = [table[0] for table in markdown_tables(text)]
    assert any({"Ranks", "Step, ms", "Speed-up"} <= set(head) for head in heads)


def test_a_study_of_one_rank_has_no_such_part(tmp_path):
    records = [step(particles=size, study="dpd-step") for size in PRINTED]
    for record in records:
        del record.phases_ms["draw"]
    shown = write_page([Results(results([]).environment, records, Path("x.json"))], tmp_path)
    assert "Steps and frames" not in shown.text


# Shares of a step


def figure7(*sizes: int) -> list[dict[str, Any]]:
    return [
        step(*subject, size, study="silva2012-figure7") for size in sizes for subject in SUBJECTS
    ]


def test_shares_are_drawn_where_the_study_asks_for_them():
    bars = chart(run_of(figure7(262144, 4194304)), "s-phases")
    assert bars.title == "Share of each task in a step" and bars.label == "% of the step"
    assert list(bars.panels) == ["2¹⁸ particles", "2²² particles"]
    for bar in bars.panels["2¹⁸ particles"]:
        assert sum(bar.parts.values()) == pytest.approx(100) and "draw" not in bar.parts
    first = bars.panels["2¹⁸ particles"][0]
    parts = phases(1.0, 262144, None, None)
    del parts["draw"]
    assert first.label.startswith("counting-sort reorder, ")
    assert first.parts["force"] == pytest.approx(100 * parts["force"] / sum(parts.values()))


# What to take


def crossing_records(decomposition: str = "slab") -> list[dict[str, Any]]:
    """Times of one rank and of two that are equal at 2^18 particles."""
    parts = {"force": 1.0, "draw": 1.0}
    return [
        remade(
            step(particles=2**n, shares=shares, decomposition=decomposition if shares else None),
            median_ms=ms, ci95_low_ms=0.99 * ms, ci95_high_ms=1.01 * ms, phases_ms=parts,
        )
        for n in (16, 20)
        for shares, ms in ((None, 2.0 ** (n - 16)), (2, 2.0 ** (n / 2 - 7)))
    ]  # fmt: skip


def test_several_gpus_pay_above_the_size_at_which_both_times_are_equal(tmp_path):
    [said] = steps.pays(run_of(crossing_records()))
    assert said.startswith("2 ranks, slab: pay above 262,000 particles (95 %: 25")
    report.write(Sources([results(crossing_records())]), tmp_path)
    rows = read_pages(tmp_path).tables[document._GROUPS[0]]
    assert ["Several GPUs", said, formats.DASH] in rows
    assert f"{said}." in read_pages(tmp_path).text


@pytest.mark.parametrize("sizes", [{2**16}, {2**20}])
def test_where_records_do_not_show_it_nothing_is_said_of_several_gpus(sizes, tmp_path):
    records = [each for each in crossing_records() if each.input.particles in sizes]
    report.write(Sources([results(records)]), tmp_path)
    assert steps.pays(run_of(records)) == []
    assert "Several GPUs" not in (tmp_path / "index.html").read_text("utf-8")


def test_the_answer_is_told_by_workload_and_where_one_algorithm_alone_was_measured(monkeypatch):
    for form, factor in (("world-limits", 1.6), ("original", 2.5)):
        monkeypatch.setitem(SUBJECTS, ("hash-grid", form), factor)
    in_a_box = [step(*subject) for subject in SUBJECTS]
    without = [step("hash-grid", f, workload="sph-unbounded") for f in ("world-limits", "original")]
    assert verdict.gist(run_of([*in_a_box, *without])) == (
        "For sph-dam-break take counting-sort reorder: fastest on the one input; for"
        " sph-unbounded (only hash-grid was measured) take hash-grid world-limits: fastest on the"
        " one input."
    )


def test_a_choice_may_lack_a_few_inputs_and_says_so():
    fast = [step(form="order", particles=n) for n in SIZES[:3]]
    every = [step("radix-grid", "reorder", n) for n in SIZES[:4]]
    third = [step(form="reorder", particles=SIZES[3])]
    assert verdict.gist(run_of([*fast, *every, *third])) == (
        "Take counting-sort order: fastest on all 3 inputs, not measured on 1 more."
    )
