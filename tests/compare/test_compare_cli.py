"""The command `gpubench compare`: what it prints, writes and exits with."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path

import calibrations as made_calibrations
import compare_results as made
import pytest
from additions import nothing_added
from calibrations import pairs
from compare_results import record
from jsonschema import Draft202012Validator
from limits import no_file_longer_than
from typer.testing import CliRunner

from gpubench.base import plugins
from gpubench.base.paths import PACKAGE
from gpubench.cli import app
from gpubench.cli.options import Compared
from gpubench.compare import files
from gpubench.compare.output import ROWS
from gpubench.evidence import calibration

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-kernel"
STEADY = [0.999, 1.001, 1.0, 0.998, 1.002, 1.0005, 0.9995, 1.0015]


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def compare(gpubench_command):
    return partial(gpubench_command, "compare")


def folder(name, tmp_path, *cells, **environment):
    """Write a file for each process; cells are records of each of them."""
    for number, records in enumerate(zip(*cells, strict=True)):
        made.write(tmp_path / name / f"{number}.json", *records, **environment)
    return name


def steady(factor, algorithm="radix-grid", **fields):
    return made.processes(*(factor * centre for centre in STEADY), algorithm=algorithm, **fields)


@pytest.fixture
def sides(tmp_path):
    """Write a base, and a head in which b is slower, c faster, d unclear and a the same."""
    base = folder("base", tmp_path, *(steady(1, name) for name in "abcd"))
    noisy = made.processes(0.7, 1.5, 0.8, 1.2, 1.0, 1.3, 0.9, 0.6, algorithm="d")
    head = folder(
        "head", tmp_path, steady(1.001, "a"), steady(1.2, "b"), steady(0.8, "c"), noisy
    )  # fmt: skip
    return base, head


@pytest.mark.parametrize(
    ("factor", "status", "first"),
    [
        (1.0, 0, "same: 1 of 1 cell, to within 3 %"),
        (1.2, 1, "slower: 1 of 1 cell, at worst 20 %: a-study/table: radix-grid"),
        (0.8, 0, "faster: 1 of 1 cell; none is slower"),
        (1.03, 3, "inconclusive: 1 of 1 cell; none is known to be slower"),
    ],
)
def test_the_verdict_is_the_status_and_the_first_line(compare, tmp_path, factor, status, first):
    base, head = folder("b", tmp_path, steady(1)), folder("h", tmp_path, steady(factor))
    code, out, err = compare(base, head)
    assert (code, err) == (status, "")
    assert out.startswith(first)


def test_the_table_has_what_changed_or_is_inconclusive(compare, sides):
    code, out, _ = compare(*sides)
    assert code == 1
    rows = [line.split()[1] for line in out.splitlines() if line.startswith("a-study/table")]
    assert rows == ["b", "d", "c"]  # the worst first
    assert "slower" in out and "known to" in out
    assert "1 slower, 1 inconclusive, 1 faster, 1 same" in out
    assert compare(*sides, "--all")[1].count("a-study/table: a order") == 1
    assert compare(*sides) == (code, out, "")


def test_json_alone_is_on_stdout_and_keeps_to_its_schema(compare, sides):
    code, out, err = compare(*sides, "--json", "--threshold", "0.05")
    document = json.loads(out)
    schema = json.loads((PACKAGE / "compare/comparison.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    assert err == ""
    assert document["exit_code"] == code == 1 and document["verdict"] == "slower"
    assert document["threshold"] == 0.05
    assert document["cell_confidence"] == pytest.approx(1 - 0.01 / 4)
    verdicts = {each["name"].split()[1]: each["verdict"] for each in document["cells"]}
    assert verdicts == {"a": "same", "b": "slower", "c": "faster", "d": "cannot tell"}
    slower = document["cells"][1]
    assert slower["ratio_low"] < 1.2 < slower["ratio_high"]
    assert slower["ratio"] == pytest.approx(1.2)
    assert slower["base_processes"] == 8 and slower["spread_between"] < 0.01
    assert shlex.split(document["command"])[-2:] == ["--threshold", "0.05"]


def test_a_comment_that_cannot_be_written_leaves_the_earlier_one(compare, sides, tmp_path):
    comment = tmp_path / "comment.md"
    comment.write_text("earlier")
    with no_file_longer_than(100):
        code, out, err = compare(*sides, "--markdown", "comment.md")
    assert (code, out) == (2, "")
    assert err.startswith("gpubench: cannot write comment.md: File too large: make room")
    assert comment.read_text() == "earlier" and not list(tmp_path.glob(".*.tmp"))


def test_markdown_begins_with_the_verdict_and_ends_with_the_command(compare, sides, tmp_path):
    code, out, _ = compare(*sides, "--markdown", "deep/comment.md")
    text = (tmp_path / "deep/comment.md").read_text()
    assert code == 1 and out.startswith("slower: 1 of 4 cells")
    lines = text.splitlines()
    assert lines[0].startswith("**Slower**: 1 of 4 cells, at worst 20 %: a-study/table: b order")
    shown, folded = text.split("<details>", 1)
    assert all(f"table: {name} order" in shown for name in "bcd")
    assert "table: a order" not in shown and "table: a order" in folded
    assert text.count("<details>") == text.count("</details>") == 2
    for words in ("A GPU", "code of base", "gpubench compare base head"):
        assert words in folded
    assert compare(*sides, "--markdown", "-") == (1, text, "")


def test_markdown_shows_names_as_they_are_and_does_not_outgrow_a_comment(compare, tmp_path):
    names = ["<b>|*odd*|", *(f"other-{i}" for i in range(ROWS + 5))]
    base = folder("base", tmp_path, *(steady(1, name) for name in names))
    head = folder("head", tmp_path, *(steady(2, name) for name in names))
    _, text, _ = compare(base, head, "--markdown", "-")
    assert r"&lt;b&gt;\|\*odd\*\| order" in text
    assert "and 6 more" in text
    assert len(text) < 65_000


@pytest.mark.parametrize("text", ["0.05", "5%", "5 %"])
def test_thresholds_are_shares_or_percentages(compare, tmp_path, text):
    base, head = folder("b", tmp_path, steady(1)), folder("h", tmp_path, steady(1.04))
    assert compare(base, head)[0] == 1
    code, out, _ = compare(base, head, "--threshold", text)
    assert code == 0 and "to within 5 %" in out


@pytest.mark.parametrize("text", ["3", "0", "-1%", "nan", "100%", "much", ""])
@pytest.mark.parametrize("option", ["--threshold", "--confidence"])
def test_what_is_no_share_is_refused(compare, sides, option, text):
    code, out, err = compare(*sides, option, text)
    assert (code, out) == (2, "")
    assert f"{option} takes a fraction between 0 and 1" in err


def calibrated(tmp_path, noise):
    """Calibrate the machine of made-up results, with other cells than those; return its folder."""
    name = made.results(record("another-sort")).records[0]
    cells = {f"{files.name_of(name)}": pairs(16, noise), "a, graph": pairs(16, 5 * noise)}
    place = tmp_path / "results/local/calibration" / made.environment()["machine"]
    place.mkdir(parents=True)
    calibration.save(made_calibrations.calibration(cells), place / "a.json")


def test_one_file_each_stands_on_the_calibration_of_the_machine(compare, tmp_path):
    for name, factor in (("base", 1.0), ("head", 1.2), ("same", 1.001)):
        made.write(tmp_path / f"{name}.json", *made.processes(factor))
    calibrated(tmp_path, 0.002)
    code, out, _ = compare("base.json", "head.json")
    words = "in 1 of 1 cell the interval rests on this machine's calibration"
    assert (code, out.splitlines()[0].split(": ")[0]) == (1, "slower")
    assert out.splitlines()[0].endswith(words)
    assert compare("base.json", "same.json")[0] == 0
    document = json.loads(compare("base.json", "head.json", "--json")[1])
    assert document["cells"][0]["rests_on"] == "calibration"


def at(minute):
    return f"2026-01-31T12:{minute:02}:00Z"


def test_one_file_each_is_inconclusive_where_no_calibration_lasted_as_long(compare, tmp_path):
    calibrated(tmp_path, 0.002)  # pairs of a quarter of an hour
    for minute in (15, 16):
        for name, factor, start in (("base", 1.0, 0), ("head", 1.2, minute)):
            made.write(tmp_path / f"{name}.json", *made.processes(factor), started=at(start))
        code, out, _ = compare("base.json", "head.json")
        assert code == (1 if minute == 15 else 3)
    assert "not measured in turns" in out and "(calibrated)" in out


def one_after_the_other(tmp_path, factor, turns):
    """Write two folders: all of base, then all of head, or in turns."""
    for number, records in enumerate(steady(1.0)):
        start = 2 * number if turns else number
        made.write(tmp_path / "before" / f"{number}.json", records, started=at(start))
    for number, records in enumerate(steady(factor)):
        start = 2 * number + 1 if turns else number + len(STEADY)
        made.write(tmp_path / "after" / f"{number}.json", records, started=at(start))
    return "before", "after"


def test_folders_that_were_not_measured_in_turns_are_inconclusive_and_it_says_so(compare, tmp_path):
    sides = one_after_the_other(tmp_path, 1.2, turns=False)
    code, out, _ = compare(*sides)
    words = (
        "base and head were not measured in turns, and whole runs may be offset: measure 8"
        " processes a side in turns (`gpubench run STUDY --out before/1`, then `--out after/1`,"
        " `--out before/2` and so on), or compare commits"
    )
    assert code == 3
    assert out.splitlines()[0] == (
        f"inconclusive: 1 of 1 cell; none is known to be slower; {words}"
    )
    document = json.loads(compare(*sides, "--json")[1])
    schema = json.loads((PACKAGE / "compare/comparison.schema.json").read_text())
    Draft202012Validator(schema).validate(document)
    (only,) = document["cells"]
    assert (only["reason"], only["in_turns"], only["rests_on"]) == (words, False, "processes")
    assert only["ratio_low"] < only["ratio"] < only["ratio_high"]
    assert compare(*sides, "--markdown", "-")[1].count("not measured in turns") == 2
    calibrated(tmp_path, 0.002)  # lasted as long, so that it knows by how much runs are offset
    code, out, _ = compare(*sides)
    assert code == 1 and out.splitlines()[0].endswith("rests on this machine's calibration")


def test_folders_that_were_measured_in_turns_are_judged_by_their_processes(compare, tmp_path):
    sides = one_after_the_other(tmp_path, 1.2, turns=True)
    (only,) = json.loads(compare(*sides, "--json")[1])["cells"]
    assert (only["verdict"], only["in_turns"], only["rests_on"]) == ("slower", True, "processes")


def test_a_file_that_does_not_say_when_it_was_started_is_refused(compare, tmp_path):
    base = folder("base", tmp_path, steady(1))
    for text in (None, "soon", "2026-01-31T12:00:00"):
        head = folder("head", tmp_path, steady(1), started=text)
        code, out, err = compare(base, head)
        assert (code, out) == (2, "") and "started" in err and err.count("\n") == 1


def test_a_cell_that_is_no_longer_right_comes_first(compare, tmp_path):
    base = folder("base", tmp_path, steady(1, "a"), steady(1, "b"))
    wrong = [record("b", status="wrong", reason="7 pairs are missing")] * len(STEADY)
    head = folder("head", tmp_path, steady(2, "a"), wrong)
    code, out, _ = compare(base, head)
    assert code == 1
    assert out.startswith("broken: right in base and not in head: a-study/table: b order")
    assert "7 pairs are missing" in out.splitlines()[0]
    document = json.loads(compare(base, head, "--json")[1])
    assert document["broken"][0]["head"] == "wrong: 7 pairs are missing"
    _, text, _ = compare(base, head, "--markdown", "-")
    assert text.startswith("**Broken**: right in base and not in head")


def test_a_cell_that_never_was_right_is_an_error(compare, tmp_path):
    wrong = [record("b", status="wrong")] * len(STEADY)
    base, head = (folder(n, tmp_path, steady(1, "a"), wrong) for n in ("base", "head"))
    code, out, _ = compare(base, head)
    assert code == 2
    assert out.startswith("wrong: in head, and not right in base either")


def test_other_machines_are_refused_unless_forced(compare, tmp_path):
    base = folder("base", tmp_path, steady(1))
    head = folder("head", tmp_path, steady(1), machine="another")
    code, out, err = compare(base, head)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "different machine: fake in base, another in head" in err
    code, out, _ = compare(base, head, "--force")
    assert code == 0 and "forced: different machine" in out
    document = json.loads(compare(base, head, "--force", "--json")[1])
    assert document["forced"] and document["command"].endswith("--force")


def test_what_only_one_side_has_is_listed(compare, tmp_path):
    base = folder("base", tmp_path, steady(1, "a"), steady(1, "b"))
    head = folder("head", tmp_path, steady(1, "a"))
    code, out, _ = compare(base, head)
    assert code == 0
    assert "left out: a-study/table: b order" in out and "head: not measured" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("base", "nowhere"), "nowhere"),
        (("base", "."), "has no"),
        (("base", "base", "--json", "--markdown", "-"), "both want stdout"),
        (("base", "base", "--markdown", "base"), "takes a file"),
    ],
)
def test_errors_are_one_line(compare, tmp_path, arguments, words):
    folder("base", tmp_path, steady(1))
    if arguments[1] == ".":
        (tmp_path / "base").rename(tmp_path / "moved")
        made.write(tmp_path / "base" / "a.json")
        words = "no cell that both measured"
    code, out, err = compare(*arguments)
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1


@pytest.mark.long
def test_a_study_in_several_processes_has_a_file_of_each(tmp_path):
    words = ["run", "rozen2008-table1", "--quick", "--particles", "64", "--per-cell", "4"]
    words += ["--algorithms", "atomic-list", "--inputs", "2", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app.app, [*words, "--processes", "2"])
    assert done.exit_code == 0, done.output
    files = sorted((tmp_path / "runs").rglob("*.json"))
    folders = [file.relative_to(tmp_path / "runs").parts[0] for file in files]
    assert folders == ["process-01", "process-02"]
    for file in files:
        records = json.loads(file.read_text())["records"]
        assert {(r["algorithm"], r["inputs"]) for r in records} == {("atomic-list", 2)}


def test_what_a_process_refuses_ends_the_others_too(tmp_path):
    words = ["run", "rozen2008-table1", "--quick", "--algorithms", "atomic-lost"]
    done = CliRunner().invoke(
        app.app, [*words, "--processes", "3", "--out", str(tmp_path / "runs")]
    )
    assert done.exit_code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("added", "study", "is_warned"),
    [(True, None, True), (True, "rivals", False), (False, None, False)],
)
def test_additions_that_no_study_measures_are_warned_of(
    added, study, is_warned, monkeypatch, capsys
):
    """Of `compare` and `calibrate`, which share this."""
    with nothing_added(EXAMPLE):
        monkeypatch.setenv(plugins.VARIABLE, str(EXAMPLE / "own_kernel") if added else "")
        Compared(study=study).job()
    warned = "gpubench: --add without --study: regressions is measured, gpubench's own study"
    assert capsys.readouterr().err.startswith(warned) == is_warned
