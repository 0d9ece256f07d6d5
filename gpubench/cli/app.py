"""The command line. What was asked for goes to standard output, all else to standard error."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gpubench import __version__
from gpubench.cli import exits
from gpubench.core import children, paths, registry
from gpubench.core.errors import UserError
from gpubench.core.messages import say as _say
from gpubench.core.tasks import TASKS
from gpubench.core.writing import write_whole

# Devices, plots and tables are imported by the commands that use them: the rest starts at once.
if TYPE_CHECKING:
    from gpubench.core.contracts import Algorithm
    from gpubench.devices.base import Device
    from gpubench.evidence.calibration import Calibration
    from gpubench.evidence.physics_results import CheckResults
    from gpubench.inputs import ParticleSet
    from gpubench.verify.conformance import CaseResult

RESULTS = Path("results/local")
CHECKS = Path("results/checks")
CALIBRATION = Path("results/local/calibration")
REPORTED = (
    "measured",
    "checks",
    "simulations",
    "calibration",
)  # of the folders of results in a checkout
REPORT = Path("reports/local")
PIPE_WIDTH = 160  # of a table where there is no terminal to ask

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compare GPU neighbour-search and sorting algorithms: checked, timed, and explained.",
)

DeviceOption = Annotated[
    str,
    typer.Option("--device", help="auto, cuda, cuda:1, opencl, or opencl:NAME, e.g. opencl:pocl"),
]
TransportOption = Annotated[
    str,
    typer.Option(
        metavar="T",
        help="What carries data between ranks: nccl, peer (GPUs of one host), mpi, or auto.",
    ),
]
OversubscribeOption = Annotated[
    bool, typer.Option("--oversubscribe", help="Let ranks share a GPU.")
]
# Options of what measures codes side by side.
ThresholdOption = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="SHARE",
        help="The relative change that matters. Default: 3%, or 10% on a CPU.",
        show_default=False,
    ),
]
ConfidenceOption = Annotated[
    str,
    typer.Option(
        "--confidence", metavar="SHARE", help="With which the intervals of all cells hold together."
    ),
]
StudyOption = Annotated[
    str,
    typer.Option("--study", metavar="STUDY", help="What is measured; a name or a .toml file."),
]
AlgorithmsOption = Annotated[
    str | None,
    typer.Option("--algorithms", metavar="A,B", help="Only these algorithms of the study."),
]
SizesOption = Annotated[
    bool | None,
    typer.Option("--quick/--full", help="Small sizes. Default: on a CPU.", show_default=False),
]
AgainOption = Annotated[
    float,
    typer.Option("--minutes", metavar="M", help="Measure what cannot be told again for so long."),
]
SamePythonOption = Annotated[
    bool,
    typer.Option(
        "--same-python",
        help="Run all commits on this interpreter and its packages, without the network.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")
]


def main() -> None:
    """Run the command line; whatever is no answer ends with exit status 2, see `exits`."""
    stdout = sys.stdout
    try:
        exits.open_output()
        try:
            app(prog_name="gpubench")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(exits.status_of(error))
    finally:
        sys.stdout = stdout


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    add: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Add algorithms of your own: a Python file, or a folder of them, with the kernels"
            " beside it. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Take the options that stand before a command."""
    if add:
        registry.add(add)


@app.command()
def devices(as_json: JsonOption = False) -> None:
    """List the devices that can be used here, and for the others what is missing."""
    from gpubench.devices import survey

    _require_one_process("devices")
    found = survey()
    if as_json:
        _print_json([dataclasses.asdict(device) for device in found])
        return
    table = _table("device", "usable", "name")
    for device in found:
        usable = "yes" if device.usable else "no"
        table.add_row(device.spec, usable, device.name if device.usable else device.reason)
    _print_table(table)


@app.command(name="list")
def list_everything(as_json: JsonOption = False) -> None:
    """List algorithms, workloads and studies."""
    from gpubench.studies.study import load_study

    _require_one_process("list")
    algorithms = registry.algorithms().values()
    studies = [load_study(name) for name in registry.studies()]
    if as_json:
        _print_json(
            {
                "algorithms": [_described(algorithm) for algorithm in algorithms],
                "workloads": [
                    {
                        "name": workload.name,
                        "summary": workload.summary,
                        "source": workload.source,
                        "parameters": dict(workload.defaults),
                    }
                    for workload in registry.workloads().values()
                ],
                "studies": [
                    {
                        "name": study.name,
                        "title": study.title,
                        "paper": study.paper,
                        "table": study.table,
                        "question": study.question,
                    }
                    for study in studies
                ],
            }
        )
        return
    table = _table("algorithm", "form", "what it is", "needs")
    for algorithm in algorithms:
        table.add_row(algorithm.name, "", algorithm.summary, "")
        for name, form in algorithm.forms.items():
            table.add_row("", name, form.summary, ", ".join(sorted(form.requires)))
    _print_table(table)
    if registry.workloads():
        table = _table("workload", "what it is")
        for workload in registry.workloads().values():
            table.add_row(workload.name, workload.summary)
        _print_table(table)
    table = _table("study", "published in", "question")
    for study in studies:
        published = f"{study.paper}, {study.table}" if study.published else ""
        table.add_row(study.name, published, study.question)
    _print_table(table)


