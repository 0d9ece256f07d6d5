"""What people are told to install exists, and is this project."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from gpubench import __version__
from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = {".cfg", ".cff", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yml", ""}
# `pip install` with a requirement named gpubench, and that name with extras, are a stranger's.
STRANGER = re.compile(r"pip install (?:-\S+ )*[\"']?gpubench(?!-particles)|gpubench\[(?!-)\w")
EXTRAS = re.compile(r"(?:gpubench-particles|(?<=[\s'\"])\.)\[([a-z0-9,-]+)\]")


def texts():
    """Yield the tracked files that tell somebody what to install."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path == Path(__file__) or name.startswith(("results/", "reports/")):
            continue
        if path.suffix in TEXTS and path.is_file():
            yield name, path.read_text(encoding="utf-8")


def test_hints_never_name_the_other_project():
    found = [
        f"{name}: {line.strip()}"
        for name, text in texts()
        for line in text.splitlines()
        if STRANGER.search(line)
    ]
    assert not found


def test_extras_that_are_named_exist():
    named = {
        (name, extra)
        for name, text in texts()
        for extras in EXTRAS.findall(text)
        for extra in extras.split(",")
    }
    assert len(named) > 10
    unknown = {(n, e) for n, e in named if e not in PROJECT["optional-dependencies"]}
    assert not unknown


def test_hints_name_the_distribution():
    assert PROJECT["name"] == install.DISTRIBUTION
    assert set(install.MODULES) <= set(PROJECT["optional-dependencies"])


def test_a_missing_module_names_the_extra(monkeypatch):
    install.require("report", "a report")
    monkeypatch.setattr(install, "find_spec", lambda name: None if name == "altair" else name)
    with pytest.raises(UserError) as caught:
        install.require("report", "a report")
    assert str(caught.value) == ("a report needs altair: pip install 'gpubench-particles[report]'")


@pytest.mark.parametrize(
    ("words", "extra"), [(["report"], "report"), (["simulate", "dpd-standard"], "simulation")]
)
def test_commands_name_the_extra_that_they_lack(words, extra, monkeypatch):
    monkeypatch.setattr(install, "find_spec", lambda name: None)
    failed = CliRunner().invoke(app, words).exception
    modules = ", ".join(install.MODULES[extra])
    assert isinstance(failed, UserError)
    assert str(failed) == f"gpubench {words[0]} needs {modules}: {install.hint(extra)}"


def requirements(extra):
    """Yield the names that an extra requires, those of the extras that it includes among them."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, included = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?.*", requirement).groups()
        if name == install.DISTRIBUTION:
            for each in included.split(","):
                yield from requirements(each)
        else:
            yield name


def test_the_lock_has_all_that_development_needs():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    core = (re.match(r"[A-Za-z0-9._-]+", each)[0] for each in PROJECT["dependencies"])
    wanted = {*core, *requirements("cpu"), *requirements("dev")}
    assert {name.lower().replace("_", "-").replace(".", "-") for name in wanted} <= locked


def test_version_changelog_and_citation_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## \[([\d.]+)\] - ([\d-]+)$", changelog, re.MULTILINE).groups()
    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert (version, date) == (__version__, citation["date-released"])
    assert citation["version"] == __version__
