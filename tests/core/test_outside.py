"""Algorithms, kernels and studies that are declared outside the package."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from additions import forget, nothing_added
from fakes import FakeDevice
from typer.testing import CliRunner

from gpubench import registry
from gpubench.base import paths, plugins
from gpubench.base.errors import UserError
from gpubench.cli import app
from gpubench.devices import open_device
from gpubench.measure import environment
from gpubench.registry import RegistryError
from gpubench.studies.study import FOLDER, StudyError, load_study

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-kernel"
PACKAGE = EXAMPLE / "own_kernel"
STUDY = EXAMPLE / "run-lists.toml"
LIBRARY = EXAMPLE.parent / "own-library"

ALGORITHM = """
from gpubench.core.contracts import Algorithm, Form

class Own(Algorithm):
    name = {name!r}
    family = "cell-list"
    summary = "does nothing"
    source = "nowhere"
    forms = {{"only": Form("the one form")}}
    def load(self, inputs): ...
    def launch(self): ...
    def traffic_bytes(self): return None
"""
KERNEL = "__global__ void mark(GLOBAL int *out) { out[0] = VALUE; }\n"


@pytest.fixture(autouse=True)
def alone(tmp_path):
    with nothing_added(tmp_path, EXAMPLE.parent):
        yield


def write(folder, **files):
    """Write files named with `__` for the dot before the suffix; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("__")
        (folder / f"{stem}.{suffix}").write_text(text)
    return folder


def install(folder, point, value, monkeypatch):
    """Lay down what pip leaves of an installed distribution with one entry point."""
    info = folder / "somebody-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[gpubench.algorithms]\n{point} = {value}\n")
    monkeypatch.syspath_prepend(folder)


def invoke(*words):
    return CliRunner().invoke(app.app, list(map(str, words)))


class TestExample:
    """The example repository, as it is."""

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            (PACKAGE, "run-list"),
            (PACKAGE / "run_list.py", "run-list"),
            (EXAMPLE.parent / "tile-sort" / "tile_sort.py", "tile-sort"),
        ],
        ids=["package", "file", "shared-memory"],
    )
    def test_is_right_when_added_by_path(self, path, name, opencl_device):
        command = ["--add", path, "check", name, "--device", opencl_device.spec, "--json"]
        result = invoke(*command)
        assert result.exit_code == 0, result.output
        (checked,) = json.loads(result.stdout)["checks"]
        assert checked["status"] == "ok"
        assert len(checked["cases"]) > 40

    def test_is_found_by_its_entry_point(self, tmp_path, monkeypatch):
        shutil.copytree(PACKAGE, tmp_path / "own_kernel")
        install(tmp_path, "own-kernel", "own_kernel.run_list", monkeypatch)
        assert registry.find_algorithm("run-list").__module__ == "own_kernel.run_list"
        assert "run-list" in invoke("list").stdout
        with open_device("opencl:intel") as device:
            device.kernel("run_list.cu", "push_runs", BLOCK=64)

    def test_its_project_declares_that_entry_point(self):
        text = (EXAMPLE / "pyproject.toml").read_text()
        assert (
            f'[project.entry-points."{plugins.GROUP}"]\nown-kernel = "own_kernel.run_list"' in text
        )

    def test_is_measured_by_its_study_and_told_in_the_results(self, tmp_path):
        command = ["--add", PACKAGE, "run", STUDY, "--particles", 64, "--per-cell", 4]
        result = invoke(*command, "--device", "opencl:intel", "--out", tmp_path)
        assert result.exit_code == 0, result.output
        results = json.loads(Path(result.stdout.strip()).read_text())
        assert results["environment"]["added"] == ["own_kernel"]
        measured = {(r["study"], r["algorithm"], r["status"]) for r in results["records"]}
        names = ("run-list", "atomic-list", "counting-sort")
        assert measured == {("run-lists", name, "ok") for name in names}

    def test_processes_that_are_started_have_it_too(self):
        registry.add([PACKAGE])
        show = "from gpubench import registry; print('run-list' in registry.algorithms())"
        done = subprocess.run(
            [sys.executable, "-c", show], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "True"

    def test_what_is_installed_and_added_by_path_is_there_once(self, tmp_path, monkeypatch):
        shutil.copytree(PACKAGE, tmp_path / "installed" / "own_kernel")
        install(tmp_path / "installed", "own-kernel", "own_kernel.run_list", monkeypatch)
        registry.add([PACKAGE])
        (addition,) = plugins.additions()
        assert addition.name == "own_kernel"
        file = sys.modules[registry.find_algorithm("run-list").__module__].__file__
        assert Path(file) == PACKAGE / "run_list.py"


@pytest.mark.parametrize("missing", ["family", "summary", "source", "forms"])
def test_an_algorithm_must_declare_what_lists_and_results_show(tmp_path, missing):
    lines = ALGORITHM.format(name="own").splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.strip().startswith(f"{missing} ="))
    registry.add([write(tmp_path / "own", own__py=kept)])
    with pytest.raises(RegistryError, match=f"declares no {missing}"):
        registry.algorithms()


