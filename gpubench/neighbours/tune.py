"""Time every neighbour search on a user's own particles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpubench.core import registry
from gpubench.core.contracts import HostSearch, NeighbourSearch, forms_for
from gpubench.core.errors import UserError
from gpubench.core.grid import Grid
from gpubench.core.tasks import TASKS
from gpubench.devices import Device, open_device
from gpubench.evidence.pooling import Measurement, pool
from gpubench.evidence.ranking import Ranked, may_rank, rank
from gpubench.evidence.records import identity_of
from gpubench.evidence.results import load
from gpubench.inputs import ParticleSet, from_positions
from gpubench.inputs.specs import Particles
from gpubench.inputs.trajectory import Frames, Triple, frames_of, read_frames
from gpubench.measure.budget import Budget
from gpubench.neighbours.box import Box, box_of
from gpubench.neighbours.method import PREFIX, methods
from gpubench.studies import runner
from gpubench.studies.plan import cell_key
from gpubench.studies.runner import Engine
from gpubench.studies.study import Study, Subject, Sweep, parse_study

RESULTS = Path("results/local")
Periodic = tuple[bool, bool, bool]
SKINS = (0.1, 0.2, 0.3, 0.5)  # in cutoffs
ALL_PAIRS_LIMIT = 2**16  # particles; above, a test of all pairs outlasts all other searches
HOST_LIMIT = 2**17  # particles; above, a search on the host outlasts all those on a GPU
DEVICE_SECONDS = 20.0  # of all samples together; compiling and checking take the rest of a minute
TEXT = """\
title = "Neighbour searches on particles of one's own"
question = "Which search is fastest on these particles?"
seed = 0
subjects = [{{ algorithm = "{algorithm}", form = "{form}" }}]
[[sweeps]]
name = "given"
modes = ["hot"]
particles = [{particles}]
per_cell = [{per_cell!r}]
"""


class Given(Particles):
    """Particles that are not drawn but given, with the state before, where there is one."""

    inputs: ParticleSet

    def __init__(self, inputs: ParticleSet) -> None:
        # The hash keeps other particles from being pooled with these.
        super().__init__(
            inputs.particles, inputs.per_cell, f"given-{inputs.hash[:8]}", "given",
            moved=inputs.moved, destination=None if inputs.before is None else "given",
        )  # fmt: skip
        vars(self).update(inputs=inputs, grid=inputs.grid)

    def __post_init__(self) -> None:
        """Check nothing: no move is drawn."""

    def make(self, seed: int) -> ParticleSet:
        """Return the particles, whatever the seed."""
        return self.inputs


@dataclass(frozen=True)
class Skin:
    """What a skin is worth on a trajectory.

    skin: in the unit of the positions. frames: how many frames a list serves on average.
    outlasts: whether the first list served all frames, so that `frames` is a lower bound.
    list_ms: measured time to list the neighbours up to cutoff plus skin; None if not measured.
    """

    skin: float
    frames: float
    outlasts: bool
    list_ms: float | None = None

    @property
    def ms_per_frame(self) -> float | None:
        """The estimated time spent on lists per frame, without the reading of longer lists."""
        return None if self.list_ms is None else self.list_ms / self.frames


NO_SKIN = Skin(0.0, 1.0, outlasts=False)


@dataclass(frozen=True)
class Tuned:
    """What came of tuning.

    ranked: the searches that did the task, fastest first; those without a rank have a reason.
    path: the results file. searched: the cutoff that was timed, the shortest edge of a cell.
    code: the line to write; None where NeighbourList has none of the methods that ran.
    updates: of a trajectory, updates and rebuilds between its last two frames, ranked.
    moved_share: the mean fraction of particles that change cells from frame to frame.
    skins: what a skin is worth; the first is none.
    """

    ranked: list[Ranked]
    path: Path
    searched: float
    code: str | None
    updates: list[Ranked] = field(default_factory=list)
    moved_share: float | None = None
    skins: list[Skin] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether some search was timed and none was wrong or failed."""
        every = [*self.ranked, *self.updates]
        bad = any(each.measurement.record.status in ("wrong", "failed") for each in every)
        return bool(self.ranked) and self.ranked[0].rank is not None and not bad


