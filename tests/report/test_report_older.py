"""What older code timed says so, and how often later runs fell inside earlier intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import calibrations as made
import pytest
from check_pages import PRESSURE, a_check, found
from report_pages import ENVIRONMENT, SIZES, STUDY, record, results, run_of, skipped, write_page

from gpubench import report
from gpubench.core.version import version_of
from gpubench.evidence.coverage import coverage
from gpubench.report import tables
from gpubench.report.machines import machines
from gpubench.report.sources import Sources

NAMES = ("atomic-list", "counting-sort", "bucket-sort")
TODAY = {name: version_of(name, None, "cuda") for name in NAMES}
FORMS = {"atomic-list": "one-pass", "counting-sort": "order", "bucket-sort": "device-loop"}
ALL_OLD = "Times by older code."


def timed(name: str, version: str | None, **changes: Any) -> dict[str, Any]:
    return record(name, FORMS[name], version=version, **changes)


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ((TODAY["atomic-list"], TODAY["counting-sort"]), ""),
        (("1.older", "1.older"), ALL_OLD),
        (("1.older", TODAY["counting-sort"]), f"{ALL_OLD[:-1]}: atomic-list."),
        ((None, TODAY["counting-sort"]), f"{ALL_OLD[:-1]}: atomic-list."),
        (
            ("1.older", "1.older", TODAY["bucket-sort"]),
            f"{ALL_OLD[:-1]}: atomic-list and counting-sort.",
        ),
    ],
)
def test_what_older_code_timed_says_so(versions: tuple[str | None, ...], said: str) -> None:
    made = [timed(name, version) for name, version in zip(NAMES, versions, strict=False)]
    assert run_of(made).older == said


def test_many_are_counted() -> None:
    names = ("atomic-list", "bucket-sort", "radix-grid", "hash-grid", "bitonic-search", "cub-sort")
    now = timed("counting-sort", TODAY["counting-sort"])
    for many, said in ((5, f"{', '.join(names[:4])} and {names[4]}"), (6, "6 algorithms")):
        old = [record(name, "plain", version="1.older") for name in names[:many]]
        assert run_of([now, *old]).older == f"{ALL_OLD[:-1]}: {said}."


def test_a_time_by_older_code_is_marked_beside_others() -> None:
    [table], notes = tables.subjects(
        run_of([timed("atomic-list", "1.older"), timed("counting-sort", TODAY["counting-sort"])])
    )
    assert [row.items[0].mark for row in table.rows] == ["ᵒ", ""]
    assert "ᵒ timed by older code than this version has" in " ".join(notes)
    [table], notes = tables.subjects(run_of([timed(name, "1.older") for name in NAMES[:2]]))
    assert [row.items[0].mark for row in table.rows] == ["", ""]  # the page says it of all


def test_what_the_package_does_not_have_is_not_older() -> None:
    assert run_of([record("of-a-plug-in", "plain", version="1.its-own")]).older == ""


def test_a_map_is_of_one_code() -> None:
    """An input that newer code did not time again is on no map, but in the CSV file."""
    about = {"study": "regimes", "sweep": "map"}

    def search(name: str, **changes: Any) -> dict[str, Any]:
        return record(name, "count", **about | changes)

    old = [search("search-counting-sort", version="1.1", particles=n) for n in (1024, 4096)]
    old += [search("scipy-ckdtree", version="1.1", particles=n) for n in (1024, 4096)]
    new = [search("search-counting-sort", version="1.2", particles=4096)]
    found = [results(old), results(new, started="2001-01-01T00:00:00+00:00")]
    [run] = machines(found)[0].studies
    assert {cell.place.particles for cell in run.cells.values()} == {4096}
    assert run.replaced == 3  # one replaced by its repetition, two on the input that is gone


def test_two_gpus_are_never_compared() -> None:
    """Each has ranks, older code and a spread of its own, though the other timed the same."""
    of_one = [timed(name, TODAY[name], median=1.0) for name in NAMES[1:]]
    of_other = [timed(name, "1.older", median=0.1 * n) for n, name in enumerate(NAMES[1:], 1)]
    other = ENVIRONMENT["device"] | {"name": "Another GPU"}
    shown = machines([
        results(of_one), results(of_other, device=other, started="2001-01-01T00:00:00+00:00")
    ])  # fmt: skip
    assert [machine.device.name for machine in shown] == ["Synthetic GPU", "Another GPU"]
    for machine, medians in zip(shown, ([1.0, 1.0], [0.1, 0.2]), strict=True):
        ranked = [each.measurement for race in machine.ranked for each in race]
        assert [each.record.median_ms for each in ranked] == medians
        assert all(each.spread == 0 and len(each.timings) == 1 for each in ranked)
        assert not coverage(machine.runs)
    assert [machine.studies[0].older for machine in shown] == ["", ALL_OLD]


def test_the_machine_with_the_most_times_of_this_code_is_first_on_every_page(
    tmp_path: Path,
) -> None:
    """Of equals, the one measured last; a CPU never."""
    today = [timed(name, TODAY[name], median=1.0 + n) for n, name in enumerate(NAMES)]
    old = [timed(name, "1.older", particles=n) for name in NAMES for n in SIZES]
    gone = [skipped("too large", particles=n, version=TODAY["atomic-list"]) for n in SIZES]
    given = {
        "fewest": ([*today[:1], *old, *gone], 9, False),
        "most": (today, 1, False),
        "earlier": (today[:2], 2, False),
        "later": (today[:2], 3, False),
        "cpu": (today, 8, True),
    }

    def about(name: str, day: int, is_cpu: bool) -> dict[str, Any]:
        device = ENVIRONMENT["device"] | {"name": name, "is_cpu": is_cpu}
        return {"machine": name, "device": device, "started": f"2001-01-0{day}T00:00:00+00:00"}

    measured = [results(own, **about(name, *when)) for name, (own, *when) in given.items()]
    checked = [
        found(a_check(PRESSURE), environment=ENVIRONMENT | about(name, 1, False))
        for name in ("elsewhere", *given)
    ]
    name = "a-study/cells: counting-sort order, particles=4096, hot"
    calibrated = [
        made.calibration({name: made.pairs(14)}, environment=each.environment) for each in checked
    ]
    report.write(Sources(measured, [], checked, calibrated), tmp_path)
    order = ["most", "later", "earlier", "fewest", "cpu"]
    more = {"index": [], STUDY: [], "checks": ["elsewhere"], "calibration": ["elsewhere"]}
    for page, others in more.items():
        html = (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        shown = dict.fromkeys(re.findall(r'data-machine="([^",]*)', html))
        assert list(shown) == order + others, page


def test_a_studys_page_begins_with_the_machine_that_has_most_current_times_of_it(
    tmp_path: Path,
) -> None:
    device, other = ENVIRONMENT["device"] | {"name": "Other"}, "rozen2008-table2"
    elsewhere = [timed(name, TODAY[name], study=other) for name in NAMES]
    old = [timed(name, "1.older") for name in NAMES]
    current = [timed(name, TODAY[name]) for name in NAMES[:2]]
    report.write(
        Sources([results(current), results([*old, *elsewhere], device=device)]), tmp_path
    )  # fmt: skip
    one, two = ENVIRONMENT["device"]["name"], "Other"
    for page, order in {"index": [two, one], STUDY: [one, two], other: [two]}.items():
        html = (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        assert [*dict.fromkeys(re.findall(r'data-machine="([^",]*)', html))] == order, page


def test_coverage_has_a_page_where_two_runs_timed_the_same(tmp_path: Path) -> None:
    one = [timed(name, "1.v", particles=2**20 + n) for name in NAMES[:2] for n in range(3)]
    report.write(Sources([results(one)]), tmp_path)
    assert not (tmp_path / "coverage.html").exists()
    days = [results(one, started=f"2001-01-0{day}T00:00:00+00:00") for day in (1, 2, 3)]
    report.write(Sources(days), tmp_path)
    page = (tmp_path / "coverage.html").read_text(encoding="utf-8")
    assert (
        "spread between runs known: 6 of 6 times" in page
        and "Later runs inside earlier intervals" in page
    )
    assert "coverage.html" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_the_page_of_a_study_says_what_is_older(tmp_path: Path) -> None:
    write_page([results([timed(name, "1.older") for name in NAMES[:2]])], tmp_path)
    assert ALL_OLD in (tmp_path / f"{STUDY}.html").read_text(encoding="utf-8")
