"""Match the cells of base and head from results files, and check that they are comparable."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from gpubench.base.errors import UserError
from gpubench.compare.verdict import CLOCK_MS, ComparedTimes
from gpubench.evidence.pooling import Measurement, pool, started
from gpubench.evidence.records import Ok, Record, identity_of, is_waiting
from gpubench.evidence.results import Results
from gpubench.studies.plan import cell_key

SM_CLOCKS_AGREE = 0.02  # relative tolerance between the sides' medians
ROLES = ("base", "head")
NOT_TOGETHER = "no process of base ran together with one of head"
FAULTY = ("wrong", "failed")
STATES = (*FAULTY, "ok", "skipped")  # one bad process is enough
NAMED = 3  # maximum number of cells that a message names individually

FaultKind = Literal["broken", "wrong", "mended"]
Processes = Sequence[Measurement]  # measurements of one cell, one per process

# Conditions that may affect timings: fields of an environment's device and host, by their labels
# in messages; and libraries, by back end. A value that one side does not know is not compared.
DEVICE = {
    "device": "name", "GPU": "uuid", "clock lock": "clocks_locked",
    "memory error correction": "ecc", "compiler": "nvcc", "CUDA toolkit": "cuda_toolkit",
    "driver": "driver", "OpenCL platform": "platform", "OpenCL version": "version",
}  # fmt: skip
HOST = {"processor": "cpu", "processor cores": "cores"}
LIBRARIES = {"cuda": ("pycuda", "cupy"), "opencl": ("pyopencl", "intel-opencl-rt", "pocl")}


class Side(NamedTuple):
    """Base or head. name: the user's name for it."""

    name: str
    results: Sequence[Results]


class Fault(NamedTuple):
    """A cell that is wrong or failed on at least one side.

    base, head: the problem on that side, in words; None if there is none.
    """

    name: str
    base: str | None
    head: str | None

    @property
    def kind(self) -> FaultKind:
        """The kind: only base right, only head right, or neither."""
        return "broken" if self.base is None else "mended" if self.head is None else "wrong"


class LeftOut(NamedTuple):
    """A cell that is not judged, and why."""

    name: str
    why: str


class Matched(NamedTuple):
    """The cells that two sides have in common.

    faults: cells that are wrong or failed in head or base. left_out: other cells that lack times on
    a side. differences: reasons not to compare. environment: machine and code, in words.
    """

    cells: Sequence[ComparedTimes]
    faults: Sequence[Fault]
    left_out: Sequence[LeftOut]
    differences: Sequence[str]
    environment: Mapping[str, str]


def match(base: Side, head: Side, paired: bool = False, force: bool = False) -> Matched:
    """Match the cells of base and head; each results file of a side is one process.

    paired: the n-th processes of both sides ran together; processes without a partner are ignored.
    Raises UserError if the sides have no cell in common and, unless `force`, if they differ in
    anything that may affect timings; the message names all such differences.
    """
    ours, theirs = _cells(base), _cells(head)
    pairs: dict[str, tuple[Processes, Processes]] = {}
    faults, left_out = [], []
    for key in dict.fromkeys((*ours, *theirs)):
        places = ours.get(key, {}), theirs.get(key, {})
        both = [[*side.values()] for side in places]
        name = name_of(next(process.record for side in both for process in side))
        (base_status, base_why), (head_status, head_why) = map(_state, both)
        timed = _timed(*places, paired)
        if head_status in FAULTY or (base_status in FAULTY and timed[1]):
            faults.append(Fault(name, base_why, head_why if head_status in FAULTY else None))
        elif all(timed):
            pairs[name] = timed
        elif not {base_status, head_status} <= {"absent", "skipped"}:
            whys = zip(ROLES, (base_why, head_why), strict=True)
            words = [f"{role}: {why}" for role, why in whys if why]
            left_out.append(LeftOut(name, words[0] if words else NOT_TOGETHER))
    if not (pairs or (faults and ours.keys() & theirs.keys())):
        raise UserError(
            f"{base.name} and {head.name} have no cell that both measured: run the same study for"
            " both, on the same kind of device"
        )
    differences = _differences(pairs)
    if differences and not force:
        raise UserError(
            f"{base.name} and {head.name} cannot be compared: {'; '.join(differences)}: measure"
            " both alike, or compare all the same with --force"
        )
    cells = [_cell(name, *sides, paired) for name, sides in pairs.items()]
    return Matched(cells, faults, left_out, differences, _environment(base, head))