def tune(
    positions: str | Path | NDArray[np.floating] | Sequence[NDArray[np.floating]],
    cutoff: float,
    box: Triple | None = None,
    periodic: bool | Periodic = False,
    *,
    low: Triple | None = None,
    task: str = "list",
    device: str = "auto",
    out: str | Path = RESULTS,
    budget: Budget | None = None,
) -> Tuned:
    """Time all searches that can do a task on these particles, and rank them.

    positions: shape (particles, 3), or (frames, particles, 3) for a trajectory; or the path of a
        `.npy`, `.gsd` or `.xyz` file. cutoff, box, low: in the unit of the positions; a box that
        is not given is that of the file, else the one around the particles. low defaults to the
        corner of the file's box, else to the origin.
    task: `build`, `count`, `ten-counts` or `list`. budget: of each search; default: 20 s over all.
    Each answer is checked against the oracle before and after timing. The records are stored in
    `out`, as those of `gpubench run`, under the study `tune`. Raises UserError for bad arguments,
    DeviceUnavailable where the device is not there.
    """
    if task not in TASKS or task == "update":
        known = ", ".join(name for name in TASKS if name != "update")
        raise UserError(f"the task must be one of {known}, not {task!r}")
    frames = read_frames(Path(positions)) if isinstance(positions, str | Path) else None
    frames = frames or frames_of(positions)
    edges, corner = (frames.box if box is None else box), (frames.low if low is None else low)
    given = box_of(edges, (0.0, 0.0, 0.0) if corner is None else corner, periodic)
    grid = _grid(frames, cutoff, given)
    states = [from_positions(frame, grid) for frame in frames.positions]
    with open_device(device) as opened:
        doing = partial(_subjects, device=opened)
        sweeps = [_sweep("given", states[-1], doing(task))]
        if len(states) > 1:
            last = replace(states[-1], before=states[-2])
            sweeps.append(_sweep("moved", last, [*doing("update"), *doing("count")]))
        session = _Session(runner.engine_of(opened), Path(out), budget)
        races = session.measure(sweeps)
        ranked = _race(races, has_moved=False)
        found = Tuned(ranked, session.path, min(grid.cell_size), _code(ranked, cutoff, given))
        if len(states) > 1:
            skins = [NO_SKIN, *(_skin(states, share * cutoff) for share in SKINS)]
            if task == "list" and ranked and ranked[0].rank:
                skins = session.time_skins(skins, states[-1], ranked[0])
            found = replace(
                found,
                updates=_race(races, has_moved=True),
                moved_share=_moved_share(states),
                skins=skins,
            )
    return found


def _grid(frames: Frames, cutoff: float, given: Box | Periodic) -> Grid:
    """Return the cells of a box, or of the smallest one around the particles."""
    if isinstance(given, Box):
        return _cut(given.low, given.size, cutoff, given.periodic)
    flat = np.asarray(frames.positions)[..., :3].reshape(-1, 3).astype(np.float64)
    least, most = flat.min(axis=0), flat.max(axis=0)
    size = np.maximum(most - least, cutoff) * (1 + 1e-6)
    return _cut(tuple(least.tolist()), tuple(size.tolist()), cutoff, given)


def _cut(low: Triple, size: Triple, cutoff: float, axes: Periodic) -> Grid:
    grid = Grid.in_box(low, size, cutoff, axes)
    if any(p and n < 3 for p, n in zip(axes, grid.cells, strict=True)):
        raise UserError(
            f"a periodic axis must be at least three cutoffs long, {3 * cutoff:g}, not {size}"
        )
    return grid


def _limits(cls: type[NeighbourSearch], on_cpu: bool) -> dict[str, int]:
    if cls.tests_all_pairs:
        return {"particles": ALL_PAIRS_LIMIT}
    return {"particles": HOST_LIMIT} if issubclass(cls, HostSearch) and not on_cpu else {}


def _subjects(task: str, device: Device) -> list[Subject]:
    """Return every search of the registry in every form that does the task on a device."""
    return [
        Subject(name, form, limits=_limits(cls, device.is_cpu))
        for name, cls in registry.algorithms().items()
        if issubclass(cls, NeighbourSearch)
        for form in forms_for(task, cls.forms, device.backend)
    ]


def _sweep(name: str, inputs: ParticleSet, subjects: Sequence[Subject]) -> Sweep:
    return Sweep(name, Given, {"inputs": (inputs,)}, ("hot",), tuple(subjects))


def _study(sweeps: Sequence[Sweep], budget: Budget | None) -> Study:
    """Return a study of these sweeps; its text is for those that read the results file."""
    (first, *_), (subject, *_) = sweeps[0].axes["inputs"], sweeps[0].subjects
    text = TEXT.format(
        algorithm=subject.algorithm, form=subject.form,
        particles=first.particles, per_cell=float(first.per_cell),
    )  # fmt: skip
    count = sum(len(sweep.subjects) for sweep in sweeps)
    default = Budget(seconds_per_task=min(0.5, DEVICE_SECONDS / count), min_samples=7)
    return replace(parse_study("tune", text), sweeps=tuple(sweeps), budget=budget or default)


