"""The Lennard-Jones fluid: one trajectory with and without lists, and steps that lists miss."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_simulations import bits, made, trajectory

from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import UserError
from gpubench.decomposed import share
from gpubench.devices import Device
from gpubench.steps.workload_step import WorkloadStep
from gpubench.workloads import lj_fluid
from gpubench.workloads.lj_fluid import LJFluid, lattice
from gpubench.workloads.workload import BlowUp


def melt(device: Device, *words: str, skin: float = 0.3, **given: Any) -> LJFluid:
    fluid = made(device, LJFluid, *words, particles=864, skin=skin, **given)
    assert isinstance(fluid, LJFluid)
    return fluid


@pytest.fixture
def soon_melted(monkeypatch):
    monkeypatch.setattr(lj_fluid, "SETTLE", 20)
    monkeypatch.setattr(lj_fluid, "LISTS", 3)
    monkeypatch.setattr(lj_fluid, "TRIAL", 30)


def test_lists_change_nothing_and_steps_are_those_of_float64(device):
    wanted = melt(device, skin=0.0)
    fluids = [wanted, melt(device)]
    assert len({trajectory(fluid, 30) for fluid in fluids}) == 1
    assert [fluid.check() for fluid in fluids] == [None] * 2
    observed = wanted.observe(wanted.snapshot())
    assert observed["momentum_per_particle"] < 1e-7
    assert 0.6 < observed["kinetic_temperature"] < 1.0  # half of it is potential energy by now


def test_a_wrong_force_is_seen(opencl_device, monkeypatch):
    fluid = melt(opencl_device)
    for row, extra in ((7, 0.03), (0, math.nan)):

        def wrong(after: Any, row: int = row, extra: float = extra) -> Any:
            force = LJFluid.felt(fluid, after).copy()
            force[row, 0] += extra
            return force

        monkeypatch.setattr(fluid, "felt", wrong)
        assert re.search(r"the force on particle \d+ along x is", fluid.check() or "")


def test_steps_without_a_look_are_the_same_or_missed(device, soon_melted):
    looked, queued = melt(device), melt(device)
    launch = queued.settle()
    assert queued.missed == 0
    pace = queued.outcome()["steps_per_list"]
    assert isinstance(pace, int)
    assert 1 < pace < 20 and launch % pace == 0
    queued.plain_steps(launch)
    queued._pace = 60  # longer than any list holds
    begun, before = queued.step, queued.missed
    queued.plain_steps(60)
    queued.count_steps()
    assert 20 <= queued.missed - before == 60 - (queued.step - begun) < 60
    looked.advance(queued.step)
    assert bits(queued) == bits(looked)  # what was missed was not done at all
    queued._pace = pace
    with pytest.raises(BlowUp, match="steps were missed"):
        queued.require_sound()
    queued._pace = 0
    queued.restore(queued.state())
    assert trajectory(queued, 5) == trajectory(looked, 5)


def test_a_launch_needs_no_look(intel, soon_melted):
    cells = type(melt(intel).algorithm)
    step = WorkloadStep(
        intel, LJFluid, cells, "order", {}, particles=864, skin=0.3, time_step=None, seed=5
    )
    assert step.no_graph is None
    assert step.check() == f"a launch did 0 steps, expected {step.launches}"
    for _ in range(2):
        step.poison()
        step.launch()
        assert step.check() is None
    assert step.launches % step.outcome()["steps_per_list"] == 0


@pytest.mark.parametrize("particles", [2**14, 2**15, 2**16, 2**17, 2**20, 32000, 864])
def test_usual_sizes_fill_a_lattice(particles):
    cells = lattice(particles)
    assert 4 * math.prod(cells) == particles and max(cells) <= 2 * min(cells)


def test_other_sizes_leave_sites_empty(opencl_device):
    fluid = made(opencl_device, LJFluid, particles=1001)
    assert lattice(1001) == (7, 7, 7)
    positions = fluid.box.to_positions(fluid.state()["places"])
    assert len(np.unique(positions.round(3), axis=0)) == 1001
    assert fluid.box.volume == pytest.approx(1001 / 0.8442)


@pytest.mark.parametrize("mailboxes", [None, "of a kind"])
def test_ranks_cannot_share_it(mailboxes):
    team = SimpleNamespace(transport=SimpleNamespace(mailbox_kind=mailboxes))
    with pytest.raises(UserError, match="lj-fluid runs on one rank"):
        share(LJFluid, "slab", SimpleNamespace(team=team), CountingSort)
