"""The problems that algorithms solve: each is a folder here, or in an added module.

A problem declares its kind of input (with axes and generator), its contract, its oracle and its
test cases. There is no other list of problems. Code that reads results imports only the axes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from gpubench.base import plugins
from gpubench.base.errors import UserError
from gpubench.core.problem import Problem
from gpubench.core.recipe import SCALES, DeclaredAxis, Recipe, Words, declared_axes

# The order of kinds of input, and thus of axes in tables with several kinds; others come last.
_ORDER = ("particles", "records", "pairs", "matrix", "surfaces", "keys", "meshes", "simulation")
# Names of fields of records and of the data frame, which input axes must not use.
RESERVED = frozenset({
    "key", "study", "sweep", "algorithm", "form", "parameters", "device", "input", "drawn",
    "inputs", "mode", "status", "reason", "samples_ms", "throttled_ms", "throttled_by", "remarks",
    "stopped", "clocks_sm_mhz", "batch", "median_ms", "ci95_low_ms", "ci95_high_ms", "steps",
    "particle_steps_per_s", "phases_ms", "bytes_moved", "workspace_bytes", "peak_bytes",
    "first_call_ms", "declared", "library", "input_hash", "seed", "measured_on", "version",
    "library_part", "outcome", "device_rank", "device_over_best", "device_is_first", "is_older",
    "state_before", "state_after", "machine", "backend", "date", "commit", "problem", "task",
    "answer", "replaces", "low_ms", "high_ms", "timings", "bound", "lost", "rank", "over_best",
    "is_first", "file", "cells", "kind", "name", "points", "requires", "quick", "subjects",
    "modes", "energy", "counters",
})  # fmt: skip
_LEARNT: dict[str, dict[str, DeclaredAxis]] = {}  # axes of other packages' kinds, by kind


@cache
def own() -> dict[str, Problem]:
    """Return the package's own problems by name."""
    found: list[Problem] = []
    for folder in pkgutil.iter_modules(__path__):
        if folder.ispkg:
            module = importlib.import_module(f"{__name__}.{folder.name}")
            found += [cls() for cls in vars(module).values() if _is_problem(cls, module.__name__)]
    return {each.name: each for each in found}


def problems() -> dict[str, Problem]:
    """Return all problems by name, including those of added modules."""
    return own() | _added(plugins.additions())


@cache
def _added(additions: tuple[plugins.Addition, ...]) -> dict[str, Problem]:
    found: dict[str, Problem] = {}
    known = dict(own_kinds())
    for module in (module for addition in additions for module in addition.modules):
        for cls in vars(module).values():
            if _is_problem(cls, module.__name__):
                where = f"{module.__name__}.{cls.__qualname__}"
                if cls.name in own() or cls.name in found:
                    raise UserError(f"{where}: another problem is named {cls.name!r}: rename it")
                _require_own_names(where, cls.takes, known)
                known[cls.takes.kind] = cls.takes
                found[cls.name] = cls()
    return found


def _require_own_names(where: str, kind: type[Recipe], known: Mapping[str, type[Recipe]]) -> None:
    """Raise UserError if the name of a kind of input or of one of its axes is taken or invalid."""
    if known.get(kind.kind, kind) is not kind:
        raise UserError(f"{where}: another kind of input is named {kind.kind!r}: rename it")
    axes = declared_axes(kind)
    for role in ("size_axis", "named_by"):
        if (name := getattr(kind, role)) not in axes:
            raise UserError(f"{where}: {role} is {name!r}, which is none of {', '.join(axes)}")
    for name, axis in axes.items():
        other = next((k for k in known.values() if axis != declared_axes(k).get(name, axis)), None)
        if other is not None:
            raise UserError(
                f"{where}: inputs of the kind {other.kind!r} have another axis {name!r}: rename it"
            )
        if name in RESERVED:
            raise UserError(f"{where}: results have a field named {name!r}: rename the axis")
        if axis.words and ("{}" not in axis.words.phrase or axis.words.scale not in SCALES):
            raise UserError(
                f"{where}: the phrase of {name!r} needs {{}}, and its scale is one of"
                f" {', '.join(SCALES)}"
            )


def _is_problem(cls: object, module: str) -> bool:
    return isinstance(cls, type) and issubclass(cls, Problem) and cls.__module__ == module


@cache
def own_kinds() -> dict[str, type[Recipe]]:
    """Return the package's own kinds of input by name."""
    found = {each.takes.kind: each.takes for each in own().values()}
    in_order = [*_ORDER, *sorted(found.keys() - {*_ORDER})]
    return {name: found[name] for name in in_order}


def kinds() -> dict[str, type[Recipe]]:
    """Return all kinds of input, including those of added modules."""
    return own_kinds() | {each.takes.kind: each.takes for each in problems().values()}


@cache
def _own_axes() -> dict[str, dict[str, DeclaredAxis]]:
    return {name: recorded(kind) for name, kind in own_kinds().items()}


def axes_by_kind() -> Mapping[str, Mapping[str, DeclaredAxis]]:
    """Return the recorded axes of the package's own kinds of input and of those in results."""
    return _own_axes() | _LEARNT


def recorded(kind: type[Recipe]) -> dict[str, DeclaredAxis]:
    """Return those axes of a kind of input that are stored in records."""
    every = declared_axes(kind) | dict(kind.derived)
    return {name: each for name, each in every.items() if each.recorded is not None}


def learn(kind: str, axes: Mapping[str, DeclaredAxis]) -> None:
    """Register axes of another package's kind; an axis with words replaces one already known."""
    if kind in own_kinds():
        return
    known = _LEARNT.setdefault(kind, {})
    for name, each in axes.items():
        if name not in known or (each.words is not None and known[name] != each):
            known[name] = each
            _changes.append(name)


_changes: list[str] = []


def learnt() -> int:
    """Return how many axes `learn` has added or replaced, as a key for caches of the axes."""
    return len(_changes)


def axes() -> dict[str, DeclaredAxis]:
    """Return all recorded axes by name, in the order of the kinds."""
    found: dict[str, DeclaredAxis] = {}
    for of_kind in axes_by_kind().values():
        for name, declared in of_kind.items():
            found.setdefault(name, declared)
    return found


def words_of(name: str, declared: DeclaredAxis) -> Words:
    """Return the words for an axis, derived from its name if it declares none."""
    text = name.replace("_", " ")
    return declared.words or Words(text.capitalize(), text, f"{text} {{}}")
