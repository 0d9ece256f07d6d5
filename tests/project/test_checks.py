"""That checks are not silently off: tests, marks, fixtures, and the suite of every algorithm."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpubench import problems, registry
from gpubench.problems.neighbours.tasks import task_of

TESTS = Path(__file__).resolve().parents[1]
Items = list[pytest.Item]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def id_of(item: pytest.Item) -> str:
    """Return the id of an item's test, without parameters."""
    return item.nodeid.split("[")[0]


@cache
def trees() -> dict[str, ast.Module]:
    """Return what the files of the suite say, by their names from the root."""
    return {
        path.relative_to(TESTS.parent).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
    }


def written(file: str, tree: ast.Module) -> Iterator[str]:
    """Yield the ids of what looks like a test: in classes of any name, and in functions too."""

    def below(node: ast.AST, names: list[str]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, Function | ast.ClassDef)
            path = [*names, child.name] if is_named else names
            if isinstance(child, Function) and child.name.startswith("test"):
                yield "::".join(path)
            yield from below(child, path)

    yield from below(tree, [file])


def marked(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions and classes that carry a mark of pytest, by whatever name."""
    marks = {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign) and "pytest.mark." in ast.unparse(node.value)
        for target in node.targets
    }
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            words = [ast.unparse(each) for each in node.decorator_list]
            if any("pytest.mark." in each or each.split("(")[0] in marks for each in words):
                yield node.name


def fixtures(tree: ast.Module) -> Iterator[str]:
    """Yield the names of fixtures."""
    for node in ast.walk(tree):
        words = [ast.unparse(each) for each in getattr(node, "decorator_list", [])]
        if isinstance(node, Function) and any(each.startswith("pytest.fixture") for each in words):
            yield node.name


def never_on(runtime: str, mark: str, items: Items) -> set[str]:
    """Return tests, classes and modules with a mark of their own and no item on a runtime."""
    found: dict[str, bool] = {}
    for item in items:
        node = next((each for each, _ in item.iter_markers_with_node(mark)), None)
        if node is not None:
            name = id_of(item) if node is item else node.nodeid
            found[name] = found.get(name, False) or runtime in parameters(item).values()
    return {name for name, is_there in found.items() if not is_there}


def parameters(item: pytest.Item) -> dict[str, object]:
    """Return the parameters of an item by name."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def suites(items: Items) -> set[tuple[object, ...]]:
    """Return device, algorithm and variant of all items that run the suite of a problem."""
    return {
        tuple(each[name] for name in ("device", "name", "form"))
        for item in items
        if getattr(item, "originalname", "") == "test_conformance"
        and "name" in (each := parameters(item))
    }


def lacks_a_library(tree):
    """Whether a module asks at its top for an optional library that is not installed."""
    calls = (each.value for each in tree.body if isinstance(each, ast.Assign | ast.Expr))
    return any(
        ast.unparse(call.func) == "pytest.importorskip" and not find_spec(call.args[0].value)
        for call in calls
        if isinstance(call, ast.Call)
    )


def test_every_test_that_is_written_is_collected(collected):
    """Also where all of its parameters are dropped."""
    able = {file: tree for file, tree in trees().items() if not lacks_a_library(tree)}
    found = {name for file, tree in able.items() for name in written(file, tree)}
    assert len(found) > 1500
    assert found - {id_of(item) for item in collected} == set()


def test_marks_stand_on_tests():
    """On a helper a mark selects nothing, and nothing says so."""
    found = {(file, name) for file, tree in trees().items() for name in marked(tree)}
    assert len(found) > 300
    assert {each for each in found if not each[1].startswith(("test_", "Test"))} == set()


def test_every_marker_selects_something(collected):
    options = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["pytest"]
    declared = {each.split(":")[0] for each in options["ini_options"]["markers"]}
    assert declared - {mark.name for item in collected for mark in item.iter_markers()} == set()


def test_every_fixture_is_used(collected):
    found = {name for tree in trees().values() for name in fixtures(tree)}
    assert len(found) > 100
    assert found - {name for item in collected for name in item.fixturenames} == set()


def test_what_the_second_runtime_shall_run_has_items_on_it(collected):
    assert never_on("opencl:pocl", "second_runtime", collected) == set()


@pytest.mark.parametrize("runtime", ["opencl:intel", "opencl:pocl", "cuda"])
def test_every_variant_has_a_conformance_item(collected, runtime):
    """But for ten counts, which do again what one count does."""
    expected = {
        (runtime, name, form)
        for name, cls in registry.algorithms().items()
        for form, described in cls.forms.items()
        if (runtime == "cuda" or not described.requires - {"opencl"})
        and not (cls.family == "neighbour-search" and task_of(form) == "ten-counts")
        and cls.family != "workload-step"  # tests/libraries/test_engines.py
    }
    assert len(expected) > 90
    assert expected - suites(collected) == set()


def test_an_empty_parametrisation_is_an_error(pytestconfig):
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"


BROKEN = """
import pytest

slow = pytest.mark.second_runtime

@slow
def helper():
    pass

@pytest.mark.second_runtime
def test_on_one(intel):
    pass

@pytest.fixture(params=["opencl:intel", "opencl:pocl"])
def device(request):
    return request.param

@pytest.fixture
def intel():
    def test_inside():
        pass

@pytest.fixture
def forgotten():
    pass

@pytest.mark.parametrize(("name", "form"), [("merge", "list")])
def test_conformance(device, name, form):
    pass

class TestIgnored:
    def __init__(self):
        pass

    def test_of_a_class_that_makes_itself(self):
        pass
"""


@pytest.mark.filterwarnings("ignore:cannot collect test class")
def test_these_checks_can_fail(pytester):
    pytester.makeini("[pytest]\nmarkers = second_runtime")
    items = pytester.getitems(BROKEN)
    tree, file = ast.parse(BROKEN), items[0].path.name
    assert {*written(file, tree)} - {id_of(item) for item in items} == {
        f"{file}::intel::test_inside",
        f"{file}::TestIgnored::test_of_a_class_that_makes_itself",
    }
    assert {*marked(tree)} == {"helper", "test_on_one", "test_conformance"}
    used = {name for item in items for name in item.fixturenames}
    assert {*fixtures(tree)} - used == {"forgotten"}
    assert never_on("opencl:pocl", "second_runtime", items) == {f"{file}::test_on_one"}
    assert suites(items) == {(f"opencl:{each}", "merge", "list") for each in ("intel", "pocl")}


@pytest.mark.parametrize(
    "broken",
    [
        "@pytest.mark.parametrize('x', [])\ndef test_it(x): pass",
        "@pytest.fixture(params=[])\ndef x(request): pass\ndef test_it(x): pass",
    ],
)
def test_nothing_runs_over_an_empty_parametrisation(pytester, broken):
    pytester.makeini("[pytest]\nempty_parameter_set_mark = fail_at_collect")
    pytester.makepyfile(f"import pytest\n{broken}")
    assert pytester.inline_run("--collect-only").ret == pytest.ExitCode.INTERRUPTED


def test_every_problem_has_an_algorithm():
    assert {*problems.own()} == {cls.family for cls in registry.algorithms().values()}


@pytest.mark.parametrize("name", registry.algorithms())
def test_a_typical_input_of_every_algorithm_is_described(name):
    """Its title and memory are seen in progress bars and refusals alone."""
    cls = registry.algorithms()[name]
    problem = problems.problems()[cls.family]
    size = 576 if problem.takes.size_axis == "faces" and "depth" in problem.takes.fixed else 512
    recipe = problem.takes(**problem.axes_for(cls, size))
    assert recipe.title and recipe.host_bytes > 0 and recipe.device_bytes > 0
    assert recipe.identity[problem.takes.size_axis] == size
