"""Base and head from results files: which records are one cell, and whether they compare."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubench.compare.verdict import CLOCK_MS, Cell, Fault, LeftOut
from gpubench.core.errors import UserError
from gpubench.evidence.files import load_results
from gpubench.evidence.pooling import Measurement, key_of, pool
from gpubench.evidence.results import IDENTITY, Results, is_waiting
from gpubench.studies.plan import cell_key

SM_CLOCKS_AGREE = 0.02  # of the medians on both sides
NAMED = 3  # cells of which a message gives the names, before it counts

# What may change a time, under the name that a message gives it: fields of an environment's
# device and host, and libraries of each back end. Where a side does not know, nothing is said.
DEVICE = {
    "device": "name",
    "GPU": "uuid",
    "clock lock": "clocks_locked",
    "memory error correction": "ecc",
    "compiler": "nvcc",
    "CUDA toolkit": "cuda_toolkit",
    "driver": "driver",
    "OpenCL platform": "platform",
    "OpenCL version": "version",
}
HOST = {"processor": "cpu", "processor cores": "cores"}
LIBRARIES = {"cuda": ("pycuda", "cupy"), "opencl": ("pyopencl", "intel-opencl-rt", "pocl")}

# Parts of an identity that a cell's name leaves out: they follow from the others, or are drawn.
_UNNAMED = {"study", "sweep", "algorithm", "form", "parameters", "device", "cells", "periodic",
            "mode", "input_hash", "seed"}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """Base or head.

    role: "base" or "head". name: what the user calls it.
    """

    role: str
    name: str
    results: Sequence[Results]


@dataclass(frozen=True)
class Matched:
    """What two sides have in common.

    faults: cells that are wrong in head, or were in base. left_out: cells that only one side has
    times of. differences: what speaks against comparing, in words. environment: on what and by
    what code it was measured, in words.
    """

    cells: Sequence[Cell]
    faults: Sequence[Fault]
    left_out: Sequence[LeftOut]
    differences: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class _Process:
    """What one process found of a cell. place: of its file among those of its side."""

    place: int
    measured: Measurement
    environment: Mapping[str, Any]

    @property
    def record(self) -> Mapping[str, Any]:
        """The record that stands for all of its timings."""
        return self.measured.record

    @property
    def samples_ms(self) -> list[float]:
        """All samples, each timing scaled so that its median is that of the measurement."""
        return [
            sample * (self.record["median_ms"] / timing.record["median_ms"])
            for timing in self.measured.timings
            for sample in timing.record["samples_ms"]
        ]


@dataclass(frozen=True)
class _Pair:
    """The processes of base and of head with times for one cell."""

    key: str
    name: str
    base: Sequence[_Process]
    head: Sequence[_Process]


def load_side(role: str, path: Path) -> Side:
    """Read a results file, or all of them in and below a folder.

    Raises UserError for what is not there, is no results file, or is a folder without any.
    """
    return Side(role, str(path), load_results([path], f"gpubench run STUDY --out {path}"))


def match(base: Side, head: Side, paired: bool = False, force: bool = False) -> Matched:
    """Put together what both sides found of each cell.

    A process is a file.

    paired: the n-th process of base and the n-th of head ran together; those without a partner
    are left aside.

    Raises UserError that names all that differs between the sides and may change a time, unless
    `force`; and where the sides have no cell in common.
    """
    ours, theirs = _cells(base), _cells(head)
    pairs, faults, left_out = [], [], []
    for key in dict.fromkeys((*ours, *theirs)):
        both = ours.get(key, []), theirs.get(key, [])
        name = name_of(next(process.record for side in both for process in side))
        base_fault, head_fault = (_fault(side) for side in both)
        timed = [[p for p in side if p.record["status"] == "ok"] for side in both]
        if paired:
            timed = _partners(*timed)
        if head_fault or (base_fault and timed[1]):
            faults.append(Fault(name, base_fault or _why_untimed(both[0]), head_fault))
        elif all(timed):
            pairs.append(_Pair(_key_of_job(timed[0][0]), name, *timed))
        elif not all(_is_skipped(side) for side in both):
            left_out.append(LeftOut(name, _why_left_out(both)))
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
    cells = [_cell(pair, paired) for pair in pairs]
    return Matched(cells, faults, left_out, differences, _environment(base, head))


def name_of(record: Mapping[str, Any]) -> str:
    """Return the name of a record's cell: what was measured, on what input, and how.

    The same in every comparison, and of every version of the code.
    """
    parameters = [f"{key}={_number(value)}" for key, value in sorted(record["parameters"].items())]
    subject = " ".join([record["algorithm"], record["form"], *parameters])
    axes = [
        value if isinstance(value, str) else f"{name}={_number(value)}"
        for name in IDENTITY
        if name not in _UNNAMED and (value := record.get(name)) is not None
    ]
    periodic = ["periodic"] if any(record["periodic"] or ()) else []
    place = ", ".join([subject, *axes, *periodic, record["mode"]])
    return f"{record['study']}/{record['sweep']}: {place}"


def _number(value: float) -> str:
    """Write a number the same whether it is stored as 4 or as 4.0."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _cells(side: Side) -> dict[tuple[Any, ...], list[_Process]]:
    """Return the processes of each cell, by what identifies its measurement.

    A process is a file; all that it timed of one measurement is its one time (`pool`).
    """
    found: dict[tuple[Any, ...], list[_Process]] = {}
    for place, results in enumerate(side.results):
        for measured in pool([results]):
            if not is_waiting(measured.record):
                process = _Process(place, measured, results.environment)
                found.setdefault(key_of(measured.record), []).append(process)
    return found


