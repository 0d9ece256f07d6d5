"""asv: a benchmark for all that the registry has, samples of the engine, and a site that opens."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import needs
import pytest
from browser import CHROMIUM, chromium

from gpubench import registry
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.devices import open_device
from gpubench.measure.environment import machine
from gpubench.studies import runner

discovery = pytest.importorskip("asv_runner.discovery", reason=needs.reason("asv"))

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = str(ROOT / "benchmarks")
DEVICE = "opencl:intel"  # comes with the extra `cpu`
WHAT = {"track_time": "seconds", "track_workspace": "bytes", "peakmem_process": "bytes"}
TIME = "algorithms.CountingSort.track_time"
FORMS = ("order", "reorder")  # of the counting sort, in the history
CHOSEN = (
    r"algorithms\.(CountingSort|FixedCapacity)\.track_time"
    rf"\('({'|'.join(FORMS)}|one-pass)', 16384, 16\)"
)


def class_name(name: str) -> str:
    return name.title().replace("-", "")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return every benchmark that asv finds, by its name, for the runtime that is always there."""
    discovery.update_sys_path(BENCHMARKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUBENCH_BENCHMARK_DEVICE", DEVICE)
        return {benchmark.name: benchmark for benchmark in discovery.disc_benchmarks(BENCHMARKS)}


def of(found: dict[str, Any], name: str, **chosen: Any) -> Any:
    """Return a benchmark that is set to values of its parameters."""
    benchmark = found[name]
    assert set(chosen) == set(benchmark.param_names)
    benchmark._current_params = tuple(chosen[axis] for axis in benchmark.param_names)
    return benchmark


def run(benchmark: Any) -> Any:
    assert not benchmark.do_setup(), "skipped"
    try:
        return benchmark.do_run()
    finally:
        benchmark.do_teardown()


# What is measured


def test_there_is_one_class_for_each_algorithm_and_workload(found):
    expected = {
        f"{module}.{class_name(name)}.{what}"
        for module, names in (
            ("algorithms", registry.algorithms()),
            ("workloads", registry.workloads()),
        )
        for name in names
        for what in WHAT
    }
    assert found.keys() == expected


@pytest.mark.parametrize("name", registry.algorithms())
def test_every_form_is_a_parameter(name, found):
    for what in WHAT:
        benchmark = found[f"algorithms.{class_name(name)}.{what}"]
        assert benchmark._params[0] == list(registry.algorithms()[name].forms)
        assert benchmark.pretty_name.startswith(f"{name}: ")


def test_units_versions_and_arguments_are_what_asv_wants(found):
    for name, benchmark in found.items():
        assert benchmark.unit == WHAT[name.rpartition(".")[2]], name
        assert re.fullmatch(r"\d+", benchmark.version), f"{name} takes its version from its code"
        assert benchmark.check(BENCHMARKS), name
        assert all(isinstance(value, str) for axis in benchmark.params for value in axis)


def test_memory_is_measured_where_time_is(found):
    for name, benchmark in found.items():
        stem = name.rpartition(".")[0]
        of_time = found[f"{stem}.track_time"]
        assert benchmark.param_names == of_time.param_names
        for few, all_of_them in zip(benchmark._params, of_time._params, strict=True):
            assert set(few) <= set(all_of_them)


# What asv is given


def test_samples_are_those_of_the_engine_in_seconds(found, monkeypatch):
    taken = []
    measure = runner.measure
    monkeypatch.setattr(runner, "measure", lambda *args: taken.append(measure(*args)) or taken[-1])
    value = run(of(found, TIME, form="reorder", particles=16384, per_cell=16))
    ((record,),) = taken
    assert (record.algorithm, record.form) == ("counting-sort", "reorder")
    assert (record.at("particles"), record.at("per_cell"), record.status) == (16384, 16, "ok")
    assert value["number"] == 1
    assert len(value["samples"]) >= 11
    assert value["samples"] == pytest.approx([ms / 1000 for ms in record.samples_ms], rel=1e-5)


@pytest.mark.long
def test_a_step_of_a_workload_has_samples(found):
    benchmark = of(
        found, "workloads.DpdStandard.track_time", cells="atomic-list one-pass", particles=16384
    )
    value = run(benchmark)
    assert len(value["samples"]) >= 11
    assert all(isinstance(sample, float) and sample > 0 for sample in value["samples"])


def test_workspace_is_what_the_algorithm_allocates(found):
    name = "algorithms.CountingSort.track_workspace"
    of_order = run(of(found, name, form="order", particles=65536, per_cell=1))
    of_reorder = run(of(found, name, form="reorder", particles=65536, per_cell=1))
    assert of_reorder - of_order == 65536 * 16  # the reordered positions
    assert isinstance(of_order, int)


def nothing(self, cell_of, positions):
    """Leave the cell list as it is."""


def broken(self, cell_of, positions):
    raise RuntimeError("a kernel was lost")


@pytest.mark.parametrize(
    ("build", "reason"), [(nothing, "^wrong: "), (broken, "^failed: .*a kernel was lost")]
)
def test_what_is_wrong_or_fails_has_no_time(build, reason, found, monkeypatch):
    monkeypatch.setattr(CountingSort, "build", build)
    for what in WHAT:
        benchmark = of(
            found, f"algorithms.CountingSort.{what}", form="order", particles=65536, per_cell=1
        )
        with pytest.raises(sys.modules["benchmarks._measure"].WrongOrFailed, match=reason):
            run(benchmark)


def test_a_commit_without_the_algorithm_is_skipped(found, monkeypatch, capsys):
    present = {name: a for name, a in registry.algorithms().items() if name != "counting-sort"}
    monkeypatch.setattr(registry, "algorithms", lambda: present)
    benchmark = of(found, TIME, form="order", particles=16384, per_cell=1)
    assert benchmark.do_setup()
    assert "this commit has no counting-sort order" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "particles", "reason"),
    [("host-loop", 2**22, "other devices"), ("device-loop", 2**14, "lacks cuda")],
)
def test_what_is_not_for_this_device_is_skipped(form, particles, reason, found, capsys):
    name = "algorithms.BucketSort.track_time"
    assert of(found, name, form=form, particles=particles, per_cell=1).do_setup()
    assert reason in capsys.readouterr().out


