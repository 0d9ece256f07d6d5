"""Records: results of one subject on one input in one mode, with a type for each status."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from gpubench import problems
from gpubench.evidence import bounds, inputs
from gpubench.evidence.bounds import Amount, Count, Exact, Line, Ms, Name, Number, Real, Value
from gpubench.evidence.inputs import INPUTS, Input

Status = Literal["ok", "wrong", "failed", "skipped"]
Reason = Annotated[str, Meta(max_length=100_000)]
Triple = Meta(min_length=3, max_length=3)
Clock = Annotated[int, Meta(ge=0, le=1_000_000)]


class Declared(Struct, frozen=True, forbid_unknown_fields=True):
    """An algorithm's declaration of a variant; see `Algorithm.declared` in core/algorithm.py.

    problem: the problem it solves; None if not declared. task: the extent of a search. answer: kind
    of answer. replaces: for an update, the full build that it replaces. loses: name of the outcome
    that counts missing items. library_part: a library's part of the work, if the rest is ours.
    """

    problem: Name | None
    task: Name | None
    answer: Name | None
    replaces: Name | None
    loses: Line | None
    library_part: Name | None = None


class Record(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="status"):
    """The fields of all records.

    input: the requested axes, see `inputs.py`. drawn: other values known once the input is drawn,
    e.g. its grid's cells. inputs: number of inputs that alternated in the samples; None for one.
    throttled_ms: samples set aside because the device was throttled while they were taken.
    remarks: unusual features of the samples. stopped: why sampling stopped. clocks_sm_mhz: lowest
    and highest clock read between samples. steps: simulation steps per launch; times are per step.
    phases_ms: times of a step's phases, timed by events and without a graph. peak_bytes: peak
    memory of a library, without positions, where it exceeds workspace_bytes. first_call_ms: time on
    the host to make the algorithm, load its input and launch it for the first time. library: name
    and version of the third-party package; None for our own. measured_on: in a run spread over
    several devices, the UUID of the GPU, or the spec of the OpenCL device. version: the version of
    the timed code, see core/version.py. outcome: values reported beside the answer. energy: see
    measure/energy.py. counters: see studies/counters.py. Fields with a default of None were added
    later.
    """

    key: Annotated[str, Meta(max_length=100)]
    study: Name
    sweep: Name
    algorithm: Name
    form: Name
    parameters: dict[Name, Number]
    device: Literal["cuda", "opencl"]
    input: Input | None
    drawn: dict[Name, Value] | None = None
    inputs: Annotated[int, Meta(ge=2, le=Exact)] | None = None
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
    version: Name | None = None
    outcome: dict[Line, Value]
    energy: dict[Name, Real] | None = None
    counters: dict[Name, Real] | None = None
    state_before: dict[Line, Value] | None
    state_after: dict[Line, Value] | None

    @property
    def status(self) -> Status:
        """The name of its type, in files."""
        return cast(Status, self.__struct_config__.tag)

    @property
    def kind(self) -> str | None:
        """The kind of the input."""
        return None if self.input is None else self.input.kind

    def at(self, axis: str) -> Any:
        """Return the value on an axis; None if the input has no such axis."""
        if axis == INPUTS:
            return self.inputs
        return getattr(self.input, axis, None)

    @property
    def axes(self) -> dict[str, Any]:
        """The value on each axis of any kind, in column order; None for axes the input lacks."""
        told = {INPUTS: self.inputs} | ({} if self.input is None else self.input.told)
        return {name: told.get(name) for name in inputs.names()}


class Ok(Record, frozen=True, tag="ok"):
    """A right answer with its time."""

    samples_ms: Annotated[list[Ms], Meta(min_length=1)]
    batch: Count
    median_ms: Ms
    ci95_low_ms: Ms
    ci95_high_ms: Ms


class Untimed(Record, frozen=True):
    """A result without a time, and the reason."""

    reason: Annotated[str, Meta(min_length=1, max_length=100_000)]
    samples_ms: None
    batch: None
    median_ms: None
    ci95_low_ms: None
    ci95_high_ms: None


class Wrong(Untimed, frozen=True, tag="wrong"):
    """A wrong answer."""


class Failed(Untimed, frozen=True, tag="failed"):
    """No answer: an exception was raised, or the process died."""


class Skipped(Untimed, frozen=True, tag="skipped"):
    """Impossible on this device, in this run or on this machine."""


AnyRecord: TypeAlias = Ok | Wrong | Failed | Skipped
# The fields of a record in the order in which files store them.
_BEFORE = Record.__struct_fields__.index("mode") + 1
HEADER = (*Record.__struct_fields__[:_BEFORE], "status", *Record.__struct_fields__[_BEFORE:])
_SHARED = frozenset({"parameters", "outcome"})  # JSON objects, which are never null
# Together with the axes of the input, these fields identify the work.
_BESIDE = (
    "study", "sweep", "algorithm", "form", "parameters", "device", "mode", "input_hash", "seed",
)  # fmt: skip
# The axes of schema 1, which a key includes even if null.
_FIRST = (
    "particles", "per_cell", "cells", "distribution", "order", "moved", "destination", "periodic",
    "records", "kept", "record_bytes", "nulls",
)  # fmt: skip


def as_json(record: Record | Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in plain JSON types, in the order of a file."""
    plain = msgspec.to_builtins(record) if isinstance(record, Record) else upgraded(record)
    return {name: plain[name] for name in HEADER if name in plain}


