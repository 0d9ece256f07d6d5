"""Wheel and sdist: what they hold, and that they run away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpubench import registry

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the sdist, and the wheel from the sdist, as a release does."""
    folder = tmp_path_factory.mktemp("wheel")
    # Hatchling is among the dev extras: no download, no second environment.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.glob("gpubench_particles-*.whl")
    assert (folder / built.name.replace("-py3-none-any.whl", ".tar.gz")).exists()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel into a folder that comes before the checkout on the path."""
    folder = tmp_path_factory.mktemp("installed")
    install = ["install", "--no-deps", "--no-compile", "--target", str(folder), str(wheel)]
    subprocess.run([*PIP, *install], check=True)
    return folder


@pytest.fixture
def run(installed, tmp_path):
    def run(*command):
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_holds_every_source_file(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        path.relative_to(ROOT)
        for folder in ("gpubench", "kernels")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = {
        (Path("gpubench") / path if path.parts[0] == "kernels" else path).as_posix()
        for path in sources
    }
    expected.add("gpubench/LICENSE")  # which exported sources carry
    for study in ("regimes", "again"):
        shipped = (ROOT / "results" / "measured").glob(f"*/*-{study}*.json.gz")
        expected |= {f"gpubench/measured/{path.parent.name}/{path.name}" for path in shipped}
    assert packed == expected


NEEDED = [f"2026-01-31-abc1234-{name}.json.gz" for name in ("regimes", "regimes-2", "again")]


@pytest.fixture(scope="module")
def with_results(tmp_path_factory):
    """A checkout with results of two studies, made into a wheel and an sdist: what these hold."""
    folder = tmp_path_factory.mktemp("with-results")
    for name in ("gpubench", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    machine = folder / "results" / "measured" / "nvidia-h200"
    machine.mkdir(parents=True)
    for name in NEEDED:
        (machine / name).write_text("{}")
    (machine / "2026-01-31-abc1234-dpd-step.json.gz").write_text("{}")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        unpacked = [name.split("/", 1)[1] for name in archive.getnames()]
    return zipfile.ZipFile(wheel).namelist(), unpacked


def test_brings_the_results_that_choose_needs(with_results):
    packed, unpacked = with_results
    assert {n for n in packed if "/measured/" in n} == {
        f"gpubench/measured/nvidia-h200/{name}" for name in NEEDED
    }
    assert {n for n in unpacked if n.startswith("results/")} == {
        f"results/measured/nvidia-h200/{name}" for name in NEEDED
    }


def test_results_inside_the_wheel_are_found_and_are_no_source(run, installed):
    show = (
        "from gpubench.base import paths; from gpubench.measure.environment import code_hash;"
        "print(paths.measured_folder(), code_hash())"
    )
    without = run(sys.executable, "-c", show).split()
    folder = installed / "gpubench" / "measured"
    added = folder / "nvidia-h200" / "2026-01-31-abc1234-regimes.json.gz"
    added.parent.mkdir(parents=True, exist_ok=True)
    added.write_text("{}")
    found = run(sys.executable, "-c", show).split()
    added.unlink()
    assert found == [str(folder), without[1]]


def test_takes_its_kernels_from_inside_the_wheel(run, installed):
    show = "import gpubench.base.paths as p; print(p.PACKAGE, p.kernel_folder(), p.repository())"
    package = installed / "gpubench"
    assert run(sys.executable, "-c", show).split() == [
        str(package),
        str(package / "kernels"),
        "None",
    ]


def test_has_the_code_hash_of_the_checkout(run):
    show = "from gpubench.measure.environment import code_hash; print(code_hash())"
    checkout = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert run(sys.executable, "-c", show) == checkout


def test_lists_algorithms_and_studies(run, installed):
    listed = run(str(installed / "bin" / "gpubench"), "list")
    assert "counting-sort" in listed
    assert "rozen2008-table1" in listed


def test_gives_right_answers(run, installed):
    command = [str(installed / "bin" / "gpubench"), "check", "counting-sort", "--device", "opencl"]
    forms = registry.find_algorithm("counting-sort").forms
    assert run(*command).count("right") == len(forms)


def installed_alone(wheel, folder):
    """Install the wheel with its core dependencies, and nothing else; return its command.

    By uv, which takes seconds where pip takes half a minute, or by pip where uv cannot.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin/python")
    by_uv = ["uv", "pip", "install", "--quiet", "--python", python, str(wheel)]
    if subprocess.run([sys.executable, "-m", *by_uv], check=False).returncode:
        subprocess.run([*PIP, "--python", python, "install", str(wheel)], check=True)
    return str(folder / "bin/gpubench")


CPU = ROOT / "results/measured/cpu-intel-xeon"
OF_ONE_CODE = CPU / "2026-11-22-1a638fa-rivals.json.gz"
CORE = {
    "--help": "Compare GPU neighbour-search",
    "simulate --help": "--renderer",
    "list": "counting-sort",
    "devices": "pip install 'gpubench-particles[cpu]'",
    "choose --particles 1000000 --per-cell 4": "search-counting-sort count",
    f"show {CPU}": "search-counting-sort",
    f"compare {OF_ONE_CODE} {OF_ONE_CODE} --json": '"exit_code"',
}


EXTRAS = {
    f"report {CPU}": (
        "gpubench: gpubench report needs altair, jinja2, vl_convert:"
        " pip install 'gpubench-particles[report]'\n"
    ),
    "simulate dpd-standard": (
        "gpubench: gpubench simulate needs gsd, matplotlib, PIL:"
        " pip install 'gpubench-particles[simulation]'\n"
    ),
}


def test_core_commands_need_no_extra_and_a_missing_one_is_one_line(wheel, tmp_path):
    """One test, for the installation takes most of its time and each worker would make its own."""
    command = installed_alone(wheel, tmp_path / "alone")
    for words, expected in CORE.items():
        done = run_in(tmp_path, command, words)
        assert expected in done.stdout, (words, done)
        assert "Traceback" not in done.stderr, (words, done)
    for words, line in EXTRAS.items():
        done = run_in(tmp_path, command, words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", line), words


def run_in(folder, command, words):
    return subprocess.run([command, *words.split()], cwd=folder, capture_output=True, text=True)
