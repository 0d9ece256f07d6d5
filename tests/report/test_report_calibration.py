"""Calibrations in a report: sentences, table and figure of a page, and how it is found."""

from __future__ import annotations

import re

import calibrations as made
import compare_results
import pytest
from calibrations import pairs
from msgspec.structs import replace

from gpubench import report
from gpubench.evidence import calibration
from gpubench.evidence.records import to_json
from gpubench.report.background import calibration_page as page_of
from gpubench.report.sources import Sources, sort_out

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
        assert list(map(to_json, sources.calibrations)) == list(map(to_json, found))
        out = tmp_path / "out"
        report.write(sources, out)
        return (out / "calibration.html").read_text(), (out / "report.md").read_text()

    return write


def rated(found, **rates):
    """Return a calibration with other rates of the whole."""
    return replace(found, verdicts=replace(found.verdicts, **rates))


def test_a_row_says_what_was_measured_and_what_came_of_it(written, small):
    _, text = written(
        rated(small, false_alarms=0.004, cannot_tell=0.25, separate=7, separate_alarms=2,
              comparisons=1000)
    )  # fmt: skip
    row = "| a-study | on 2026-01-31, commit unknown | 14 | 1,000 | 3.2 % | 0.4 % | 25 % | 2 of 7 |"
    assert row in text
    assert "There are no results" not in text


def test_the_slow_down_that_is_found_is_that_of_the_worst_cell(small):
    def found(one):
        (row,) = page_of([one]).sections[0].tables[0].rows
        return row.items[-1].text

    smallest = [small.verdicts.cells[name].smallest for name in NAMES]
    assert smallest[0] < smallest[1] and smallest[2] is None
    assert found(small) == f"{100 * smallest[1]:.2g} % in 2 of 3"
    assert found(made.calibration({NAMES[0]: pairs(8, 0.0001)})) == "3.5 % in 1 of 1"
    assert found(made.calibration({NAMES[2]: pairs(14, 3.0)})) == "0 of 1"


def test_the_front_page_names_every_device_and_leads_to_the_page(written, small, tmp_path):
    other = rated(
        replace(small, environment=compare_results.environment({"name": "A CPU"})), false_alarms=0.5
    )
    page, _ = written(rated(small, false_alarms=0.0), other)
    front = (tmp_path / "out" / "index.html").read_text()
    assert "A code against itself. A GPU: 0 % false alarms; A CPU: 50 % false alarms." in front
    assert 'href="calibration.html' in front
    assert re.findall('data-machine="([^"]*)"', page) == [
        f"{name}, CUDA, on 2026-01-31, commit unknown" for name in ("A GPU", "A CPU")
    ]


def test_calibrations_are_found_among_other_results(small, tmp_path):
    compare_results.write(tmp_path / "measured" / "a.json", compare_results.record())
    calibration.save(small, tmp_path / "calibration" / "fake" / "b.json")
    found = sort_out([tmp_path])
    assert [each.path.name for each in found.results] == ["a.json"]
    assert [each.study for each in found.calibrations] == ["a-study"]
    assert (list(found.simulations), list(found.checks)) == ([], [])


def test_no_calibration_is_no_page(tmp_path):
    report.write(Sources([]), tmp_path)
    assert not (tmp_path / "calibration.html").exists()