@app.command()
def check(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ALGORITHM]...",
            help="Default: all. Or dpd or sph, a family of workloads, to check its physics.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    smallest: Annotated[
        bool,
        typer.Option("--smallest", help="Shrink the first input of each form that is wrong."),
    ] = False,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help="Of a family: sizes for a GPU, kept in results/checks, not a minute on a CPU.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a family: keep what was found in this file instead."),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="Check on your own particles: an array of shape (particles, 3).",
            show_default=False,
        ),
    ] = None,
    box: Annotated[
        str | None, typer.Option(metavar="X,Y,Z", help="Edges of the box of --positions.")
    ] = None,
    low: Annotated[str, typer.Option(metavar="X,Y,Z", help="Its lower corner.")] = "0,0,0",
    cell_size: Annotated[
        float | None, typer.Option(metavar="S", help="Least edge of a cell: the cutoff.")
    ] = None,
    periodic: Annotated[
        str, typer.Option(metavar="AXES", help="Axes along which the box repeats: x, xy, xyz ...")
    ] = "",
) -> None:
    """Check that algorithms give right answers, each in all its forms. Exit 1 if one does not.

    `check dpd` checks the physics of a family of workloads against published figures and theory.
    """
    from gpubench.devices import open_device
    from gpubench.physics_checks.runner import FAMILIES

    _require_one_process("check")
    families = [name for name in algorithms or () if name in FAMILIES]
    if families:
        if len(algorithms or ()) > 1 or (positions, box, cell_size) != (None, None, None):
            raise UserError(f"check {families[0]} by itself, without algorithms and particles")
        _check_family(families[0], device, as_json, long, out)
        return
    if long or out is not None:
        raise UserError(f"--long and --out are for checks of {', '.join(FAMILIES)}")
    names = list(dict.fromkeys(algorithms)) if algorithms else list(registry.algorithms())
    chosen = [registry.find_algorithm(name) for name in names]
    inputs = _own_particles(positions, box, low, cell_size, periodic)
    with open_device(device) as opened:
        outcomes = _check_forms(chosen, opened, inputs, smallest)
        if as_json:
            _print_json({"device": opened.spec, "name": opened.name, "checks": outcomes})
        else:
            _say(f"checking on {opened.name} ({opened.spec})")
            table = _table("algorithm", "form", "answers", "cases", "reason")
            for outcome in outcomes:
                table.add_row(
                    outcome["algorithm"],
                    outcome["form"],
                    {"ok": "right"}.get(outcome["status"], outcome["status"]),
                    str(len(outcome["cases"]) or ""),
                    outcome["reason"],
                )
            _print_table(table)
            for outcome in outcomes:
                if shrunk := outcome.get("smallest"):
                    _say(f"the smallest failure of {outcome['algorithm']} {outcome['form']}:")
                    print(shrunk)
    if any(outcome["status"] in ("wrong", "failed") for outcome in outcomes):
        raise typer.Exit(1)


def _check_family(family: str, device: str, as_json: bool, is_long: bool, out: Path | None) -> None:
    """Check the physics of a family of workloads; raise Exit(1) where something is not right."""
    from gpubench.devices import open_device
    from gpubench.evidence import physics_results
    from gpubench.physics_checks.runner import run as run_checks

    if out is not None:
        _require_file("--out", out)
    elif is_long:
        _require_folder("the folder of results", CHECKS)
    with open_device(device) as opened:
        _say(f"checking {family} on {opened.name} ({opened.spec})")
        found = run_checks(family, opened, is_long=is_long)
    if out is not None:
        physics_results.save(found, out)
    elif is_long:
        with physics_results.free_path(CHECKS, family, found.environment) as out:
            physics_results.save(found, out)
    if out is not None:
        _say(f"kept in {out}")
    if as_json:
        _print_json(found.as_json())
    else:
        _print_checks(found)
    if not found.is_sound:
        raise typer.Exit(1)


def _print_checks(found: CheckResults) -> None:
    """Print a row for each quantity, and for each check that came to no end."""
    table = _table("check", "quantity", "value", "reference", "verdict", "note")
    for check in found.checks:
        if check.failure:
            table.add_row(check.name, "", "", "", "failed", check.failure)
        for finding in check.findings:
            against = finding.reference
            reference = f"{against.value:.4g} ± {against.tolerance:g}" if against else "none"
            table.add_row(
                check.name, finding.quantity, finding.written, reference, finding.verdict,
                finding.note,
            )  # fmt: skip
    _print_table(table)


