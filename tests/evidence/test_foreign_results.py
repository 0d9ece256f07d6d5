"""Files of others: what a file may hold is read, all else is refused in one line."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import calibrations
import compare_results as made
import pytest
import searches
from physics_findings import FIGURE, checked
from simulation_pages import account

from gpubench import report
from gpubench.base import paths
from gpubench.base.errors import UserError
from gpubench.choose.chooser import Chooser
from gpubench.choose.question import Question
from gpubench.compare import output, procedure
from gpubench.evidence import results
from gpubench.evidence.bounds import content_of
from gpubench.evidence.physics_results import CheckRun, Finding, Reference
from gpubench.evidence.records import as_json, to_json
from gpubench.report.sources import sort_out

SEED = 16
MUTATIONS = 60
# What no field of any file takes, as JSON.
NOWHERE = {
    "a whole number of 64 bits": str(2**63),
    "a longer one": "1" + "0" * 400,
    "infinity": "1e999",
    "next to nothing": "5e-324",
    "a lone surrogate": r'"\ud800"',
    "a NUL": r'"a\u0000b"',
}
ABSURD: list[Any] = [
    -1, 0, 2**63 - 1, 2**53, 1e308, -1e308, 5e-324, 0.5, 4096.0, None, True, "", "x" * 300,
    "$a$ $b", "\n", "<script>", "../../x", "lots", [], {}, ["x"], {"a": {"b": {"c": 1}}}, [[1]],
    "0000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00",
]  # fmt: skip
CHECK = CheckRun(
    "growth", "Does it grow?", {"particles": 4096}, 1.5, None,
    [Finding("size", 1.0, 0.1, Reference(1.1, 0.2, "a book"))], [FIGURE],
)  # fmt: skip
QUESTION = Question(1_000_000, 6.0)


def measured() -> dict[str, Any]:
    """Return a file of results with steps, searches and what has no time."""
    state = {"clocks_sm_mhz": 1980, "power_w": 120.5}
    step = {"workload": "dpd-standard", "skin": 0.0, "time_step": 0.04, "steps": 2}
    records = [
        made.record(parameters={"block": 256}, outcome={"rounds": 3}, state_before=state),
        made.record("bucket-sort", remarks=["drift: faster"], clocks_sm_mhz=[1980, 1980]),
        made.record(phases_ms={"sort": 0.1, "force": 0.3}, particle_steps_per_s=1e9, **step),
        made.record("radix-grid", status="failed", mode="cold"),
        searches.record("search-counting-sort", 2.0, 2**20, 4.0),
    ]
    environment = made.environment(host={"cpu": "one", "cores": 2, "memory_bytes": 2**34})
    return {"schema": 2, "environment": environment, "records": list(map(as_json, records))}


def documents() -> dict[str, dict[str, Any]]:
    """Return a file of each kind."""
    pairs = {"one": calibrations.pairs(12), "two": calibrations.pairs(12, noise=0.1)}
    calibrated = json.loads(to_json(calibrations.calibration(pairs)))
    return {
        "measured.json": measured(),
        "checks.json": checked(CHECK).as_json(),
        "calibration.json": {"schema": 1, "calibration": calibrated},
        "simulation.json": account(),
    }


def places(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value inside a document, by names and numbers."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in inside:
        yield (*way, name)
        if isinstance(each, dict | list):
            yield from places(each, *way, name)


def put(document: Any, way: tuple[Any, ...], value: Any) -> None:
    *before, last = way
    for name in before:
        document = document[name]
    document[last] = value


def use(file: Path, out: Path) -> None:
    """Do all that can be done with a file, but for what it is refused for."""
    sources = sort_out([file])
    report.write(sources, out)
    pages = b"".join(path.read_bytes() for path in out.rglob("*.*ml"))
    assert b"<script>" not in pages
    if not sources.results:
        return
    found = procedure.compare_files(file, file, None, 0.99, True)
    output.as_json(found, "again")
    output.markdown(found, "again").encode()
    chooser = Chooser.load([file])
    chooser.choose(QUESTION)


def refusal(file: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(UserError) as caught:
        sort_out([file])
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600 and str(file) in message
    return message


@pytest.mark.parametrize("name", documents())
@pytest.mark.parametrize("kind", NOWHERE)
def test_what_belongs_into_no_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    document = documents()[name]
    file = tmp_path / name
    ways = [way for way in places(document) if not isinstance(way[-1], int)]
    put(document, random.Random(SEED).choice(ways), "@here")
    file.write_text(json.dumps(document).replace('"@here"', NOWHERE[kind]))
    said = refusal(file)
    assert "no JSON" in said or "at $" in said


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("environment", "host", "memory_bytes"), "lots"),
        (("environment", "host", "memory_bytes"), {"a": 1}),
        (("environment", "started"), "0000-01-01T00:00:00Z"),
        (("environment", "started"), "2026-02-30T00:00:00Z"),
        (("environment", "started"), "2026-01-01T00:00:00"),
        (("environment", "machine"), "m" * 300),
        (("records", 0, "median_ms"), -1.0),
        (("records", 0, "ci95_low_ms"), -0.1),
        (("records", 0, "input", "particles"), 0),
        (("records", 0, "input", "particles"), 1e18),
        (("records", 0, "study"), "s" * 300),
        (("records", 0, "study"), "a\nb"),
        (("records", 0, "outcome"), {"a": {"b": {"c": 1}}}),
    ],
)
def test_what_a_field_cannot_be_is_refused_by_its_name(
    tmp_path: Path, way: tuple[Any, ...], value: Any
) -> None:
    document = measured()
    put(document, way, value)
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(document))
    path = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in way)
    assert f"is not a gpubench results file: at ${path}" in refusal(file)


def test_odd_names_and_whole_numbers_written_as_floats_are_read(tmp_path: Path) -> None:
    document = measured()
    for record in document["records"]:
        record["input"]["particles"] = float(record["input"]["particles"])
    for record in document["records"][:-1]:  # the last is of a search, for `choose`
        record |= {"study": "a$b$ ](x) `", "algorithm": "<b>$x$ $", "form": "$" * 40}
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(document))
    use(file, tmp_path / "out")
    assert {type(r.at("particles")) for r in results.load(file).records} == {int}


def test_what_is_read_can_be_used_and_all_else_is_refused_in_one_line(tmp_path: Path) -> None:
    """Absurd values in places drawn at random: nothing but a UserError may come of it."""
    rng = random.Random(SEED)
    originals = documents()
    refused = 0
    for number in range(MUTATIONS):
        name = rng.choice(list(originals))
        document = copy.deepcopy(originals[name])
        way, value = rng.choice(list(places(document))), rng.choice(ABSURD)
        put(document, way, value)
        file = tmp_path / str(number) / name
        file.parent.mkdir()
        file.write_text(json.dumps(document))
        try:
            use(file, tmp_path / f"{number}-out")
        except UserError as error:
            refused += 1
            assert "\n" not in str(error), (name, way, value)
        except Exception as error:
            raise AssertionError(f"{name}: {way} = {value!r}") from error
    assert MUTATIONS / 4 < refused < MUTATIONS


def told_in(name: str) -> dict[str, Any]:
    """Return the smallest shipped study of which a record reports a number by this name."""
    studies = []
    for path in paths.measured_folder().rglob("*.json.gz"):
        document = json.loads(content_of(path))
        records = document.get("records", [])
        for study in {record["study"] for record in records if name in record["outcome"]}:
            kept = [record for record in records if record["study"] == study]
            studies.append({**document, "records": kept})
    return min(studies, key=lambda document: len(document["records"]))


OTHER_NUMBERS = ("steps_done", "moved_share", "longest_cycle", "tail")


@pytest.mark.parametrize(
    "name",
    [
        "rounds",
        *(pytest.param(n, marks=[pytest.mark.long, pytest.mark.thorough]) for n in OTHER_NUMBERS),
    ],
)
def test_what_is_reported_as_no_number_is_shown_as_it_is(tmp_path: Path, name: str) -> None:
    document = told_in(name)
    telling = [r["outcome"] for r in document["records"] if name in r["outcome"]]
    odd: list[Any] = ["lots", None, True, [1], {"a": 1}, 1e30]
    for outcome, value in zip(telling, odd * len(telling), strict=False):
        outcome[name] = value
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(document))
    sources = sort_out([file])
    report.write(sources, tmp_path / "out")
    assert (tmp_path / "out/index.html").exists()
