"""Checks of the physics in a report: tables, figures, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_pages import GROWTH, PRESSURE, a_check, found
from fake_algorithms import ENVIRONMENT
from typer.main import get_command

from gpubench import report
from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.evidence.physics_results import CheckResults, Finding, Reference, save
from gpubench.report.checks import page as page_of
from gpubench.report.sources import sort_out

HOT = Finding("kT", 1.2, 0.001, Reference(1.0, 0.01, "theory"))
SIZE = Finding("domain size", 12.5)


@pytest.fixture
def written(tmp_path):
    """Save results, write a report of the folder, and return its page and its text."""

    def write(*results: CheckResults) -> tuple[str, str]:
        for index, each in enumerate(results):
            save(each, tmp_path / "in" / f"{index}.json")
        sources = sort_out([tmp_path / "in"])
        out = tmp_path / "out"
        report.write(sources, out)
        return (out / "checks.html").read_text(), (out / "report.md").read_text()

    return write


def test_a_row_says_what_was_measured_and_what_it_should_be(written):
    page, text = written(found(a_check(PRESSURE, SIZE)))
    assert (
        "| pressure | 23.6471 ± 0.0041 | 23.64 ± 0.07 | agrees | A \\| B; of &lt;12&gt; |" in text
    )
    assert "| domain size | 12.5 | \N{EN DASH} | recorded |  |" in text
    assert "**Is it the fluid?**" in text
    assert "structure: particles 65,536, depths 3 and 6." in text
    assert "A | B; of &lt;12&gt;" in page and "of <12>" not in page
    assert "There are no results" not in page + text


def test_the_verdict_counts_and_names(written):
    failed = a_check(name="energy", failure="step 3: it blew up")
    page, text = written(found(a_check(PRESSURE, HOT, SIZE), failed))
    assert "1 of 2 quantities agree with their reference; 1 have none and are recorded." in text
    assert "energy came to no end: step 3: it blew up." in page
    assert "**differs**" in text and "<b>differs</b>" in page
    assert "quick sizes" not in page


def test_the_front_page_sums_up_all_runs(written, tmp_path):
    written(found(a_check(PRESSURE, HOT, SIZE)), found(a_check(PRESSURE)))
    front = (tmp_path / "out" / "index.html").read_text()
    assert "2 of 3 quantities of the physics agree with their reference." in front
    assert 'href="checks.html"' in front
    assert not (tmp_path / "out" / "simulations.html").exists()


def test_quick_sizes_are_called_so(written):
    page, _ = written(found(a_check(PRESSURE), size="quick"))
    assert "These are the quick sizes" in page
    assert "gpubench check dpd --device cuda</code>" in page


def test_figures_are_drawn_with_their_fits(written, tmp_path):
    page, text = written(found(a_check(SIZE, figures=[GROWTH])))
    name = "checks-dpd-1-domain-size.svg"
    assert f"](figures/{name})" in text
    drawing = (tmp_path / "out" / "figures" / name).read_text()
    said = "At the right end, size: measured 10.0, t^0.50 10.0."
    assert said in page and said in text and "How they grow &lt;fast&gt;." in page
    # Forty markers of what was measured and those of the legend; none of the fit.
    assert drawing.count('aria-roledescription="point"') == 40


def test_a_fit_has_no_markers():
    (part,) = page_of([found(a_check(figures=[GROWTH]))]).sections
    (figure,) = part.figures
    measured, fit = figure.chart.panels[0].lines
    assert (measured.marked, fit.marked) == (True, False)
    assert measured.variant != fit.variant


def test_each_run_of_checks_has_its_own_place(written):
    page, _ = written(found(a_check(figures=[GROWTH])), found(a_check(figures=[GROWTH])))
    assert 'id="checks-dpd-1"' in page and 'href="#checks-dpd-2"' in page
    assert page.count('id="checks-dpd-1-domain-size"') == 1


def test_checks_stand_beside_measurements_in_one_folder(tmp_path):
    save(found(a_check(PRESSURE)), tmp_path / "checks" / "found.json")
    measured = tmp_path / "measured" / "found.json"
    measured.parent.mkdir()
    measured.write_text(json.dumps({"schema": 1, "environment": ENVIRONMENT, "records": []}))
    sources = sort_out([tmp_path])
    assert [each.family for each in sources.checks] == ["dpd"]
    assert [each.path for each in sources.results] == [measured]


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "found.json").write_text('{"checks": 3}')
    with pytest.raises(UserError, match="not a file of gpubench checks"):
        sort_out([tmp_path / "found.json"])


def test_the_command_that_a_report_names_is_one():
    for size in ("quick", "long"):
        (part,) = page_of([found(size=size)]).sections
        program, name, *arguments = part.command.split()
        assert (program, name) == ("gpubench", "check")
        command = get_command(app).commands[name]
        context = command.make_context(name, arguments, resilient_parsing=False)
        assert context.params["long"] == (size == "long")
        assert Path(program).name == "gpubench"