@app.command()
def run(
    context: typer.Context,
    studies: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY...", help="See `gpubench list`; or a file.toml.", show_default=False
        ),
    ],
    device: DeviceOption = "auto",
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: minutes on a laptop without a GPU.")
    ] = False,
    algorithms: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these algorithms of the study.")
    ] = None,
    particles: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="In place of the study's numbers of particles, records or pairs."
        ),
    ] = None,
    per_cell: Annotated[
        float | None, typer.Option(metavar="P", help="In place of the study's particles per cell.")
    ] = None,
    moved: Annotated[
        int | None, typer.Option(metavar="N", help="In place of the study's moved particles.")
    ] = None,
    kept: Annotated[
        float | None, typer.Option(metavar="F", help="In place of the study's fractions kept.")
    ] = None,
    inputs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Let so many inputs take turns, so that none stays in the cache."
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For algorithms that have it; may be repeated."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what is there already.")
    ] = False,
    processes: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="In so many processes, one after another, each with a folder of its own in --out:"
            " what `compare` needs.",
        ),
    ] = 1,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Under mpirun: rank 0 hands out the inputs, and each of the others measures on a"
            " GPU of its own.",
        ),
    ] = False,
    transport: TransportOption = "auto",
    oversubscribe: OversubscribeOption = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = RESULTS,
) -> None:
    """Measure studies. What is there already is kept, so that a run that was stopped resumes.

    Under mpirun, all ranks measure together what takes as many of them, unless --spread. Exit 1 if
    an algorithm gave a wrong answer or failed.
    """
    from gpubench.simulate.ranks import Crew
    from gpubench.studies import runner
    from gpubench.studies.spread import Spread
    from gpubench.studies.study import load_study

    if processes > 1 and not spread:
        _run_in_processes(context, out)
    crew = Crew.join(device, transport, oversubscribe)
    with crew.ends_all():
        if spread and processes > 1:
            raise UserError("--spread is one run over many devices: leave out --processes")
        party = Spread.of(crew.ranks, device, oversubscribe) if spread else crew
        if crew.follows:
            party.follow()
            return
        chosen = [load_study(name) for name in dict.fromkeys(studies)]
        only = _names_in(algorithms)
        _require_folder("--out", out)
        selection: dict[str, Any] = {
            "quick": quick, "algorithms": only, "particles": particles, "per_cell": per_cell,
            "moved": moved, "kept": kept, "inputs": inputs,
            "parameters": _parameters(parameter or []),
        }  # fmt: skip
        for study in chosen:  # before the first is measured, so that a mistake costs no time
            runner.plan(study, **selection)
        unsound = False
        with party.lead() as opened:
            engine = runner.engine_of(opened)
            _say(f"measuring on {engine.device.name} ({engine.device.spec})")
            try:
                for study in chosen:
                    summary = runner.run(
                        study, engine, out, **selection, fresh=fresh,
                        ranks=1 if spread else crew.size,
                    )  # fmt: skip
                    empty = summary.overhead_ms.items()
                    each = ", ".join(f"{1e3 * ms:.3g} us ({mode})" for mode, ms in empty)
                    _say(f"a sample of nothing takes {each}")
                    unsound = unsound or bool(summary.wrong or summary.failed)
                    _say(
                        f"{study.name}: {summary.measured} measured,"
                        f" {summary.resumed} there already, {summary.skipped} skipped,"
                        f" {summary.wrong} wrong, {summary.failed} failed,"
                        f" in {summary.seconds:.0f} s"
                    )
                    print(summary.path)
            except KeyboardInterrupt:
                _say(
                    f"stopped: what was measured so far is kept in {out};"
                    " the same command goes on from there"
                )
                raise typer.Exit(130) from None
        _say("for the report: gpubench report" + ("" if out == RESULTS else f" {out}"))
        if unsound:
            raise typer.Exit(1)


def _run_in_processes(context: typer.Context, out: Path) -> NoReturn:
    """Run the same command in several processes, one after another; raise Exit with the worst."""
    given = dict(context.params)
    count, studies = given.pop("processes"), given.pop("studies")
    del given["out"]
    _require_one_process("run --processes")
    words = [*studies, *_options(context, given)]
    worst = 0
    for number in range(1, count + 1):
        folder = out / f"process-{number:02}"
        _say(f"process {number} of {count}")
        command = children.command("gpubench", "run", *words, "--out", str(folder))
        status = subprocess.run(command, check=False).returncode
        if status not in (0, 1):
            raise typer.Exit(status if status > 0 else 128 - status)  # as shells have it
        worst = max(worst, status)
    raise typer.Exit(worst)


def _options(context: typer.Context, values: Mapping[str, Any]) -> list[str]:
    """Return a command's options as words of the command line, without those left as they are."""
    flags = {option.name: option.opts[0] for option in context.command.params}
    words: list[str] = []
    for name, value in values.items():
        if value is True:
            words.append(flags[name])
        elif isinstance(value, list | tuple):
            words += [word for each in value for word in (flags[name], str(each))]
        elif value is not None and value is not False:
            words += [flags[name], str(value)]
    return words


def _parameters(given: Sequence[str]) -> dict[str, int]:
    """Read NAME=VALUE pairs."""
    pairs = [text.partition("=") for text in given]
    for (name, _, value), text in zip(pairs, given, strict=True):
        if not name or not value.lstrip("-").isdecimal():
            raise UserError(f"--parameter takes NAME=VALUE with a whole number, not {text!r}")
    return {name: int(value) for name, _, value in pairs}


