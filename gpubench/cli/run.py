"""`gpubench run`: measure studies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpubench.base import children, messages
from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.cli import require, values
from gpubench.cli.options import (
    RESULTS,
    DeviceOption,
    From,
    OversubscribeOption,
    TransportOption,
    selection,
    words_of,
)
from gpubench.cli.output import console_on
from gpubench.cli.values import arg, opt
from gpubench.studies.selection import Selection

if TYPE_CHECKING:
    from gpubench.studies.runner import Engine, RunSummary
    from gpubench.studies.study import Study


StudiesArgument = Annotated[
    list[str], arg("STUDY...", "A name from `gpubench list`, or a file.toml.", among="studies")
]
ProcessesOption = Annotated[
    int,
    opt(
        "N",
        "Measure in N processes, one after another, each into its own folder in --out.",
        read=values.count,
    ),
]


def run(
    context: typer.Context,
    studies: StudiesArgument,
    selection: Annotated[Selection, From(selection)],
    device: DeviceOption = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat existing measurements.")] = False,
    processes: ProcessesOption = 1,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Under mpirun: rank 0 hands out the inputs, and each other rank measures on a GPU"
            " of its own.",
        ),
    ] = False,
    energy: Annotated[
        bool, typer.Option("--energy", help="Read the joules that each launch takes, by NVML.")
    ] = False,
    counters: Annotated[
        bool, typer.Option("--counters", help="Read hardware counters of each launch, by ncu.")
    ] = False,
    transport: TransportOption = "auto",
    oversubscribe: OversubscribeOption = False,
    out: Annotated[Path, opt("DIR", "Folder of the results.")] = RESULTS,
) -> None:
    """Measure studies. Existing measurements are reused, so a stopped run resumes.

    Under mpirun, all ranks work together on each input of a study for several ranks; with --spread
    each rank measures different inputs. Exit 1 if an algorithm gave a wrong answer or failed.
    """
    from gpubench.cli.show import print_measured
    from gpubench.evidence.frame import frame
    from gpubench.simulate.ranks import Crew
    from gpubench.studies import plan, runner, study
    from gpubench.studies.spread import Spread

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
        chosen = [study.load_study(name) for name in dict.fromkeys(studies)]
        require.folder("--out", out)
        for each in chosen:  # find mistakes in any study before measuring the first one
            plan.plan(each, selection)
        with party.lead() as opened:
            engine = runner.engine_of(opened)
            ranks, wanted = 1 if spread else crew.size, {"energy": energy, "counters": counters}
            summaries = _measure(chosen, engine, out, selection, fresh, ranks, wanted)
        say("for the report: gpubench report" + ("" if out == RESULTS else f" {out}"))
        if not messages.is_quiet():
            found = frame(summary.results for summary in summaries)
            print_measured(found, console_on(sys.stderr))
        if any(summary.wrong or summary.failed for summary in summaries):
            raise typer.Exit(1)


def _measure(
    studies: Sequence[Study],
    engine: Engine,
    out: Path,
    selection: Selection,
    fresh: bool,
    ranks: int,
    wanted: Mapping[str, bool],
) -> list[RunSummary]:
    """Measure the studies in turn, and report each; raise Exit(130) on Ctrl-C."""
    from gpubench.studies import runner

    say(f"measuring on {engine.device.name} ({engine.device.spec})")
    summaries = []
    try:
        for study in studies:
            summary = runner.run(
                study,
                engine,
                out,
                selection,
                fresh=fresh,
                ranks=ranks,
                notice=say,
                energy=wanted["energy"],
                counters=wanted["counters"],
            )
            summaries.append(summary)
            empty = summary.overhead_ms.items()
            each = ", ".join(f"{1e3 * ms:.3g} us ({mode})" for mode, ms in empty)
            say(f"an empty sample takes {each}")
            say(
                f"{study.name}: {summary.measured} measured,"
                f" {summary.resumed} reused, {summary.skipped} skipped,"
                f" {summary.wrong} wrong, {summary.failed} failed,"
                f" in {summary.seconds:.0f} s"
            )
            print(summary.path)
    except KeyboardInterrupt:
        say(f"stopped: what was measured so far is kept in {out}; the same command resumes")
        raise typer.Exit(130) from None
    return summaries


def _run_in_processes(context: typer.Context, out: Path) -> NoReturn:
    """Run the same command in several processes in turn; raise Exit with the worst status."""
    require.one_process("run --processes")
    own = {"studies", "processes", "out"}
    options = words_of(context, context.params.keys() - own)
    worst = 0
    for number in range(1, context.params["processes"] + 1):
        folder = out / f"process-{number:02}"
        say(f"process {number} of {context.params['processes']}")
        words = [*context.params["studies"], *options, "--out", str(folder)]
        status = subprocess.run(children.command("gpubench", "run", *words), check=False).returncode
        if status not in (0, 1):
            raise typer.Exit(status if status > 0 else 128 - status)  # the convention of shells
        worst = max(worst, status)
    raise typer.Exit(worst)
