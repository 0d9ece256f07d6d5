import json
import sys
from types import ModuleType

import pytest

from gpubench import registry
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Algorithm
from gpubench.registry import RegistryError, named_classes, study_names
from gpubench.workloads.workload import Workload

ALGORITHM = """
from gpubench.core.contracts import Algorithm, Form

class {cls}(Algorithm):
    name = {name!r}
    family = "cell-list"
    forms = {{"only": Form("the one form")}}
    def load(self, inputs): ...
    def launch(self): ...
    def traffic_bytes(self): return None
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes modules into a package of their own."""
    name = "plugged_algorithms"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def write(**modules: str) -> str:
        for module, source in modules.items():
            (folder / f"{module}.py").write_text(source)
        return name

    yield write
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        del sys.modules[module]


def test_finds_concrete_classes_by_name(package):
    name = package(
        one=ALGORITHM.format(cls="One", name="one-pass"),
        two="from plugged_algorithms.one import One\n" + ALGORITHM.format(cls="Two", name="a2"),
    )
    found = named_classes((name,), Algorithm)
    assert list(found) == ["a2", "one-pass"]
    assert found["one-pass"].__name__ == "One"


def test_leaves_out_abstract_classes_and_private_modules(package):
    name = package(
        base="""
from gpubench.core.contracts import CellList

class Base(CellList):
    name = "unfinished"
""",
        _private="raise RuntimeError('imported')",
    )
    assert named_classes((name,), Algorithm) == {}


def test_refuses_two_classes_with_one_name(package):
    name = package(
        one=ALGORITHM.format(cls="One", name="same"), two=ALGORITHM.format(cls="Two", name="same")
    )
    with pytest.raises(RegistryError, match=r"one\.One and .*two\.Two are both named 'same'"):
        named_classes((name,), Algorithm)


@pytest.mark.parametrize("bad", ["Upper", "under_score", "-dash", "dash-", "a b", "", "a,b", 7])
def test_refuses_a_name_that_scripts_could_not_use(package, bad):
    with pytest.raises(RegistryError, match="is no name"):
        named_classes((package(one=ALGORITHM.format(cls="One", name=bad)),), Algorithm)


def test_lets_an_import_error_through(package):
    with pytest.raises(ImportError):
        named_classes((package(one="import no_such_module_at_all"),), Algorithm)


def test_refuses_an_algorithm_without_forms(package, monkeypatch):
    source = ALGORITHM.format(cls="One", name="one").replace('{"only": Form("the one form")}', "{}")
    found = named_classes((package(one=source),), Algorithm)
    monkeypatch.setattr(registry, "named_classes", lambda *_: found)
    registry.algorithms.cache_clear()
    with pytest.raises(RegistryError, match="no forms"):
        registry.algorithms()
    registry.algorithms.cache_clear()


def test_studies_are_the_files_of_their_folder(tmp_path):
    for file in ("b-2.toml", "a.toml", "notes.txt"):
        (tmp_path / file).touch()
    assert study_names(tmp_path) == ["a", "b-2"]
    (tmp_path / "Bad_Name.toml").touch()
    with pytest.raises(RegistryError, match="Bad_Name"):
        study_names(tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest(monkeypatch):
    known = {"counting-sort": ModuleType("x"), "bucket-sort": ModuleType("y")}
    monkeypatch.setattr(registry, "algorithms", lambda: known)
    with pytest.raises(UserError, match="'countingsort': did you mean counting-sort"):
        registry.find_algorithm("countingsort")
    with pytest.raises(UserError, match="'zzz': one of bucket-sort, counting-sort"):
        registry.find_algorithm("zzz")


def test_workloads_are_concrete_classes_of_their_kind(package, monkeypatch):
    methods = sorted(Workload.__abstractmethods__)
    name = package(
        one="from gpubench.workloads.workload import Workload\n\n"
        "class Unfinished(Workload):\n    name = 'unfinished'\n\n"
        "class Gas(Workload):\n    name = 'a-gas'\n"
        + "".join(f"    def {method}(self, *_): ...\n" for method in methods)
        + "class Helper:\n    name = 'helper'\n"
    )
    found = named_classes((name,), Workload)
    assert list(found) == ["a-gas"]
    monkeypatch.setattr(registry, "workloads", lambda: found)
    assert registry.find_workload("a-gas") is found["a-gas"]
    with pytest.raises(UserError, match="no workload 'a-gaz': did you mean a-gas"):
        registry.find_workload("a-gaz")


def test_what_is_shipped_is_in_order():
    algorithms = registry.algorithms()
    assert list(algorithms) == sorted(algorithms)
    assert "rozen2008-table1" in registry.studies()
    for algorithm in algorithms.values():
        assert algorithm.summary and algorithm.source
        json.dumps(dict(algorithm.defaults))
    for workload in registry.workloads().values():
        assert workload.summary and workload.source
        json.dumps(dict(workload.defaults))
