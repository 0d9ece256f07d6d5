"""The command line. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gpubench.base.version import __version__
from gpubench.cli import exits
from gpubench.cli.calibrate import calibrate
from gpubench.cli.check import check
from gpubench.cli.choose import choose
from gpubench.cli.command import Command
from gpubench.cli.compare import compare
from gpubench.cli.devices import devices
from gpubench.cli.export import export
from gpubench.cli.listing import list_everything
from gpubench.cli.options import with_options
from gpubench.cli.report import report
from gpubench.cli.run import run
from gpubench.cli.send import send
from gpubench.cli.show import show
from gpubench.cli.simulate import simulate
from gpubench.cli.traps import traps
from gpubench.cli.tune import tune
from gpubench.cli.values import opt

# In the order of the help. Devices, plots and tables are imported only when a command runs.
COMMANDS: dict[str, Callable[..., None]] = {
    "devices": devices,
    "list": list_everything,
    "check": check,
    "traps": traps,
    "run": run,
    "show": show,
    "simulate": simulate,
    "report": report,
    "send": send,
    "choose": choose,
    "tune": tune,
    "export": export,
    "calibrate": calibrate,
    "compare": compare,
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compare GPU neighbour-search and sorting algorithms: checked, timed, and explained.",
)
for name, command in COMMANDS.items():
    app.command(name, cls=Command)(with_options(command))


def main(reports: bool = True) -> None:
    """Run the command line; exit with status 2 if an error prevents an answer, see `exits`.

    reports: whether to report errors; otherwise they are raised, for one of several ranks to tell.
    """
    stdout = sys.stdout
    try:
        exits.open_output()
        try:
            status = app(prog_name="gpubench", standalone_mode=reports)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not reports:
            exits.raise_for_ranks(error)
        sys.exit(exits.status_of(error))
    finally:
        sys.stdout = stdout
    if status:
        sys.exit(status)


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
        opt(
            "PATH",
            "Add algorithms of your own: a Python file, or a folder of them, with the kernels"
            " beside it. May be repeated.",
        ),
    ] = None,
) -> None:
    """Process the options that come before the command."""
    if add:
        from gpubench import registry

        registry.add(add)
