"""Results on disk: records, their schema, append-only storage, and a table of them.

Imports no device, so that results can be read anywhere.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import jsonschema_rs
import numpy as np
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource

from gpubench.core.errors import UserError
from gpubench.core.writing import Lock, remove_leftovers, whole_file

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")

# What makes two records the same work on the same input.
IDENTITY = (
    "study", "sweep", "algorithm", "form", "parameters", "device", "particles", "per_cell",
    "cells", "periodic", "distribution", "order", "moved", "destination", "records", "kept",
    "record_bytes", "nulls", "pairs", "inputs", "workload", "skin", "time_step", "ranks",
    "decomposition", "mode", "input_hash", "seed",
)  # fmt: skip
# Of these, what came later: where it is null, the key is what it was before.
CAME_LATER = frozenset(
    {"pairs", "inputs", "workload", "skin", "time_step", "ranks", "decomposition"}
)
# What is not measured again when a run is resumed, see `is_settled`.
_SETTLED = frozenset({"ok", "skipped", "wrong"})
# What must agree for new records to join those of an older file, see `first_difference`.
SAME_CONDITIONS = ("machine", "device", "host", "libraries", "code_hash")
# Hosts that are alike keep some pages more or fewer to themselves.
SAME_MEMORY = 0.01

_NUMBERS = (
    "per_cell", "moved", "kept", "skin", "time_step", "median_ms", "ci95_low_ms", "ci95_high_ms",
    "particle_steps_per_s", "first_call_ms",
)  # fmt: skip
_INTEGERS = (
    "particles", "records", "record_bytes", "pairs", "inputs", "ranks", "batch", "steps",
    "bytes_moved", "workspace_bytes", "peak_bytes", "seed",
)  # fmt: skip
# Without these, nothing in a text of JSON is what `_refuse_extremes` refuses.
_SUSPECT = re.compile(r"\\u|[eE][+-]?\d{3}|\d{19}")
_ENVIRONMENT_COLUMNS = ("machine", "device_name", "commit", "file")


@dataclass(frozen=True)
class Results:
    """The content of one results file.

    study: the text of the study's file; None where the package ships the study.
    """

    environment: dict[str, Any]
    records: list[dict[str, Any]]
    path: Path
    study: str | None = None


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Say what forbids that records of two environments stand in one file; None if nothing does."""
    for condition in SAME_CONDITIONS:
        a, b = one.get(condition), other.get(condition)
        if isinstance(a, dict) and isinstance(b, dict):
            for name in {**a, **b}:
                x, y = a.get(name), b.get(name)
                if (condition, name) == ("host", "memory_bytes") and _is_same_memory(x, y):
                    continue
                if x != y:
                    return f"{condition} {name}: {x}, and {y}"
        elif a != b:
            return f"{condition}: {a}, and {b}"
    return None


def _is_same_memory(one: int | None, other: int | None) -> bool:
    return bool(one and other and abs(one - other) <= SAME_MEMORY * one)


def record_key(**identity: Any) -> str:
    """Return the key of a record, 16 hex digits, from the values named in IDENTITY.

    Equal numbers give equal keys whatever their type. Raises TypeError for a value that is
    missing or does not belong.
    """
    if identity.keys() != set(IDENTITY):
        wrong = sorted(identity.keys() ^ set(IDENTITY))
        raise TypeError(f"a record's key is made of {', '.join(IDENTITY)}; check {wrong}")
    known = {n: v for n, v in identity.items() if v is not None or n not in CAME_LATER}
    canonical = json.loads(_json(known), parse_float=_whole_where_possible)
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def waits_for(study: str, ranks: int | None) -> str:
    """Return the reason of a record that only a run with another number of ranks can measure.

    ranks: those that it takes; None for one.
    """
    if ranks is None:
        return f"is measured by one rank: gpubench run {study}"
    return f"is measured by {ranks} ranks: mpirun -n {ranks} gpubench run {study}"


