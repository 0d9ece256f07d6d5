"""`gpubench list`: algorithms, workloads and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpubench.cli import require
from gpubench.cli.options import JsonOption
from gpubench.cli.output import new_table, print_json, print_table

if TYPE_CHECKING:
    from gpubench.core.contracts import Algorithm


def list_everything(as_json: JsonOption = False) -> None:
    """List algorithms, workloads and studies."""
    from gpubench.core import registry
    from gpubench.studies.study import load_study

    require.one_process("list")
    algorithms = registry.algorithms().values()
    studies = [load_study(name) for name in registry.studies()]
    if as_json:
        print_json(
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
    table = new_table("algorithm", "form", "what it is", "needs")
    for algorithm in algorithms:
        table.add_row(algorithm.name, "", algorithm.summary, "")
        for name, form in algorithm.forms.items():
            table.add_row("", name, form.summary, ", ".join(sorted(form.requires)))
    print_table(table)
    if registry.workloads():
        table = new_table("workload", "what it is")
        for workload in registry.workloads().values():
            table.add_row(workload.name, workload.summary)
        print_table(table)
    table = new_table("study", "published in", "question")
    for study in studies:
        published = f"{study.paper}, {study.table}" if study.published else ""
        table.add_row(study.name, published, study.question)
    print_table(table)


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