def test_a_kernel_that_does_not_compile_says_where(tmp_path, opencl_device):
    write(tmp_path, broken_sort__py=(EXAMPLE.parent / "tile-sort" / "tile_sort.py").read_text())
    kernel = (EXAMPLE.parent / "tile-sort" / "tile_sort.cu").read_text()
    write(tmp_path, tile_sort__cu=kernel + "int broken = ;\n")
    added = "--add", tmp_path / "broken_sort.py"
    result = invoke(*added, "check", "tile-sort", "--device", opencl_device.spec, "--json")
    (checked,) = json.loads(result.stdout)["checks"]
    line = len(kernel.splitlines()) + 1
    assert result.exit_code == 1 and checked["status"] == "failed"
    assert f"tile_sort.cu:{line}:" in checked["reason"]


class TestModules:
    def test_a_folder_without_a_package_is_a_module_for_each_file(self, tmp_path):
        folder = write(
            tmp_path / "mine",
            first__py="import _shared\n" + ALGORITHM.format(name="first"),
            second__py=ALGORITHM.format(name="second"),
            _shared__py="",
        )
        registry.add([folder])
        assert {"first", "second"} <= registry.algorithms().keys()

    def test_an_entry_point_may_name_a_package(self, tmp_path, monkeypatch):
        write(
            tmp_path / "somebody",
            __init____py="",
            one__py=ALGORITHM.format(name="own-one"),
            _two__py="raise RuntimeError('imported')",
        )
        install(tmp_path, "theirs", "somebody", monkeypatch)
        assert "own-one" in registry.algorithms()

    def test_names_of_algorithms_must_differ_from_the_packages_own(self, tmp_path):
        registry.add([write(tmp_path, mine__py=ALGORITHM.format(name="counting-sort"))])
        with pytest.raises(RegistryError, match=r"mine\.Own are both named 'counting-sort'"):
            registry.algorithms()

    def test_what_declares_nothing_is_refused(self, tmp_path):
        registry.add([write(tmp_path, mine__py="from gpubench.core.contracts import CellList\n")])
        with pytest.raises(RegistryError, match=f"{tmp_path.name} was added, but declares no"):
            registry.algorithms()

    def test_an_error_while_importing_names_the_addition(self, tmp_path):
        registry.add([write(tmp_path, mine__py="import no_such_module_at_all") / "mine.py"])
        with pytest.raises(ImportError) as raised:
            registry.algorithms()
        (note,) = raised.value.__notes__
        assert str(tmp_path / "mine.py") in note

    def test_two_files_of_one_name_are_refused(self, tmp_path):
        first = write(tmp_path / "a", mine__py=ALGORITHM.format(name="first")) / "mine.py"
        second = write(tmp_path / "b", mine__py=ALGORITHM.format(name="second")) / "mine.py"
        registry.add([first, second])
        with pytest.raises(UserError, match=r"cannot be imported: .* is mine too; rename one"):
            registry.algorithms()

    def test_an_entry_point_that_names_no_module_is_refused(self, tmp_path, monkeypatch):
        write(tmp_path, theirs__py=ALGORITHM.format(name="own"))
        install(tmp_path, "theirs", "theirs:Own", monkeypatch)
        with pytest.raises(UserError, match="names no module: theirs belongs there"):
            registry.algorithms()

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("missing.py", None, "there is no .*missing.py to add"),
            pytest.param("9" * 5000, None, "cannot read .*9: File name too long", id="too-long"),
            ("mine.cu", KERNEL, "mine.cu cannot be added: name a Python file"),
        ],
    )
    def test_a_path_that_cannot_be_added_ends_as_one_line(self, tmp_path, name, text, message):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        result = invoke("--add", path, "list")
        assert isinstance(result.exception, UserError)
        with pytest.raises(UserError, match=message):
            registry.add([path])

    def test_an_empty_folder_is_refused(self, tmp_path):
        registry.add([tmp_path])
        with pytest.raises(UserError, match="holds no Python file"):
            registry.algorithms()


