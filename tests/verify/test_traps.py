"""Traps: what comes of libraries that are planted, and that ours survives them."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from additions import nothing_added
from msgspec import structs
from typer.testing import CliRunner

from gpubench import registry
from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.cli.app import app
from gpubench.cli.trap_page import page
from gpubench.problems.images import traps as made
from gpubench.problems.images.oracle import pairs_within
from gpubench.problems.images.traps import traps
from gpubench.report import render
from gpubench.verify import trapped
from gpubench.verify.smallest import shrink
from gpubench.verify.trap_results import load

# A library that is right except where a word in its form says otherwise.
PLANTED = """
import os, time
import numpy as np
from gpubench.contracts import Form, HostPairs, NotSupported
from gpubench.problems.images.oracle import pairs_within

SEARCHED = []

class Planted(HostPairs):
    name, summary, source = "planted-images", "planted", "tests"
    package = module = "numpy"
    call = "import numpy"
    forms = {w: Form(w) for w in FORMS}

    def one(self, system, points):
        x = self.inputs
        if self.form == "lacks":
            raise NotSupported("it has none")
        if self.form == "refuses":
            raise ValueError("no such thing")
        if self.form == "trips":
            raise IndexError("list index out of range")
        if self.form == "sleeps":
            time.sleep(600)
        if self.form == "aborts" or self.form == "wears" and SEARCHED:
            os.abort()
        if self.form == "tires" and SEARCHED:
            raise ValueError("no more")
        SEARCHED.append(self.form)
        if self.form == "exits":
            os._exit(3)
        i, j, shifts, apart = pairs_within(x, x.cutoff, np.arange(len(x.positions)))
        kept = apart > 0 if self.form == "blind" else np.isfinite(apart)
        if self.form == "twice":
            kept = np.repeat(np.arange(len(i)), 2)
        return i[kept], j[kept], shifts[kept]

    def rows(self, *found):
        rows = super().rows(*found)
        is_cut = self.form == "cuts" and len(rows.neighbours) > 1
        return type(rows)(rows.offsets, rows.neighbours[:-1], rows.shifts) if is_cut else rows
"""
FORMS = (
    "right", "blind", "refuses", "aborts", "exits", "sleeps", "trips", "lacks", "twice", "tires",
    "wears", "cuts",
)  # fmt: skip
TRAP = "two coincident"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    path = tmp_path / "planted.py"
    path.write_text(f"FORMS = {FORMS}{PLANTED}")
    return path


# One process for all forms, which `gpubench traps` runs in one each.
TRIED = """
import json, sys
from dataclasses import replace
from msgspec.structs import asdict
from pathlib import Path
from gpubench import registry
from gpubench.problems.images.traps import traps
from gpubench.verify.trapped import caught

registry.add([Path(sys.argv[1])])
cls, named = registry.find_algorithm("planted-images"), [traps()[name] for name in sys.argv[2:]]
for form in cls.forms:
    tried = [replace(t, limit=1) if form == "sleeps" else t for t in named]
    for cell in caught(cls, form, "opencl", tried):
        print(json.dumps(asdict(cell)))
