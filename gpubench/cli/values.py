"""Parsing and completion of option values: numbers, and names from a set.

Numbers are written like `65536`, `1e6` or `2**20`. Lists are separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, get_args

import typer
from typer.models import ParameterInfo

from gpubench.base.numbers import read_number, read_whole

T = TypeVar("T")


class Wholes(tuple[int, ...]):
    """Whole numbers; str() gives the comma-separated form that an option accepts."""

    def __str__(self) -> str:
        return ",".join(map(str, self))


class Numbers(tuple[float, ...]):
    """Numbers; str() gives the comma-separated form that an option accepts."""

    def __str__(self) -> str:
        return ",".join(map(str, self))


def whole(text: str | int) -> int:
    """Read a whole number; raises BadParameter for anything else."""
    return text if isinstance(text, int) else _read(read_whole, text)


def count(text: str | int) -> int:
    """Read a whole number of at least 1; raises BadParameter for anything else."""
    found = whole(text)
    if found < 1:
        raise typer.BadParameter(f"it must be at least 1, not {text}")
    return found


def number(text: str | float) -> float:
    """Read a number; raises BadParameter for anything else."""
    return _read(read_number, text) if isinstance(text, str) else text


def wholes(text: str) -> Wholes:
    """Read comma-separated whole numbers; duplicates are dropped."""
    return Wholes(dict.fromkeys(map(whole, text.split(","))))


def numbers(text: str) -> Numbers:
    """Read comma-separated numbers; duplicates are dropped."""
    return Numbers(dict.fromkeys(map(number, text.split(","))))


def _read(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


# The parser of an option, by the type of its value.
READERS: dict[Any, Any] = {int: whole, float: number, Wholes: wholes, Numbers: numbers}


def let_read(annotation: Any) -> None:
    """Set an option's parser from READERS, unless it has a parser already or needs none."""
    kind, *marks = get_args(annotation) or (annotation,)
    for mark in marks:
        if isinstance(mark, ParameterInfo) and mark.parser is None:
            mark.parser = READERS.get(next(iter(get_args(kind)), kind))


# Where to find the values that a help text lists by name, as in `help="One of {tasks}."`.
NAMED = {
    "tasks": "gpubench.problems.neighbours.tasks:TASKS",
    "distributions": "gpubench.problems.particles.axes:DISTRIBUTIONS",
    "orders": "gpubench.problems.particles.axes:ORDERS",
    "destinations": "gpubench.problems.particles.axes:DESTINATIONS",
    "decompositions": "gpubench.problems.steps.axes:DECOMPOSITIONS",
    "callers": "gpubench.choose.question:CALLED_FROM",
    "backends": "gpubench.core.algorithm:BACKENDS",
    "transports": "gpubench.distributed.transport:NAMES",
    "renderers": "gpubench.simulate.renderers:NAMES",
    "cells": "gpubench.simulate.setup:ALGORITHM",
    "families": "gpubench.physics_checks.runner:FAMILIES",
    "algorithms": "gpubench.registry:algorithms",
    "workloads": "gpubench.registry:workloads",
    "studies": "gpubench.registry:studies",
    "devices": "gpubench.devices:survey",
}
FORMATS = ("table", "csv", "json", "markdown")  # output formats of results


def among(name: str) -> list[str]:
    """Return the values listed under a name in NAMED, importing their module."""
    if name == "tasks_to_choose":
        return [*among("tasks"), "sort"]
    if name == "formats":
        return [*FORMATS]
    module, _, attribute = NAMED[name].partition(":")
    found = getattr(import_module(module), attribute)
    if callable(found):
        found = found()
    if isinstance(found, str):
        return [found]
    if name == "devices":
        found = [each.spec for each in found if each.usable]
    if name == "backends":  # a set
        found = sorted(found)
    return [*(["auto"] if name in ("transports", "devices") else []), *found]


def opt(
    metavar: str | None,
    help_text: str,
    *names: str,
    read: Callable[..., Any] | None = None,
    among: str | tuple[str, ...] = (),
    of: Callable[..., Any] = typer.Option,
) -> Any:
    """Return an option.

    read: its parser, if not the one in READERS. among: names in NAMED, for shell completion.
    """
    completion = completes(*([among] if isinstance(among, str) else among)) if among else None
    return of(*names, metavar=metavar, parser=read, help=help_text, autocompletion=completion)


def arg(metavar: str, help_text: str, **more: Any) -> Any:
    """Return an argument; parameters as for `opt`."""
    return opt(metavar, help_text, **more, of=typer.Argument)


def filled(help_text: str) -> str:
    """Replace names in braces, such as {tasks}, in a help text by the values listed in NAMED."""

    def values(match: re.Match[str]) -> str:
        return ", ".join(among(match[1]))

    return re.sub(r"\{(\w+)\}", values, help_text)


def completes(*names: str) -> Callable[[str], list[str]]:
    """Return a function that completes a word, or the last item of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = [name for each in names for name in among(each)]
        return [f"{before}{comma}{name}" for name in known if name.startswith(last)]

    return complete
