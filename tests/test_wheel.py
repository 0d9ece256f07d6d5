"""The wheel, installed away from the checkout: what it holds, and that it runs from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # Hatchling is among the dev extras: no download, no second environment.
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    (built,) = folder.glob("gpubench-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel into a folder that comes before the checkout on the path."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(folder), str(wheel)], check=True)
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
    assert packed == expected


def test_takes_its_kernels_from_inside_the_wheel(run, installed):
    show = "import gpubench.paths as p; print(p.PACKAGE, p.kernel_folder(), p.repository())"
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
    assert run(*command).count("right") == 2