def name_of(record: Record) -> str:
    """Return the name of a record's cell: what was measured, on what input, and how.

    The name is the same in every comparison, and for every version of the code.
    """
    parameters = [f"{name}={_number(value)}" for name, value in sorted(record.parameters.items())]
    told = {n: v for n, v in record.axes.items() if v is not None and n != "periodic"}
    axes = [v if isinstance(v, str) else f"{name}={_number(v)}" for name, v in told.items()]
    periodic = ["periodic"] if any(record.at("periodic") or ()) else []
    subject = " ".join([record.algorithm, record.form, *parameters])
    return f"{record.study}/{record.sweep}: {', '.join([subject, *axes, *periodic, record.mode])}"


def _number(value: float) -> str:
    """Format a number the same whether it is stored as 4 or as 4.0."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _cells(side: Side) -> dict[tuple[Any, ...], dict[int, Measurement]]:
    """Return the measurement of each cell in each process, by cell identity and process index.

    A process is a file; all its timings of one measurement are pooled (`pool`).
    """
    found: dict[tuple[Any, ...], dict[int, Measurement]] = {}
    for place, results in enumerate(side.results):
        for measured in pool([results]):
            if not is_waiting(measured.record):
                found.setdefault(measured.timings[0].key, {})[place] = measured
    return found


def _timed(
    base: Mapping[int, Measurement], head: Mapping[int, Measurement], paired: bool
) -> tuple[Processes, Processes]:
    """Return each side's processes with a time; if paired, only pairs in which both have one."""
    ours, theirs = ({p: m for p, m in s.items() if isinstance(m.record, Ok)} for s in (base, head))
    if paired:
        ours = {place: ours[place] for place in ours if place in theirs}
        theirs = {place: theirs[place] for place in ours}
    return list(ours.values()), list(theirs.values())


def _state(processes: Processes) -> tuple[str, str | None]:
    """Return the first status of a side's cell in STATES, and why it is not `ok`, in words."""
    if not processes:
        return "absent", "not measured"
    found = min((p.record for p in processes), key=lambda record: STATES.index(record.status))
    return found.status, None if found.status == "ok" else f"{found.status}: {found.reason}"


def _cell(name: str, base: Processes, head: Processes, paired: bool) -> ComparedTimes:
    records = [process.record for process in (*base, *head)]
    # A sample is the mean of a batch of launches.
    clock_ms = CLOCK_MS / min(record.batch or 1 for record in records)
    ours, theirs = ([*map(_samples_ms, side)] for side in (base, head))
    starts = ([started(process.results.environment) for process in side] for side in (base, head))
    key, in_turns = cell_key(identity_of(records[0])), paired or are_in_turns(*starts)
    return ComparedTimes(name, ours, theirs, paired, clock_ms, key, in_turns)


def _samples_ms(process: Measurement) -> list[float]:
    """Return all samples; those of each timing are scaled to the median of the measurement."""
    pooled = process.record.median_ms or 0.0
    times = [each.record for each in process.timings if isinstance(each.record, Ok)]
    return [ms * (pooled / (t.median_ms or 1.0)) for t in times for ms in t.samples_ms]


