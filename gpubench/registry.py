"""Find algorithms, workloads and studies by scanning their folders; reject duplicate names.

To add one, add its file: there is no list to extend. Modules added from outside the package are
scanned too.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from gpubench import problems
from gpubench.base import plugins
from gpubench.base.errors import UserError
from gpubench.base.paths import PACKAGE
from gpubench.core.algorithm import Algorithm
from gpubench.workloads.workload import Workload

ALGORITHMS = ("gpubench.algorithms", "gpubench.libraries")  # ours, and third-party ones
OWN = "one of your own: gpubench --add PATH ..."
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class RegistryError(UserError):
    """A declaration is wrong, e.g. a name is malformed or used twice: its author must fix it."""


def add(given: Iterable[Path]) -> None:
    """Add modules from outside the package, by path; see `plugins.add`."""
    plugins.add(given)
    algorithms.cache_clear()
    workloads.cache_clear()


@cache
def algorithms() -> dict[str, type[Algorithm]]:
    """Return every algorithm class by name, sorted."""
    found = named_classes(ALGORITHMS, Algorithm, _added_modules())
    for algorithm in found.values():
        for required in ("forms", "family", "summary", "source"):
            if not getattr(algorithm, required, None):
                raise RegistryError(f"{_place(algorithm)} declares no {required}")
        if algorithm.family not in problems.problems():
            known = ", ".join(sorted(problems.problems()))
            raise RegistryError(
                f"{_place(algorithm)} is of the family {algorithm.family!r}, which is no problem:"
                f" one of {known}, or declare one"
            )
        for form in algorithm.forms:
            _require_name(form, _place(algorithm))
    _require_use_of_additions()
    return found


@cache
def workloads() -> dict[str, type[Workload]]:
    """Return every workload class by name, sorted."""
    return named_classes(("gpubench.workloads",), Workload, _added_modules())


def studies() -> list[str]:
    """Return the names of the studies: their files in gpubench/studies, without `.toml`."""
    return study_names(PACKAGE / "studies")


def find_algorithm(name: str) -> type[Algorithm]:
    """Return the algorithm with this name; raise UserError that suggests names if there is none."""
    known = algorithms()
    require_known("algorithm", name, known, OWN)
    return known[name]


def find_workload(name: str) -> type[Workload]:
    """Return the workload with this name; raise UserError that suggests names if there is none."""
    known = workloads()
    require_known("workload", name, known, OWN)
    return known[name]


def require_known(kind: str, name: str, known: Collection[str], way_out: str = "") -> None:
    """Raise UserError that suggests similar names if `name` is not among `known`.

    way_out: a hint that ends the message: how to make the name known.
    """
    if name in known:
        return
    close = difflib.get_close_matches(name, known)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = f"one of {', '.join(sorted(known))}" if known else "there is none"
    raise UserError(f"no {kind} {name!r}: {hint}" + (f"; {way_out}" if way_out else ""))


def named_classes(
    packages: Iterable[str], base: type, others: Iterable[ModuleType] = ()
) -> dict[str, type[Any]]:
    """Return the concrete subclasses of `base` with a `name`, from all modules of the packages.

    others: further modules. Modules of packages are skipped if their names start with an
    underscore. Raises RegistryError if two classes share a name or a name is malformed; exceptions
    of an imported module propagate.
    """
    found: dict[str, type[Any]] = {}
    own = (module for package in packages for module in _modules(package))
    for module in (*own, *others):
        for cls in classes_in(module, base):
            _require_name(cls.name, _place(cls))
            if cls.name in found:
                raise RegistryError(
                    f"{_place(found[cls.name])} and {_place(cls)} are both named {cls.name!r}"
                )
            found[cls.name] = cls
    return dict(sorted(found.items()))


def _modules(package: str) -> Iterator[ModuleType]:
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if not module_info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{module_info.name}")


def _added_modules() -> list[ModuleType]:
    return [module for addition in plugins.additions() for module in addition.modules]


def classes_in(module: ModuleType, base: type) -> Iterator[type[Any]]:
    """Yield the concrete subclasses of `base` with a `name` that `module` itself defines."""
    classes: list[tuple[str, type[Any]]] = inspect.getmembers(module, inspect.isclass)
    for _, cls in classes:
        defined_here = cls.__module__ == module.__name__
        is_named = defined_here and issubclass(cls, base) and hasattr(cls, "name")
        if is_named and not inspect.isabstract(cls):
            yield cls


def _require_use_of_additions() -> None:
    """Raise RegistryError for an addition that declares no algorithm and no workload."""
    for addition in plugins.additions():
        kinds = (Algorithm, Workload)
        if not any(True for m in addition.modules for kind in kinds for _ in classes_in(m, kind)):
            raise RegistryError(
                f"{addition.name} was added, but declares no algorithm and no workload: a subclass"
                " with a name and without abstract methods belongs into a module of it"
            )


def study_names(folder: Path) -> list[str]:
    """Return the names of the studies in a folder, sorted; raise RegistryError for a bad name."""
    return sorted(map(study_name, folder.glob("*.toml")))


def study_name(file: Path) -> str:
    """Return the name of the study in a file; raise RegistryError for a bad name."""
    _require_name(file.stem, str(file))
    return file.stem


def _require_name(name: object, place: str) -> None:
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise RegistryError(
            f"{place}: {name!r} is no name: lower-case words and digits joined by hyphens"
        )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
