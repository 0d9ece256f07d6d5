"""Answers after timing, on a fake device: of the graph that was timed, and of plain launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_algorithms import ENVIRONMENT, RightSort
from fakes import FakeDevice
from study_texts import study_text

from gpubench import registry
from gpubench.core.algorithm import Form
from gpubench.measure.sampling import Budget
from gpubench.problems.cells.contract import CellListUpdate, SortedCells
from gpubench.problems.cells.oracle import CellListOracle
from gpubench.problems.neighbours import pairs
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.studies import runner
from gpubench.studies.plan import Group, plan
from gpubench.studies.runner import measure
from gpubench.studies.study import parse_study

BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)


class OnceSort(RightSort):
    """Returns at once from the second launch on."""

    name = "once-sort"
    good_launches = 1

    def launch(self) -> None:
        self.launched = getattr(self, "launched", 0) + 1
        if self.launched <= self.good_launches:
            super().launch()


class TiredSort(OnceSort):
    """Returns at once in the middle of its timing, after its graph was recorded."""

    name = "tired-sort"
    good_launches = 12


class HalfSort(OnceSort):
    """Short, and returns at once from the second launch on that its graph was recorded of."""

    name = "half-sort"
    good_launches = 4

    def sort(self) -> float:
        return 0.05 * super().sort()


class LeakySort(RightSort):
    """Works while it is recorded, and records nothing."""

    name = "leaky-sort"

    def launch(self) -> None:
        if self.device._capturing is None:
            super().launch()
        else:
            self.sort()


class RightUpdate(CellListUpdate):
    """Sorts anew, but only what is of the state that it is told to be of."""

    name = "right-update"
    summary = source = ""
    forms = {"plain": Form("")}  # noqa: RUF012

    def prepare(self) -> None:
        self.start = self.allocate(self.grid.count + 1, np.int32)
        self.order = self.allocate(self.particles, np.int32)

    def load(self, inputs: Any) -> None:
        self.states = [(state.cell_of.copy(), state.positions) for state in inputs.history]
        self.cell_of, self.positions = self.states[0]
        self.build(self.cell_of, self.positions)

    def build(self, cell_of: Any, positions: Any) -> None:
        self.start[:] = np.searchsorted(np.sort(cell_of), np.arange(self.grid.count + 1))
        self.order[:] = np.argsort(cell_of, kind="stable")
        self.listed = cell_of

    def update(self, cell_of: Any, positions: Any) -> None:
        before = self.cell_of

        def resort() -> float:
            if self.listed is before:
                self.build(cell_of, positions)
            return 1.0

        self.queue(resort)

    def queue(self, resort: Any) -> None:
        self.device.work(self.name, resort)()

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self.start, self.order)

    def traffic_bytes(self) -> None:
        return None


class LeakyUpdate(RightUpdate):
    """Works while it is recorded, and records nothing."""

    name = "leaky-update"

    def queue(self, resort: Any) -> None:
        if self.device._capturing is None:
            super().queue(resort)
        else:
            resort()


class UnrecordedUpdate(RightUpdate):
    """Records nothing."""

    name = "unrecorded-update"

    def queue(self, resort: Any) -> None:
        if self.device._capturing is None:
            super().queue(resort)


class ListSearch(HostSearch):
    """Lists all pairs, of which none is lost."""

    name = "list-search"
    summary = source = ""
    forms = {"list": Form("")}  # noqa: RUF012

    def work(self) -> None:
        near = np.linalg.norm(self.xyz[:, None] - self.xyz, axis=-1) < self.cutoff
        np.fill_diagonal(near, False)
        self.found = Neighbours(
            near.sum(axis=1, dtype=np.int32),
            np.append(0, np.cumsum(near.sum(axis=1))),
            np.nonzero(near)[1].astype(np.int32),
        )
        self.device.work(self.name, 1.0)()

    def neighbours(self) -> Neighbours:
        return self.found


class SlippingSearch(ListSearch):
    """Lists one particle in place of another in the middle of its timing; counts stay right."""

    name = "slipping-search"
    launched = 0

    def work(self) -> None:
        super().work()
        self.launched += 1
        if self.launched > 6:
            listed = self.found.neighbours
            i = int(np.argmax(self.found.counts))
            inside = listed[self.found.offsets[i] : self.found.offsets[i + 1]]
            inside[0] = np.setdiff1d(np.arange(self.particles), [*inside, i])[0]


CLASSES: list[Any] = [
    ListSearch, SlippingSearch,
    RightSort, OnceSort, TiredSort, HalfSort, LeakySort, RightUpdate, LeakyUpdate, UnrecordedUpdate,
]  # fmt: skip


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "algorithms", lambda: {cls.name: cls for cls in CLASSES})
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)


def planned(*subjects: str, inputs: int = 1, modes: tuple[str, ...] = ("hot",)) -> Group:
    """Return the only input of a study, to be measured."""
    text = study_text(
        *subjects, particles=[64], per_cell=[4], moved=[9], destination=["random"],
        modes=modes, inputs=inputs,
    )  # fmt: skip
    (group,) = plan(parse_study("one", text))
    return group


def measured(
    name: str, inputs: int = 1, modes: tuple[str, ...] = ("hot", "graph")
) -> tuple[FakeDevice, Any]:
    """Measure in some modes; return the device, and a record of them, which all say the same."""
    device = FakeDevice()
    group = planned(name, inputs=inputs, modes=modes)
    first, *others = measure(group, group.items, device, BUDGET, lambda final: None)
    assert all(other.reason == first.reason for other in others)
    return device, first


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("name", ["right-sort", "right-update"])
def test_working_algorithms_pass_the_recheck(name: str, inputs: int) -> None:
    _, record = measured(name, inputs)
    assert (record.status, record.reason) == ("ok", None)


@pytest.mark.parametrize("name", ["once-sort", "tired-sort", "leaky-sort", "unrecorded-update"])
def test_idle_launches_are_wrong(name: str) -> None:
    _, record = measured(name)
    assert record.status == "wrong" and record.reason.startswith("after timing: ")


@pytest.mark.parametrize("modes", [("hot",), ("graph",), ("hot", "graph")])
def test_one_check_serves_both_modes(
    monkeypatch: pytest.MonkeyPatch, modes: tuple[str, ...]
) -> None:
    """Of the answer that was overwritten, and of that which was made anew."""
    made: list[str] = []
    check = CellListOracle.check

    def counted(oracle: CellListOracle, algorithm: Any) -> str | None:
        found = check(oracle, algorithm)
        made.append("right" if found is None else "wrong")
        return found

    monkeypatch.setattr(CellListOracle, "check", counted)
    measured("right-sort", modes=modes)
    assert made == ["right", "wrong", "right"]


def test_a_graph_of_which_only_some_launches_work_is_wrong() -> None:
    """Its answer is right, since one launch of the two does its work; a plain launch does none."""
    _, record = measured("half-sort", modes=("graph",))
    assert record.status == "wrong"


def test_an_update_that_runs_while_it_is_recorded_has_no_time() -> None:
    _, record = measured("leaky-update")
    assert record.status == "failed" and "is right without a launch" in record.reason


def test_the_graph_that_is_checked_is_the_one_that_was_timed() -> None:
    device, _ = measured("right-sort")
    last_sample = len(device.log) - device.log[::-1].index("record")
    assert "replay" in device.log[last_sample:] and "capture" not in device.log[last_sample:]


@pytest.mark.parametrize("all_pairs", [True, False])
def test_a_list_that_goes_wrong_beside_a_right_one_has_no_time(
    monkeypatch: pytest.MonkeyPatch, all_pairs: bool
) -> None:
    """Both passed before they were timed: then rows are compared with those that passed."""
    monkeypatch.setattr(pairs, "FULL_PARTICLES", 64 if all_pairs else 0)
    group = planned("list-search list", "slipping-search list")
    right, slipped = measure(group, group.items, FakeDevice(), BUDGET, lambda final: None)
    assert (right.status, right.reason) == ("ok", None)
    assert slipped.status == "wrong" and slipped.reason.startswith("after timing: ")
