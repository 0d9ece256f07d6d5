"""Find algorithms, workloads and studies by scanning their folders; refuse collisions.

A file is all that a new one needs: nothing is listed anywhere else. What is wrong with a file
of the package is a RegistryError, for its author; a name that nobody has is a UserError.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from gpubench.contracts import Algorithm
from gpubench.errors import UserError
from gpubench.paths import PACKAGE
from gpubench.workloads.workload import Workload

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class RegistryError(Exception):
    """Two things have one name, or a name that scripts could not use."""


@cache
def algorithms() -> dict[str, type[Algorithm]]:
    """Return every algorithm class by its name, in order of the names."""
    found = named_classes("gpubench.algorithms", Algorithm)
    for algorithm in found.values():
        if not algorithm.forms:
            raise RegistryError(f"{_place(algorithm)} declares no forms")
        for form in algorithm.forms:
            _require_name(form, _place(algorithm))
    return found


@cache
def workloads() -> dict[str, type[Workload]]:
    """Return every workload class by its name, in order of the names."""
    return named_classes("gpubench.workloads", Workload)


def studies() -> list[str]:
    """Return the names of the studies: their files in gpubench/studies, without `.toml`."""
    return study_names(PACKAGE / "studies")


def find_algorithm(name: str) -> type[Algorithm]:
    """Return the algorithm of that name, or raise UserError with the names that come close."""
    known = algorithms()
    require_known("algorithm", name, known)
    return known[name]


def find_workload(name: str) -> type[Workload]:
    """Return the workload of that name, or raise UserError with the names that come close."""
    known = workloads()
    require_known("workload", name, known)
    return known[name]


def require_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raise UserError that suggests the nearest names where `name` is not among `known`."""
    if name in known:
        return
    close = difflib.get_close_matches(name, known)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = f"one of {', '.join(sorted(known))}" if known else "there is none"
    raise UserError(f"no {kind} {name!r}: {hint}")


def named_classes(package: str, base: type) -> dict[str, type[Any]]:
    """Return the concrete subclasses of `base` with a `name` that a package's modules define.

    Modules whose name starts with an underscore are not imported. Raises RegistryError for
    two classes with one name and for a bad name; what importing a module raises is let through.
    """
    found: dict[str, type[Any]] = {}
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module_info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{module_info.name}")
        classes: list[tuple[str, type[Any]]] = inspect.getmembers(module, inspect.isclass)
        for _, cls in classes:
            defined_here = cls.__module__ == module.__name__
            if not (defined_here and issubclass(cls, base) and hasattr(cls, "name")):
                continue
            if inspect.isabstract(cls):
                continue
            _require_name(cls.name, _place(cls))
            if cls.name in found:
                raise RegistryError(
                    f"{_place(found[cls.name])} and {_place(cls)} are both named {cls.name!r}"
                )
            found[cls.name] = cls
    return dict(sorted(found.items()))


def study_names(folder: Path) -> list[str]:
    """Return the names of the studies in a folder, sorted; raise RegistryError for a bad name."""
    names = sorted(file.stem for file in folder.glob("*.toml"))
    for name in names:
        _require_name(name, str(folder))
    return names


def _require_name(name: object, place: str) -> None:
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise RegistryError(
            f"{place}: {name!r} is no name: lower-case words and digits joined by hyphens"
        )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
