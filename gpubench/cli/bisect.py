"""`gpubench bisect`: the commit that made something slower."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from gpubench.cli import require
from gpubench.cli.options import (
    AgainOption,
    Compared,
    From,
    Rule,
    SamePythonOption,
    compared,
    rule,
)
from gpubench.core.messages import say

if TYPE_CHECKING:
    from gpubench.compare.procedure import Comparison


def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A commit that was fast.")],
    what: Annotated[Compared, From(compared)],
    rule: Annotated[Rule, From(rule)],
    bad: Annotated[
        str, typer.Argument(metavar="[BAD]", help="A later commit that is slower.")
    ] = "HEAD",
    minutes: AgainOption = 10.0,
    same_python: SamePythonOption = False,
) -> None:
    """Find the commit that made something slower.

    Searches the first parents from GOOD to BAD. Exit 0 where it is found, 1 where nothing is
    slower, 3 where commits beside it are inconclusive.
    """
    from gpubench.compare import commits, output, procedure
    from gpubench.compare.pairs import Job

    require.one_process("bisect")
    root = commits.repository(good)
    every = commits.between(root, *(commits.find_commit(root, name) for name in (good, bad)))
    job = Job.of(what.study, what.device, what.selection)
    base = commits.code_of(root, "base", every[0], not same_python)

    def compare_with(commit: str, only: Collection[str] | None) -> Comparison:
        head = commits.code_of(root, "head", commit, not same_python)
        return procedure.compare_codes(
            (base, head), job, rule.threshold, rule.confidence, 60 * minutes, False, None,
            lambda *_: None, only,
        )  # fmt: skip

    def tell(commit: str, verdict: str) -> None:
        say(f"{output.in_words(verdict)}: {commits.subject_of(root, commit)}")

    found = procedure.bisect(every, compare_with, tell)
    if isinstance(found, procedure.Comparison):
        print(output.headline(found))
        raise typer.Exit(1)
    print(commits.subject_of(root, found.commit))
    print(output.headline(found.found))
    for commit in found.between:
        print(f"or one of those before it: {commits.subject_of(root, commit)}")
    raise typer.Exit(3 if found.between else 0)
