"""`gpubench choose`: which neighbour search to use."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpubench.base.errors import UserError
from gpubench.cli import require
from gpubench.cli.check import axes_in, edges_in
from gpubench.cli.options import CellOption, From, JsonOption, PeriodicOption, words_of
from gpubench.cli.output import print_json
from gpubench.cli.values import opt

if TYPE_CHECKING:
    from gpubench.choose.question import Question, SortQuestion


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
            "One of {tasks_to_choose}. Default: list with --neighbours, update with --moved, sort"
            " with --keys, otherwise count.",
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
    cell: CellOption = None
    neighbours: Annotated[
        float | None,
        opt("K", "In place of --per-cell: neighbours of a particle on average, if uniform."),
    ] = None
    periodic: PeriodicOption = ""
    contrast: Annotated[
        float | None,
        opt("C", "Highest over lowest density, of a power-law, free-surface or clusters."),
    ] = None
    radii: Annotated[
        float, opt("R", "Longest over shortest radius, if particles have radii of their own.")
    ] = 1.0
    keys: Annotated[int | None, opt("N", "Number of keys to sort.")] = None
    value_bytes: Annotated[int, opt("W", "Bytes of a key's value.")] = 4
    key_type: Annotated[str, opt("T", "Type of the keys.")] = "uint32"

    def question(self, called_from: str) -> Question | SortQuestion:
        """Build the question; raises UserError for missing or contradictory options."""
        from gpubench.choose.question import SORT, Question, SortQuestion

        if self.keys is not None or self.task == SORT:
            has_particles = (self.particles, self.cell) != (None, None)
            if self.keys is None or self.task not in (None, SORT) or has_particles:
                raise UserError("sorting takes --task sort and --keys N, and no particles")
            return SortQuestion(self.keys, self.value_bytes, self.key_type, called_from)
        density = self.density
        if self.cell is not None and self.particles is not None:
            if density is not None:
                raise UserError("--cell and --density say the same: give one of them")
            density = self.particles / math.prod(edges_in(self.cell))
        if self.neighbours is not None and self.radii != 1:
            raise UserError("--neighbours is for one radius: give --per-cell of the longest")
        per_cell = _occupancy(
            self.per_cell, density, self.cutoff, self.neighbours, self.distribution
        )
        if self.particles is None or per_cell is None:
            raise UserError("choose needs --particles N and --per-cell P, or --validate")
        task = self.task or ("list" if self.neighbours and self.moved is None else None)
        return Question(
            self.particles, per_cell, self.moved, task, self.distribution, self.order,
            self.destination, called_from, "".join(compress("xyz", axes_in(self.periodic))),
            self.contrast, self.radii,
        )  # fmt: skip


def _occupancy(
    per_cell: float | None,
    density: float | None,
    cutoff: float | None,
    neighbours: float | None,
    distribution: str = "uniform",
) -> float | None:
    """Return the average number of particles in a cell whose edge is the cutoff; None if not given.

    There are three ways to give it. per_cell: directly. density and cutoff: particles per unit of
    volume, and a length. neighbours: average number per particle, only if distribution is uniform.
    Raises UserError if several ways are given, or only one of density and cutoff, or if one of
    density, cutoff and neighbours is not positive.
    """
    if (density is None) != (cutoff is None):
        raise UserError("--density and --cutoff belong together (or --cell, --cutoff): give both")
    ways = {"--per-cell": per_cell, "--density": density, "--neighbours": neighbours}
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} say the same: give one of them")
    if cutoff is not None:
        given["--cutoff"] = cutoff
    for name, value in given.items():
        if name != "--per-cell" and not (math.isfinite(value) and value > 0):
            raise UserError(f"{name} takes a positive number, not {value:g}")
    if neighbours is not None:
        if distribution != "uniform":
            raise UserError("--neighbours is for --distribution uniform: give --per-cell")
        return neighbours / (4 / 3 * math.pi)
    if density is not None and cutoff is not None:
        return density * cutoff**3
    return per_cell


def choose(
    context: typer.Context,
    asked: Annotated[Asked, From(Asked)],
    called_from: Annotated[
        str,
        opt(
            "CALLER",
            "What launches the work: one of {callers}. From a graph, device time counts alone.",
            among="callers",
        ),
    ] = "graph",
    device: Annotated[
        str | None,
        opt(
            "DEVICE",
            "A GPU by its name, such as H200, measured or not, or one of {backends}. Default: this"
            " machine's GPU, otherwise the last to be measured.",
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

    The answer is based on stored results: the choice, and how much slower than the best it may be.
    Exit 0 if no other may be as fast, 2 on an error, 3 if inconclusive or not measured.
    """
    require.one_process("choose")
    # Set before NumPy is imported: for matrices this small, BLAS threads cost more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if validate:
        fields = {field.name for field in dataclasses.fields(Asked)}
        if given := [word for word in words_of(context, fields) if word.startswith("--")]:
            raise UserError(f"--validate answers no single question: leave out {', '.join(given)}")
        _validate(called_from, results or [], device, as_json)
    else:
        _answer(asked, called_from, results or [], device, as_json)


def _validate(called_from: str, results: list[Path], device: str | None, as_json: bool) -> None:
    """Print the cross-validation of the recommendations for each task."""
    from gpubench.choose import output
    from gpubench.choose.chooser import Chooser
    from gpubench.choose.evidence import STUDY
    from gpubench.choose.question import CALLED_FROM, require_known
    from gpubench.cli import choose_gpus

    require_known("called-from", called_from, CALLED_FROM)
    unmeasured, known = choose_gpus.resolve(device, results, STUDY)
    if unmeasured:
        raise UserError(f"--device {device}: no such GPU was measured, so nothing can be validated")
    chooser = Chooser.load(results, known)
    validations = chooser.cross_validate(called_from)
    if as_json:
        print_json(output.validations_as_json(validations, chooser))
        return
    print("\n".join(map(output.validated, validations)))


def _answer(
    asked: Asked, called_from: str, results: list[Path], device: str | None, as_json: bool
) -> NoReturn:
    """Print the answer to a question; raise Exit with its status."""
    from gpubench.choose import output
    from gpubench.choose.question import NO_GRAPHS
    from gpubench.cli import choose_gpus
    from gpubench.evidence.files import no_collection

    question = asked.question(called_from)
    with no_collection():  # there is no garbage to free; collecting takes a tenth of the time
        answer, other_gpus = choose_gpus.answer(question, results, device)
    if as_json:
        document = output.as_json(answer)
        print_json(document | choose_gpus.as_json(other_gpus) if other_gpus else document)
    else:
        print(choose_gpus.sentence(other_gpus) if other_gpus else output.sentence(answer))
        for each in other_gpus.answers if other_gpus else ():
            launched = ", as launched from Python" if NO_GRAPHS in each.warnings else ""
            print(f"  on {each.machine.device}{launched}: {output.sentence(each)}")
        for line in output.evidence_lines(answer):
            print(f"  {line}")
    raise typer.Exit(0 if answer.verdict == "chosen" and not other_gpus else 3)