def is_waiting(record: Mapping[str, Any]) -> bool:
    """Say whether a record waits for a run with another number of ranks."""
    reason = waits_for(record["study"], record["ranks"])
    return bool(record["status"] == "skipped" and record["reason"] == reason)


def is_settled(record: Mapping[str, Any]) -> bool:
    """Say whether a record is not measured again: not what failed, and not what is waiting."""
    return record["status"] in _SETTLED and not is_waiting(record)


def make_record(**fields: Any) -> dict[str, Any]:
    """Return a complete record from the fields given; the others are null, or {} for objects.

    Takes any field of the schema but `key`, which is computed. NumPy scalars and arrays become
    plain numbers and lists; of a reason, what no file of text can hold is escaped. Raises
    ValueError for what the schema refuses: an unknown field, a status `ok` without its times, any
    other status with a time or without a reason.
    """
    properties = _schema()["$defs"]["record"]["properties"]
    empty: dict[str, Any] = {"parameters": {}, "outcome": {}}
    complete = {name: empty.get(name) for name in properties} | fields
    if isinstance(reason := complete["reason"], str):
        complete["reason"] = (
            reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        )
    complete["key"] = record_key(**{name: complete[name] for name in IDENTITY})
    return _checked("record", complete)


def validate(document: object, source: str = "results") -> None:
    """Check a document against the schema.

    Raises UserError with one line that names `source` and the first offence.
    """
    offence = _first_offence(None, document) or _date_offence(document)
    if offence:
        raise UserError(f"{source} is not a gpubench results file: {offence}")


def load(path: Path) -> Results:
    """Read one results file; every record has every field of the schema.

    Raises UserError where it is missing, unreadable, no JSON, or no results file.
    """
    document = read_json(path)
    validate(document, str(path))
    # Fields that came later do not apply to older records: they are null there.
    later = dict.fromkeys(_schema()["$defs"]["record"]["properties"])
    records = [_with_integers(later | record) for record in document["records"]]
    return Results(document["environment"], records, path, document.get("study"))


