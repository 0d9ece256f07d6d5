"""That checks are not silently off: marks, parametrisations, and the suite of every algorithm."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpubench import problems, registry

TESTS = Path(__file__).resolve().parents[1]


def marked(path: Path) -> Iterator[str]:
    """Yield the names of functions and classes of a file that carry a mark of pytest."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_marked = isinstance(node, ast.FunctionDef | ast.ClassDef) and any(
            "pytest.mark." in ast.unparse(each) for each in node.decorator_list
        )
        if is_marked:
            yield node.name


def test_marks_stand_on_tests():
    """On a helper a mark selects nothing, and nothing says so."""
    files = sorted(TESTS.rglob("*.py"))
    found = {path.name: [*marked(path)] for path in files}
    assert sum(map(len, found.values())) > 300
    helpers = {
        f"{file}: {name}"
        for file, names in found.items()
        for name in names
        if not name.startswith(("test_", "Test"))
    }
    assert helpers == set()


def test_an_empty_parametrisation_is_an_error(pytestconfig):
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"


def test_every_problem_has_an_algorithm():
    asked = {cls.family for cls in registry.algorithms().values()}
    assert {*problems.own()} - asked == {"workload-step"}


@pytest.mark.parametrize("name", registry.algorithms())
def test_a_typical_input_of_every_algorithm_is_described(name):
    """Its title and memory are seen in progress bars and refusals alone."""
    cls = registry.algorithms()[name]
    problem = problems.problems()[cls.family]
    size = 576 if problem.takes.size_axis == "faces" and "depth" in problem.takes.fixed else 512
    recipe = problem.takes(**problem.axes_for(cls, size))
    assert recipe.title and recipe.host_bytes > 0 and recipe.device_bytes > 0
    assert recipe.identity[problem.takes.size_axis] == size