class TestKernels:
    @pytest.fixture
    def mine(self, tmp_path):
        folder = tmp_path / "mine"
        write(folder, mine__py=ALGORITHM.format(name="mine"), mark__cu=KERNEL)
        registry.add([folder])
        return folder

    def marked(self, device, **constants):
        out = device.empty(1, "int32")
        device.kernel("mark.cu", "mark", **constants)(1, 1, out)
        return device.download(out)[0]

    def test_are_found_beside_the_module(self, device, mine):
        assert self.marked(device, VALUE=7) == 7

    def test_may_include_their_own_and_the_packages(self, device, mine):
        write(mine, value__h="#define VALUE 11\n")
        (mine / "mark.cu").write_text(
            f'#include "value.h"\n#include "common/grid.h"\n{KERNEL.replace("mark", "mark_two")}'
        )
        out = device.empty(1, "int32")
        device.kernel("mark.cu", "mark_two")(1, 1, out)
        assert device.download(out)[0] == 11

    def test_are_looked_for_in_the_package_where_they_are_its_own(self, mine):
        assert plugins.kernel_folders("scan.cu") == [paths.kernel_folder()]
        assert plugins.kernel_folders("mark.cu") == [mine, paths.kernel_folder()]

    def test_that_are_nowhere_end_as_one_line(self, opencl_device, mine):
        with pytest.raises(UserError, match=r"no kernels in nowhere\.cu"):
            opencl_device.kernel("nowhere.cu", "mark")

    def test_may_not_have_the_name_of_the_packages_own(self, mine):
        write(mine, scan__cu=KERNEL)
        forget()
        with pytest.raises(UserError, match=r"kernels/scan\.cu and .*mine/scan\.cu have one name"):
            registry.algorithms()

    def test_may_not_have_the_name_of_somebody_elses(self, tmp_path, mine):
        other = write(tmp_path / "o", other__py=ALGORITHM.format(name="other"), mark__cu=KERNEL)
        registry.add([other])
        with pytest.raises(UserError, match=r"mine/mark\.cu and .*o/mark\.cu have one name"):
            registry.algorithms()

    def test_are_part_of_the_hash_of_the_code(self, mine):
        with_mine = environment.code_hash()
        (mine / "notes.txt").write_text("no source")
        environment._hash_of.cache_clear()
        assert environment.code_hash() == with_mine
        (mine / "mark.cu").write_text(KERNEL.replace("0", "1"))
        environment._hash_of.cache_clear()
        assert environment.code_hash() != with_mine
        (mine / "mark.cu").write_text(KERNEL)
        environment._hash_of.cache_clear()
        assert environment.code_hash() == with_mine
        os.environ[plugins.VARIABLE] = ""
        forget()
        assert environment.code_hash() != with_mine

    def test_are_recorded_with_the_commit_of_their_own_repository(self, tmp_path, mine):
        def recorded():
            found = environment.conditions(FakeDevice())
            assert found["added"] == ["mine"]
            return found["added_commits"]["mine"], found["added_dirty"]["mine"]

        def git(*arguments):
            identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
            subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)

        assert recorded() == (None, None)
        git("init", "--quiet")
        assert recorded() == (None, None)
        git("add", ".")
        git("commit", "--quiet", "-m", "first")
        ours, _ = environment.commit_of(paths.repository())
        commit, dirty = recorded()
        assert len(commit) == 40 and commit != ours and dirty is False
        (tmp_path / "notes.txt").write_text("no source")
        assert recorded() == (commit, False)
        (mine / "mark.cu").write_text(KERNEL.replace("0", "1"))
        assert recorded() == (commit, True)

    def test_have_the_same_hash_wherever_they_lie(self, tmp_path, mine):
        there = environment.code_hash()
        for name in ("mine", "mark"):
            sys.modules.pop(name, None)
        sys.path.remove(str(mine))
        os.environ[plugins.VARIABLE] = str(shutil.copytree(mine, tmp_path / "else" / "mine"))
        forget()
        assert environment.code_hash() == there

    def test_of_another_checkout_are_those_of_its_commit(self, tmp_path, monkeypatch):
        repository, checkout = tmp_path / "repository", tmp_path / "checkout"
        elsewhere = write(tmp_path / "elsewhere", other__py="")
        for root in (repository, checkout):
            write(root / "own", own__py="")
        new = write(repository / "new", new__py="")
        registry.add([repository / "own", new, elsewhere])
        expected = [str(checkout / "own"), str(elsewhere)]
        assert plugins.moved(repository, checkout).split(os.pathsep) == expected