@app.command()
def simulate(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="See `gpubench list`.")],
    particles: Annotated[
        int | None, typer.Option(metavar="N", help="Default: the workload's own.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="Counted from the beginning, also with --resume. Default: the workload's own.",
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="A", help="What makes the cells. Default: counting-sort."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(metavar="F", help="Default: the first that reorders, of those that can run."),
    ] = None,
    device: DeviceOption = "auto",
    skin: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Keep lists of neighbours within cutoff and X. Default: 0, no lists."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Default: 1.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Of the workload or the algorithm; may be repeated."
        ),
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write pictures, an animation and a panel there."),
    ] = None,
    frame_every: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Steps between frames, also of a trajectory. Default: 50 frames."
        ),
    ] = None,
    renderer: Annotated[
        str | None,
        typer.Option(
            metavar="R",
            help="What draws the pictures: pyvista (in perspective), matplotlib (a slab), or auto,"
            " the first that can for what is coloured by speed. Default: auto.",
        ),
    ] = None,
    trajectory: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write FILE.gsd or FILE.xyz.")
    ] = None,
    observe_every: Annotated[
        int | None,
        typer.Option(metavar="K", help="Steps between observations. Default: 10 in all."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep a checkpoint to go on from.")
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(metavar="K", help="Steps between checkpoints. Default: 10 in all."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from a checkpoint, whose options hold again."),
    ] = None,
    decomposition: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="How the ranks that mpirun started share it: slab or master. Default: slab.",
        ),
    ] = None,
    transport: TransportOption = "auto",
    oversubscribe: OversubscribeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a simulation; tell its speed, the time of each phase, and what was observed.

    Ctrl-C ends it after the present steps, with a checkpoint where --checkpoint is given; exit 130.
    Exit 2 where it blows up. Under mpirun, all ranks share it.
    """
    from gpubench.simulate import checkpoint as checkpoints
    from gpubench.simulate import runner, session
    from gpubench.simulate.ranks import Crew, choose_decomposition
    from gpubench.simulate.setup import settle

    crew = Crew.join(device, transport, oversubscribe)
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        sharing = choose_decomposition(decomposition, crew.size)
        outputs = session.Outputs(
            frames, trajectory, frame_every, observe_every, checkpoint, checkpoint_every, renderer
        )
        contents = outputs.contents()
        saved = checkpoints.load(resume) if resume is not None else None
        run_id = saved.run if saved else checkpoints.new_run()
        given = {
            "particles": particles, "algorithm": algorithm, "form": form, "seed": seed,
            "skin": skin,
        }  # fmt: skip
        setup = settle(workload, given, parameter or [], saved.setup if saved else None)
        wanted = registry.find_workload(workload).steps_by_default if steps is None else steps
        timetable = outputs.timetable(wanted, saved.step if saved else 0)
        if frames is not None:
            _require_folder("--frames", frames)
        for option, path in (("--trajectory", trajectory), ("--checkpoint", checkpoint)):
            if path is not None:
                _require_file(option, path)
        outputs.require_free(resume)
        writers = session.Writers(
            outputs, setup, run=run_id, is_resumed=saved is not None, say=_say
        )
        with crew.lead() as opened, ExitStack() as held:
            made = setup.make(opened, sharing)
            held.enter_context(outputs.held(contents))
            if saved is not None:
                saved.resume(made)
                for reason in saved.why_inexact(opened):
                    _say(f"going on, but not bit for bit: {reason}")
            _say(f"simulating {made.particles:,} particles on {opened.name} ({opened.spec})")
            done = runner.simulate(
                made,
                timetable,
                on_frame=writers.on_frame,
                checkpoint=checkpoint,
                run=run_id,
                observations=saved.observations if saved else (),
            )
            pictures = writers.finish()
            told = session.account(made, done) | {
                "run": run_id,
                "animation": str(pictures[0]) if pictures else None,
                "panel": str(pictures[1]) if pictures else None,
                "trajectory": str(trajectory) if trajectory else None,
                "checkpoint": str(checkpoint) if checkpoint else None,
            }
            writers.keep(told)
        if as_json:
            _print_json(told)
        else:
            _print_simulation(told)
        if done.stopped:
            way_on = f"the same command with --resume {checkpoint} goes on from there"
            without = "nothing is there to go on from: next time, --checkpoint FILE keeps it"
            _say(f"stopped after step {done.step:,}: {way_on if checkpoint else without}")
            raise typer.Exit(130)


def _print_simulation(told: dict[str, Any]) -> None:
    """Print what `account` told as tables."""
    rate = told["particle_steps_per_s"]
    table = _table(told["workload"], "")
    table.add_row("device", f"{told['device_name']} ({told['device']})")
    table.add_row("algorithm", f"{told['algorithm']} {told['form']}")
    table.add_row("particles", f"{told['particles']:,}")
    table.add_row("steps", f"{told['steps'] - told['first_step']:,}, to step {told['steps']:,}")
    if rate:
        median, low, high = (f"{value / 1e6:,.4g}" for value in rate.values())
        table.add_row(
            "particle-steps/s", f"{median} million (95 % interval of the median: {low} to {high})"
        )
    for name in ("animation", "panel", "trajectory", "checkpoint"):
        if told[name]:
            table.add_row(name, told[name])
    _print_table(table)
    if told["phases_ms"]:
        table = _table("phase of a step", "median ms", "mean ms", "share of the mean")
        means = told["phases_mean_ms"]
        for name, median_ms in told["phases_ms"].items():
            share = means[name] / (sum(means.values()) or 1)
            table.add_row(name, f"{median_ms:.4g}", f"{means[name]:.4g}", f"{share:.1%}")
        _print_table(table)
    table = _table("last observation", "")
    for name, value in told["observations"][-1].items():
        table.add_row(name, "none" if value is None else f"{value:.6g}")
    _print_table(table)


@app.command()
def report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RESULT]...",
            help="Results files or folders of them. Default: those of `gpubench run`,"
            " else those that came with the checkout.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the report.")] = REPORT,
) -> None:
    """Write a report as HTML, Markdown, CSV and figures, and print where."""
    from gpubench.report import write
    from gpubench.report.sources import sort_out

    _require_one_process("report")
    _require_folder("--out", out)
    found = sort_out(results or _default_results())
    print(write(found.results, out, found.simulations, found.checks, found.calibrations))


@app.command()
def choose(
    context: typer.Context,
    particles: Annotated[
        int | None, typer.Option(metavar="N", help="How many there are.", show_default=False)
    ] = None,
    per_cell: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Particles a cell on average; its edge is the cutoff.",
            show_default=False,
        ),
    ] = None,
    moved: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Update what was built before this share of the particles, 0 to 1, changed cells.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK",
            help=f"{', '.join(TASKS)}. Default: count, or with --moved update.",
            show_default=False,
        ),
    ] = None,
    distribution: Annotated[
        str, typer.Option(metavar="D", help="How the particles fill the box.")
    ] = "uniform",
    order: Annotated[
        str, typer.Option(metavar="O", help="In which they lie in memory.")
    ] = "random",
    destination: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="Where they moved to. Default: next, a cell beside their own.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="BACKEND",
            help="cuda or opencl. Default: cuda where it was measured.",
            show_default=False,
        ),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Results, or a folder of them; may be repeated. Default: what `gpubench run"
            " regimes` measured here, else what came with the package.",
            show_default=False,
        ),
    ] = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Tell what such advice is worth, by task.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which neighbour search to use, from what was measured, with the evidence.

    Nothing is measured. Exit 0 with an answer, 2 error, 3 where it cannot tell, or where nothing
    was measured around there.
    """
    from gpubench.choose import output
    from gpubench.choose.chooser import Chooser, Question

    _require_one_process("choose")
    if device not in (None, "cuda", "opencl"):
        raise UserError(f"--device takes cuda or opencl, not {device!r}")
    if validate:
        asked = [
            f"--{field.name.replace('_', '-')}"
            for field in dataclasses.fields(Question)
            for source in [context.get_parameter_source(field.name)]
            if source is not None and source.name == "COMMANDLINE"
        ]
        if asked:
            raise UserError(f"--validate tells of all questions: leave out {', '.join(asked)}")
        chooser = Chooser.load(results or (), device)
        validations = chooser.cross_validate()
        if as_json:
            _print_json(output.validations_as_json(validations, chooser))
            return
        table = _table(*output.VALIDATION_COLUMNS)
        for row in output.validation_rows(validations):
            table.add_row(*row)
        _print_table(table)
        return
    if particles is None or per_cell is None:
        raise UserError("choose needs --particles N and --per-cell P, or --validate")
    question = Question(particles, per_cell, moved, task, distribution, order, destination)
    searches = {
        name: cls.forms
        for name, cls in registry.algorithms().items()
        if cls.family == "neighbour-search"
    }
    chooser = Chooser.load(results or (), device, searches)
    answer = chooser.choose(question)
    if as_json:
        _print_json(output.as_json(answer, chooser))
    else:
        print(output.sentence(answer))
        for line in output.evidence_lines(answer):
            print(f"  {line}")
    raise typer.Exit(output.EXIT_CODES[answer.verdict])


