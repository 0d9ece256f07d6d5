"""Records of neighbour searches with times by a formula, on a device that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kinds import flat_fields
from report_pages import record, results

from gpubench.evidence.records import AnyRecord, Record, make_record
from gpubench.problems.neighbours.tasks import task_of
from gpubench.report.machines import StudyRun, machines

SIZES = tuple(2**exponent for exponent in range(12, 27, 2))
OCCUPANCIES = (0.5, 1, 4, 8, 16, 64)
SHARES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Milliseconds of one launch, and nanoseconds a particle to build, and a candidate to count.
COSTS = {
    "search-counting-sort": (0.012, 0.030, 0.0020),
    "search-radix-grid": (0.020, 0.034, 0.0019),
    "search-atomic-list": (0.004, 0.020, 0.0090),
    "search-bucket-sort": (0.060, 0.110, 0.0088),
    "search-bitonic": (0.008, 0.400, 0.0020),
    "search-torch-sort": (0.035, 0.060, 0.0020),
    "search-cupy-argsort": (0.030, 0.055, 0.0020),
    "search-cuda-compute-sort": (0.016, 0.036, 0.0020),
    "warp-hash-grid": (0.003, 0.090, 0.0095),
    "nvalchemi-cell-list": (0.200, 0.900, 0.0400),
    "vesin": (0.300, 2.500, 0.1000),
    "scipy-ckdtree": (0.100, 90.00, 1.0000),
}
LIBRARIES = {
    "search-torch-sort": "torch 0.0",
    "search-cupy-argsort": "cupy-cuda12x 0.0",
    "search-cuda-compute-sort": "cuda-cccl 0.0",
    "warp-hash-grid": "warp-lang 0.0",
    "nvalchemi-cell-list": "nvalchemi-toolkit-ops 0.0",
    "vesin": "vesin 0.0",
    "scipy-ckdtree": "scipy 0.0",
}
LISTS = {"nvalchemi-cell-list": "list-matrix", "vesin": "list-pairs"}
RESORTS = {
    "search-counting-resort": (0.010, 0.012, 0.080, 0.0020),
    "search-atomic-resort": (0.005, 0.003, 0.060, 0.0090),
    "search-bucket-resort": (0.050, 0.010, 0.300, 0.0088),
}
HABITS = {
    "overflow": "raises, where there are more neighbours than the matrix holds",
    "wrapping": "wraps positions into the box",
    "order": "none: neighbours come as threads find them",
    "self_pairs": "left out",
    "ties": "strictly nearer than the cutoff",
}
ORDERED = {"random": 1.0, "nearly-sorted": 0.8, "morton": 0.7}
SPREAD = {"uniform": 1.0, "clusters": 1.5, "free-surface": 1.2}


def milliseconds(
    algorithm: str, task: str, particles: int, per_cell: float, kind: tuple[str, str]
) -> float:
    fixed, build, count = COSTS[algorithm]
    factor = SPREAD[kind[0]] * (1.0 if "atomic" in algorithm else ORDERED[kind[1]])
    building = fixed + 1e-6 * particles * build
    counting = 1e-6 * particles * count * 27 * per_cell * factor
    if "counting" in algorithm or "radix" in algorithm:
        building += 2e-7 * particles / per_cell  # cells without particles
    return building + {"build": 0, "count": 1, "ten-counts": 10, "list": 2.5}[task] * counting


def search(
    algorithm: str,
    form: str,
    particles: int = 2**20,
    per_cell: float = 4,
    *,
    median: float = 1.0,
    width: float = 0.01,
    **changes: Any,
) -> dict[str, Any]:
    """Make the record of a search; changes: other fields of it."""
    about: dict[str, Any] = {
        "study": "regimes",
        "sweep": "map",
        "library": LIBRARIES.get(algorithm),
        "workspace_bytes": round(particles * (12 + 60 * (algorithm in LIBRARIES))),
        "outcome": HABITS if algorithm in LISTS else {},
    }
    if algorithm in LIBRARIES:
        about |= {"bytes_moved": None, "first_call_ms": 480.0, "peak_bytes": 90 * particles}
    return record(
        algorithm, form, particles, per_cell, median=median, width=width, **(about | changes)
    )


def grid(
    algorithms: Iterable[str] = tuple(COSTS),
    sizes: Iterable[int] = SIZES,
    occupancies: Iterable[float] = OCCUPANCIES,
    tasks: Iterable[str] = ("build", "count", "ten-counts", "list"),
    **changes: Any,
) -> list[dict[str, Any]]:
    """Make what the sweep `map` would leave."""
    found = []
    for particles in sizes:
        for per_cell in occupancies:
            for algorithm in algorithms:
                for task in tasks:
                    form = LISTS.get(algorithm, task) if task == "list" else task
                    if form in ("build", "ten-counts") and algorithm in LISTS:
                        continue
                    kind = changes.get("distribution", "uniform"), changes.get("order", "random")
                    median = milliseconds(algorithm, task, particles, per_cell, kind)
                    found.append(
                        search(algorithm, form, particles, per_cell, median=median, **changes)
                    )
    return found


def moved(sizes: Iterable[int] = (2**16, 2**20, 2**22), **changes: Any) -> list[dict[str, Any]]:
    """Make what the sweep `moved` would leave: re-sorts, and rebuilds of the same inputs."""
    found = []
    for particles in sizes:
        for share in SHARES:
            about = {"sweep": "moved", "moved": round(share * particles), "destination": "next"}
            about |= changes
            for algorithm in list(COSTS)[:8]:
                median = milliseconds(algorithm, "count", particles, 4, ("uniform", "random"))
                found.append(search(algorithm, "count", particles, median=median, **about))
            for algorithm, (fixed, scan, move, count) in RESORTS.items():
                median = fixed + 1e-6 * particles * (scan + move * share + count * 108)
                found.append(search(algorithm, "update", particles, median=median, **about))
    return found


def steps(sizes: Iterable[int] = (2**17, 2**20), shares: bool = True) -> list[dict[str, Any]]:
    """Make what the sweep `step` would leave."""
    found = []
    sorts = {
        ("counting-sort", "reorder"): (0.10, 0.0),
        ("radix-grid", "reorder"): (0.17, 0.0),
        ("counting-resort", "order"): (0.07, 0.9),
    }
    for particles in sizes:
        for time_step in (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08):
            for skin in (0.0, 0.15, 0.3):
                for (algorithm, form), (sort, move) in sorts.items():
                    share = 2.2 * time_step
                    cost = (sort + move * share) * particles / 2**20
                    force = 0.4 * particles / 2**20
                    if skin:
                        often = min(1.0, 2.5 * time_step / skin)
                        cost = cost * often + force * often * (1 + skin)
                        force *= 0.7 + skin
                    median = 0.02 + cost + force
                    outcome: dict[str, Any] = {"steps_done": 100}
                    if shares:
                        outcome["moved_share"] = share
                    found.append(
                        make_record(
                            study="regimes", sweep="step", algorithm=algorithm, form=form,
                            device="cuda", particles=particles, workload="dpd-standard",
                            skin=skin, time_step=time_step, mode="hot", status="ok", batch=1,
                            samples_ms=[median], median_ms=median, ci95_low_ms=0.99 * median,
                            ci95_high_ms=1.01 * median, steps=20, seed=7, outcome=outcome,
                        )
                    )  # fmt: skip
    return found


def spread(points: int = 40) -> list[dict[str, Any]]:
    """Make what the sweep `spread` would leave: points over all axes."""
    found = []
    kinds = [(d, o) for d in SPREAD for o in ORDERED]
    for number in range(points):
        distribution, order = kinds[number % len(kinds)]
        found += grid(
            sizes=[SIZES[(5 * number) % len(SIZES)]],
            occupancies=[OCCUPANCIES[(7 * number // 8) % len(OCCUPANCIES)]],
            distribution=distribution,
            order=order,
            sweep="spread",
        )
    return found


def rivals_study() -> list[dict[str, Any]]:
    """Make what `rivals` would leave, with one that is wrong and one that is not installed."""
    found = [
        remade(each, study="rivals")
        for each in grid(sizes=(2**20, 2**22), occupancies=(4,))
        if each.algorithm not in ("vesin", "search-torch-sort")
    ]
    for particles in (2**20, 2**22):
        found += [
            search(
                "vesin", "list-pairs", particles, study="rivals", status="wrong", mode="hot",
                reason="loses pairs across the box; the smallest input found has 9 particles",
            ),
            search(
                "search-torch-sort", "count", particles, study="rivals", status="skipped",
                reason="needs torch: pip install torch", library=None, mode="hot",
            ),
        ]  # fmt: skip
    return found


def remade(record: Record, **changes: Any) -> AnyRecord:
    """Make a record again with changes, so that its key is right."""
    changed = flat_fields(record) | changes
    return make_record(**{name: value for name, value in changed.items() if name != "key"})


def run_of(records: list[dict[str, Any]], **changes: Any) -> StudyRun:
    [machine] = machines([results(records, **changes)])
    [study] = machine.studies
    return study


assert {task_of(form) for form in LISTS.values()} == {"list"}
