"""Options that several commands share, and the objects built from them.

A command takes such an object as a parameter: `selection: Annotated[Selection, From(selection)]`.
`From` names a function whose parameters are the options and which returns the object; the help of
the command shows these options like its own.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from gpubench.base import messages, plugins
from gpubench.base.errors import UserError
from gpubench.base.numbers import read_whole
from gpubench.base.roles import study_for
from gpubench.cli import values
from gpubench.cli.values import Numbers, Wholes, arg, opt
from gpubench.studies.selection import Selection

if TYPE_CHECKING:
    from gpubench.compare.pairs import ComparedJob

RESULTS = Path("results/local")
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY

DeviceOption = Annotated[
    str,
    opt("DEVICE", "auto, cuda, cuda:1, opencl, or opencl:NAME, e.g. opencl:pocl", among="devices"),
]
TransportOption = Annotated[
    str,
    opt(
        "T",
        "How data travels between ranks: one of {transports}.",
        among="transports",
    ),
]
OversubscribeOption = Annotated[
    bool, typer.Option("--oversubscribe", help="Let ranks share a GPU.")
]
AlgorithmsOption = Annotated[
    str | None, opt("A,B", "Only these algorithms of the study.", among="algorithms")
]
ResultsArgument = Annotated[
    list[Path] | None,
    arg(
        "[RESULT]...",
        "Results files or folders of them. Default: those of `gpubench run`,"
        " otherwise those of the checkout.",
    ),
]
AgainOption = Annotated[float, opt("M", "Spend up to M minutes on inconclusive measurements.")]
CellOption = Annotated[
    str | None,
    opt("CELL", "An orthogonal cell: 9 numbers, vectors one by one, or 6, lengths and angles."),
]
PeriodicOption = Annotated[
    str, opt("AXES", "Axes along which the box repeats: some of xyz, or none.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON to stdout.")]


@dataclass(frozen=True)
class From:
    """Marks a command parameter whose value `make` builds from options."""

    make: Callable[..., Any]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each `From` parameter of a command by the options that it is built from.

    Also adds --quiet.
    """
    signature = inspect.signature(command, eval_str=True)
    makers: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        marks = get_args(parameter.annotation)
        make = next((mark.make for mark in marks if isinstance(mark, From)), None)
        if make is None:
            parameters.append(parameter)
        else:
            own = list(inspect.signature(make, eval_str=True).parameters.values())
            makers[parameter.name] = make, [each.name for each in own]
            parameters += own
    quiet = inspect.Parameter("quiet", KEYWORD_ONLY, default=False, annotation=QuietOption)
    shown = [each.replace(kind=KEYWORD_ONLY) for each in (*parameters, quiet)]
    for each in shown:
        values.let_read(each.annotation)

    def call(**given: Any) -> None:
        messages.be_quiet(given.pop("quiet"))
        made = {
            name: make(**{each: given.pop(each) for each in names})
            for name, (make, names) in makers.items()
        }
        command(**given, **made)

    # Typer reads these attributes of a command, and passes its parameters by name.
    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in shown}
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    return call


def selection(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: minutes on a laptop without a GPU.")
    ] = False,
    algorithms: AlgorithmsOption = None,
    sweeps: Annotated[str | None, opt("A,B", "Only these sweeps of the study.")] = None,
    particles: Annotated[
        Wholes | None,
        opt("N,N", "Numbers of particles, records or pairs, in place of the study's."),
    ] = None,
    per_cell: Annotated[
        Numbers | None, opt("P,P", "Particles per cell, in place of the study's.")
    ] = None,
    moved: Annotated[
        Wholes | None,
        opt("N,N", "Numbers of moved particles, not fractions, in place of the study's."),
    ] = None,
    kept: Annotated[
        Numbers | None, opt("F,F", "Fractions of records kept, in place of the study's.")
    ] = None,
    inputs: Annotated[
        int | None, opt("N", "Cycle through N inputs, so that none stays in the cache.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        opt("NAME=VALUE", "A parameter of algorithms that have it; may be repeated."),
    ] = None,
) -> Selection:
    """Return the part of a study to measure."""
    return Selection(
        quick=quick,
        algorithms=names_in(algorithms),
        sweeps=names_in(sweeps),
        particles=particles,
        per_cell=per_cell,
        moved=moved,
        kept=kept,
        inputs=inputs,
        parameters=_parameters(parameter or []),
    )


@dataclass(frozen=True)
class Compared:
    """Options: the part of a study to measure with both commits, and the device."""

    device: DeviceOption = "auto"
    study: Annotated[
        str | None,
        opt(
            "STUDY",
            "What is measured: a name, see `gpubench list`, or a .toml file. Default: the"
            " study for comparisons.",
            among="studies",
        ),
    ] = None
    algorithms: AlgorithmsOption = None
    quick: Annotated[
        bool | None,
        typer.Option("--quick/--full", help="Small sizes. Default: on a CPU.", show_default=False),
    ] = None

    def job(self) -> ComparedJob:
        """Return the job to measure; raises UserError for names that the study lacks."""
        from gpubench.compare.pairs import ComparedJob

        selection = {"quick": self.quick, "algorithms": names_in(self.algorithms)}
        study = self.study or study_for("compare")
        if self.study is None and os.environ.get(plugins.VARIABLE):
            messages.say(
                f"--add without --study: {study} is measured, gpubench's own study, and"
                " nothing that you added: give --study FILE.toml"
            )
        return ComparedJob.of(study, self.device, selection)


@dataclass(frozen=True)
class SlowerRule:
    """The rule that decides whether a commit is slower. Both values are fractions from 0 to 1.

    threshold: None for the device's default.
    """

    threshold: float | None
    confidence: float


def rule(
    threshold: Annotated[
        str | None, opt("SHARE", "The relative change that matters. Default: 3%, or 10% on a CPU.")
    ] = None,
    confidence: Annotated[str, opt("SHARE", "Confidence with which all intervals hold.")] = "99%",
) -> SlowerRule:
    """Return the rule that decides whether a commit is slower."""
    least = None if threshold is None else share("--threshold", threshold)
    return SlowerRule(least, share("--confidence", confidence))


def words_of(context: typer.Context, names: Collection[str]) -> list[str]:
    """Return, as command-line words, the options among `names` that the user passed."""
    words: list[str] = []
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if option.name not in names or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[str(option.name)]
        if isinstance(value, bool):
            words.append((option.opts if value else option.secondary_opts)[0])
        elif isinstance(value, list):
            words += [word for each in value for word in (option.opts[0], str(each))]
        else:
            words += [option.opts[0], str(value)]
    return words


def share(option: str, text: str) -> float:
    """Read a fraction between 0 and 1, as a number or as a percentage."""
    number = text.strip()
    try:
        found = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        found = math.nan
    if not 0 < found < 1:
        raise UserError(
            f"{option} takes a fraction between 0 and 1 such as 3% or 0.03, not {text!r}"
        )
    return found


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Read comma-separated names."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _parameters(given: Sequence[str]) -> dict[str, int]:
    """Read NAME=VALUE pairs."""
    found: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            number = read_whole(value)
        except ValueError:
            name = ""
        if not name:
            raise UserError(f"--parameter takes NAME=VALUE with a whole number, not {text!r}")
        if name in found:
            raise UserError(f"--parameter {name} twice: give it once")
        found[name] = number
    return found