class _Session:
    """Measures sweeps into one results file."""

    path: Path

    def __init__(self, engine: Engine, out: Path, budget: Budget | None) -> None:
        self._engine, self._out, self._budget = engine, out, budget

    def measure(self, sweeps: Sequence[Sweep]) -> list[list[Ranked]]:
        """Measure all of the sweeps anew; return the ranks of what they measured."""
        study = _study(sweeps, self._budget)
        summary = runner.run(study, self._engine, self._out, fresh=True)
        self.path = summary.path
        results = load(summary.path)
        own = [each for each in results.records if cell_key(identity_of(each)) in summary.keys]
        return rank(pool([replace(results, records=own)]))

    def time_skins(self, skins: Sequence[Skin], inputs: ParticleSet, best: Ranked) -> list[Skin]:
        """Time the lists of the fastest search at each cutoff plus skin that the box can have."""
        record, grid, (none, *others) = best.measurement.record, inputs.grid, skins
        grids: dict[Skin, Grid] = {}
        for each in others:
            with suppress(UserError):
                reach = min(grid.cell_size) + each.skin
                grids[each] = _cut(grid.low, grid.size, reach, grid.periodic)
        sweeps = [  # whole cells fill the box, so two skins can have one grid
            _sweep(f"skin-{number}", from_positions(inputs.positions, wider),
                   [Subject(record.algorithm, record.form)])
            for number, wider in enumerate(dict.fromkeys(grids.values()), start=1)
        ]  # fmt: skip
        races = self.measure(sweeps) if sweeps else []
        found = {
            tuple(each.measurement.record.cells or ()): each for race in races for each in race
        }
        timed = {each: found[wider.cells] for each, wider in grids.items()} | {none: best}
        return [
            replace(each, list_ms=_ms(timed[each].measurement) if each in timed else None)
            for each in skins
        ]


def _ms(measured: Measurement) -> float | None:
    return measured.record.median_ms if may_rank(measured.record) else None


def _race(races: Sequence[Sequence[Ranked]], has_moved: bool) -> list[Ranked]:
    """Return all that was asked of particles that have moved, or have not, fastest first."""
    found = [
        each
        for race in races
        for each in race
        if (each.measurement.record.destination is not None) == has_moved
    ]
    return sorted(found, key=lambda each: (each.rank is None, each.rank or 0))


def _code(ranked: Sequence[Ranked], cutoff: float, given: Box | Periodic) -> str | None:
    """Return the line that makes a list by the fastest method that NeighbourList has."""
    names = (each.measurement.record.algorithm.removeprefix(PREFIX) for each in ranked if each.rank)
    name = next((name for name in names if name in methods()), None)
    if name is None:
        return None
    box = ""
    if isinstance(given, Box):
        size, low = (tuple(float(f"{x:.9g}") for x in each) for each in (given.size, given.low))
        axes = given.periodic[0] if len(set(given.periodic)) == 1 else given.periodic
        corner = f", low={low}" if any(low) and not all(given.periodic) else ""
        box = f", box={size}, periodic={axes}{corner}"
    return f"gpubench.NeighbourList(cutoff={float(cutoff)!r}{box}, method={name!r})"


def _moved_share(states: Sequence[ParticleSet]) -> float:
    pairs = itertools.pairwise(states)
    return float(np.mean([np.mean(a.cell_of != b.cell_of) for a, b in pairs]))


def _skin(states: Sequence[ParticleSet], skin: float) -> Skin:
    """Return how many frames a list serves: until a particle has moved by half the skin."""
    lists, built = 1, states[0]
    for state in states[1:]:
        if _longest_move(built, state) > skin / 2:
            lists, built = lists + 1, state
    return Skin(skin, len(states) / lists, outlasts=lists == 1)


def _longest_move(before: ParticleSet, after: ParticleSet) -> float:
    """Return the largest displacement, by the nearest image along periodic axes."""
    grid = after.grid
    way = after.positions[:, :3].astype(np.float64) - before.positions[:, :3]
    size = np.asarray(grid.size)
    way -= np.where(grid.periodic, np.round(way / size) * size, 0.0)
    return float(np.sqrt((way**2).sum(axis=1).max()))
