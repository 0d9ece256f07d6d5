"""`gpubench compare`: test whether one commit is slower than another."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.base.writing import write_whole
from gpubench.cli import require
from gpubench.cli.options import AgainOption, Compared, From, JsonOption, SlowerRule, rule, words_of
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import arg, opt

if TYPE_CHECKING:
    from gpubench.compare.procedure import Comparison

STDOUT = Path("-")


def compare(
    context: typer.Context,
    base: Annotated[
        str, arg("BASE", "Before the change: a file or folder of results, or a commit.")
    ],
    what: Annotated[Compared, From(Compared)],
    rule: Annotated[SlowerRule, From(rule)],
    head: Annotated[
        str | None,
        arg(
            "[HEAD]", "After the change, likewise. Default: the working tree, if BASE is a commit."
        ),
    ] = None,
    minutes: AgainOption = 10.0,
    as_json: JsonOption = False,
    markdown: Annotated[
        Path | None, opt("FILE", "Write a comment for a pull request; - for stdout.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every measurement, not only what changed.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Compare despite different machines, clocks, inputs ...")
    ] = False,
) -> None:
    """Test whether one commit is slower than another.

    Measures two commits, base and head, side by side, and tests each measurement. Exit 0: same or
    faster, 1: slower or no longer correct, 2: error, 3: inconclusive.
    """
    require.one_process("compare")
    if as_json and markdown == STDOUT:
        raise UserError("--json and --markdown - both want stdout: give --markdown a file")
    if markdown is not None and markdown != STDOUT:
        require.file("--markdown", markdown)
    given = [name for name in (base, head) if name is not None]
    if all(Path(name).exists() for name in given) and head is not None:
        from gpubench.compare import procedure

        found = procedure.compare_files(
            Path(base), Path(head), rule.threshold, rule.confidence, force
        )
    else:
        found = _compare_commits(given, what, rule, 60 * minutes, force)
    added = [word for path in context.find_root().params["add"] or () for word in ("--add", path)]
    command = ["gpubench", *map(str, added), "compare", *given, *words_of(context, REPEATED)]
    _show(found, shlex.join(command), as_json, markdown, every)
    raise typer.Exit(found.exit_code)


# Options to copy into the command that repeats a comparison.
REPEATED = {
    "threshold", "confidence", "device", "study", "algorithms", "minutes", "quick", "force",
}  # fmt: skip


def _compare_commits(
    given: list[str], what: Compared, rule: SlowerRule, seconds: float, force: bool
) -> Comparison:
    """Measure two commits, or one commit and the working tree."""
    from gpubench.compare import commits, procedure

    # First the names that are not paths: an error message should be about those.
    by_need = sorted(given, key=lambda name: Path(name).exists())
    root = commits.repository(by_need[0])
    found_commits = {name: commits.find_commit(root, name) for name in by_need}
    names = [found_commits[name] for name in given] + [None] * (2 - len(given))
    job = what.job()
    ours, theirs = (
        commits.code_of(root, role, name)
        for role, name in zip(("base", "head"), names, strict=True)
    )

    def tell(pairs: int, still_open: int) -> None:
        more = f"; {still_open} cells are inconclusive so far" if still_open else ""
        say(f"{pairs} pairs of processes measured{more}")

    return procedure.compare_codes(
        (ours, theirs), job, rule.threshold, rule.confidence, seconds, force, say, tell
    )


def _show(
    comparison: Comparison, command: str, as_json: bool, markdown: Path | None, every: bool
) -> None:
    """Print the result, and write the comment for a pull request."""
    from gpubench.compare import output

    if markdown is not None and markdown != STDOUT:
        write_whole(markdown, output.markdown(comparison, command))
    if as_json:
        print_json(output.as_json(comparison, command))
    elif markdown == STDOUT:
        print(output.markdown(comparison, command), end="")
    else:
        print(output.headline(comparison))
        if rows := output.table(comparison, every):
            print()
            print_table(output.COLUMNS, rows)
        for line in output.notes(comparison):
            print(line)