def read_json(path: Path, kind: str = "a gpubench results file") -> Any:
    """Return the content of a file of JSON; kind: what it should be, for messages.

    Raises UserError where it is missing, unreadable, or no JSON, and where it holds NaN, a number
    beyond float64 or a whole one beyond int64, or text that cannot be written to a file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}: give {kind}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not {kind}: it is not text") from error
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
        if _SUSPECT.search(text):
            _refuse_extremes(document)
        return document
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not {kind}: no JSON: {error}") from error


def offence_in(document: object, schema: Path) -> str | None:
    """Say in one line where a document first breaks a schema and how, or return None.

    schema: a file, which may refer to definitions in that of results files.
    """
    error = next(_validator_of(schema).iter_errors(document), None)
    return None if error is None else _in_one_line(error)


@cache
def _validator_of(schema: Path) -> Draft202012Validator:
    ours = Resource.from_contents(_schema())
    known: Registry[Any] = Registry().with_resource(SCHEMA_FILE.name, ours)
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")), registry=known)


def frame(results: Iterable[Results]) -> pd.DataFrame:
    """Return a table with one row a record: its fields, and machine, device_name, commit, file.

    An attempt that failed and was repeated later in the same file has no row. Columns with
    numbers hold floats or nullable integers; lists and objects stay as they are.
    """
    import pandas as pd  # slow to import, and not needed to measure

    rows = [
        {**record, **_environment_columns(result)}
        for result in results
        for record in {record["key"]: record for record in result.records}.values()
    ]
    columns = [*_schema()["$defs"]["record"]["properties"], *_ENVIRONMENT_COLUMNS]
    types = dict.fromkeys(_NUMBERS, "float64") | dict.fromkeys(_INTEGERS, "Int64")
    return pd.DataFrame(rows, columns=pd.Index(columns)).astype(types)


class Store:
    """A results file that grows.

    Each `add` replaces the file by a longer one in a single step, so that a kill at any time
    leaves a whole file. Records that are there are never altered. One store at a time may have a
    file: until `close`, or the end of the process, another is refused.

    path: the file; made by the first `add`. If it is there, it is continued under the
        environment that it holds.
    environment: of the run; used for a new file.
    text: of the study's file, where the package does not ship it; it replaces that of an earlier
        run.

    Raises UserError for a file that is no results file or that another store has, ValueError for
    an environment that the schema refuses.
    """

    def __init__(self, path: Path, environment: Mapping[str, Any], text: str | None = None) -> None:
        self.path = path
        plain = _checked("environment", environment)
        self._lock = Lock(
            path.with_name(f".{path.name}.lock"),
            f"another process measures the same into {path}: wait until it ends, or choose another"
            " folder",
        )
        try:
            remove_leftovers(path)
            self._version = _version(path)
            existing = Results(plain, [], path) if self._version is None else load(path)
        except BaseException:
            self.close()
            raise
        self.environment = existing.environment
        self._text = text if text is not None else existing.study
        self._lines: list[str] = [_json(record) for record in existing.records]
        self._done = _settled(existing.records)

    def close(self) -> None:
        """Leave the file to others."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def open(
        cls, folder: Path, study: str, environment: Mapping[str, Any], text: str | None = None
    ) -> Store:
        """Continue this machine's results of a study, or start new ones.

        The file is folder/<machine>/<date>-<commit>-<study>.json, with the code's hash where
        there is no commit, and -2, -3, ... where that name is taken. One is continued if it was
        made by the same code, libraries, device and host, whatever its date.
        """
        plain = _checked("environment", environment)
        place = folder / plain["machine"]
        while True:
            store = cls(_path_for(place, study, plain), plain, text)
            if first_difference(store.environment, plain) is None:
                return store
            store.close()  # another process has taken that name meanwhile

    @property
    def done(self) -> frozenset[str]:
        """Keys of the records that are settled, see `is_settled`."""
        return frozenset(self._done)

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, in one step for all of them.

        Raises ValueError for a record that the schema refuses, and UserError where the file
        cannot be written or another process changed it; then file and store stay as they were.
        """
        new = [_checked("record", record) for record in records]
        if not new:
            return
        lines = [*self._lines, *map(_json, new)]
        try:
            with whole_file(self.path) as file:
                file.write(_document(self.environment, lines, self._text).encode())
                if _version(self.path) != self._version:
                    raise UserError(f"{self.path} was changed meanwhile: let nothing else write it")
        except UserError as error:
            raise UserError(f"{error}; what was measured before is kept") from error
        self._version = _version(self.path)
        self._lines = lines
        self._done |= _settled(new)


def _path_for(place: Path, study: str, environment: Mapping[str, Any]) -> Path:
    """Return the file of a machine's folder that a run may continue, else a name that is free."""
    for path in reversed(_files_of(place, study)):
        found = load(path)
        # A file named ...-table-2.json may be the second of `table` or hold a study `table-2`.
        same_study = all(record["study"] == study for record in found.records)
        if same_study and first_difference(found.environment, environment) is None:
            return path
    code = (environment["commit"] or environment["code_hash"])[:7]
    stem = f"{environment['started'][:10]}-{code}-{study}"
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    return next(path for name in names if not (path := place / f"{name}.json").exists())


def _files_of(place: Path, study: str) -> list[Path]:
    """Return the results of one study in a machine's folder, oldest first."""
    name = re.compile(rf"(\d{{4}}-\d\d-\d\d-[0-9a-f]+)-{re.escape(study)}(?:-(\d+))?\.json")
    found = [
        (match[1], int(match[2] or 1), path)
        for path in place.glob("*.json")
        if (match := name.fullmatch(path.name))
    ]
    return [path for *_, path in sorted(found)]


