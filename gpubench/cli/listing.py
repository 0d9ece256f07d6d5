"""`gpubench list`: algorithms, workloads and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from gpubench.base import plugins
from gpubench.base.messages import say
from gpubench.base.user_cache import remembered
from gpubench.cli import require
from gpubench.cli.options import JsonOption
from gpubench.cli.output import new_table, print_json, print_table
from gpubench.cli.values import arg

if TYPE_CHECKING:
    from gpubench.core.algorithm import Algorithm
    from gpubench.studies.study import Study
    from gpubench.workloads.workload import Workload


def list_everything(
    word: Annotated[
        str | None,
        arg(
            "[WORD]",
            "Only entries whose name or description contains this word, such as sort or cuda.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List algorithms, workloads and studies."""
    require.one_process("list")
    everything = _everything() if plugins.additions() else remembered("list", (), _everything)
    found = {
        kind: [each for each in entries if word is None or _mentions(each, word)]
        for kind, entries in everything.items()
    }
    if as_json:
        print_json(found)
    elif any(found.values()):
        _print(**found)
    else:
        say(f"nothing here has {word!r} in its name or description")


def _everything() -> dict[str, list[dict[str, Any]]]:
    from gpubench import registry
    from gpubench.studies import study

    return {
        "algorithms": [_algorithm(each) for each in registry.algorithms().values()],
        "workloads": [_workload(each) for each in registry.workloads().values()],
        "studies": [_study(study.load_study(name)) for name in registry.studies()],
    }


def _mentions(entry: object, word: str) -> bool:
    """Say whether an entry contains this text anywhere."""
    if isinstance(entry, dict):
        return any(_mentions(each, word) for each in (*entry.values(), *entry.get("forms", ())))
    if isinstance(entry, list):
        return any(_mentions(each, word) for each in entry)
    return isinstance(entry, str) and word.lower() in entry.lower()


def _print(
    algorithms: list[dict[str, Any]], workloads: list[dict[str, Any]], studies: list[dict[str, Any]]
) -> None:
    """Print a table for each kind that has entries."""
    if algorithms:
        table = new_table("algorithm", "form", "what it is", "needs")
        for entry in algorithms:
            table.add_row(entry["name"], "", entry["summary"], "")
            for name, form in entry["forms"].items():
                table.add_row("", name, form["summary"], ", ".join(form["requires"]))
        print_table(table)
    if workloads:
        table = new_table("workload", "what it is")
        for entry in workloads:
            table.add_row(entry["name"], entry["summary"])
        print_table(table)
    if studies:
        table = new_table("study", "published in", "question")
        for entry in studies:
            published = f"{entry['paper']}, {entry['table']}" if entry["paper"] else ""
            table.add_row(entry["name"], published, entry["question"])
        print_table(table)


def _algorithm(algorithm: type[Algorithm]) -> dict[str, Any]:
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


def _workload(workload: type[Workload]) -> dict[str, Any]:
    return {
        "name": workload.name,
        "summary": workload.summary,
        "source": workload.source,
        "parameters": dict(workload.defaults),
    }


def _study(study: Study) -> dict[str, Any]:
    return {
        "name": study.name,
        "title": study.title,
        "paper": study.paper,
        "table": study.table,
        "question": study.question,
    }
