"""What was measured as a table: after a run, of files, and as a data frame."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from report_pages import ENVIRONMENT, record, results, skipped
from typer.testing import CliRunner

import gpubench
from gpubench.cli import measured
from gpubench.cli.app import app
from gpubench.evidence.declared import Declared
from gpubench.evidence.frame import frame
from gpubench.evidence.results import Store

USING = Path(__file__).parents[2] / "docs/using.md"
SORTED = Declared("cell-list", None, "sorted", None, "overflow")


def timed(algorithm, ms, lost=0, **changes):
    declared, outcome = {"declared": SORTED}, {"outcome": {"overflow": lost}}
    return record(algorithm, "order", median=ms, **(declared | outcome | changes))


RECORDS = [
    timed("slow-sort", 2.0),
    timed("lossy-sort", 0.5, lost=12_704),
    timed("quick-sort", 1.0),
    timed("tied-sort", 1.005),
    timed("quick-sort", 8.0, particles=524288),
    skipped("needs CUDA", algorithm="gpu-sort"),
    skipped("needs CUDA", algorithm="gpu-sort", particles=524288),
]


@pytest.fixture
def file(tmp_path):
    with Store(tmp_path / "found.json", ENVIRONMENT) as store:
        store.add(RECORDS)
    return store.path


def show(*words):
    done = CliRunner().invoke(app, ["show", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_times_are_ranked_among_equal_work_and_losses_have_no_rank():
    times, rest = measured.texts(frame([results(RECORDS)]))
    lines = [dict(zip(times.columns, row, strict=True)) for row in times.rows]
    assert [(line["rank"], line["algorithm"], line["median ms"]) for line in lines] == [
        ("1", "quick-sort order", "1"),
        ("2=", "tied-sort order", "1.005"),
        ("3", "slow-sort order", "2"),
        ("", "lossy-sort order", "0.5"),
        ("1", "quick-sort order", "8"),
    ]
    assert lines[2]["95 % interval"] == "1.98 to 2.02" and lines[2]["over best"] == "2.00"
    assert [line["remark"] for line in lines] == ["", "", "", "incomplete: 12,704 lost", ""]
    # 12 bytes a particle in a millisecond, beside a copy of 4 TB/s.
    assert lines[4]["of bound"] == "0%" and lines[0]["particles"] == "65,536"
    assert [line["particles"] for line in lines] == ["65,536", "", "", "", "524,288"]
    assert "per_cell 4" in times.title and "moved" not in times.title
    assert rest.rows == [["skipped", "gpu-sort one-pass", "2", "needs CUDA"]]


def test_measurements_without_a_time_list_reasons():
    found = [skipped("needs CUDA"), skipped("no room", per_cell=1)]
    (only,) = measured.texts(frame([results(found)]))
    assert [row[0] for row in only.rows] == ["skipped", "skipped"]
    assert {row[3] for row in only.rows} == {"needs CUDA", "no room"}
    assert measured.texts(frame([])) == []


def test_show_prints_the_tables(file):
    printed = show(file)
    assert "quick-sort order" in printed and "incomplete: 12,704 lost" in printed
    assert "needs CUDA" in printed


def test_show_writes_what_programs_read(file):
    expected = gpubench.load(file)
    table = pd.read_csv(io.StringIO(show(file, "--format", "csv")))
    assert list(table.columns) == list(expected.columns)
    assert table.median_ms.dropna().tolist() == expected.median_ms.dropna().tolist()
    rows = json.loads(show(file, "--format", "json"))
    assert [row["algorithm"] for row in rows] == expected.algorithm.tolist()
    lossy = next(row for row in rows if row["algorithm"] == "lossy-sort")
    assert (lossy["rank"], lossy["lost"], lossy["library"]) == (None, 12_704, None)


def test_show_writes_markdown(file):
    lines = show(file, "--format", "markdown").splitlines()
    heads = [line for line in lines if line.startswith("| task |")]
    assert len(heads) == 1
    widths = {line.count(" | ") for line in lines[lines.index(heads[0]) :][:7]}
    assert len(widths) == 1


def test_an_unknown_format_is_refused(file):
    done = CliRunner().invoke(app, ["show", str(file), "--format", "xml"])
    assert "one of table, csv, json, markdown" in str(done.exception)


def test_run_ends_with_what_it_measured(tmp_path, monkeypatch, environment_once):
    monkeypatch.setattr("gpubench.studies.runner.environment", environment_once)
    table = "run rozen2008-table3 --quick --device opencl:intel --per-cell 4 --moved 41"
    words = table.split()
    only = ["--algorithms", "fixed-capacity,counting-sort", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--particles", "512,1024", *only])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\n") == 1  # the path, for scripts
    assert "counting-sort order" in done.stderr and "95 % interval" in done.stderr
    assert "512" in done.stderr and "1,024" in done.stderr and "lost" in done.stderr
    again = CliRunner().invoke(app, [*words, "--particles", "512", *only, "--quiet"])
    assert (again.stderr, again.stdout) == ("", done.stdout)
    again = CliRunner().invoke(app, [*words, "--particles", "512", *only])
    assert "counting-sort order" in again.stderr and "1,024" not in again.stderr


def test_the_example_of_the_readme_gives_a_data_frame(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("results/local").mkdir(parents=True)
    file.rename("results/local/a.json")
    blocks = re.findall(r"```python\n(.*?)```", USING.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "gpubench.load" in block]
    exec(compile(example, "using.md", "exec"), {})
    assert "quick-sort" in capsys.readouterr().out


def test_the_package_is_imported_without_pandas():
    code = "import sys, gpubench; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