def are_in_turns(base: Sequence[datetime], head: Sequence[datetime]) -> bool:
    """Return whether processes of both sides alternated, given their start times.

    Neither side may ever be two processes ahead of the other (if one side has more, both are scaled
    to the same total). Starts in the same second have no order; a single process cannot alternate.
    """
    ours, theirs = sorted(base), sorted(head)
    m, n = len(ours), len(theirs)
    begun = ((bisect_right(ours, at), bisect_right(theirs, at)) for at in (*ours, *theirs))
    return min(m, n) > 1 and all(abs(one * n - other * m) < m + n for one, other in begun)


def _environment(base: Side, head: Side) -> dict[str, str]:
    """Return the machine and code of both sides, in words."""
    everything = [*base.results, *head.results]
    found = {k: _words(v) for k, v in _conditions(r.environment for r in everything).items()}
    for role, side in zip(ROLES, (base, head), strict=True):
        found[f"code of {role}"] = _words({_code(r.environment) for r in side.results})
    return found


def _code(environment: Mapping[str, Any]) -> str:
    """Return the commits of the package and of its plugins, in words."""
    commits = {"": environment["commit"] or environment["code_hash"]}
    commits |= environment.get("added_commits", {})
    dirty = {"": environment["dirty"]} | environment.get("added_dirty", {})
    words = []
    for name, commit in commits.items():
        changes = "with changes" if dirty.get(name) else ""
        words.append(" ".join(filter(None, [name, str(commit or "of no commit")[:12], changes])))
    return " with ".join(words)


def _differences(pairs: Mapping[str, tuple[Processes, Processes]]) -> list[str]:
    """List in words all differences between the sides that may affect timings."""
    base, head = ([p for both in pairs.values() for p in both[side]] for side in (0, 1))
    ours, theirs = (_conditions(p.results.environment for p in side) for side in (base, head))
    found = []
    for label in ours | theirs:
        sides = ours.get(label, set()), theirs.get(label, set())
        if len(set.union(*sides)) > 1:
            found.append("different {}: {} in base, {} in head".format(label, *map(_words, sides)))
    clocks = _sm_clock_mhz(base), _sm_clock_mhz(head)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > SM_CLOCKS_AGREE:
        found.append(f"different SM clocks: {clocks[0]:g} MHz in base, {clocks[1]:g} in head")
    for role, cells in zip(ROLES, zip(*pairs.values(), strict=True), strict=False):  # maybe none
        codes = [{p.results.environment["code_hash"] for p in cell} for cell in cells]
        if mixed := {code for each in codes if len(each) > 1 for code in each}:
            found.append(f"versions of the code mixed in {role}: {_words(mixed)}")
    hashes = {name: {p.record.input_hash for p in (*b, *h)} for name, (b, h) in pairs.items()}
    if drawn := [name for name, seen in hashes.items() if len(seen - {None}) > 1]:
        more = f" and {len(drawn) - NAMED} more" if len(drawn) > NAMED else ""
        found.append(f"different inputs: {' / '.join(drawn[:NAMED])}{more}")
    return found


def _conditions(environments: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return all values of each condition, by label; an unknown condition has no values."""
    found: dict[str, set[str]] = {}
    for environment in {id(each): each for each in environments}.values():
        device, host = environment["device"], environment["host"]
        values = {"machine": environment["machine"]}
        values |= {label: device.get(name) for label, name in DEVICE.items()}
        values |= {label: host.get(name) for label, name in HOST.items()}
        values |= {n: environment["libraries"].get(n) for n in LIBRARIES[device["backend"]]}
        for label, value in values.items():
            if value is not None:
                text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
                found.setdefault(label, set()).add(text)
    return found


def _sm_clock_mhz(processes: Processes) -> float | None:
    """Return the median clock of the multiprocessors under load; None where unknown."""
    states = [s for p in processes for s in (p.record.state_before, p.record.state_after) if s]
    read = [state.get("clocks_sm_mhz") for state in states]
    clocks = [clock for clock in read if isinstance(clock, int | float) and clock]
    return statistics.median(clocks) if clocks else None


def _words(values: Iterable[str]) -> str:
    return " and ".join(sorted(values)) or "not known"
