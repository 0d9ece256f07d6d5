"""Time every neighbour search on a user's own particles."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench import registry
from gpubench.base.arguments import number, path_of, shown
from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.devices import Device, open_device
from gpubench.evidence.pooling import pool
from gpubench.evidence.ranking import Ranked, rank
from gpubench.measure.budget import Budget
from gpubench.measure.clock import timed
from gpubench.neighbours.box import SearchBox, box_around, box_given, box_of
from gpubench.neighbours.method import PREFIX, methods
from gpubench.problems.neighbours.contract import HostSearch, NeighbourSearch
from gpubench.problems.neighbours.tasks import TASKS, forms_for
from gpubench.problems.particles.axes import Particles
from gpubench.problems.particles.inputs import ParticleSet, coordinates_of, from_positions
from gpubench.problems.particles.trajectory import Frames, Triple, frames_of, read_frames
from gpubench.studies import runner
from gpubench.studies.study import Subject, Sweep, parse_study

RESULTS = Path("results/local")
SKINS = (0.0, 0.1, 0.2, 0.3, 0.5)  # fractions of the cutoff
ALL_PAIRS_LIMIT = 2**16  # particles; above it, testing all pairs is slower than any other search
HOST_LIMIT = 2**17  # particles; above it, searches on the host are slower than any on a GPU
MOST_OVER_FASTEST = 4.0  # searches slower than the fastest by a larger factor are left out
DEVICE_SECONDS = 20.0  # maximum sampling time of all searches together
TIMED_SECONDS = 0.5  # maximum sampling time of one search
# Other time: start-up; construction of each search from cached code; and launching and checking
# each search, as a multiple of the time that one host thread takes to find all pairs.
BEGUN_SECONDS, MADE_SECONDS, CHECKED_TIMES = 4.0, 0.5, 4
QUERIES = 100  # number of particles queried to estimate the time to find all pairs
TEXT = """\
title = "Neighbour searches on particles of one's own"
question = "Which search is fastest on these particles?"
seed = 0
subjects = [{{ algorithm = "{subject.algorithm}", form = "{subject.form}" }}]
[[sweeps]]
name = "given"
modes = ["hot"]
particles = [{inputs.particles}]
per_cell = [{inputs.per_cell!r}]
"""


class Given(Particles):
    """The user's particles in place of random ones, with their previous state if known."""

    inputs: ParticleSet

    def __init__(self, inputs: ParticleSet) -> None:
        # The hash prevents pooling with results for other particles.
        super().__init__(
            inputs.particles, inputs.per_cell, f"given-{inputs.hash[:8]}", "given",
            moved=inputs.moved, destination=None if inputs.before is None else "given",
        )  # fmt: skip
        vars(self).update(inputs=inputs, grid=inputs.grid)

    def __post_init__(self) -> None:
        """Skip the base class's checks, which are for random moves."""

    def make(self, seed: int) -> ParticleSet:
        """Return the particles; the seed is ignored."""
        return self.inputs


@dataclass(frozen=True)
class Skin:
    """The benefit of a skin on a trajectory.

    skin: in the unit of the positions. frames: average number of frames for which a list is valid.
    outlasts: whether the first list was valid for all frames, so `frames` is a lower bound.
    list_ms: measured time to list the neighbours within cutoff + skin; None if not measured.
    """

    skin: float
    frames: float
    outlasts: bool
    list_ms: float | None = None

    @property
    def ms_per_frame(self) -> float | None:
        """Estimated time per frame to make lists, excluding the cost of reading longer lists."""
        return None if self.list_ms is None else self.list_ms / self.frames


