"""The tasks of neighbour searches, and their forms."""

from __future__ import annotations

from collections.abc import Mapping

from gpubench.core.algorithm import BACKENDS, Form

# Each task starts from positions and is the same work for all searches.
TASKS = {
    "build": "build the structure in which neighbours are found",
    "count": "build, then count the neighbours of each particle",
    "ten-counts": "build, then count the neighbours of each particle ten times",
    "list": "build, then list the neighbours of each particle",
    "update": "particles have moved: update the structure, then count",
}

COUNTS = {"build": 0, "count": 1, "ten-counts": 10, "list": 0, "update": 1}


def forms_for(task: str, forms: Mapping[str, Form], backend: str) -> list[str]:
    """Return the forms that do a task and run on a back end."""
    others = BACKENDS - {backend}
    return [
        name for name, form in forms.items() if task_of(name) == task and not form.requires & others
    ]


def task_of(form: str) -> str:
    """Return the task of a form of a neighbour search, e.g. `list` for `list-matrix`."""
    for task in TASKS:
        if form == task or form.startswith(f"{task}-"):
            return task
    raise ValueError(f"{form} names no task: one of {', '.join(TASKS)}")
