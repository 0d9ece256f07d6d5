"""No time without work: what is idle from some launch on is wrong, whatever its answer is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gpubench import problems, registry
from gpubench.algorithms.atomic_list import AtomicList
from gpubench.algorithms.atomic_resort import AtomicResort
from gpubench.algorithms.cell_search import AtomicListSearch, AtomicResortSearch, CountingSortSearch
from gpubench.algorithms.counting_resort import CountingResort
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.algorithms.filter_atomic import FilterAtomic
from gpubench.algorithms.fixed_capacity import FixedCapacity
from gpubench.algorithms.hash_grid import HashGrid
from gpubench.algorithms.hash_query import HashQuery
from gpubench.algorithms.neighbour_query import NeighbourQuery
from gpubench.algorithms.noise_philox import NoisePhilox
from gpubench.algorithms.sliced_ell import SlicedEll
from gpubench.base.errors import NotSupported
from gpubench.core.oracle import first_launch
from gpubench.devices import missing_feature
from gpubench.libraries.scipy_ckdtree import ScipyCKDTree
from gpubench.measure import sampling
from gpubench.measure.sampling import Budget
from gpubench.problems.cells.contract import SortedCells
from gpubench.problems.neighbours.contract import NeighbourSearch
from gpubench.studies.runner import measure, plan
from gpubench.studies.study import parse_study
from gpubench.workloads.dpd import DPDStandard

BUDGET = Budget(seconds_per_task=0.001, min_samples=1, max_samples=1, max_batch=2)
HEAD = """
title = "Idle"
question = "Is it seen?"
seed = 7
[[sweeps]]
name = "idle"
modes = {modes}
"""
SPECS = ["opencl:intel", pytest.param("cuda", marks=pytest.mark.cuda)]
PARTICLES = """
particles = [512]
per_cell = [4]
moved = [64]
destination = ["random"]
distribution = ["uniform"]
order = ["random"]
"""
RECORDS = 'records = [512]\nkept = [0.5]\nrecord_bytes = [4]\nnulls = ["infinity"]\n'
STEPS = 'workload = ["dpd-standard"]\nparticles = [700]\n'


def idle(cls: Any, method: str, after: int, **attributes: Any) -> Any:
    """Return a class whose method returns at once from some call on.

    after: how many calls do their work, of each instance.
    """
    working = getattr(cls, method)

    def work(self: Any, *arguments: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return working(self, *arguments) if self.calls <= after else None

    name = f"{cls.name}-{method}-{after}".replace("_", "-")
    return type("Idle", (cls,), {"name": name, method: work, **attributes})


def over(search: Any, cells: Any) -> Any:
    """Return a search over other cells than its own."""
    return type("Over", (search,), {"name": f"{search.name}-over-{cells.name}", "cells": cells})


def statuses(device: Any, axes: str, subjects: list[tuple[Any, str]], monkeypatch: Any) -> Any:
    """Measure forms of classes on one input, in graphs too; return status and reason of each.

    Each sample holds one launch, as on the slowest machine: how often a form is launched does not
    depend on the speed of this one.
    """
    monkeypatch.setattr(sampling, "SAMPLE_MS", 0.0)
    known = {cls.name: cls for cls, _ in subjects}
    monkeypatch.setattr(registry, "algorithms", lambda: known)
    listed = [f'[[subjects]]\nalgorithm = "{c.name}"\nform = "{form}"' for c, form in subjects]
    parameters = "\nparameters = { capacity = 40 }"
    listed = [one + parameters * ("capacity" in one) for one in listed]
    modes = ["hot", "graph"] if "graphs" in device.features else ["hot"]
    text = "\n".join([HEAD.format(modes=json.dumps(modes)) + axes, *listed])
    (group,) = plan(parse_study("idle", text))
    records = measure(group, group.items, device, BUDGET, lambda final: None)
    return [(r.algorithm, r.form, r.status, r.reason) for r in records]


KINDS = {
    # A cell list is built once before it is timed and eight times before its last check, a re-sort
    # launched and moved through its states.
    "cells": (
        PARTICLES,
        [
            (idle(AtomicList, "build", 1), "one-pass"),
            (idle(CountingSort, "build", 1), "order"),
            (idle(CountingSort, "build", 1), "reorder"),
            (idle(CountingSort, "build", 8), "gather"),
            (idle(FixedCapacity, "build", 1), "one-pass"),
            (idle(HashGrid, "build", 1), "original"),
            (idle(CountingResort, "update", 6), "order"),
            (idle(CountingResort, "launch", 1), "order"),
            (idle(AtomicResort, "launch", 3), "one-pass"),
        ],
    ),
    "neighbours": (
        PARTICLES,
        [
            (idle(NeighbourQuery, "launch", 1), "count-sorted"),
            (idle(NeighbourQuery, "launch", 1), "list-linked"),
            (idle(HashQuery, "launch", 1), "list-original"),
            *((idle(AtomicListSearch, "launch", 1), form) for form in ("build", "count", "list")),
            (idle(CountingSortSearch, "launch", 1), "build"),
            # The query goes on, over the cells of the first launch.
            (over(AtomicListSearch, idle(AtomicList, "build", 1)), "count"),
            (over(CountingSortSearch, idle(CountingSort, "build", 2)), "list"),
            (idle(AtomicResortSearch, "launch", 1), "update"),
            (over(AtomicResortSearch, idle(AtomicResort, "update", 4)), "update"),
            *((idle(ScipyCKDTree, "work", 1), form) for form in ScipyCKDTree.forms),
        ],
    ),
    "records": (RECORDS, [(idle(FilterAtomic, "filter", 1), "aggregated")]),
    "pairs": ("pairs = [512]\n", [(idle(NoisePhilox, "launch", 1), "rounds-10")]),
    "matrix": (
        'matrix = ["density-gradient"]\nparticles = [512]\nper_cell = [1]\n',
        [
            (idle(SlicedEll, "multiply", 1), "product-planes"),
            # The first assembly is that of the loaded input.
            (idle(SlicedEll, "assemble", 2), "assemble-planes"),
        ],
    ),
    # A step is built for the check before timing too, and each launch has two.
    "steps": (
        STEPS,
        [
            (idle(AtomicList, "build", 3), "one-pass"),
            (idle(CountingSort, "build", 3), "reorder"),
            (idle(FixedCapacity, "build", 9), "one-pass"),
        ],
    ),
}


COMPILE_MUCH = ("neighbours", "steps")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k in COMPILE_MUCH)) for k in KINDS]
)
@pytest.mark.parametrize("spec", SPECS)
def test_what_is_idle_from_some_launch_on_is_wrong(spec, kind, open_once, monkeypatch) -> None:
    axes, subjects = KINDS[kind]
    found = statuses(open_once(spec), axes, subjects, monkeypatch)
    assert {one[:2] for one in found} == {(cls.name, form) for cls, form in subjects}
    assert [one for one in found if one[2] != "wrong"] == []
    assert [one for one in found if not one[3].startswith("after timing: ")] == []


def test_a_workload_that_does_no_steps_is_wrong(open_once, monkeypatch) -> None:
    still = idle(DPDStandard, "plain_steps", 3)
    monkeypatch.setattr(registry, "workloads", lambda: {"dpd-standard": still})
    ((*_, status, reason),) = statuses(
        open_once("opencl:intel"), STEPS, [(CountingSort, "reorder")], monkeypatch
    )
    assert (status, reason) == ("wrong", "after timing: a launch did 0 steps, expected 2")


class Copied(CountingSort):
    """Answers with copies: what is done to these reaches nothing."""

    name = "copied"

    @property
    def answer(self) -> SortedCells:
        kept = super().answer
        return SortedCells(
            *(self.device.upload(self.download(a)) for a in (kept.start, kept.order))
        )


class Silent(CountingSortSearch):
    """A search that does not say what it built."""

    name = "silent"
    poison = NeighbourSearch.poison


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ((Copied, "order"), "AnswerOutOfReach: its answer was overwritten and is right without a"),
        ((Silent, "build"), "NotImplementedError: silent must overwrite what it built: define"),
    ],
)
def test_an_answer_that_cannot_be_overwritten_has_no_time(
    subject, said, open_once, monkeypatch
) -> None:
    ((*_, status, reason),) = statuses(open_once("opencl:intel"), PARTICLES, [subject], monkeypatch)
    assert status == "failed" and reason.startswith(said)


@pytest.mark.parametrize("family", [p.name for p in problems.own().values() if p.suite])
@pytest.mark.parametrize("spec", SPECS)
def test_every_answer_is_reached(spec: str, family: str, open_once) -> None:
    """Of every form: once poisoned it is wrong, and the next launch makes all of it anew."""
    device, reached, problem = open_once(spec), 0, problems.problems()[family]
    for name, cls in registry.algorithms().items():
        for form in cls.forms if cls.family == family else ():
            axes = {"moved": 100, "destination": "random"} if "update" in cls.forms else {}
            if form in getattr(cls, "segment_forms", ()):
                axes |= {"segment_keys": 20}
            if "uint32" not in (types := getattr(cls, "key_types", ("uint32",))):
                axes |= {"key_type": types[0]}
            size = 576 if family == "surface-subdivision" else 512
            inputs = problem.sample(cls, size, **axes)
            oracle: Any = problem.oracle(inputs, False)
            if missing_feature(cls.forms[form].requires, device):
                continue
            try:
                made: Any = cls
                parameters = cls.conformance_parameters
                algorithm = made(device, form=form, parameters=parameters, **inputs.made_for)
            except NotSupported as lacking:
                if not re.search("is not installed|lacks|no images|for periodic", str(lacking)):
                    raise
                continue
            assert first_launch(algorithm, inputs, oracle) is None, (name, form)
            oracle.poison(algorithm)
            assert oracle.check(algorithm) is not None, (name, form)
            algorithm.launch()
            assert oracle.check(algorithm) is None, (name, form)
            reached += 1
    assert reached
