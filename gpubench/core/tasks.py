"""The tasks of a neighbour search."""

from __future__ import annotations

# Equal work for all that do a task, from positions on.
TASKS = {
    "build": "build the structure in which neighbours are found",
    "count": "build, then count the neighbours of each particle",
    "ten-counts": "build, then count the neighbours of each particle ten times",
    "list": "build, then list the neighbours of each particle",
    "update": "particles have moved: update the structure, then count",
}


# Of so many particles at most, shorter times of searches on a GPU may be mostly those of launches
# from Python. On an H200 those of 2^16 and fewer were up to 7 times as long as from a graph, those
# of 2^20 and more up to 1.2 times (study rivals, 44e5204).
LAUNCHES_MS, LAUNCHES_PARTICLES = 0.1, 2**18
COUNTS = {"build": 0, "count": 1, "ten-counts": 10, "list": 0, "update": 1}


def may_be_launches(particles: float, ms: float) -> bool:
    """Say whether a search's time on a GPU, launched repeatedly, may be mostly launch overhead."""
    return particles <= LAUNCHES_PARTICLES and ms < LAUNCHES_MS


def task_of(form: str) -> str:
    """Return the task of a form of a neighbour search: `list-matrix` is one way to `list`."""
    for task in TASKS:
        if form == task or form.startswith(f"{task}-"):
            return task
    raise ValueError(f"{form} names no task: one of {', '.join(TASKS)}")
