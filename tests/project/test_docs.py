"""What the documents tell a reader to do can be done: commands run, links lead somewhere."""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from additions import nothing_added
from typer.main import get_command
from typer.testing import CliRunner

import gpubench
from gpubench import contracts, registry
from gpubench.base import paths
from gpubench.cli.app import app
from gpubench.devices import opencl
from gpubench.evidence import physics_results
from gpubench.evidence.files import load_results
from gpubench.physics_checks.runner import FAMILIES
from gpubench.report import maps, search_pages
from gpubench.report.machines import machines
from gpubench.report.rankings import Searches
from gpubench.studies.study import check_names, load_study, parse_study
from gpubench.verify import conformance
from gpubench.verify.conformance import cases

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
RUN = ("README.md", "docs/using.md")  # from top to bottom
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS_HISTORY = ("compare",)  # of a repository
STATUSES = {"choose": (0, 3)}  # one is faster, or it cannot tell
FEW = {"--particles": 2048, "--steps": 60}  # of a simulation, at most
LONGEST_SWEEP = 2**26  # steps of the quadratic example


def blocks(document, *languages):
    text = document.read_text(encoding="utf-8")
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(document, program):
    """Return the arguments of each call of a program in a document's shell blocks."""
    lines = "\n".join(blocks(document, "sh")).splitlines()
    split = (shlex.split(line, comments=True) for line in lines)
    return [words[1:] for words in split if words[:1] == [program]]


def named(cases):
    ids = [f"{d.relative_to(ROOT)}: {' '.join(w)}" for d, w in cases]
    return pytest.mark.parametrize(("document", "words"), cases, ids=ids)


@named([(d, words) for d in DOCUMENTS for words in commands(d, "gpubench")])
def test_commands_are_understood(document, words, monkeypatch):
    folders = (ROOT, document.parent, ROOT / "examples/own-kernel")
    added = words[1] if words[0] == "--add" else ""
    monkeypatch.chdir(next(folder for folder in folders if (folder / added).exists()))
    with nothing_added(ROOT / "examples"):
        while words[0] == "--add":
            registry.add([Path(words[1])])
            words = words[2:]
        understand(words)


def understand(words):
    command = get_command(app).commands[words[0]]
    parameters = command.make_context(words[0], list(words[1:])).params
    for name in parameters.get("studies") or ():
        load_study(name)
    if "workload" in parameters:
        registry.find_workload(parameters["workload"])
    names = parameters.get("algorithms") or ()
    for name in names.split(",") if isinstance(names, str) else names:
        if name not in FAMILIES:
            registry.find_algorithm(name)


@named([(d, words) for d in DOCUMENTS for words in commands(d, "make")])
def test_make_targets_exist(document, words):
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@named([(d, words) for d in DOCUMENTS for words in commands(d, "pip")])
def test_pip_extras_exist(document, words):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in re.findall(r"\[(.*)\]", " ".join(words)):
        assert set(wanted.split(",")) <= extras["optional-dependencies"].keys()
    assert not {word for word in words if word.endswith((".lock", ".txt"))} or all(
        (ROOT / word).exists() for word in words if word.endswith((".lock", ".txt"))
    )


@pytest.mark.parametrize(
    "target",
    [
        value
        for name in RUN
        for words in commands(ROOT / name, "gpubench")
        for option, value in itertools.pairwise(words)
        if option in ("--out", "--frames", "--checkpoint", "--trajectory")
    ],
)
def test_the_documents_leave_a_clean_tree(target):
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert any(f"/{target}/".startswith(line) for line in ignored if line.startswith("/"))


@pytest.mark.long
def test_documents_run_from_top_to_bottom(tmp_path, monkeypatch, environment_once):
    """Run README and using.md in an empty folder: Python blocks, commands at their smallest."""
    monkeypatch.chdir(tmp_path)
    for package in ("studies", "physics_checks"):
        monkeypatch.setattr(f"gpubench.{package}.runner.environment", environment_once)
    steps = [step for name in RUN for step in FENCE.findall((ROOT / name).read_text("utf-8"))]
    for language, body in steps:
        if language == "python":
            exec(compile(body, "using.md", "exec"), {})
        lines = body.splitlines() if language == "sh" else []
        for line in lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["gpubench"] and not is_run_elsewhere(words[1:]):
                result = CliRunner().invoke(app, smallest(words[1:]))
                expected = STATUSES.get(words[1], (0,))
                assert result.exit_code in expected, (
                    f"{line}\n{result.output}\n{result.exception!r}"
                )
    assert (tmp_path / "reports/local/index.html").exists()
    assert (tmp_path / "reports/local/mine/index.html").exists()