def upgraded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record's fields to the current schema: in schema 1, axes were among the fields.

    Raises ValueError where no kind of input has the axes.
    """
    if fields.get("input") is not None:
        return dict(fields)
    beside = {name: value for name, value in fields.items() if value is not None}
    found = {name: beside.pop(name, fields[name]) for name in HEADER if name in fields}
    kind, cells = beside.pop("kind", None), beside.pop("cells", None)
    kind = kind or inputs.kind_of(tuple(beside))
    if kind is None and beside:
        raise ValueError(f"no kind of input has the axes {', '.join(beside)}")
    if cells is not None:
        msgspec.convert(cells, Annotated[list[Count], Triple])
    asked = None if kind is None else {"kind": kind, **beside}
    return found | {"input": asked, "drawn": None if cells is None else {"cells": cells}}


def record_of(fields: AnyRecord | Mapping[str, Any]) -> AnyRecord:
    """Convert plain JSON to a record, ignoring unknown fields (of later versions).

    Raises ValueError for an impossible record.
    """
    if isinstance(fields, AnyRecord):
        return fields
    names = {*HEADER, *inputs.names(), "cells", "kind"}
    known = upgraded({name: value for name, value in fields.items() if name in names})
    found: AnyRecord = bounds.checked(AnyRecord, known, "not a valid record")
    return found


def make_record(**fields: Any) -> AnyRecord:
    """Return a complete record from the fields given; the others are null, or {} for objects.

    Takes any field but `key`, which is computed. NumPy scalars and arrays become plain numbers and
    lists; in a reason, characters that text files cannot hold are escaped. Raises ValueError for an
    impossible record: an unknown field, a status `ok` without its times, any other status with a
    time or without a reason.
    """
    complete = {name: {} if name in _SHARED else None for name in HEADER} | upgraded(fields)
    if isinstance(reason := complete["reason"], str):
        written = reason.encode("utf-8", "backslashreplace").decode()
        complete["reason"] = written.replace("\0", "\\0")
    if unknown := complete.keys() - {*HEADER}:
        raise ValueError(f"not a valid record: unknown fields {', '.join(sorted(unknown))}")
    complete["key"] = ""
    plain = json.loads(to_json(complete))
    found: AnyRecord = bounds.checked(AnyRecord, plain, "not a valid record")
    return msgspec.structs.replace(found, key=record_key(**identity_of(found)))


def record_key(**identity: Any) -> str:
    """Return the key of a record, 16 hex digits, from the result of `identity_of`.

    Equal numbers give equal keys whatever their type. Null axes may be omitted. Raises TypeError
    for any other missing value, and for unknown ones.
    """
    allowed = {*_BESIDE, "cells", *inputs.names()}
    kind = identity.pop("kind", None)
    wrong = {*_BESIDE} - identity.keys()
    if kind is None or kind in problems.own_kinds():
        wrong |= identity.keys() - allowed
    if wrong:
        raise TypeError(f"a record's key is made of other values; check {sorted(wrong)}")
    kept = {name: value for name, value in identity.items() if value is not None}
    known = dict.fromkeys((*_BESIDE, *_FIRST)) | kept
    canonical = json.loads(to_json(known), parse_float=bounds.number_of)
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identity_of(record: Record) -> dict[str, Any]:
    """Return the fields that identify a record's work and input; see `record_key`."""
    beside = {name: getattr(record, name) for name in _BESIDE}
    own = {} if record.input is None else record.input.told
    return beside | (record.drawn or {}) | own | {INPUTS: record.inputs, "kind": record.kind}


def waits_for(study: str, ranks: int | None) -> str:
    """Return the reason for skipping a record that needs a run with another number of ranks.

    ranks: the number required; None for one.
    """
    if ranks is None:
        return f"is measured by one rank: gpubench run {study}"
    return f"is measured by {ranks} ranks: mpirun -n {ranks} gpubench run {study}"


def is_waiting(record: Record) -> bool:
    """Return whether a record waits for a run with another number of ranks."""
    reason = waits_for(record.study, record.at("ranks"))
    return record.status == "skipped" and record.reason == reason


def is_settled(record: Record) -> bool:
    """Return whether a record needs no new measurement: neither failed nor waiting."""
    return record.status != "failed" and not is_waiting(record)


def to_json(value: object) -> str:
    """Return one line of JSON; NumPy values become plain ones, NaN raises ValueError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=plain)


def plain(value: object) -> object:
    """Convert a value of NumPy or of our types to a plain one; raises TypeError for others."""
    if hasattr(value, "tolist"):  # NumPy types, without importing NumPy
        return value.tolist()
    if isinstance(value, Struct):
        return msgspec.to_builtins(value, enc_hook=plain)
    raise TypeError(f"{type(value).__name__} has no place in a results file")