"""


def test_every_state_is_told_apart(planted):
    words = [sys.executable, "-c", TRIED, str(planted), TRAP]
    done = subprocess.run(words, capture_output=True, text=True)
    cells = {cell["form"]: cell for cell in map(json.loads, done.stdout.splitlines())}
    assert {form: cell["state"] for form, cell in cells.items()} == {
        "right": "right", "blind": "wrong", "refuses": "refused", "aborts": "crashed",
        "exits": "crashed", "sleeps": "hung", "trips": "crashed", "twice": "wrong",
        "lacks": "not offered", "tires": "right", "wears": "right", "cuts": "wrong",
    }, done.stderr  # fmt: skip
    assert cells["refuses"]["said"] == "ValueError: no such thing"
    assert cells["aborts"]["said"].startswith("SIGABRT")
    assert cells["exits"]["said"].startswith("status 3")
    assert "is listed twice" in cells["twice"]["said"]
    assert cells["cuts"]["said"] == "it lists 1 of 2 that it counts"
    bug = cells["blind"]["bug"].splitlines()
    assert len(bug) <= 10 and bug[1] == "import numpy as np"
    names: dict = {}
    exec("\n".join(bug), names)
    assert names["positions"].shape == (2, 3) and names["cutoff"] == 1.7
    assert "neighbour 1 with the shift [0 0 0] is missing" in bug[-2]
    assert bug[-1].startswith("# right: 2 pairs (i, j, shift), as (0, 1, [0, 0, 0])")


def test_what_goes_ill_after_other_traps_is_tried_first(planted):
    """Here a search fails in a process that has searched before."""
    names = ["inside the box", TRAP, "one particle"]
    words = [sys.executable, "-c", TRIED, str(planted), *names]
    done = subprocess.run(words, capture_output=True, text=True)
    cells = [*map(json.loads, done.stdout.splitlines())]
    for form in FORMS:
        assert [cell["trap"] for cell in cells if cell["form"] == form] == names, done.stderr
    states = {form: [c["state"] for c in cells if c["form"] == form] for form in FORMS}
    assert states["tires"] == states["wears"] == states["right"] == ["right"] * 3
    assert states["blind"] == ["right", "wrong", "right"]
    assert states["aborts"] == ["crashed"] * 3
    assert all(c["bug"] for c in cells if c["state"] in ("wrong", "crashed", "hung"))


def test_cells_are_printed_and_written(planted, tmp_path, monkeypatch):
    def run(name, form, spec, names, limit):
        state = {"blind": "wrong", "lacks": "not offered", "refuses": "refused"}.get(form, "right")
        said = "" if state == "right" else f"{form} so"
        for trap in names:
            bug = "import x" * (state == "wrong" and trap == TRAP)
            yield trapped.Caught("numpy 2", form, trap, state, said, bug)

    monkeypatch.setattr(trapped, "run", run)
    out = str(tmp_path / "out")
    # More jobs than there are ways to search, so that each is divided.
    words = ["traps", str(planted), "--only", "coincident", "--jobs", "32"]
    words += ["--out", out, "--device", "opencl"]
    with nothing_added(tmp_path):
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and "WRONG" in result.output and "import x" in result.output
    assert "numpy 2 lacks: lacks so" in result.output
    with (tmp_path / "out/traps.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = {row["form"]: row for row in rows}
    tried = [row["trap"] for row in rows if row["form"] == "blind"]
    assert tried == [name for name in traps() if "coincident" in name]
    assert cells["blind"]["said"] == "blind so"
    assert "lacks" not in cells  # one that lacks everything is no column
    assert "numpy 2" in (tmp_path / "out/index.html").read_text()
    assert "| two coincident | right |" in (tmp_path / "out/report.md").read_text()
    packed = Path(out) / "traps.json.gz"
    packed.write_bytes(gzip.compress((packed.parent / "traps.json").read_bytes()))
    again = ["traps", f"{out}/traps.json", f"{packed}", "--out", f"{out}/both"]
    drawn = CliRunner().invoke(app, again)
    assert drawn.exit_code == 1 and "ways to search" not in drawn.output
    text = (tmp_path / "out/both/report.md").read_text()
    assert "Nothing wrong, crashed or hung: numpy 2 right, numpy 2 refuses, " in text
    assert text.count("import x") == 2 and "blind so" in text
    assert text.count("**How many, on ") == 1  # one table a machine
    with (tmp_path / "out/both/traps.csv").open() as file:
        assert [*csv.DictReader(file)] == 2 * rows
    # Where no page can be drawn, as on a bare machine with a GPU, what was tried is kept.
    monkeypatch.setattr(install, "MODULES", {"report": ("no_such_module",)})
    bare = [*words[:-3], str(tmp_path / "bare"), *words[-2:]]
    with nothing_added(tmp_path):
        result = CliRunner().invoke(app, bare)
    assert result.exit_code == 1 and "needs no_such_module" in result.output
    assert [each.name for each in (tmp_path / "bare").iterdir()] == ["traps.json"]
    assert {cell.form for cell in load(tmp_path / "bare/traps.json").traps} == {*cells}
    for refused in (bare, again):
        assert isinstance(CliRunner().invoke(app, refused).exception, UserError)


def test_a_library_of_another_device_has_no_column(tmp_path):
    path, out = tmp_path / "planted.py", str(tmp_path / "out")
    text = PLANTED.replace("Form(w)", "Form(w, frozenset({'cuda'}))")
    path.write_text(f"FORMS = ('right',){text}")
    with nothing_added(tmp_path):
        result = CliRunner().invoke(
            app, ["traps", str(path), "--only", TRAP, "--device", "opencl", "--out", out]
        )
    assert result.exit_code == 0 and "1 traps, 0 ways to search" in result.output


@pytest.mark.long
def test_each_way_to_search_has_a_process(planted, tmp_path):
    planted.write_text(f"FORMS = 'right', 'aborts', 'sleeps'{PLANTED}")
    words = ["traps", str(planted), "--only", TRAP, "--limit", "8", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "gpubench", *words, "--device", "opencl"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    with (tmp_path / "out/traps.csv").open() as file:
        states = [row["state"] for row in csv.DictReader(file)]
    assert sorted(states) == ["crashed", "hung", "right"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no-such"], "no library 'no-such-images'"),
        (["vesin", "--only", "no such trap"], "no trap has 'no such trap' in its name"),
        (["nowhere.py"], "there is no "),
    ],
)
def test_mistakes_are_told_before_anything_is_written(words, says, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["traps", *words, "--out", str(out)])
    assert isinstance(result.exception, UserError) and says in str(result.exception)
    assert not out.exists()


def test_traps_are_the_same_in_every_process_and_no_distance_is_near_the_cutoff():
    first = {name: trap.make() for name, trap in traps().items() if trap.limit == made.LIMIT}
    made.traps.cache_clear()
    for name, inputs in first.items():
        again = traps()[name].make()
        np.testing.assert_array_equal(again.positions, inputs.positions)
        if "exactly" in name or not inputs.cutoff > 0 or traps()[name].refused:
            continue
        rows = np.arange(len(inputs.positions))
        apart = pairs_within(inputs, 1.0001 * inputs.cutoff, rows)[3]
        assert not (abs(apart / inputs.cutoff - 1) < 0.00009).any(), name
    assert 60 <= len(traps()) <= 90


@pytest.mark.parametrize("seed", range(12))
def test_what_is_shrunk_is_what_is_needed(seed):
    needed = {*np.random.default_rng(seed).integers(0, 41, 1 + seed % 4).tolist()}

    def lacks(kept):
        return "wrong" if needed <= {*kept.tolist()} else None

    kept, problem, tried = shrink(41, lacks, "wrong", 1000)
    assert {*kept.tolist()} == needed and problem == "wrong" and tried <= 1000


OURS = "neighbour-list-images"  # whose call docs/use.md shows
CALLS = [
    c
    for n, c in registry.algorithms().items()
    if c.family == "image-search" and c.call and n != OURS
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", CALLS, ids=lambda cls: cls.name)
def test_the_call_that_a_report_of_a_bug_has_can_be_made(cls):
    """And finds what the adapter finds, if it says what the pairs are."""
    imported = cls.call.split()[1]
    pytest.importorskip(imported.partition(".")[0])
    inputs = traps()["triclinic"].make()
    names = {"np": np, "positions": inputs.positions.astype(np.float64)}
    names |= {"cell": inputs.vectors[0], "periodic": inputs.periodic, "cutoff": inputs.cutoff}
    exec(cls.call, names)
    if "i" in names:
        found = sorted(zip(names["i"].tolist(), names["j"].tolist(), strict=True))
        i, j, *_ = pairs_within(inputs, inputs.cutoff, np.arange(len(inputs.positions)))
        assert found == sorted(zip(i.tolist(), j.tolist(), strict=True))


def test_a_trap_that_was_not_tried_is_no_dash_and_no_praise():
    shipped = Path(__file__).parents[2] / "results/traps/cpu-intel-xeon"
    found = load(next(iter(shipped.glob("*-neighbour-list.json.gz"))))
    first = found.traps[0]
    other = structs.replace(first, library="other 1", state="right")
    pages = render.markdown([page([structs.replace(found, traps=[*found.traps, other])])])
    text = pages["report.md"]
    assert "other 1" not in text.split("hung: ")[1].split(".")[0]
    assert f"{first.library} {first.form}" in text.split("hung: ")[1].split(" The same")[0]
    rows = [line for line in text.splitlines() if line.endswith("| not tried |")]
    assert len(rows) == len(found.traps) - 1


def test_a_report_of_a_bug_calls_the_function_of_its_form():
    cls = registry.algorithms()["torch-sim-images"]
    trap = traps()["two coincident"]
    for form, function in cls.functions.items():
        bug = trapped.Tried(cls, form, None, trap, print).bug(trap.make(), "wrong")
        assert [other for other in cls.functions.values() if other in bug] == [function]
        assert f"import {function}\n" in bug and f"{function}(\n" in bug


QUICK = ("exactly the cutoff apart", "slab, third vector of zeros", "NaN", "read-only", "float16")


def states(names):
    return {
        cell.trap: cell for cell in trapped.run("neighbour-list-images", "numpy", "opencl", names)
    }


def test_ours_survives_some():
    found = states(QUICK)
    assert found.keys() == {*QUICK}
    assert not [cell for cell in found.values() if cell.state in trapped.FAILED]
    assert found["NaN"].state == found["float16"].state == "refused"
    assert found["read-only"].state == "right"


@pytest.mark.long
@pytest.mark.thorough
def test_ours_survives_all():
    found = states([*traps()])
    assert not [cell for cell in found.values() if cell.state in trapped.FAILED]
