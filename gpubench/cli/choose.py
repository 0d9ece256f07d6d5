"""`gpubench choose`: which neighbour search to use."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpubench.base.errors import UserError
from gpubench.cli import require, values
from gpubench.cli.options import From, JsonOption, words_of
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import opt

if TYPE_CHECKING:
    from gpubench.choose.evidence import MachineName
    from gpubench.choose.question import Question


@dataclass(frozen=True)
class Asked:
    """The options that describe a question; see `choose.question.Question`."""

    particles: Annotated[int | None, opt("N", "Number of particles.")] = None
    per_cell: Annotated[
        float | None, opt("P", "Particles per cell on average; the cell edge is the cutoff.")
    ] = None
    moved: Annotated[
        float | None,
        opt("SHARE", "Fraction of the particles, 0 to 1, that changed cells since the build."),
    ] = None
    task: Annotated[
        str | None,
        opt(
            "TASK",
            "One of {tasks_to_choose}. Default: count, or with --moved update; sort with --keys.",
            among="tasks_to_choose",
        ),
    ] = None
    distribution: Annotated[
        str,
        opt("D", "How the particles fill the box: one of {distributions}.", among="distributions"),
    ] = "uniform"
    order: Annotated[
        str, opt("O", "How they are ordered in memory: one of {orders}.", among="orders")
    ] = "random"
    destination: Annotated[
        str | None,
        opt(
            "D",
            "Where they moved to: one of {destinations}. Default: next, a cell beside their own.",
            among="destinations",
        ),
    ] = None
    density: Annotated[
        float | None,
        opt("D", "In place of --per-cell, with --cutoff: particles per unit of volume."),
    ] = None
    cutoff: Annotated[float | None, opt("S", "See --density.")] = None
    neighbours: Annotated[
        float | None,
        opt("K", "In place of --per-cell: neighbours of a particle on average, if uniform."),
    ] = None
    keys: Annotated[int | None, opt("N", "Number of keys to sort.")] = None
    value_bytes: Annotated[int, opt("W", "Bytes of a key's value.")] = 4
    key_type: Annotated[str, opt("T", "Type of the keys.")] = "uint32"

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


def choose(
    context: typer.Context,
    asked: Annotated[Asked, From(Asked)],
    device: Annotated[
        str | None,
        opt(
            "BACKEND",
            "One of {backends}. Default: cuda if there are CUDA results.",
            among="backends",
        ),
    ] = None,
    results: Annotated[
        list[Path] | None,
        opt(
            "PATH",
            "Results, or a folder of them; may be repeated. Default: those of the"
            " studies for this command, measured here, otherwise those shipped with the package.",
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
    backends = values.among("backends")
    if device not in (None, *backends):
        raise UserError(f"--device takes {' or '.join(backends)}, not {device!r}")
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
    print_table(output.VALIDATION_COLUMNS, output.validation_rows(validations))


def _answer(asked: Asked, results: list[Path], device: str | None, as_json: bool) -> NoReturn:
    """Print the answer to a question; raise Exit with its status."""
    from gpubench.choose import output
    from gpubench.choose.remembered import chooser_for
    from gpubench.evidence.files import no_collection

    question = asked.question()
    with no_collection():  # nothing dies before the answer; to look takes a tenth of the time
        chooser = chooser_for(question.its_task, results, device)
        answer = chooser.choose(question)
    if as_json:
        print_json(output.as_json(answer, chooser))
    else:
        if elsewhere := _elsewhere(answer.machine):
            print(elsewhere)
        print(output.sentence(answer))
        for line in output.evidence_lines(answer):
            print(f"  {line}")
    raise typer.Exit(output.EXIT_CODES[answer.verdict])


def _elsewhere(machine: MachineName) -> str | None:
    """Say that the evidence comes from a GPU that this machine does not have, or return None."""
    from gpubench.base.gpus import gpu_names
    from gpubench.choose.evidence import MAP, STUDY

    here = gpu_names()
    if machine.backend != "cuda" or not here or machine.device in here:
        return None
    return (
        f"measured on {machine.device}, not on {here[0]}, where another may be fastest:"
        f" `gpubench run {STUDY} --sweeps {MAP}` makes a map of this one"
    )