class TestStudies:
    def test_are_named_by_their_file(self):
        assert load_study(str(STUDY)).name == "run-lists"

    def test_the_packages_own_may_be_named_so_too(self):
        name = "rozen2008-table1"
        assert load_study(str(FOLDER / f"{name}.toml")) == load_study(name)

    def test_may_not_have_the_name_of_the_packages_own(self, tmp_path):
        copy = shutil.copy(STUDY, tmp_path / "rozen2008-table1.toml")
        with pytest.raises(UserError, match="has the name of another study: rename it"):
            load_study(str(copy))

    def test_need_a_name_that_scripts_can_use(self, tmp_path):
        with pytest.raises(RegistryError, match="'My_Study' is no name"):
            load_study(str(shutil.copy(STUDY, tmp_path / "My_Study.toml")))

    @pytest.mark.parametrize("content", [None, b"\xff\xfe"])
    def test_that_cannot_be_read_end_as_one_line(self, tmp_path, content):
        path = tmp_path / "mine.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserError, match=r"cannot read .*mine\.toml: .*; give a study's name"):
            load_study(str(path))

    def test_that_are_wrong_end_as_one_line(self, tmp_path):
        path = tmp_path / "mine.toml"
        path.write_text(STUDY.read_text().replace("seed = 1", 'seed = "one"'))
        with pytest.raises(StudyError, match=r"mine\.toml: \$\.seed") as raised:
            load_study(str(path))
        assert isinstance(raised.value, UserError)
        assert "\n" not in str(raised.value)


@pytest.mark.long
def test_asv_tracks_an_algorithm_from_outside(monkeypatch):
    """With the command beside this interpreter, on the device that there is."""
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    names = runpy.run_path(str(EXAMPLE / "benchmarks" / "run_lists.py"))
    assert names["RunList"]().track_median() > 0


def test_the_template_of_a_library_is_right_and_measured(tmp_path, monkeypatch, environment_once):
    monkeypatch.setattr("gpubench.studies.runner.environment", environment_once)
    add = ["--add", str(LIBRARY / "your_library.py")]
    done = CliRunner().invoke(app.app, [*add, "check", "your-library", "your-gpu-library"])
    assert done.exit_code == 0, done.output
    study, out = LIBRARY / "your-library.toml", ["--out", str(tmp_path)]
    options = ["--quick", "--device", "opencl", *out]
    done = CliRunner().invoke(app.app, [*add, "run", str(study), *options])
    assert done.exit_code == 0, done.output
    records = [json.loads(path.read_text())["records"] for path in tmp_path.rglob("*.json")]
    found = {(r["algorithm"], r["status"]) for r in records[0]}
    assert found == {("your-library", "ok"), ("search-counting-sort", "ok")}


@pytest.mark.cuda
@pytest.mark.usefixtures("cuda_device")
def test_the_template_of_a_library_for_gpus_is_right():
    add = ["--add", str(LIBRARY / "your_library.py")]
    done = CliRunner().invoke(app.app, [*add, "check", "your-gpu-library", "--device", "cuda"])
    assert done.exit_code == 0 and "right" in done.output, done.output
