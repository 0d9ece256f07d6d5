"""Records: what one subject on one input in one mode came to, typed by its status."""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from gpubench.evidence.bounds import (
    Amount,
    Count,
    Exact,
    Line,
    Ms,
    Name,
    Number,
    Positive,
    Share,
    Value,
    checked,
    number_of,
)

Status = Literal["ok", "wrong", "failed", "skipped"]
Reason = Annotated[str, Meta(max_length=100_000)]
Triple = Meta(min_length=3, max_length=3)
Clock = Annotated[int, Meta(ge=0, le=1_000_000)]


class Declared(Struct, frozen=True, forbid_unknown_fields=True):
    """What an algorithm declares of a form; see `Algorithm.declared` in core/contracts.py.

    problem: what is asked; None where it is not declared. task: how far a search goes. answer: its
    kind. replaces: of an update, the full build of what it updates. loses: the outcome that
    counts what the answer lacks.
    """

    problem: Name | None
    task: Name | None
    answer: Name | None
    replaces: Name | None
    loses: Line | None


class _Meta(msgspec.StructMeta, abc.ABCMeta):
    """What makes structs that are mappings as well."""


class Record(
    Struct, Mapping[str, Any], metaclass=_Meta, kw_only=True, frozen=True,
    forbid_unknown_fields=True, tag_field="status",
):  # fmt: skip
    """What all records have; also a mapping from the names of its fields to their values.

    moved: particles that are in another cell than before. kept: share of the records that are not
    null. skin: how much further than the cutoff lists of neighbours reach. ranks, decomposition:
    how many share a simulation, and how; None for one. setting: a parameter of a workload,
    NAME=VALUE, that differs from its default. inputs: how many took turns in the samples;
    None for one. throttled_ms: samples set aside, because the device was throttled while they were
    taken. remarks: what is unusual about the samples. stopped: why no more were taken.
    clocks_sm_mhz:
    the lowest and highest read between them. steps: of a simulation in one launch; times are of one
    step. phases_ms: of a step, with events between them and without a graph. peak_bytes: the most
    memory that a library took for itself, without positions, where not all is workspace_bytes.
    first_call_ms: time on the host to make the algorithm, load its input and launch it for the
    first time. library: name and version of the third-party package; None for our own.
    measured_on: UUID of the GPU, or the OpenCL device, in a run spread over several. outcome: what
    the launch reports beside its answer. What is None by default came later than other fields.
    """

    status: ClassVar[Status]

    key: Annotated[str, Meta(max_length=100)]
    study: Name
    sweep: Name
    algorithm: Name
    form: Name
    parameters: dict[Name, Number]
    device: Literal["cuda", "opencl"]
    particles: Count | None
    per_cell: Positive | None
    cells: Annotated[list[Count], Triple] | None
    distribution: Name | None
    order: Name | None
    moved: Amount | None
    destination: Name | None = None
    periodic: Annotated[list[bool], Triple] | None
    records: Count | None = None
    kept: Share | None = None
    record_bytes: Count | None = None
    nulls: Name | None = None
    pairs: Count | None = None
    matrix: Name | None = None
    surface: Name | None = None
    faces: Count | None = None
    depth: Count | None = None
    key_count: Count | None = None
    value_bytes: Amount | None = None
    key_order: Name | None = None
    key_type: Name | None = None
    key_entropy: Share | None = None
    key_bits: Count | None = None
    keys_moved: Share | None = None
    segment_keys: Count | None = None
    mesh: Name | None = None
    pose: Name | None = None
    inputs: Annotated[int, Meta(ge=2, le=Exact)] | None = None
    workload: Name | None = None
    skin: Ms | None = None
    time_step: Positive | None = None
    ranks: Annotated[int, Meta(ge=2, le=1_000_000)] | None = None
    decomposition: Literal["slab", "master"] | None = None
    setting: Name | None = None
    mode: Literal["cold", "hot", "graph"]
    reason: Reason | None
    samples_ms: list[Ms] | None
    throttled_ms: list[Ms] | None = None
    throttled_by: list[Line] | None = None
    remarks: list[Line] | None = None
    stopped: Literal["narrow", "time", "samples"] | None = None
    clocks_sm_mhz: Annotated[list[Clock], Meta(min_length=2, max_length=2)] | None = None
    batch: Count | None
    median_ms: Ms | None
    ci95_low_ms: Ms | None
    ci95_high_ms: Ms | None
    steps: Count | None = None
    particle_steps_per_s: Annotated[float, Meta(ge=1e-12, le=1e30)] | None = None
    phases_ms: dict[Name, Ms] | None = None
    bytes_moved: Amount | None
    workspace_bytes: Amount | None
    peak_bytes: Amount | None = None
    first_call_ms: Ms | None = None
    declared: Declared | None = None
    library: Line | None = None
    input_hash: Name | None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None
    measured_on: Line | None = None
    outcome: dict[Line, Value]
    state_before: dict[Line, Value] | None
    state_after: dict[Line, Value] | None

    def __getitem__(self, name: str) -> Any:
        if name not in FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(FIELDS)

    def __len__(self) -> int:
        return len(FIELDS)

    def __or__(self, changes: Mapping[str, Any]) -> Any:
        return {**self, **changes}


