"""The values that options take: numbers, written in several ways, and names from a set.

`65536`, `1e6` and `2**20` are numbers. Lists are separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import typer

from gpubench.core.numbers import read_number, read_whole

T = TypeVar("T")


class Wholes(tuple[int, ...]):
    """Whole numbers, written as an option takes them."""

    def __str__(self) -> str:
        return ",".join(map(str, self))


class Numbers(tuple[float, ...]):
    """Numbers, written as an option takes them."""

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
    """Read whole numbers with commas between them, each once."""
    return Wholes(dict.fromkeys(map(whole, text.split(","))))


def numbers(text: str) -> Numbers:
    """Read numbers with commas between them, each once."""
    return Numbers(dict.fromkeys(map(number, text.split(","))))


def _read(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def tasks() -> Iterable[str]:
    """Return the tasks of a neighbour search."""
    from gpubench.core.tasks import TASKS

    return TASKS


def tasks_to_choose() -> Iterable[str]:
    """Return what `choose` gives advice on: the tasks of a neighbour search, and sorting keys."""
    return (*tasks(), "sort")


def distributions() -> Iterable[str]:
    """Return how particles can fill a box."""
    from gpubench.inputs import DISTRIBUTIONS

    return DISTRIBUTIONS


def orders() -> Iterable[str]:
    """Return the orders in which particles can lie in memory."""
    from gpubench.inputs import ORDERS

    return ORDERS


def destinations() -> Iterable[str]:
    """Return where particles can have moved to."""
    from gpubench.inputs import DESTINATIONS

    return DESTINATIONS


def backends() -> Iterable[str]:
    """Return the back ends."""
    from gpubench.core.contracts import BACKENDS

    return sorted(BACKENDS)


def transports() -> Iterable[str]:
    """Return the transports between ranks."""
    from gpubench.distributed.transport import NAMES

    return ("auto", *NAMES)


def decompositions() -> Iterable[str]:
    """Return how ranks can share a simulation."""
    from gpubench.inputs import DECOMPOSITIONS

    return DECOMPOSITIONS


def renderers() -> Iterable[str]:
    """Return the renderers of pictures of a simulation."""
    from gpubench.simulate.renderers import NAMES

    return NAMES


def cells() -> Iterable[str]:
    """Return the algorithm that makes the cells of a simulation by default."""
    from gpubench.simulate.setup import ALGORITHM

    return (ALGORITHM,)


def formats() -> Iterable[str]:
    """Return how results can be written."""
    return ("table", "csv", "json", "markdown")


def families() -> Iterable[str]:
    """Return the families of workloads whose physics can be checked."""
    from gpubench.physics_checks.runner import FAMILIES

    return FAMILIES


def algorithms() -> Iterable[str]:
    """Return the names of all algorithms."""
    from gpubench.core import registry

    return registry.algorithms()


def workloads() -> Iterable[str]:
    """Return the names of all workloads."""
    from gpubench.core import registry

    return registry.workloads()


def devices() -> Iterable[str]:
    """Return the devices that can be used here."""
    from gpubench.devices import survey

    return ("auto", *(device.spec for device in survey() if device.usable))


def studies() -> Iterable[str]:
    """Return the names of all studies."""
    from gpubench.core import registry

    return registry.studies()


# Options whose help says which values there are, as in `help="One of {tasks}."`
IN_HELP: dict[str, Callable[[], Iterable[str]]] = {
    each.__name__: each
    for each in (
        tasks, tasks_to_choose, distributions, orders, destinations, backends, transports,
        decompositions, renderers, families, formats, cells,
    )
}  # fmt: skip


def filled(help_text: str) -> str:
    """Return a help text with the values that it asks for; they are looked up only now."""

    def values(match: re.Match[str]) -> str:
        return ", ".join(IN_HELP[match[1]]())

    return re.sub(r"\{(\w+)\}", values, help_text)


def completes(*values: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the function that completes a word of the command line, or the last of a list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = [name for each in values for name in each()]
        return [f"{before}{comma}{name}" for name in known if name.startswith(last)]

    return complete
