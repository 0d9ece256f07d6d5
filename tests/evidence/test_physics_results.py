"""What checks found, on disk and back; what counts as agreement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_algorithms import ENVIRONMENT
from physics_findings import FIGURE, checked

from gpubench.base.errors import UserError
from gpubench.evidence.physics_results import (
    CheckRun,
    Figure,
    Finding,
    Panel,
    PanelAxis,
    Reference,
    Series,
    free_path,
    load,
    save,
)

AROUND_TEN = Reference(10.0, 0.5, "somebody")


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "quantity": "pressure", "value": 10.2, "error": 0.01, "reference": AROUND_TEN,
    }  # fmt: skip
    return Finding(**given | changes)


def check_run(*findings: Finding, **changes: Any) -> CheckRun:
    given: dict[str, Any] = {
        "name": "structure", "question": "Is it?", "setting": {"particles": 3000, "spans": [1.0]},
        "seconds": 1.5, "failure": None, "findings": list(findings), "figures": [],
    }  # fmt: skip
    return CheckRun(**given | changes)


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (10.0, 0.0, "agrees"), (10.5, None, "agrees"), (9.5, None, "agrees"),
        (10.5001, None, "differs"), (10.8, 0.11, "agrees"), (10.8, 0.09, "differs"),
        (9.2, 0.11, "agrees"), (9.2, 0.09, "differs"),
    ],
)  # fmt: skip
def test_agreement_is_within_tolerance_and_three_standard_errors(value, error, verdict):
    assert finding(value=value, error=error).verdict == verdict


def test_without_a_reference_a_value_is_recorded():
    assert finding(reference=None).verdict == "recorded"


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (1.02861, 0.00052, "1.02861 ± 0.00052"), (23.6471, 0.0041, "23.6471 ± 0.0041"),
        (18.51, 2.34, "18.5 ± 2.3"), (1850.0, 120.0, "1850 ± 120"), (0.84712, None, "0.8471"),
        (0.0, 0.0, "0"), (1.1e-9, 2e-9, "1.1e-09 ± 2e-09"),
    ],
)  # fmt: skip
def test_a_value_is_written_to_the_second_digit_of_its_error(value, error, written):
    assert finding(value=value, error=error).written == written


@pytest.mark.parametrize(
    ("runs", "sound"),
    [
        ([check_run(finding())], True),
        ([check_run(finding(reference=None))], True),
        ([check_run(finding()), check_run(finding(value=20.0))], False),
        ([check_run(finding()), check_run(failure="step 3: it blew up")], False),
        ([], True),
    ],
)
def test_what_differs_or_fails_is_not_sound(runs, sound):
    assert checked(*runs).is_sound == sound


def test_comes_back_as_it_was_saved(tmp_path):
    found = checked(
        check_run(finding(note="of 12"), finding(reference=None, error=None), figures=[FIGURE]),
        check_run(failure="step 3: it blew up", name="energy"),
    )
    save(found, tmp_path / "deep" / "found.json")
    assert load(tmp_path / "deep" / "found.json") == found
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["found.json"]
    written = json.loads((tmp_path / "deep" / "found.json").read_text())
    assert written["checks"][0]["findings"][0]["verdict"] == "agrees"


def test_numbers_are_kept_to_six_digits():
    written = checked(check_run(finding(value=1 / 3))).as_json()
    assert written["checks"][0]["findings"][0]["value"] == 0.333333


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "medium"},
        {"environment": {}},
        {"checks": [check_run(finding(error=-1.0))]},
        {
            "checks": [
                check_run(
                    figures=[Figure("slug", "", "two\nlines", PanelAxis(""), PanelAxis(""), [])]
                )
            ]
        },
    ],
)
def test_what_the_schema_refuses_is_not_saved(tmp_path, wrong):
    with pytest.raises(ValueError, match="not what a file of checks holds"):
        save(checked(**wrong), tmp_path / "found.json")
    assert not list(tmp_path.iterdir())


def test_the_slug_of_a_figure_can_name_a_file():
    with pytest.raises(ValueError, match="Bad Slug"):
        Figure("Bad Slug", "", "", PanelAxis(""), PanelAxis(""), [])


def test_more_points_than_a_file_should_hold_are_refused(tmp_path):
    line = Series("measured", list(range(201)), list(range(201)))
    figure = Figure("growth", "", "", PanelAxis(""), PanelAxis(""), [Panel("", [line])])
    with pytest.raises(ValueError, match=r"series\[0\]\.x"):
        save(checked(check_run(figures=[figure])), tmp_path / "found.json")


def test_what_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        save(checked(), tmp_path / "file" / "found.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [("[]", "no file of gpubench checks|not a file of gpubench checks"), ("{", "no JSON"),
     ('{"schema": 1}', "not a file of gpubench checks")],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "found.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_names_follow_date_and_commit_and_never_collide(tmp_path):
    with free_path(tmp_path, "dpd", ENVIRONMENT) as first:
        assert first == tmp_path / "fake" / "2026-01-31-0123456-dpd.json"
        save(checked(), first)
    with free_path(tmp_path, "dpd", ENVIRONMENT) as second:
        assert second.name == "2026-01-31-0123456-dpd-2.json"
    of_commit = {**ENVIRONMENT, "commit": "fedcba9876543210"}
    with free_path(tmp_path, "dpd", of_commit) as third:
        assert third.name == "2026-01-31-fedcba9-dpd.json"
    assert list(first.parent.iterdir()) == [first]