@app.command()
def calibrate(
    device: DeviceOption = "auto",
    study: StudyOption = "regressions",
    algorithms: AlgorithmsOption = None,
    pairs: Annotated[
        int, typer.Option(metavar="N", help="How many pairs of processes to measure.")
    ] = 60,
    minutes: Annotated[
        float, typer.Option(metavar="M", help="Begin no further pair after so long.")
    ] = 60.0,
    threshold: ThresholdOption = None,
    confidence: ConfidenceOption = "99%",
    comparisons: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many are drawn from the pairs.")
    ] = 1000,
    again: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Measure nothing: draw from the pairs of an earlier calibration."
        ),
    ] = None,
    quick: SizesOption = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of calibrations.")] = CALIBRATION,
    as_json: JsonOption = False,
) -> None:
    """Compare this code with itself, many times, and count how often it is called slower.

    Also puts in slow-downs, to find the smallest that is found nine times in ten.
    """
    from gpubench.compare import calibrate as calibrating
    from gpubench.compare import commits
    from gpubench.compare.pairs import Job
    from gpubench.evidence import calibration
    from gpubench.evidence.physics_results import free_path

    _require_one_process("calibrate")
    sure = _share("--confidence", confidence)
    least = None if threshold is None else _share("--threshold", threshold)
    _require_folder("--out", out)
    if again is not None:
        found = calibrating.again(calibration.load(again), least, sure, comparisons)
    elif least is not None:
        raise UserError("--threshold is for --again: a calibration has that of its device")
    else:
        job = Job.of(study, device, {"quick": quick, "algorithms": _names_in(algorithms)})

        def say(count: int) -> None:
            _say(f"{count} of {pairs} pairs of processes measured")

        code = commits.present_code()
        found = calibrating.calibrate(code, job, pairs, 60 * minutes, sure, comparisons, say)
    with free_path(out, found.study, found.environment) as path:
        calibration.save(found, path)
    if as_json:
        _print_json(found.as_json()["calibration"]["verdicts"])
    else:
        _print_calibration(found)
    _say(f"kept in {path}")