def _settled(records: Iterable[Mapping[str, Any]]) -> set[str]:
    return {record["key"] for record in records if is_settled(record)}


def _version(path: Path) -> tuple[int, int] | None:
    """Return what changes whenever a file is replaced, or None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _document(environment: Mapping[str, Any], lines: Iterable[str], study: str | None) -> str:
    """Return the text of a results file: one record a line, for readable diffs."""
    header = json.dumps(environment, indent=2, ensure_ascii=False)
    text = "" if study is None else f'"study": {_json(study)},\n'
    records = ",\n".join(lines)
    return f'{{"schema": 1,\n"environment": {header},\n{text}"records": [\n{records}\n]}}\n'


def _environment_columns(result: Results) -> dict[str, str | None]:
    environment = result.environment
    return {
        "machine": environment["machine"],
        "device_name": environment["device"]["name"],
        "commit": environment["commit"],
        "file": str(result.path),
    }


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def _schema_of(definition: str | None) -> dict[str, Any]:
    """Return the schema of a whole document, or of one definition."""
    if definition is None:
        return _schema()
    return {
        "$schema": _schema()["$schema"],
        "$ref": f"#/$defs/{definition}",
        "$defs": _schema()["$defs"],
    }


@cache
def _validator(definition: str | None) -> Draft202012Validator:
    """Return the validator that says what is wrong."""
    return Draft202012Validator(_schema_of(definition))


@cache
def _quick_validator(definition: str | None) -> jsonschema_rs.Validator:
    """Return the validator that says whether something is wrong, a hundred times faster."""
    return jsonschema_rs.validator_for(_schema_of(definition))


def _first_offence(definition: str | None, instance: object) -> str | None:
    """Say in one line where an instance first breaks the schema and how, or return None."""
    if _quick_validator(definition).is_valid(instance):
        return None
    error = next(_validator(definition).iter_errors(instance), None)
    return None if error is None else _in_one_line(error)


def _in_one_line(error: ValidationError) -> str:
    message = textwrap.shorten(error.message, 200, placeholder=" ...")
    return f"at {error.json_path}: {message}"


def _checked(definition: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in plain JSON types; raise ValueError where the schema refuses it."""
    plain: dict[str, Any] = json.loads(_json(value))
    offence = _first_offence(definition, plain)
    if offence:
        raise ValueError(f"not a valid {definition}: {offence}")
    return plain


def _json(value: object) -> str:
    """Return one line of JSON; NumPy's values as plain ones, NaN refused with ValueError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a results file")


def _whole_where_possible(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def _date_offence(document: Any) -> str | None:
    """Say in one line why the date of a document that keeps to the schema is none."""
    started = document["environment"]["started"]
    try:
        datetime.fromisoformat(started)
    except ValueError as error:
        return f"at $.environment.started: {started!r}: {error}"
    return None


def _with_integers(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose whole numbers are of type int; JSON may have written 4 as 4.0."""
    for name in _INTEGERS:
        if isinstance(record[name], float):
            record[name] = int(record[name])
    for name in ("cells", "clocks_sm_mhz"):
        if record[name] is not None:
            record[name] = [int(number) for number in record[name]]
    return record


def _refuse_extremes(value: object) -> None:
    """Raise ValueError for what no NumPy array, or no file of text, can hold."""
    match value:
        case dict():
            for name, each in value.items():
                _refuse_extremes(name)
                _refuse_extremes(each)
        case list():
            for each in value:
                _refuse_extremes(each)
        case int() if not -(2**63) <= value < 2**63:
            raise ValueError(f"the whole number {str(value)[:24]} is beyond 64 bits")
        case float() if math.isinf(value) or 0 < abs(value) < 1e-300:
            raise ValueError(f"the number {value:g} is beyond what a float64 can hold")
        case str() if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"the text {value[:80]!r} has letters that no file can hold")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
