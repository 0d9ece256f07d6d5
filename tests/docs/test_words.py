"""The documentation, docstrings, messages and test names avoid what words.toml lists."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    name: {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in words.items()}
    for name, words in tomllib.loads(Path(__file__).with_name("words.toml").read_text()).items()
}
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"),
                 *(ROOT / "examples").rglob("*.md"))
)  # fmt: skip
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("gpubench", "tools", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
OTHERS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder, names in (
        ("kernels", "*.[ch]*"),
        ("gpubench/studies", "*.toml"),
        ("gpubench", "*.j2"),
    )
    for path in (ROOT / folder).rglob(names)
)


def found_in(text, *lists):
    """Return what a text has of `phrases` and of further lists, each with what to write instead."""
    flat = " ".join(text.split())
    return [
        f"{hit[0]!r}: {instead}"
        for name in ("phrases", *lists)
        for pattern, instead in LISTS[name].items()
        for hit in pattern.finditer(flat)
    ]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name):
    text = CODE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    assert not found_in(text, "documents")


def test_docstrings_and_messages():
    found = {}
    for name in SOURCES:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if is_prose(node):
                for hit in found_in(node.value):
                    found[f"{name}:{node.lineno}"] = hit
    assert not found


def is_prose(node):
    """Say whether a node is a text; a single word may be a field's name."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and not node.value.isidentifier()
    )


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_studies_and_templates(name):
    assert not found_in((ROOT / name).read_text(encoding="utf-8"))


def test_names_of_tests():
    named = re.compile(r"^\s*def (test_\w+)", re.MULTILINE)
    found = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in named.findall(path.read_text(encoding="utf-8")):
            for hit in found_in(name.replace("_", " ")):
                found[f"{path.name}::{name}"] = hit
    assert not found


def test_the_list_finds_what_it_is_for():
    assert found_in("Who has more than there is room for looks again.")
    assert found_in("the print of 2008 has two\nhumps")
    assert not found_in("A user who reads this prints the path.")