def _print_calibration(found: Calibration) -> None:
    verdicts = found.verdicts
    table = _table(
        "cell", "false alarms", "cannot tell", "extra work", "found",
        "found 9 in 10 from", "between pairs",
    )  # fmt: skip
    for name, rates in verdicts.cells.items():
        smallest = "none" if rates.smallest is None else f"{rates.smallest:.1%}"
        table.add_row(
            name, f"{rates.false_alarms:.1%}", f"{rates.cannot_tell:.1%}", f"{rates.slowed:+.1%}",
            f"{rates.found:.1%}", smallest, f"{rates.between:.2%}",
        )  # fmt: skip
    _print_table(table)
    low, high = verdicts.pairs_taken
    print(
        f"{verdicts.comparisons} comparisons drawn from {len(found.started)} pairs, threshold"
        f" {verdicts.threshold:.1%}: false alarms {verdicts.false_alarms:.1%}, cannot tell"
        f" {verdicts.cannot_tell:.1%}; {low:g} pairs at the median, {high:g} at the 95th"
        f" percentile; of {verdicts.separate} comparisons without a common pair"
        f" {verdicts.separate_alarms} were false alarms"
    )


def _names_in(text: str | None) -> list[str] | None:
    """Read names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",")]


@app.command()
def compare(
    context: typer.Context,
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="Before: a file or folder of results, or a commit, which is built."
        ),
    ],
    head: Annotated[
        str | None,
        typer.Argument(
            metavar="[HEAD]",
            help="After, likewise. Default: the working tree, beside a commit.",
            show_default=False,
        ),
    ] = None,
    threshold: ThresholdOption = None,
    confidence: ConfidenceOption = "99%",
    device: DeviceOption = "auto",
    study: StudyOption = "regressions",
    algorithms: AlgorithmsOption = None,
    quick: SizesOption = None,
    minutes: AgainOption = 10.0,
    same_python: SamePythonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep what was measured of commits in this folder."),
    ] = None,
    as_json: JsonOption = False,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a comment for a pull request; - for stdout."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every cell, also those that are the same.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare in spite of different machines, clocks, inputs ..."),
    ] = False,
) -> None:
    """Say whether head is slower than base, cell by cell, and in all.

    Two commits are built, each in an environment of its own, and measured side by side. Exit 0
    same or faster, 1 slower or no longer right, 2 error, 3 cannot tell.
    """
    from gpubench.compare import commits, output, procedure
    from gpubench.compare.pairs import Job

    _require_one_process("compare")
    on_stdout = markdown == Path("-")
    if as_json and on_stdout:
        raise UserError("--json and --markdown - both want stdout: give --markdown a file")
    if markdown is not None and not on_stdout:
        _require_file("--markdown", markdown)
    if out is not None:
        _require_folder("--out", out)
        if out.exists() and any(out.iterdir()):
            raise UserError(f"{out} holds something already: give --out a new folder")
    least = None if threshold is None else _share("--threshold", threshold)
    sure = _share("--confidence", confidence)
    given = [name for name in (base, head) if name is not None]
    if all(Path(name).exists() for name in given) and head is not None:
        found = procedure.compare_files(Path(base), Path(head), least, sure, force)
    else:
        # What is no path comes first, so that a message is about that.
        by_need = sorted(given, key=lambda name: Path(name).exists())
        root = commits.repository(by_need[0])
        found_commits = {name: commits.find_commit(root, name) for name in by_need}
        names = [found_commits[base], found_commits[head] if head is not None else None]
        job = Job.of(study, device, {"quick": quick, "algorithms": _names_in(algorithms)})
        _say("preparing base and head" + ("" if same_python else ", each with a Python of its own"))
        ours, theirs = (
            commits.code_of(root, role, name, not same_python)
            for role, name in zip(("base", "head"), names, strict=True)
        )

        def say(pairs: int, still_open: int) -> None:
            more = f"; {still_open} cells cannot be told yet" if still_open else ""
            _say(f"{pairs} pairs of processes measured{more}")

        with procedure.locked(out):
            found = procedure.compare_codes(
                (ours, theirs), job, least, sure, 60 * minutes, force, out, say
            )
    added = [word for path in context.find_root().params["add"] or () for word in ("--add", path)]
    command = ["gpubench", *map(str, added), "compare", *given]
    for option, value, default in (
        ("--threshold", threshold, None), ("--confidence", confidence, "99%"),
        ("--device", device, "auto"), ("--study", study, "regressions"),
        ("--algorithms", algorithms, None), ("--minutes", f"{minutes:g}", "10"),
    ):  # fmt: skip
        command += [option, value] if value is not None and value != default else []
    command += [] if quick is None else ["--quick" if quick else "--full"]
    command += ["--same-python"] if same_python else []
    command += ["--force"] if force else []
    comparison, matched = found.comparison, found.matched
    about = output.About(
        found.base, found.head, matched.environment, matched.differences, shlex.join(command)
    )
    if markdown is not None and not on_stdout:
        write_whole(markdown, output.markdown(comparison, about))
    if as_json:
        _print_json(output.as_json(comparison, about))
    elif on_stdout:
        print(output.markdown(comparison, about), end="")
    else:
        print(output.headline(comparison))
        if rows := output.table(comparison, every):
            table = _table(*output.COLUMNS)
            for row in rows:
                table.add_row(*row)
            print()
            _print_table(table)
        for line in output.notes(comparison, about):
            print(line)
    raise typer.Exit(comparison.exit_code)


@app.command()
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A commit that was fast.")],
    bad: Annotated[
        str, typer.Argument(metavar="[BAD]", help="A later one that is slower.")
    ] = "HEAD",
    threshold: ThresholdOption = None,
    confidence: ConfidenceOption = "99%",
    device: DeviceOption = "auto",
    study: StudyOption = "regressions",
    algorithms: AlgorithmsOption = None,
    quick: SizesOption = None,
    minutes: AgainOption = 10.0,
    same_python: SamePythonOption = False,
) -> None:
    """Find the commit that made something slower, among the first parents from GOOD to BAD.

    Exit 0 where it is found, 1 where nothing is slower, 3 where commits beside it cannot be told.
    """
    from gpubench.compare import commits, output, procedure
    from gpubench.compare.pairs import Job

    _require_one_process("bisect")
    least = None if threshold is None else _share("--threshold", threshold)
    sure = _share("--confidence", confidence)
    root = commits.repository(good)
    every = commits.between(root, *(commits.find_commit(root, name) for name in (good, bad)))
    job = Job.of(study, device, {"quick": quick, "algorithms": _names_in(algorithms)})
    base = commits.code_of(root, "base", every[0], not same_python)

    def compare_with(commit: str, only: Collection[str] | None) -> procedure.Found:
        head = commits.code_of(root, "head", commit, not same_python)
        return procedure.compare_codes(
            (base, head), job, least, sure, 60 * minutes, False, None, lambda *_: None, only
        )

    def say(commit: str, verdict: str) -> None:
        _say(f"{verdict}: {commits.subject_of(root, commit)}")

    found = procedure.bisect(every, compare_with, say)
    if isinstance(found, procedure.Found):
        print(output.headline(found.comparison))
        raise typer.Exit(1)
    print(commits.subject_of(root, found.commit))
    print(output.headline(found.found.comparison))
    for commit in found.between:
        print(f"or one of those before it: {commits.subject_of(root, commit)}")
    raise typer.Exit(3 if found.between else 0)


def _share(option: str, text: str) -> float:
    """Read a share between 0 and 1, as a number or as a percentage."""
    number = text.strip()
    try:
        share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise UserError(f"{option} takes a share between 0 and 1 such as 3% or 0.03, not {text!r}")
    return share


def _require_one_process(command: str) -> None:
    """End all ranks that a launcher started, where several would do the same work."""
    from gpubench.distributed.ranks import Ranks, ends_all, launched_size

    if launched_size() > 1:
        with ends_all(Ranks.join()):
            raise UserError(f"{command} runs in one process: start it without mpirun")


def _default_results() -> list[Path]:
    repository = paths.repository()
    shipped = [repository / "results" / name for name in REPORTED] if repository else []
    for folders in ([RESULTS], shipped):
        if found := [folder for folder in folders if any(folder.rglob("*.json"))]:
            return found
    raise UserError("there are no results yet: make some with `gpubench run STUDY`")


def _check_forms(
    chosen: list[type[Algorithm]], device: Device, inputs: ParticleSet | None, smallest: bool
) -> list[dict[str, Any]]:
    """Check every form of the algorithms; return what came of each, ready for JSON."""
    from gpubench.devices import missing_feature
    from gpubench.measure.progress import progress

    forms = [(cls, name, form) for cls in chosen for name, form in cls.forms.items()]
    outcomes: list[dict[str, Any]] = []
    with progress(len(forms), "checking") as bar:
        for cls, name, form in forms:
            bar.describe(f"{cls.name} {name}")
            if lacking := missing_feature(form.requires, device):
                outcome = _outcome("skipped", lacking)
            else:
                outcome = _check_form(cls, name, device, inputs, smallest)
            outcomes.append({"algorithm": cls.name, "form": name, **outcome})
            bar.advance(1)
    return outcomes


def _check_form(
    cls: type[Algorithm], form: str, device: Device, inputs: ParticleSet | None, smallest: bool
) -> dict[str, Any]:
    from gpubench.inputs.specs import Particles
    from gpubench.studies.runner import verdict_on
    from gpubench.verify.conformance import run_conformance
    from gpubench.verify.problems import FAMILIES, first_launch

    make: Callable[..., Algorithm] = partial(cls, device, form=form)
    family = FAMILIES[cls.family]
    if inputs is not None and family.kind is not Particles:
        return _outcome("skipped", f"takes {family.kind.kind}, not particles")
    try:
        if inputs is None:
            conforming = partial(make, parameters=cls.conformance_parameters)
            found = _summarised(run_conformance(conforming, cls.family))
            if smallest and family.kind is Particles:
                found["smallest"] = _smallest_of_suite(conforming, cls.family, found["cases"])
            return found
        oracle = family.oracle(inputs, False)
        algorithm = make(parameters={}, **inputs.made_for)
        wrong = first_launch(algorithm, inputs, oracle)
    except (Exception, SystemExit) as error:
        if inputs is not None and type(error) is UserError:
            raise  # of the user's own particles
        return _outcome(*verdict_on(error, device))
    if not wrong:
        return _outcome("ok")
    outcome = _outcome("wrong", wrong)
    if smallest:
        outcome["smallest"] = _smallest(partial(make, parameters={}), cls.family, inputs)
    return outcome


def _smallest_of_suite(
    make: Callable[..., Algorithm], family: str, results: list[dict[str, Any]]
) -> str | None:
    """Shrink the first input of a suite that was wrong; None where all were right."""
    from gpubench.verify.conformance import cases

    wrong = {result["name"] for result in results if result["status"] == "wrong"}
    for case in cases(family):
        if case.name in wrong:
            return _smallest(make, family, case.make(), case.exact)
    return None


def _smallest(
    make: Callable[..., Algorithm], family: str, inputs: Any, exact: bool = False
) -> str | None:
    from gpubench.verify.conformance import smallest_failure

    found = smallest_failure(make, family, inputs, exact)
    return found.describe() if found else None


def _summarised(results: list[CaseResult]) -> dict[str, Any]:
    """Return what came of a suite: wrong if any case is, skipped if all are."""
    cases = [dataclasses.asdict(result) for result in results]
    for status in ("wrong", "skipped"):
        found = [result for result in results if result.status == status]
        if found and (status == "wrong" or len(found) == len(results)):
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return _outcome(status, f"{found[0].name}: {found[0].reason}{more}", cases)
    return _outcome("ok", cases=cases)


def _outcome(
    status: str, reason: str | None = None, cases: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"status": status, "reason": reason, "cases": cases or []}


def _own_particles(
    positions: Path | None, box: str | None, low: str, cell_size: float | None, periodic: str
) -> ParticleSet | None:
    """Read the user's particles, or return None where none are given."""
    if positions is None:
        if box is not None or cell_size is not None:
            raise UserError("--box and --cell-size describe particles: add --positions FILE.npy")
        return None
    from gpubench.core.grid import Grid
    from gpubench.inputs.positions import read_particles

    if box is None or cell_size is None:
        raise UserError("--positions needs --box X,Y,Z and --cell-size S")
    if set(periodic) - set("xyz"):
        raise UserError(f"--periodic takes axes such as x, xy or xyz, not {periodic!r}")
    axes = ("x" in periodic, "y" in periodic, "z" in periodic)
    grid = Grid.in_box(_triple("--low", low), _triple("--box", box), cell_size, axes)
    return read_particles(positions, grid)


