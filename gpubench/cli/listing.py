"""`gpubench list`: algorithms, workloads and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from gpubench.base import plugins
from gpubench.base.messages import say
from gpubench.base.user_cache import remembered
from gpubench.cli import require
from gpubench.cli.options import JsonOption
from gpubench.cli.output import print_json, print_table
from gpubench.cli.values import arg

if TYPE_CHECKING:
    from gpubench.core.algorithm import Algorithm


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
    from gpubench.studies.study import load_study

    return {
        "algorithms": [_algorithm(each) for each in registry.algorithms().values()],
        "workloads": [
            _fields(each, "name", "summary", "source") | {"parameters": dict(each.defaults)}
            for each in registry.workloads().values()
        ],
        "studies": [
            _fields(load_study(name), "name", "title", "paper", "table", "question")
            for name in registry.studies()
        ],
    }


def _mentions(entry: object, word: str) -> bool:
    """Whether an entry contains this text anywhere."""
    if isinstance(entry, dict):
        return any(_mentions(each, word) for each in (*entry.values(), *entry.get("forms", ())))
    if isinstance(entry, list):
        return any(_mentions(each, word) for each in entry)
    return isinstance(entry, str) and word.lower() in entry.lower()


def _print(
    algorithms: list[dict[str, Any]], workloads: list[dict[str, Any]], studies: list[dict[str, Any]]
) -> None:
    """Print a table for each kind of entry, if not empty."""
    if algorithms:
        rows = []
        for entry in algorithms:
            rows.append((entry["name"], "", entry["summary"], ""))
            for name, form in entry["forms"].items():
                rows.append(("", name, form["summary"], ", ".join(form["requires"])))
        print_table(("algorithm", "form", "what it is", "needs"), rows)
    if workloads:
        summaries = [(entry["name"], entry["summary"]) for entry in workloads]
        print_table(("workload", "what it is"), summaries)
    if studies:
        questions = [
            (e["name"], f"{e['paper']}, {e['table']}" if e["paper"] else "", e["question"])
            for e in studies
        ]
        print_table(("study", "published in", "question"), questions)


def _algorithm(algorithm: type[Algorithm]) -> dict[str, Any]:
    forms = {
        name: {
            "summary": form.summary,
            "requires": sorted(form.requires),
            **_fields(form, "capturable", "reorders", "stable"),
        }
        for name, form in algorithm.forms.items()
    }
    told = _fields(algorithm, "name", "family", "summary", "source")
    return told | {"forms": forms, "defaults": dict(algorithm.defaults)}


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}