def is_run_elsewhere(words):
    """Say whether a command needs the history of a repository, or has a test of its own below."""
    return words[0] in NEEDS_HISTORY or (
        words[0] == "check" and words[1:] in ([f] for f in FAMILIES)
    )


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_the_physics_is_right(family, monkeypatch, environment_once, tmp_path):
    """Every check ends, agrees with its references, and is kept with figures that have names."""
    monkeypatch.setattr("gpubench.physics_checks.runner.environment", environment_once)
    file = tmp_path / "found.json"
    result = CliRunner().invoke(app, ["check", family, "--out", str(file)])
    assert result.exit_code == 0, result.output
    checks = physics_results.load(file).checks
    assert [check.name for check in checks] == [c.name for c in FAMILIES[family] if c.quick]
    assert all(set(check.verdicts) <= {"agrees", "recorded"} for check in checks)
    figures = {figure.slug: figure for check in checks for figure in check.figures}
    assert len(figures) == sum(len(check.figures) for check in checks)
    assert figures or family == "lj-fluid"  # whose checks are numbers
    if family == "dpd":
        (growing,) = [check.figures[0] for check in checks if check.name == "domains-3d"]
        sizes, fit = growing.panels[0].series
        assert (sizes.role, fit.role) == ("measured", "fit")
        assert sizes.y[-1] > 1.1 * sizes.y[0]


def smallest(words):
    """Shrink a command to seconds: one algorithm, few particles."""
    if words == ["check"] or words[:2] == ["check", "--positions"]:
        return ["check", "atomic-list", *words[1:]]
    if words[0] == "simulate":
        pairs = zip(["", *words], words, strict=False)
        return [str(min(int(w), FEW[o])) if o in FEW else w for o, w in pairs]
    if words[0] != "run":
        return words
    study = load_study(words[1])
    few = {"--particles": "64", "--algorithms": study.subjects[-1].algorithm}
    if any("per_cell" in sweep.axes for sweep in study.sweeps):
        few["--per-cell"] = "1"
    pairs = zip(["", *words], words, strict=False)
    kept = [word for before, word in pairs if word not in few and before not in few]
    return [*kept, *(word for pair in few.items() for word in pair)]


@pytest.mark.parametrize("module", ["numpy", pytest.param("cupy", marks=pytest.mark.cuda)])
def test_the_code_to_take_home_runs(module):
    """Run the blocks of use.md in turn, up to those for a GPU or, with one, all of them."""
    namespace: dict[str, object] = {}
    for block in blocks(ROOT / "docs/use.md", "python"):
        if "jax" in block and find_spec("jax") is None:
            continue
        if module == "cupy" or not re.search(r"cupy|torch", block):
            exec(compile(block, "use.md", "exec"), namespace)
            assert namespace.get("same", True)
    assert "same" in namespace


@pytest.mark.parametrize(
    ("file", "name", "form"),
    [("cell_sweep", "CellSweep", "plain"), ("all_pairs", "AllPairs", "count")],
)
def test_the_example_algorithms_give_right_answers(tmp_path, monkeypatch, file, name, form):
    kernels, example = tmp_path / "kernels", ROOT / "examples/first-algorithms" / file
    shutil.copytree(paths.kernel_folder(), kernels)
    shutil.copy(example.with_suffix(".cu"), kernels)
    monkeypatch.setattr(paths, "kernel_folder", lambda: kernels)
    cls = runpy.run_path(str(example.with_suffix(".py")))[name]

    with opencl.open_opencl() as device:

        def make(particles, grid):
            return cls(device, particles, grid, form, {})

        results = []
        for case in cases(cls.family):
            inputs = case.make()
            if inputs.particles * inputs.grid.count < LONGEST_SWEEP:
                results.append(conformance.run_case(make, cls.family, case))
    refused = [result for result in results if "finds no images" in result.reason]
    assert len(results) - len(refused) > 40
    assert {result.status for result in results if result not in refused} == {"ok"}, results


def test_pages_and_examples_import_the_public_path():
    code = [(d.name, text) for d in DOCUMENTS for text in blocks(d, "python")]
    code += [(p.name, p.read_text("utf-8")) for p in (ROOT / "examples").rglob("*.py")]
    imported = {
        (n, m) for n, text in code for m in re.findall(r"(?:from|import) (gpubench\.\S+)", text)
    }
    modules = {module for _, module in imported}
    assert modules == {"gpubench.contracts", "gpubench.ase"}, imported