def _triple(option: str, text: str) -> tuple[float, float, float]:
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option} takes three numbers such as 10,10,10, not {text!r}") from None
    return x, y, z


def _require_folder(option: str, folder: Path) -> None:
    """Raise UserError where a folder cannot be made or written, before any work is done for it."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UserError(f"{option} takes a folder, but {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{option} needs a folder that you may write to, not {folder}")


def _require_file(option: str, path: Path) -> None:
    """Raise UserError where a file cannot be written, before any work is done for it."""
    if path.is_dir():
        raise UserError(f"{option} takes a file, but {path} is a folder")
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not existing.is_dir():
        raise UserError(f"{option} takes a file in a folder, but {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{option} needs a folder that you may write to, not {existing}")


def _described(algorithm: type[Algorithm]) -> dict[str, Any]:
    forms = {
        name: {
            "summary": form.summary,
            "requires": sorted(form.requires),
            "capturable": form.capturable,
            "reorders": form.reorders,
            "stable": form.stable,
        }
        for name, form in algorithm.forms.items()
    }
    return {
        "name": algorithm.name,
        "family": algorithm.family,
        "summary": algorithm.summary,
        "source": algorithm.source,
        "forms": forms,
        "defaults": dict(algorithm.defaults),
    }


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_table(table: Table) -> None:
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(table)
    console.print()


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