class Ok(Record, frozen=True, tag="ok"):
    """A right answer with its time."""

    status = "ok"
    samples_ms: Annotated[list[Ms], Meta(min_length=1)]
    batch: Count
    median_ms: Ms
    ci95_low_ms: Ms
    ci95_high_ms: Ms


class Untimed(Record, frozen=True):
    """What has no time, and why."""

    reason: Annotated[str, Meta(min_length=1, max_length=100_000)]
    samples_ms: None
    batch: None
    median_ms: None
    ci95_low_ms: None
    ci95_high_ms: None


class Wrong(Untimed, frozen=True, tag="wrong"):
    """A wrong answer."""

    status = "wrong"


class Failed(Untimed, frozen=True, tag="failed"):
    """No answer: something was raised, or a process died."""

    status = "failed"


class Skipped(Untimed, frozen=True, tag="skipped"):
    """What this device, this run or this machine cannot do."""

    status = "skipped"


AnyRecord: TypeAlias = Ok | Wrong | Failed | Skipped
# As they stand in a file.
FIELDS = tuple(
    each
    for name in Record.__struct_fields__
    for each in ((name, "status") if name == "mode" else (name,))
)
_SHARED = frozenset({"parameters", "outcome"})  # objects, which are never null
# What makes two records the same work on the same input, and of it the axes of the input.
_NAMES = Record.__struct_fields__
IDENTITY = (*_NAMES[_NAMES.index("study") : _NAMES.index("mode") + 1], "input_hash", "seed")
AXES = tuple(
    name
    for name in IDENTITY[IDENTITY.index("particles") : IDENTITY.index("mode")]
    if name != "cells"
)
# Of these, what came later: where it is null, the key is what it was before.
CAME_LATER = AXES[AXES.index("pairs") :]


def as_json(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in plain JSON types, in the order of a file."""
    plain = msgspec.to_builtins(record) if isinstance(record, Record) else record
    return {name: plain[name] for name in FIELDS if name in plain}


def record_of(fields: Mapping[str, Any]) -> AnyRecord:
    """Return the record that plain JSON stands for; fields that it does not know are left out.

    Such fields are those of a later version of the package. Raises ValueError for what no record
    can be.
    """
    if isinstance(fields, AnyRecord):
        return fields
    known = {name: value for name, value in fields.items() if name in FIELDS}
    found: AnyRecord = checked(AnyRecord, known, "not a valid record")
    return found


def make_record(**fields: Any) -> AnyRecord:
    """Return a complete record from the fields given; the others are null, or {} for objects.

    Takes any field but `key`, which is computed. NumPy scalars and arrays become plain numbers and
    lists; of a reason, what no file of text can hold is escaped. Raises ValueError for what no
    record can be: an unknown field, a status `ok` without its times, any other status with a time
    or without a reason.
    """
    complete = {name: {} if name in _SHARED else None for name in FIELDS} | fields
    if isinstance(reason := complete["reason"], str):
        complete["reason"] = (
            reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        )
    complete["key"] = record_key(**{name: complete[name] for name in IDENTITY})
    found: AnyRecord = checked(AnyRecord, json.loads(to_json(complete)), "not a valid record")
    return found


def record_key(**identity: Any) -> str:
    """Return the key of a record, 16 hex digits, from the values named in IDENTITY.

    Equal numbers give equal keys whatever their type. Raises TypeError for a value that is
    missing or does not belong.
    """
    if identity.keys() != set(IDENTITY):
        wrong = sorted(identity.keys() ^ set(IDENTITY))
        raise TypeError(f"a record's key is made of {', '.join(IDENTITY)}; check {wrong}")
    known = {n: v for n, v in identity.items() if v is not None or n not in CAME_LATER}
    canonical = json.loads(to_json(known), parse_float=number_of)
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identity_of(record: Record) -> dict[str, Any]:
    """Return the values named in IDENTITY."""
    return {name: getattr(record, name) for name in IDENTITY}


def waits_for(study: str, ranks: int | None) -> str:
    """Return the reason of a record that only a run with another number of ranks can measure.

    ranks: those that it takes; None for one.
    """
    if ranks is None:
        return f"is measured by one rank: gpubench run {study}"
    return f"is measured by {ranks} ranks: mpirun -n {ranks} gpubench run {study}"


def is_waiting(record: Record) -> bool:
    """Say whether a record waits for a run with another number of ranks."""
    return record.status == "skipped" and record.reason == waits_for(record.study, record.ranks)


def is_settled(record: Record) -> bool:
    """Say whether a record is not measured again: not what failed, and not what is waiting."""
    return record.status != "failed" and not is_waiting(record)


def to_json(value: object) -> str:
    """Return one line of JSON; NumPy's values as plain ones, NaN refused with ValueError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=plain)


def plain(value: object) -> object:
    """Return what of NumPy or of ours is no plain value as one; raises TypeError for all else."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Struct):
        return msgspec.to_builtins(value, enc_hook=plain)
    raise TypeError(f"{type(value).__name__} has no place in a results file")