# A history of two commits, and its site


def call(*command: object, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), **env},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(repository: Path, subject: str, day: int) -> str:
    date = f"2026-01-0{day}T12:00:00Z"
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    call("git", "add", "--all", cwd=repository)
    call("git", *identity, "commit", "-qm", subject, cwd=repository,
         GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)  # fmt: skip
    return call("git", "rev-parse", "HEAD", cwd=repository).strip()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Measure two commits, the first of which lacks an algorithm; publish, and return the hashes.

    The second part runs without the history, as on a GPU box that has only a copy.
    """
    if shutil.which("git") is None:
        needs.skip_without("git")
    root = tmp_path_factory.mktemp("asv")
    for name in ("gpubench", "kernels", "benchmarks", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("asv.conf.json", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, root / name)
    late = root / "gpubench/algorithms/fixed_capacity.py"
    text = late.read_text()
    late.unlink()
    call("git", "init", "-q", cwd=root)
    first = commit(root, "before", 1)
    late.write_text(text)
    second = commit(root, "Cells of a fixed capacity <&>", 2)

    call(sys.executable, "tools/asv_history.py", "pack", ".asv/commits", "HEAD~1", "HEAD", cwd=root)
    (root / ".git").rename(root / "elsewhere")
    name = call(sys.executable, "tools/asv_machine.py", "--device", DEVICE, cwd=root,
                PYTHONPATH=str(root)).strip()  # fmt: skip
    call(
        sys.executable, "tools/asv_history.py", "run", ".asv/commits", "--", "--machine", name,
        "--bench", CHOSEN, cwd=root, GPUBENCH_BENCHMARK_DEVICE=DEVICE,
    )  # fmt: skip
    (root / "elsewhere").rename(root / ".git")
    call(sys.executable, "-m", "asv", "publish", cwd=root)
    return root, [first, second]


def results_of(root: Path, commit: str) -> dict[str, Any]:
    (file,) = root.glob(f"results/asv/*/{commit[:8]}-*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def values(found: dict[str, Any], name: str) -> list[float]:
    """Return the medians of a result file, without what is not measured (NaN)."""
    return [value for value in found["results"][name][0] or [] if value == value]


@pytest.mark.long
def test_history_measures_the_sources_of_each_commit(measured):
    root, (first, second) = measured
    before, after = results_of(root, first), results_of(root, second)
    assert len(values(before, TIME)) == len(values(after, TIME)) == len(FORMS)
    assert values(before, "algorithms.FixedCapacity.track_time") == []
    assert len(values(after, "algorithms.FixedCapacity.track_time")) == 1


@pytest.mark.long
def test_results_keep_every_sample(measured):
    root, (_, second) = measured
    found = results_of(root, second)
    columns = dict(zip(found["result_columns"], found["results"][TIME], strict=False))
    kept = [samples for samples in columns["samples"] if samples]
    assert [len(samples) for samples in kept] == [n for n in columns["stats_repeat"] if n]
    assert all(len(samples) >= 11 for samples in kept)


@pytest.mark.long
def test_results_name_machine_and_python_but_no_host_and_no_path(measured):
    root, (first, second) = measured
    with open_device(DEVICE) as device:
        name = machine(device.name, device.is_cpu)
    version = "{}.{}".format(*sys.version_info)
    for commit in (first, second):
        found = results_of(root, commit)
        assert found["params"]["machine"] == name
        assert found["python"] == found["params"]["python"] == version
        assert found["env_name"] == f"existing-py{version}"
        assert platform.node() not in found["params"].values()
    text = "".join(file.read_text() for file in (root / "results").rglob("*.json"))
    assert not re.search(r"[\"' ](/\w+){2}", text)
    assert str(root) not in text


@pytest.mark.long
def test_site_needs_no_network_and_no_server(measured):
    root, _ = measured
    page = (root / "reports/asv/index.html").read_text()
    loaded = re.findall(r'<(?:script|link)\b[^>]*\b(?:src|href)="([^"]+)"', page)
    assert len(loaded) > 15
    assert not [name for name in loaded if not (root / "reports/asv" / name).is_file()]
    assert page.index("jquery") < page.index("data.js") < page.index("folder.js")
    assert page.index("folder.js") < page.index('"asv.js"')


@pytest.mark.long
def test_page_of_commits_has_what_asv_links_to(measured):
    root, (first, second) = measured
    page = (root / "reports/asv/commits.html").read_text()
    for commit in (first, second):
        assert f'id="{commit[:8]}"' in page
    assert "Cells of a fixed capacity &lt;&amp;&gt;" in page


def test_a_library_that_is_not_there_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("asv.repo", reason=needs.reason("asv"))
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.asv_plugin import make_openable

    (tmp_path / "index.html").write_text('<script src="https://example.org/new.min.js"></script>')
    with pytest.raises(ValueError, match=r"loads new\.min\.js"):
        make_openable(tmp_path)


# Written into the title when asv has drawn: what is plotted is on a canvas, not in the tree.
PROBE = """<script>
setInterval(function () {
  var plot = window.$ && $("#main-graph").data("plot");
  if (plot) {
    document.title = JSON.stringify({
      unit: plot.getAxes().yaxis.options.axisLabel,
      lines: plot.getData().map(function (line) { return {label: line.label, data: line.data}; })
    });
  }
}, 50);
</script></body>"""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=needs.reason("Chromium"))


def dump(page: str, tmp_path: Path) -> str:
    class Page:  # the fragment tells asv which benchmark to show
        def as_uri(self) -> str:
            return page

    return chromium(tmp_path, Page(), 1280, "--dump-dom", "--virtual-time-budget=8000")


@pytest.mark.long
@pytest.mark.browser
@needs_chromium
def test_front_page_shows_every_benchmark(measured, found, tmp_path):
    root, _ = measured
    dom = dump((root / "reports/asv/index.html").as_uri(), tmp_path)
    shown = re.findall(r'<div class="benchmark-text"[^>]*>([^<]*)<', dom)
    assert sorted(shown) == sorted(benchmark.pretty_name for benchmark in found.values())
    plotted = re.findall(r'id="summarygrid-([\w.]+)" class="benchmark-plot"[^>]*><canvas', dom)
    assert TIME in plotted


@pytest.mark.long
@pytest.mark.browser
@needs_chromium
def test_benchmark_page_plots_what_was_measured(measured, tmp_path):
    root, (first, second) = measured
    site = root / "reports/asv"
    page = (site / "index.html").read_text().replace("</body>", PROBE)
    (site / "probed.html").write_text(page)
    dom = dump(f"{(site / 'probed.html').as_uri()}#{TIME}?p-per_cell=16", tmp_path)
    title = re.search("<title>(.*?)</title>", dom)
    assert title is not None
    plot = json.loads(title[1])
    drawn = {line["label"]: [y for _, y in line["data"]] for line in plot["lines"]}
    before, after = (values(results_of(root, commit), TIME) for commit in (first, second))
    for number, form in enumerate(FORMS):
        of_form = drawn.pop(f"form-{form}; particles-16384; per_cell-16")
        assert of_form == pytest.approx([before[number], after[number]], rel=1e-4)
    assert {y for rest in drawn.values() for y in rest} == {None}
    assert plot["unit"] in ("microseconds", "milliseconds")
    index = json.loads((site / "index.json").read_text())
    assert index["benchmarks"][TIME]["unit"] == "seconds"