def _key_of_job(process: _Process) -> str:
    """Return the key by which a worker is told to measure this again."""
    return cell_key({name: process.record[name] for name in IDENTITY})


def _fault(processes: Iterable[_Process]) -> str | None:
    """Return what is wrong with a cell's answers: one bad process is enough."""
    for status in ("wrong", "failed"):
        for process in processes:
            if process.record["status"] == status:
                return f"{status}: {process.record['reason']}"
    return None


def _partners(base: list[_Process], head: list[_Process]) -> list[list[_Process]]:
    ours, theirs = ({process.place: process for process in side} for side in (base, head))
    common = [place for place in ours if place in theirs]
    return [[side[place] for place in common] for side in (ours, theirs)]


def _why_untimed(processes: Sequence[_Process]) -> str | None:
    """Return why a side without a fault has no times of a cell, or None where it has."""
    if not processes:
        return "not measured"
    return f"skipped: {processes[0].record['reason']}" if _is_skipped(processes) else None


def _why_left_out(both: Sequence[Sequence[_Process]]) -> str:
    for role, processes in zip(("base", "head"), both, strict=True):
        if why := _fault(processes) or _why_untimed(processes):
            return f"{role}: {why}"
    return "no process of base ran together with one of head"


def _is_skipped(processes: Sequence[_Process]) -> bool:
    return all(process.record["status"] == "skipped" for process in processes)


def _cell(pair: _Pair, paired: bool) -> Cell:
    base, head = ([p.samples_ms for p in side] for side in (pair.base, pair.head))
    records = [process.record for process in (*pair.base, *pair.head)]
    # A sample is the mean of a batch.
    clock_ms = CLOCK_MS / min(record["batch"] for record in records)
    # A remark begins with what it is, and goes on with figures.
    odd = Counter(text.split(":")[0] for r in records for text in r.get("remarks") or ())
    remarks = [f"{what} in {count} of {len(records)} processes" for what, count in odd.items()]
    try:
        return Cell(pair.name, base, head, paired, clock_ms, pair.key, remarks)
    except ValueError as error:
        raise UserError(f"{error}: measure it again") from error


def _environment(base: Side, head: Side) -> dict[str, str]:
    """Return on what and by what code both sides were measured, in words."""
    everything = [*base.results, *head.results]
    found = {k: _words(v) for k, v in _conditions(r.environment for r in everything).items()}
    for side in (base, head):
        found[f"code of {side.role}"] = _words({_code(r.environment) for r in side.results})
    return found


def _code(environment: Mapping[str, Any]) -> str:
    """Return the commit of the package in words, and that of what was added to it."""
    commits = {"": environment["commit"] or environment["code_hash"]}
    commits |= environment.get("added_commits", {})
    dirty = {"": environment["dirty"]} | environment.get("added_dirty", {})
    return " with ".join(
        " ".join(filter(None, [name, str(commit or "of no commit")[:12]]))
        + (" with changes" if dirty.get(name) else "")
        for name, commit in commits.items()
    )


def _differences(pairs: Sequence[_Pair]) -> list[str]:
    """Say in words all that differs between the sides and may change a time."""
    base = [process for pair in pairs for process in pair.base]
    head = [process for pair in pairs for process in pair.head]
    ours, theirs = (_conditions(p.environment for p in side) for side in (base, head))
    found = [
        f"different {label}: {_words(ours.get(label, ()))} in base,"
        f" {_words(theirs.get(label, ()))} in head"
        for label in ours | theirs
        if len({*ours.get(label, ()), *theirs.get(label, ())}) > 1
    ]
    clocks = _sm_clock_mhz(base), _sm_clock_mhz(head)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > SM_CLOCKS_AGREE:
        found.append(f"different SM clocks: {clocks[0]:g} MHz in base, {clocks[1]:g} in head")
    for role, sides in (("base", [p.base for p in pairs]), ("head", [p.head for p in pairs])):
        mixed = {hash_ for side in sides if len(codes := _codes(side)) > 1 for hash_ in codes}
        if mixed:
            found.append(f"versions of the code mixed in {role}: {_words(mixed)}")
    drawn = [pair.name for pair in pairs if len(_input_hashes(pair)) > 1]
    if drawn:
        more = f" and {len(drawn) - NAMED} more" if len(drawn) > NAMED else ""
        found.append(f"different inputs: {' / '.join(drawn[:NAMED])}{more}")
    return found


def _conditions(environments: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return all values of every condition under its label; what is not known has none."""
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


def _sm_clock_mhz(processes: Iterable[_Process]) -> float | None:
    """Return the median clock of the multiprocessors under load; None where it is not known."""
    clocks: list[float] = []
    for process in processes:
        states = (process.record["state_before"], process.record["state_after"])
        clocks += [clock for state in states if state and (clock := state.get("clocks_sm_mhz"))]
    return statistics.median(clocks) if clocks else None


def _codes(processes: Iterable[_Process]) -> set[str]:
    return {process.environment["code_hash"] for process in processes}


def _input_hashes(pair: _Pair) -> set[str]:
    hashes = (process.record["input_hash"] for process in (*pair.base, *pair.head))
    return {hash_ for hash_ in hashes if hash_ is not None}


def _words(values: Iterable[str]) -> str:
    return " and ".join(sorted(values)) or "not known"
