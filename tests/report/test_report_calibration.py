"""Calibrations in a report: sentences, table and figure of a page, and how it is found."""

from __future__ import annotations

import calibrations as made
import compare_results
import pytest
from calibrations import pairs
from msgspec.structs import replace

from gpubench import report
from gpubench.evidence import calibration
from gpubench.report.calibrations import page as page_of
from gpubench.report.sources import sort_out

NAMES = (
    "a-study/cells: counting-sort order, particles=4096, hot",
    "a-study/cells: <radix-grid> order, particles=4096, hot",
    "a-study/steps: counting-sort reorder, particles=512, dpd-standard, hot",
)


@pytest.fixture(scope="module")
def small():
    """Return a calibration of three cells: quiet, less so, and so noisy that nothing is found."""
    cells = dict(zip(NAMES, (pairs(14), pairs(14, 0.02), pairs(14, 3.0)), strict=True))
    return made.calibration(cells)


@pytest.fixture
def written(tmp_path):
    """Save calibrations, write a report of the folder, and return its page and its text."""

    def write(*found):
        for index, each in enumerate(found):
            calibration.save(each, tmp_path / "in" / f"{index}.json")
        sources = sort_out([tmp_path / "in"])
        assert [each.as_json() for each in sources.calibrations] == [f.as_json() for f in found]
        out = tmp_path / "out"
        report.write(
            sources.results, out, sources.simulations, sources.checks, sources.calibrations
        )
        return (out / "calibration.html").read_text(), (out / "report.md").read_text()

    return write


def rated(found, **rates):
    """Return a calibration with other rates of the whole."""
    return replace(found, verdicts=replace(found.verdicts, **rates))


def test_the_sentences_say_what_was_measured_and_what_came_of_it(written, small):
    page, text = written(
        rated(small, false_alarms=0.004, cannot_tell=0.25, pairs_taken=(8.0, 12.0),
              separate=7, separate_alarms=2, comparisons=1000)
    )  # fmt: skip
    for words in (
        "14 pairs of processes of one code were measured, from 2026-01-31T12:00:00Z to"
        " 2026-01-31T12:13:00Z, and 1,000 comparisons of 3 cells drawn from them, each with looks"
        " at 8 and 12 pairs, a threshold of 3.2 %, and intervals that hold together with 99 %"
        " confidence.",
        "0.4 % of these comparisons called the code slower than itself; 25 % more were"
        " inconclusive. One took 8 pairs at the median, 12 at the 95th percentile.",
        "Of 7 that have no pair in common, 2 called it slower.",
        "gpubench calibrate --device cuda --pairs 14",
    ):
        assert words in page and words in text
    assert "A GPU, a-study" in page and "There are no results" not in page + text


def test_the_slow_down_that_is_found_is_that_of_the_worst_cell(small):
    cells = small.verdicts.cells
    smallest = [cells[name].smallest for name in NAMES]
    assert smallest[0] < smallest[1] and smallest[2] is None
    (part,) = page_of([small]).sections
    said = part.sentences[-1]
    assert said.startswith(f"A slow-down of {100 * smallest[1]:.2g} % is found 9 times in 10")
    assert said.endswith("in each of 2 cells; in 1 cells none that was tried.")
    (part,) = page_of([made.calibration({NAMES[0]: pairs(8, 0.0001)})]).sections
    assert part.sentences[-1] == "A slow-down of 3.5 % is found 9 times in 10 in each of 1 cells."


def test_a_row_has_the_rates_of_a_cell(written, small):
    rates = replace(
        small.verdicts.cells[NAMES[0]], false_alarms=0.001, cannot_tell=0.02, slowed=-0.03,
        found=0.5, smallest=0.04, between=0.0052, spread=0.013,
    )  # fmt: skip
    cells = {**small.verdicts.cells, NAMES[0]: rates}
    page, text = written(rated(small, cells=cells))
    row = (
        "| cells: counting-sort order, particles=4096, hot | 0.1 % | 2 % | -3 % | 50 % | 4 %"
        " | 0.52 % | 1.3 % |"
    )
    assert row in text
    assert text.count("| cells: ") == 2 and text.count("| steps: ") == 1
    (open_row,) = (line for line in text.splitlines() if line.startswith("| steps: "))
    assert "| \N{EN DASH} |" in open_row  # no slow-down that was tried is found
    assert "&lt;radix-grid&gt;" in page and "<radix-grid>" not in page
    assert "5 % of those counted" in text


def test_the_front_page_names_every_device_and_leads_to_the_page(written, small, tmp_path):
    other = rated(
        replace(small, environment=compare_results.environment({"name": "A CPU"})), false_alarms=0.5
    )
    page, _ = written(rated(small, false_alarms=0.0), other)
    front = (tmp_path / "out" / "index.html").read_text()
    assert "A code against itself. A GPU: 0 % false alarms; A CPU: 50 % false alarms." in front
    assert 'href="calibration.html' in front
    assert page.count("Each cell") >= 2


def test_calibrations_are_found_among_other_results(small, tmp_path):
    compare_results.write(tmp_path / "measured" / "a.json", compare_results.record())
    calibration.save(small, tmp_path / "calibration" / "fake" / "b.json")
    found = sort_out([tmp_path])
    assert [each.path.name for each in found.results] == ["a.json"]
    assert [each.study for each in found.calibrations] == ["a-study"]
    assert (list(found.simulations), list(found.checks)) == ([], [])


def test_no_calibration_is_no_page(tmp_path):
    report.write([], tmp_path)
    assert not (tmp_path / "calibration.html").exists()