@dataclass(frozen=True)
class Tuned:
    """The result of tuning.

    ranked: the searches, fastest first; those without a rank have a reason.
    path: the results file.
    code: the line of Python to use; None if no method of NeighbourList was ranked.
    updates: for a trajectory, updates and rebuilds between its last two frames, ranked.
    moved_share: the mean fraction of particles that change cells from frame to frame.
    skins: the benefit of each skin; the first skin is 0.
    """

    ranked: list[Ranked]
    path: Path
    code: str | None
    updates: list[Ranked] = field(default_factory=list)
    moved_share: float | None = None
    skins: list[Skin] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether at least one search was timed, and none was wrong or failed."""
        done = self.ranked + self.updates
        bad = any(each.measurement.record.status in ("wrong", "failed") for each in done)
        return bool(self.ranked) and self.ranked[0].by_device_time is not None and not bad


def tune(
    positions: str | Path | NDArray[np.floating] | Sequence[NDArray[np.floating]],
    cutoff: float,
    box: Triple | None = None,
    periodic: bool | tuple[bool, bool, bool] | None = None,
    *,
    cell: Triple | None = None,
    low: Triple | None = None,
    task: str = "list",
    device: str = "auto",
    out: str | Path = RESULTS,
    budget: Budget | None = None,
) -> Tuned:
    """Time all searches that support a task on these particles, and rank them.

    positions: shape (particles, 3), or (frames, particles, 3) for a trajectory; or the path of a
        `.npy`, `.gsd`, `.xyz`, `.extxyz` or `.xyz.gz` file. cutoff, box, low: in the unit of the
        positions. cell: another name for box.
    periodic: which axes are periodic; by default those of the file, otherwise none. If any is,
        `box` defaults to the file's, and must agree with it along periodic axes. Otherwise `box`
        defaults to one around the particles. `low` defaults to the file's, or to the origin.
    task: `build`, `count`, `ten-counts` or `list`. budget: per search; default: 20 s in total.
    Each answer is checked against the oracle before and after timing. The results are stored in
    `out` like those of `gpubench run`, under the study `tune`. Raises UserError for invalid
    arguments, DeviceUnavailable if the device is not available.
    """
    cutoff, out = number("cutoff", cutoff, positive=True), path_of("out", out)
    _require_known(task, budget)
    frames = (
        read_frames(Path(positions)) if isinstance(positions, str | Path) else frames_of(positions)
    )
    given = _box(frames, box_given(cell, box), low, periodic)
    if given is not None and (why := given.why_coarse(cutoff)):
        say(why)
    moments = _Moments([coordinates_of(frame) for frame in frames.positions], given)
    states = moments.placed(cutoff)
    last, skins, wider = Given(states[-1]), [share * cutoff for share in SKINS], {}
    with open_device(device) as opened:
        subjects = _subjects(task, opened)
        sweeps = {last.distribution: _sweep("given", last, subjects)}
        if len(states) > 1:
            moved = Given(replace(last.inputs, before=states[-2]))
            changes = [*_subjects("update", opened), *_subjects("count", opened)]
            sweeps[moved.distribution] = _sweep("moved", moved, changes)
        if len(states) > 1 and task == "list":
            wider = moments.wider(cutoff, skins)
            ours = [each for each in subjects if each.algorithm.removeprefix(PREFIX) in methods()]
            for skin, each in wider.items():  # skin 0 is in `sweeps` already: it is `last`
                sweeps.setdefault(each.distribution, _sweep(f"skin-{skin:g}", each, ours))
        seconds = _seconds([*sweeps.values()], cutoff)
        say(
            f"timing {last.particles:,} particles on {opened.name}: at most about {seconds:.0f} s,"
            " and more where code is compiled for the first time"
        )
        path, races = _measured([*sweeps.values()], opened, out, budget)
    ranked = races[last.distribution]
    found = Tuned(ranked, path, _code(ranked, cutoff, given))
    if len(states) == 1:
        return found
    shares = [np.mean(a.cell_of != b.cell_of) for a, b in itertools.pairwise(states)]
    times = {skin: _fastest(races[each.distribution]) for skin, each in wider.items()}
    return replace(
        found,
        updates=races[moved.distribution],
        moved_share=float(np.mean(shares)),
        skins=[_skin(states, skin, times.get(skin)) for skin in skins],
    )


def _require_known(task: Any, budget: Any) -> None:
    tasks = [name for name in TASKS if name != "update"]
    if not isinstance(task, str) or task not in tasks:
        raise UserError(f"the task must be one of {', '.join(tasks)}, not {shown(task)}")
    if not isinstance(budget, Budget | None):
        raise UserError(f"budget takes a Budget, not {shown(budget)}")


def _box(
    frames: Frames,
    box: Triple | None,
    low: Triple | None,
    periodic: bool | tuple[bool, bool, bool] | None,
) -> SearchBox | None:
    """Return the box described by the arguments of `tune` and the file; None for open space."""
    if frames.box is not None and frames.periodic is periodic is None:
        x, y, z = frames.box
        say(
            f"{frames.source} states a box of {x:g} x {y:g} x {z:g}, but not where it repeats: all"
            " axes are taken as open; give --periodic xyz or none (periodic=True or False)"
        )
    repeats = (frames.periodic or False) if periodic is None else periodic
    edges = frames.box if box is None and np.any(repeats) else box
    if edges is None and (low is not None or np.any(repeats)):
        needs = "low" if low is not None else "periodic"
        raise UserError(
            f"--{needs} ({needs}=) needs the edges of the box, which {frames.source} does not"
            " state: give --box X,Y,Z (box=(x, y, z))"
        )
    if box is None and edges is not None and not min(edges) > 0:
        raise UserError(
            f"the box of {frames.source} is {edges[0]:g} x {edges[1]:g} x {edges[2]:g}: give one of"
            " positive edges, --box X,Y,Z (box=(x, y, z))"
        )
    corner = frames.low or (0.0, 0.0, 0.0) if low is None else low
    found = box_of(edges, corner, repeats)
    if found is not None:
        frames.require_agreement(found.size, found.periodic)
    return found


@dataclass(frozen=True, eq=False)
class _Moments:
    """All frames, float64, with the same box and cells as in NeighbourList.

    given: the box; None for open space.
    """

    frames: Sequence[NDArray[np.float64]]
    given: SearchBox | None

    def placed(self, reach: float, which: slice = slice(None)) -> list[ParticleSet]:
        """Return the selected frames with cells for `reach`: the cutoff, or cutoff + skin."""
        box = self.given or box_around(*self._ends, reach)
        if self.given is None and (why := box.why_coarse(reach)):
            raise UserError(why)
        reach = box.searched(reach)
        grid = replace(box.grid(len(self.frames[-1]), reach), cutoff=reach)
        for frame in self.frames[which]:
            box.require_near(frame)
        return [from_positions(frame, grid, box.low) for frame in self.frames[which]]

    @cached_property
    def _ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lows, highs = zip(
            *((each.min(axis=0), each.max(axis=0)) for each in self.frames), strict=True
        )
        return np.min(lows, axis=0), np.max(highs, axis=0)

    def wider(self, cutoff: float, skins: Sequence[float]) -> dict[float, Given]:
        """Return the last frame with cells for each skin; leave out skins too long for the box."""
        found = {}
        for skin in skins:
            with suppress(UserError):
                found[skin] = Given(*self.placed(cutoff + skin, slice(-1, None)))
        return found


def _subjects(task: str, device: Device) -> list[Subject]:
    """Return every registered search, in every variant that supports the task on a device."""
    found = []
    for name, cls in registry.algorithms().items():
        if not issubclass(cls, NeighbourSearch):
            continue
        limits = {"particles": ALL_PAIRS_LIMIT} if cls.tests_all_pairs else {}
        if issubclass(cls, HostSearch) and not device.is_cpu:
            limits.setdefault("particles", HOST_LIMIT)
        forms = forms_for(task, cls.forms, device.backend)
        if task == "list":  # CSR by particle alone
            forms = [form for form in forms if cls.task_and_answer(form)[1] is None]
        found += [Subject(name, form, limits=limits) for form in forms]
    return found


def _sweep(name: str, given: Given, subjects: Sequence[Subject]) -> Sweep:
    return Sweep(name, Given, {"inputs": (given.inputs,)}, ("hot",), tuple(subjects))


def _seconds(sweeps: Sequence[Sweep], cutoff: float) -> float:
    """Estimate the duration of all measurements from a few timed queries on the host."""
    from scipy.spatial import cKDTree  # slow to import

    (first,) = sweeps[0].axes["inputs"]
    xyz = first.positions[:, :3].astype(np.float64)
    some = xyz[np.random.default_rng(0).integers(0, len(xyz), QUERIES)]
    tree, making = timed(lambda: cKDTree(xyz, balanced_tree=False))
    _, asking = timed(lambda: tree.query_ball_point(some, cutoff))
    pairs_seconds = making + asking * len(xyz) / QUERIES
    subjects = sum(len(sweep.subjects) for sweep in sweeps)
    each = MADE_SECONDS + CHECKED_TIMES * pairs_seconds
    return BEGUN_SECONDS + subjects * each + min(DEVICE_SECONDS, subjects * TIMED_SECONDS)


def _measured(
    sweeps: Sequence[Sweep], device: Device, out: Path, budget: Budget | None
) -> tuple[Path, dict[str, list[Ranked]]]:
    """Measure all sweeps; return the results file, and the rankings by name of the input."""
    (first,), subject = sweeps[0].axes["inputs"], sweeps[0].subjects[0]
    seconds = min(TIMED_SECONDS, DEVICE_SECONDS / sum(len(sweep.subjects) for sweep in sweeps))
    study = replace(
        parse_study("tune", TEXT.format(subject=subject, inputs=first)),
        sweeps=tuple(sweeps),
        budget=budget or Budget(seconds, min_samples=7, most_over_fastest=MOST_OVER_FASTEST),
    )
    summary = runner.run(study, device, out, fresh=True)
    races: defaultdict[str, list[Ranked]] = defaultdict(list)
    for each in itertools.chain(*rank(pool([summary.results]))):
        races[each.measurement.record.at("distribution") or ""].append(each)
    for race in races.values():
        race.sort(key=lambda each: each.by_device_time.rank if each.by_device_time else math.inf)
    return summary.path, races


def _method(each: Ranked) -> str | None:
    """Return the name of the measured NeighbourList method; None for any other search."""
    name = each.measurement.record.algorithm.removeprefix(PREFIX)
    return name if name in methods() else None


def _fastest(ranked: Sequence[Ranked]) -> Ranked | None:
    """Return the fastest measured method of NeighbourList; None if there is none."""
    return next((each for each in ranked if each.by_device_time and _method(each)), None)


def _code(ranked: Sequence[Ranked], cutoff: float, given: SearchBox | None) -> str | None:
    """Return the line of Python that creates a NeighbourList with its fastest method."""
    if (best := _fastest(ranked)) is None:
        return None
    box = ""
    if given is not None:
        size, low = (tuple(float(f"{x:.9g}") for x in each) for each in (given.size, given.low))
        axes = given.periodic[0] if len(set(given.periodic)) == 1 else given.periodic
        corner = f", low={low}" if any(low) else ""
        box = f", box={size}, periodic={axes}{corner}"
    return f"gpubench.NeighbourList(cutoff={float(cutoff)!r}{box}, method={_method(best)!r})"


def _skin(states: Sequence[ParticleSet], skin: float, best: Ranked | None) -> Skin:
    """Evaluate a skin: a list is valid until a particle has moved by half the skin."""
    lists, built = 1, states[0]
    for state in states[1:]:
        if not skin or _longest_move(built, state) > skin / 2:
            lists, built = lists + 1, state
    list_ms = best.measurement.record.median_ms if best else None
    return Skin(skin, len(states) / lists, outlasts=bool(skin) and lists == 1, list_ms=list_ms)


def _longest_move(before: ParticleSet, after: ParticleSet) -> float:
    """Return the largest displacement of a particle; nearest image along periodic axes."""
    way = after.positions[:, :3].astype(np.float64) - before.positions[:, :3]
    size = np.asarray(after.grid.size)
    way -= np.where(after.grid.periodic, np.round(way / size) * size, 0.0)
    return float(np.linalg.norm(way, axis=1).max())
