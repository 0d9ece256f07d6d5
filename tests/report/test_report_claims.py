"""Claims of papers: the verdict that records give, and the page that shows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from report_pages import STUDY, Page, full_records, record, results, write_page
from study_texts import as_toml, study_text

from gpubench import registry, report
from gpubench.evidence.crossover import Ratio
from gpubench.report import claims, formats, tables
from gpubench.report.machines import machines
from gpubench.report.sources import Sources
from gpubench.studies.claims import (
    FALSE,
    INCONCLUSIVE,
    OWED,
    TRUE,
    ClaimedValue,
    ClaimTest,
    cells,
    verdict,
)
from gpubench.studies.study import Study, StudyError, Subject, check_names, load_study, parse_study

LIST, SORT = "atomic-list one-pass", "counting-sort order"
AT = {"use": SORT, "particles": 65536, "per_cell": 4}


def study_of(*tests: dict[str, Any], says: str = "Lists are faster.", **more: Any) -> Study:
    claim = {"says": says, "where": "Table 1", "published": [3, 2], "at": AT, **more}
    text = study_text(LIST, SORT, particles=[65536], per_cell=[4], modes=["hot"])
    fields = [f"{name} = {as_toml(value)}" for name, value in claim.items()]
    fields.append(f"tests = [{', '.join(map(as_toml, tests))}]")
    return parse_study(STUDY, "\n".join([text, "[[claims]]", *fields]))


def over(use: str = LIST, when: str = "as built", **more: Any) -> dict[str, Any]:
    return {"when": when, "of": {}, "over": {"use": use}, "above": 1, **more}


def judged(study: Study, *made: dict[str, Any]) -> claims.Judged:
    [machine] = machines([results(list(made))])
    [found] = claims.judge(machine, [study])
    return found


def a_sort(median: float, **more: Any) -> dict[str, Any]:
    return record("counting-sort", "order", median=median, **more)


@pytest.mark.parametrize(
    ("sort", "told"),
    [
        (a_sort(2.0), "true"),
        (a_sort(0.5), "false"),
        (a_sort(1.01), "inconclusive"),
        (a_sort(2.0, width=0.6), "inconclusive"),
        (a_sort(2.0, status="wrong", reason="3 pairs are missing"), "owed"),
        (a_sort(2.0, particles=131072), "owed"),
    ],
)  # fmt: skip
def test_records_decide_the_verdict(sort, told):
    assert str(judged(study_of(over()), sort, record()).verdict) == told


def test_what_holds_for_one_test_alone_names_its_condition():
    linked = over("bucket-sort device-loop", "the device ends the loop")
    made = [a_sort(2.0), record(median=3.0), record("bucket-sort", "device-loop", median=1.0)]
    assert str(judged(study_of(over(), linked), *made).verdict) == (
        "only if the device ends the loop"
    )


def test_a_test_without_a_record_leaves_the_claim_owed_and_says_what_holds():
    found = judged(study_of(over(), over("radix-grid order", "by digits")), a_sort(2.0), record())
    assert str(found.verdict) == "owed; true if as built"


def test_todays_best_stands_beside_the_verdict():
    best = over("radix-grid order", "by digits", today=True)
    made = [a_sort(2.0), record(), record("radix-grid", "order", median=4.0)]
    found = judged(study_of(over(), best), *made)
    assert str(found.verdict) == "true"
    assert [test.outcome for test in found.of(True)] == ["false"]


def test_both_measurements_of_a_test_are_in_one_mode():
    graph = record(median=0.1, mode="graph")
    found = judged(study_of(over()), a_sort(0.5), record(), graph)
    assert str(found.tests[0]) == f"as built: {formats.ratio(0.5)} (0.493 to 0.507), warmᵒ: false"
    both = judged(study_of(over()), a_sort(0.5), record(), graph, a_sort(0.3, mode="graph"))
    assert str(both.tests[0]) == f"as built: {formats.ratio(3)} (2.96 to 3.04), graphᵒ: true"


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ({"value": "rounds"}, "9.00 of itᵒ; above 8: true"),
        ({"value": "rounds", "per": "per_cell"}, "2.25 of itᵒ; above 8: false"),
        ({"value": "bound"}, "0.000393 of it (0.000389 to 0.000397), warmᵒ; above 8: false"),
        ({}, "0.500 of it (0.495 to 0.505), warmᵒ; above 8: false"),
        ({"value": "frame"}, None),
        ({"value": "share of sort"}, None),
        ({"value": "unknown"}, None),
        ({"value": "memory_mb"}, "0.524 of itᵒ; above 8: false"),
    ],
)  # fmt: skip
def test_a_test_may_be_of_one_value(cell, told):
    test = {"when": "it is", "of": cell, "above": 8, "unit": "of it"}
    found = judged(study_of(test), a_sort(0.5, outcome={"rounds": 9}))
    assert str(found.tests[0]) == (f"it is: {told}" if told else "it is; above 8: owed")


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"above": 1}, ": true"),
        ({"above": 3, "below": 5}, "; bounds 3 to 5: false"),
        ({"below": 1e6}, "; below 1,000,000: true"),
        ({"above": 1.33}, "; above 1.33: true"),
        ({"above": 1, "below": 5}, "; bounds 1 to 5: true"),
    ],
)  # fmt: skip
def test_a_test_shows_its_bounds_unless_the_usual_one(bounds, told):
    test = {"when": "it is", "of": {}, "over": {"use": LIST}} | bounds
    found = judged(study_of(test), a_sort(2.0, width=1e-3), record(width=1e-3))
    assert str(found.tests[0]) == f"it is: {formats.ratio(2)}, warmᵒ{told}"


def test_a_value_is_taken_in_the_first_mode_in_which_all_cells_have_it():
    test = {"when": "it is", "of": {"value": "rounds"}, "above": 1, "unit": "rounds"}
    made = [a_sort(0.5, mode="graph"), a_sort(0.6, outcome={"rounds": 9})]
    assert str(judged(study_of(test), *made).tests[0]) == "it is: 9.00 roundsᵒ: true"


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"peak_bytes": 3_000_000}, "3.00"),
        ({"outcome": {"memory_mb": 7}}, "7.00"),
        ({"workspace_bytes": None}, "owed"),
    ],
)  # fmt: skip
def test_memory_is_the_peak_unless_the_algorithm_reports_it(about, told):
    test = {"when": "it is", "of": {"value": "memory_mb"}, "above": 8, "unit": " MB"}
    found = judged(study_of(test), a_sort(0.5, **about))
    assert f": {told}" in str(found.tests[0])


def test_a_bound_inside_the_interval_decides_nothing():
    test = ClaimTest("", ClaimedValue("a", "b", {}), above=1, below=3)
    cases = {(1.1, 2.9): TRUE, (0.9, 2.9): INCONCLUSIVE, (1.1, 3.1): INCONCLUSIVE,
             (0.5, 1.0): FALSE, (3.0, 4.0): FALSE}  # fmt: skip
    for ends, outcome in cases.items():
        assert test.outcome(Ratio(sum(ends) / 2, *ends)) == outcome
    assert verdict([(test, TRUE), (test, FALSE), (test, OWED)]).word == "only if"
    assert verdict([(test, FALSE), (test, INCONCLUSIVE)]).word == INCONCLUSIVE
    assert verdict([]).word == OWED


def test_a_claim_has_at_most_25_words_known_axes_and_known_algorithms():
    study_of(over(), says=" ".join(["word"] * 25))
    with pytest.raises(StudyError, match="says"):
        study_of(over(), says=" ".join(["word"] * 26))
    with pytest.raises(StudyError, match="no axis partikles"):
        study_of({"when": "it is", "of": {"partikles": 3}, "above": 1})
    with pytest.raises(StudyError, match="no algorithm 'unknown'"):
        check_names(study_of(over("unknown order")), registry.algorithms())


def test_a_quotient_of_published_numbers_is_one_of_its_table():
    for study in claims.studies():
        for claim in study.claims:
            if study.published and " / " in claim.published and claim.figure:
                numbers = claim.published.split("(")[1].split(")")[0].split(" / ")
                known = {value for row in study.published.values for value in row}
                assert {float(each) for each in numbers} <= known


def page_of(records: list[dict[str, Any]], out: Path) -> tuple[Page, Page]:
    """Return the page of claims, and the page of a study with some."""
    report.write(Sources([results(records)]), out)
    return tuple(Page((out / f"{n}.html").read_text("utf-8")) for n in ("claims", STUDY))


def row_of(page: Page, caption: str) -> list[str]:
    return next(row for row in page.tables[caption] if row[1].startswith("Sorting takes longer"))


def test_a_page_shows_all_claims_and_a_record_that_changes_flips_the_verdict(tmp_path):
    """The first screen leads to it, and each study has its rows."""
    pages = page_of(full_records(), tmp_path)
    rows = [row_of(pages[0], claims.TITLE), row_of(pages[1], "What the paper claims")]
    assert rows[0] == rows[1]
    assert rows[0][0] == "Rozen 2008, Table 1" and rows[0][2].startswith("206.15 ms")
    assert rows[0][-1] == "true"
    shown = pages[0].tables[claims.TITLE][1:]
    assert len(shown) == sum(len(study.claims) for study in claims.studies())
    assert {row[-1] for row in shown if "Horn" in row[0]} == {"owed"}
    front = (tmp_path / "index.html").read_text("utf-8")
    assert front.index('href="claims.html"') < front.index("<h2")
    flat = [
        made
        if made.input.per_cell < 16
        else record(
            made.algorithm, made.form, made.input.particles, 16, median=1e-3, mode=made.mode
        )
        for made in full_records()
    ]
    assert row_of(page_of(flat, tmp_path)[0], claims.TITLE)[-1] == "false"
    assert "; the device ends the loop: " in (tmp_path / "report.md").read_text("utf-8")


def test_other_results_have_no_page_of_claims(tmp_path):
    write_page([results([record(study="a-study")])], tmp_path)
    assert not (tmp_path / "claims.html").exists()
    assert "claims.html" not in (tmp_path / "index.html").read_text("utf-8")


def test_what_is_owed_here_says_what_another_machine_found(tmp_path):
    rounds = [
        record("bucket-sort", "host-loop", 2**20, per_cell, outcome={"rounds": per_cell + 5})
        for per_cell in (1, 16)
    ]
    other = results(rounds, "other.json", machine="other-gpu")
    write_page([results(full_records()), other], tmp_path)
    text = (tmp_path / "claims.html").read_text("utf-8")
    assert "on Synthetic GPU: true" in text


def test_elsewhere_is_the_first_device_with_a_verdict():
    study = study_of(over())
    owed, true, false = (judged(study, *made) for made in (
        [record()], [a_sort(2.0), record()], [a_sort(0.5), record()]
    ))  # fmt: skip
    others = [("one", [owed]), ("other", [true]), ("other", [false])]
    assert claims.elsewhere(0, others) == ("other", true)
    assert claims.elsewhere(0, others[:1]) is None


def test_a_figure_sets_published_speed_ups_beside_todays():
    study = study_of(over(), over("radix-grid order", today=True), figure="lists over a sort")
    made = [a_sort(2.0), record(), record("radix-grid", "order", median=4.0)]
    chart = claims.speed_ups([judged(study, *made)], "here")
    [bar] = chart.panels[""]
    assert bar.label == "Rozen2008-table1: lists over a sort".replace("n2", "n 2")
    assert bar.parts == {"published": 1.5, "the paper's variant": 2.0, "against today's best": 0.5}
    [drawn] = claims.draw_all([chart])
    [layer] = drawn.spec["layer"]
    assert layer["encoding"]["x"]["scale"]["type"] == "log"
    assert "phase" not in {each["title"] for each in layer["encoding"]["tooltip"]}
    assert layer["encoding"]["x2"] == {"datum": 1}


def moved(algorithm: str, form: str, share: float, median: float, **more: Any) -> dict[str, Any]:
    return record(algorithm, form, 2**20, study="rozen2008-table2", moved=round(share * 2**20),
                  destination="random", median=median, **more)  # fmt: skip


def test_a_break_even_is_published_and_measured():
    made = []
    for share, time in ((0.0, 0.25), (0.25, 0.5), (0.75, 2.0)):
        made += [moved("bucket-sort", "host-loop", share, 1.0, width=1e-6)]
        made += [moved("bucket-resort", "host-loop", share, time, width=1e-6)]
        made += [moved("atomic-list", "one-pass", share, 0.1, width=1e-6)]
    [machine] = machines([results(made)])
    [run] = machine.studies
    rows = {
        (row.head, row.items[0].text): row.items[1].text for row in tables.break_evens(run).rows
    }
    assert rows["published", "Sort, full"] == "39.1 %"
    assert rows["bucket-resort", "its own full sort"] == "50.0 %"
    assert rows["bucket-resort", "the fastest full sort"] == "none measured"


def test_times_of_the_bucket_sort_tell_its_rounds(tmp_path):
    page = write_page([results(full_records())], tmp_path)
    rows = page.tables["16 per cell: ms by particles"]
    row = next(row for row in rows if row[0] == "bucket-sort host-loop")
    rounds = [cell.split(" ", 1)[1] for cell in row[1:]]
    assert rounds == [f"{round(n / 4 + 32)} rounds" for n in (16, 17, 18, 19, 20, 22, 24)]


def test_shipped_claims_name_what_exists():
    """Of what does not exist, nothing would ever be measured: the claim would stay owed."""
    unlisted = {"", "frame", "bound", "lost"}
    for study in claims.studies():
        check_names(study, registry.algorithms())
        for cell in cells(study.claims):
            there = load_study(cell.study or study.name)
            assert is_measured(cell, there), (study.name, cell)
            is_share = cell.value.startswith("share of ")
            assert is_share or cell.value in unlisted | set(there.outcomes), (study.name, cell)
    assert load_study(STUDY).claims


def is_measured(cell: ClaimedValue, study: Study) -> bool:
    """Whether a sweep of a study measures the subject of a cell at its values on axes."""
    subject = Subject(cell.algorithm, cell.form, dict(cell.parameters))
    axes = dict(cell.axes)
    if axes.get("ranks") == 1:  # as records tell what a sweep leaves out
        axes["ranks"] = None
    return any(
        all(getattr(recipe, name) == value for name, value in axes.items())
        for sweep in study.sweeps
        if subject in sweep.subjects
        and axes.keys() <= {each.name for each in dataclasses.fields(sweep.kind)}
        for recipe in sweep.recipes()
    )