def test_primitives_are_in_the_public_path():
    text = (ROOT / "docs/kernels.md").read_text(encoding="utf-8").partition("## Primitives")[2]
    cells = re.findall(r"^\| (.*?`.*?) \|", text, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"\b([A-Z]\w+)[(`]", cell)}
    assert len(named) > 8 and named <= {*contracts.__all__}


def test_the_example_study_is_one():
    (text,) = [text for text in blocks(ROOT / "docs/extending.md", "toml") if "[[sweeps]]" in text]
    check_names(parse_study("full-cells", text), registry.algorithms())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = document.parent / file if file else document
        assert target.exists(), f"{document.name} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings
            }


def test_algorithms_that_are_described_exist():
    text = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^### ([a-z-]+)$", text, re.MULTILINE))
    assert described
    assert described <= registry.algorithms().keys()


def test_every_problem_has_a_table_of_its_algorithms():
    """The site fills these in from the registry: an algorithm needs no line in a document."""
    text = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
    tables = re.findall(r"^<!-- algorithms: ([a-z-]+) -->$", text, re.MULTILINE)
    assert sorted(tables) == sorted({cls.family for cls in registry.algorithms().values()})


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    pictures = len(re.findall(r"^!\[", text, re.MULTILINE))
    tables = len(re.findall(r"^\| :?-", text, re.MULTILINE))
    assert pictures + tables <= 5


def test_the_documents_are_short():
    written = [d for d in DOCUMENTS if d.name != "CHANGELOG.md" and "examples" not in d.parts]
    assert sum(len(d.read_text(encoding="utf-8").split()) for d in written) <= 27_000
    assert len((ROOT / "docs/architecture.md").read_text(encoding="utf-8").split()) <= 2_000


@pytest.fixture(scope="module")
def regimes():
    """The maps of the card that the README shows."""
    [machine] = machines(load_results([ROOT / "results/measured/nvidia-h100-80gb-hbm3"]))
    [run] = [run for run in machine.studies if run.study.name == "regimes"]
    return Searches(run)


@pytest.mark.long
def test_the_readme_counts_what_its_map_shows(regimes):
    tiles = maps.figure(regimes, "count", "readme").spec["datasets"]["tiles"]
    shown = [tile for tile in tiles if tile["p"] == 0]  # uniform, in random order
    won = sum("open" not in tile and tile["n"] == "search-counting-sort" for tile in shown)
    unclear = [tile["n"] for tile in shown if "open" in tile]
    assert {*unclear} <= {"search-counting-sort"}
    assert (
        f"counting-sort on {won} of {len(shown)} inputs by device time; on the other"
        f" {len(unclear)}, where it has the lowest median too, another may be as fast."
    ) in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_readme_counts_the_comparisons_of_the_report(regimes):
    said = search_pages.libraries_verdict(regimes)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    counts = re.search(r"in (\d+ of \d+) comparisons, .* in (\d+ of \d+), \d+ inconclusive", text)
    assert counts and all(each in said for each in counts.groups())


def test_the_readmes_times_are_those_of_the_results():
    """Each is the device time, or as launched where no graph holds it; the least of its forms."""
    times = gpubench.load(
        *(ROOT / "results/measured/nvidia-h100-80gb-hbm3").glob("*-rivals*.json.gz")
    )
    times = times.query(
        "per_cell == 4 and order == 'random' and distribution == 'uniform' and device_rank.notna()"
    )
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`[a-z-]+`.*) \|$", text, re.MULTILINE)
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    columns = [("count", 2**20), ("list", 2**20), ("count", 2**22), ("list", 2**22)]
    assert len(rows) == 8
    for first, *cells in rows:
        name = first.split("`")[1]
        for (task, particles), cell in zip(columns, cells, strict=True):
            of_cell = times[
                (times.algorithm == name) & (times.task == task) & (times.particles == particles)
            ]
            assert of_cell["median_ms"].notna().any() == bool(cell)
            if cell:
                assert f"{of_cell['median_ms'].min():.3g}" == f"{float(cell):.3g}"


@pytest.mark.long
def test_the_readme_shows_what_choose_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (words,) = [w for w in commands(ROOT / "README.md", "gpubench") if w[0] == "choose"]
    (shown,) = blocks(ROOT / "README.md", "text")
    answered = CliRunner().invoke(app, words).output.splitlines()
    assert all(line.strip() == "..." or line in answered for line in shown.splitlines())
