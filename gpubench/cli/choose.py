"""`gpubench choose`: which neighbour search to use."""

from __future__ import annotations

import dataclasses
import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpubench.cli import require, values
from gpubench.cli.options import From, JsonOption, words_of
from gpubench.cli.output import new_table, print_json, print_table
from gpubench.core.errors import UserError

if TYPE_CHECKING:
    from gpubench.choose.evidence import Machine
    from gpubench.choose.question import Question


@dataclass(frozen=True)
class Asked:
    """The options that describe a question; see `choose.question.Question`."""

    particles: int | None
    per_cell: float | None
    moved: float | None
    task: str | None
    distribution: str
    order: str
    destination: str | None
    density: float | None
    cutoff: float | None
    neighbours: float | None
    keys: int | None
    value_bytes: int
    key_type: str

    def question(self) -> Question:
        """Return the question; raises UserError if it is missing or impossible."""
        from gpubench.choose.question import Question, occupancy

        per_cell = occupancy(
            self.per_cell, self.density, self.cutoff, self.neighbours, self.distribution
        )
        if self.particles is None or per_cell is None:
            raise UserError("choose needs --particles N and --per-cell P, or --validate")
        return Question(
            self.particles, per_cell, self.moved, self.task, self.distribution, self.order,
            self.destination,
        )  # fmt: skip


TaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="TASK",
        help="One of {tasks_to_choose}. Default: count, or with --moved update; sort with --keys.",
        autocompletion=values.completes(values.tasks_to_choose),
        show_default=False,
    ),
]


def asked(
    particles: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=values.whole, help="Number of particles.", show_default=False
        ),
    ] = None,
    per_cell: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            parser=values.number,
            help="Particles per cell on average; the cell edge is the cutoff.",
            show_default=False,
        ),
    ] = None,
    moved: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            parser=values.number,
            help="Fraction of the particles, 0 to 1, that changed cells since the build.",
            show_default=False,
        ),
    ] = None,
    task: TaskOption = None,
    distribution: Annotated[
        str,
        typer.Option(
            metavar="D",
            help="How the particles fill the box: one of {distributions}.",
            autocompletion=values.completes(values.distributions),
        ),
    ] = "uniform",
    order: Annotated[
        str,
        typer.Option(
            metavar="O",
            help="How they are ordered in memory: one of {orders}.",
            autocompletion=values.completes(values.orders),
        ),
    ] = "random",
    destination: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="Where they moved to: one of {destinations}. Default: next, a cell beside"
            " their own.",
            autocompletion=values.completes(values.destinations),
            show_default=False,
        ),
    ] = None,
    density: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            parser=values.number,
            help="In place of --per-cell, with --cutoff: particles per unit of volume.",
            show_default=False,
        ),
    ] = None,
    cutoff: Annotated[
        float | None,
        typer.Option(metavar="S", parser=values.number, help="See --density.", show_default=False),
    ] = None,
    neighbours: Annotated[
        float | None,
        typer.Option(
            metavar="K",
            parser=values.number,
            help="In place of --per-cell: neighbours of a particle on average, if uniform.",
            show_default=False,
        ),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=values.whole, help="Number of keys to sort.", show_default=False
        ),
    ] = None,
    value_bytes: Annotated[
        int, typer.Option(metavar="W", parser=values.whole, help="Bytes of a key's value.")
    ] = 4,
    key_type: Annotated[str, typer.Option(metavar="T", help="Type of the keys.")] = "uint32",
) -> Asked:
    """Return the options that describe a question."""
    return Asked(
        particles, per_cell, moved, task, distribution, order, destination, density, cutoff,
        neighbours, keys, value_bytes, key_type,
    )  # fmt: skip


def choose(
    context: typer.Context,
    asked: Annotated[Asked, From(asked)],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="BACKEND",
            help="One of {backends}. Default: cuda if there are CUDA results.",
            autocompletion=values.completes(values.backends),
            show_default=False,
        ),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Results, or a folder of them; may be repeated. Default: those of the"
            " studies for this command, measured here, otherwise those shipped with the package.",
            show_default=False,
        ),
    ] = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Cross-validate the recommendations, by task.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recommend a neighbour search or a key sort.

    The evidence is shown; nothing is measured. Exit 0 with an answer, 2 on an error, 3 if the
    answer is inconclusive or nothing was measured nearby.
    """
    require.one_process("choose")
    # Before NumPy is imported: threads of BLAS cost more than matrices this small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if device not in (None, *values.backends()):
        raise UserError(f"--device takes {' or '.join(values.backends())}, not {device!r}")
    if validate:
        fields = {field.name for field in dataclasses.fields(Asked)}
        if given := [word for word in words_of(context, fields) if word.startswith("--")]:
            raise UserError(f"--validate answers no single question: leave out {', '.join(given)}")
        _validate(results or [], device, as_json)
    elif asked.keys is not None or asked.task == "sort":
        _answer_sort(asked, results or [], device, as_json)
    else:
        _answer(asked, results or [], device, as_json)


def _answer_sort(asked: Asked, results: list[Path], device: str | None, as_json: bool) -> NoReturn:
    """Print which sort of keys to use; raise Exit with its status."""
    from gpubench.choose.sorts import SortQuestion, choose

    if asked.keys is None or asked.task not in (None, "sort") or asked.particles is not None:
        raise UserError("sorting takes --task sort and --keys N, and no particles")
    answer = choose(SortQuestion(asked.keys, asked.value_bytes, asked.key_type), results, device)
    if as_json:
        print_json(answer.as_json)
    else:
        print("\n".join(answer.sentences))
    raise typer.Exit(0 if answer.tied == 1 else 3)


def _validate(results: list[Path], device: str | None, as_json: bool) -> None:
    """Print how good the advice is on inputs that were held out."""
    from gpubench.choose import output
    from gpubench.choose.chooser import Chooser

    chooser = Chooser.load(results, device)
    validations = chooser.cross_validate()
    if as_json:
        print_json(output.validations_as_json(validations, chooser))
        return
    table = new_table(*output.VALIDATION_COLUMNS)
    for row in output.validation_rows(validations):
        table.add_row(*row)
    print_table(table)


def _answer(asked: Asked, results: list[Path], device: str | None, as_json: bool) -> NoReturn:
    """Print the answer to a question; raise Exit with its status."""
    from gpubench.choose import output
    from gpubench.choose.remembered import chooser_for

    question = asked.question()
    gc.disable()  # nothing dies before the answer; to look for it takes a tenth of the time
    try:
        chooser = chooser_for(question.its_task, results, device)
        answer = chooser.choose(question)
    finally:
        gc.enable()
    if as_json:
        print_json(output.as_json(answer, chooser))
    else:
        if elsewhere := _elsewhere(answer.machine):
            print(elsewhere)
        print(output.sentence(answer))
        for line in output.evidence_lines(answer):
            print(f"  {line}")
    raise typer.Exit(output.EXIT_CODES[answer.verdict])


def _elsewhere(machine: Machine) -> str | None:
    """Say that the evidence comes from a GPU that this machine does not have, or return None."""
    from gpubench.choose.evidence import MAP, STUDY
    from gpubench.core.gpus import gpu_names

    here = gpu_names()
    if machine.backend != "cuda" or not here or machine.device in here:
        return None
    return (
        f"measured on {machine.device}, not on {here[0]}, where another may be fastest:"
        f" `gpubench run {STUDY} --sweeps {MAP}` makes a map of this one"
    )
