"""Results on disk: files that grow record by record and are always complete; need no device."""

from __future__ import annotations

import itertools
import json
import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gpubench.base.errors import UserError
from gpubench.base.writing import Lock, remove_leftovers, whole_file
from gpubench.evidence import bounds
from gpubench.evidence.bounds import SUFFIXES, Environment, Name
from gpubench.evidence.inputs import DescribedAxis, description, learn
from gpubench.evidence.records import AnyRecord, Record, as_json, is_settled, to_json, upgraded

# Fields that must agree before records are added to an older file, see `first_difference`.
SAME_CONDITIONS = ("machine", "device", "host", "libraries", "code_hash")
# Relative tolerance: similar hosts reserve slightly different amounts of memory.
SAME_MEMORY = 0.01


class _ResultsFile(Struct, forbid_unknown_fields=True, tag_field="schema", tag=2):
    """A results file. study: the text of the study's file, unless the package ships it.

    kinds: the axes of those kinds of input that the package lacks.
    """

    environment: Environment
    records: list[AnyRecord]
    study: Annotated[str, Meta(max_length=1_000_000)] | None = None
    kinds: dict[Name, dict[Name, DescribedAxis]] = {}


class _OldRecord(ABC):
    """A record with its axes among the other fields, upgraded when read."""

    key: str


_OldRecord.register(Record)
bounds.HOOKS[_OldRecord] = lambda value: bounds.converted(
    upgraded(msgspec.convert(value, dict[str, Any])), AnyRecord
)


class _Schema1(_ResultsFile, tag=1):
    records: list[_OldRecord]  # type: ignore[assignment]


@dataclass(frozen=True)
class Results:
    """The content of one results file.

    study: the text of the study's file; None where the package ships the study.
    """

    environment: dict[str, Any]
    records: Sequence[AnyRecord]
    path: Path
    study: str | None = None


def load(path: Path) -> Results:
    """Read one results file; fields added since a record was written are null.

    Raises UserError where it is missing, unreadable, not JSON, or not a results file.
    """
    kind: Any = _ResultsFile | _Schema1
    found: _ResultsFile = bounds.read(path, kind, "a gpubench results file")
    learn(found.kinds)
    return Results(found.environment, found.records, path, found.study)


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the first difference that keeps two environments out of one file, or None."""
    for condition in SAME_CONDITIONS:
        a, b = one.get(condition), other.get(condition)
        if isinstance(a, dict) and isinstance(b, dict):
            for name in {**a, **b}:
                x, y = a.get(name), b.get(name)
                is_memory = (condition, name) == ("host", "memory_bytes")
                is_alike = is_memory and x and y and abs(x - y) <= SAME_MEMORY * x
                if x != y and not is_alike:
                    return f"{condition} {name}: {x}, and {y}"
        elif a != b:
            return f"{condition}: {a}, and {b}"
    return None


class Store(AbstractContextManager["Store"]):
    """A results file that grows.

    Each `add` replaces the file by a longer one in a single step, so that a kill at any time leaves
    a complete file. Existing records are never altered. A file has one store at a time: until
    `close`, or the end of the process, another is rejected.

    path: the file, created by the first `add`. An existing one keeps its own environment.
    environment: the environment of the run, used for a new file.
    text: the text of the study's file, unless the package ships it; it replaces an earlier text.
    done: keys of settled records, see `is_settled`.
    begins_anew: why `open` did not continue the newest file of the same code, or None.

    Raises UserError for a file that is compressed, not a results file or in use by another store,
    ValueError for an invalid environment.
    """

    def __init__(self, path: Path, environment: Mapping[str, Any], text: str | None = None) -> None:
        if path.suffix == ".gz":
            raise UserError(f"{path} is compressed: nothing can be added before `gunzip {path}`")
        self.path = path
        self.begins_anew: str | None = None
        plain = _plain(environment)
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
        self._lines = [to_json(as_json(record)) for record in existing.records]
        self._kinds = {record.kind for record in existing.records if record.kind}
        self.done = {record.key for record in existing.records if is_settled(record)}

    def close(self) -> None:
        """Release the file for other stores."""
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def open(
        cls,
        folder: Path,
        study: str,
        environment: Mapping[str, Any],
        text: str | None = None,
        anew: bool = False,
    ) -> Store:
        """Continue this machine's results of a study, or start new ones.

        The file is folder/<machine>/<date>-<commit>-<study>.json, with the code's hash in place of
        a missing commit, and -2, -3, ... if that name is taken. An uncompressed file from the same
        code, libraries, device and host is continued, whatever its date, unless `anew` asks for a
        new one.
        """
        plain = _plain(environment)
        while True:
            path, why = _path_for(folder / plain["machine"], study, plain, anew)
            store = cls(path, plain, text)
            if first_difference(store.environment, plain) is None:
                store.begins_anew = why
                return store
            store.close()  # another process has just taken that name

    def add(self, records: Iterable[AnyRecord | Mapping[str, Any]]) -> None:
        """Append records, all in one step.

        Raises ValueError for an invalid record, and UserError where the file cannot be written or
        another process changed it; then file and store are unchanged.
        """
        texts = [to_json(as_json(record)) for record in records]
        new = [bounds.checked(AnyRecord, json.loads(text), "not a valid record") for text in texts]
        if not new:
            return
        lines = [*self._lines, *texts]
        environment = json.dumps(self.environment, indent=2, ensure_ascii=False)
        study = "" if self._text is None else f'"study": {to_json(self._text)},\n'
        kinds = description(self._kinds | {each.kind for each in new if each.kind})
        described = f'"kinds": {to_json(kinds)},\n' if kinds else ""
        head = f'{{"schema": 2,\n"environment": {environment},\n{study}{described}"records": [\n'
        try:
            with whole_file(self.path) as file:
                # One record per line, for readable diffs.
                file.write((head + ",\n".join(lines) + "\n]}\n").encode())
                if _version(self.path) != self._version:
                    raise UserError(f"{self.path} was changed meanwhile: let nothing else write it")
        except UserError as error:
            raise UserError(f"{error}; what was measured before is kept") from error
        self._version = _version(self.path)
        self._lines = lines
        self._kinds |= {each.kind for each in new if each.kind}
        self.done |= {record.key for record in new if is_settled(record)}


def _plain(environment: Mapping[str, Any]) -> Environment:
    """Return an environment in plain JSON types; raises ValueError if it is invalid."""
    plain = json.loads(to_json(environment))
    found: Environment = bounds.checked(Environment, plain, "not a valid environment")
    return found


def free_file(place: Path, environment: Mapping[str, Any], what: str) -> Path:
    """Return <date>-<commit>-<what>.json of a folder, or ...-2.json and so on if it is taken.

    A compressed file counts as well. what: a study, or a family of workloads. The hash of the code
    replaces a missing commit.
    """
    code = (environment["commit"] or environment["code_hash"])[:7]
    stem = f"{environment['started'][:10]}-{code}-{what}"
    stems = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    paths = (place / f"{each}.json" for each in stems)
    return next(path for path in paths if not any(path.with_suffix(s).exists() for s in SUFFIXES))


def files_of(place: Path, study: str) -> list[Path]:
    """Return the results of one study in a machine's folder, oldest first, by their names."""
    name = re.compile(rf"(\d{{4}}-\d\d-\d\d-[0-9a-f]+)-{re.escape(study)}(?:-(\d+))?\.json.*")
    tried = ((name.fullmatch(path.name), path) for path in bounds.only_ours(place.glob("*.json*")))
    found = [(match[1], int(match[2] or 1), path) for match, path in tried if match]
    return [path for *_, path in sorted(found)]


def _path_for(
    place: Path, study: str, environment: Mapping[str, Any], anew: bool
) -> tuple[Path, str | None]:
    """Return the file of a machine's folder that a run may continue, else an unused name.

    For an unused name, also why the newest file of the same code, if any, is not continued.
    """
    why = None
    for path in () if anew else reversed(files_of(place, study)):
        found = load(path)
        # A file named ...-table-2.json may be the second of `table` or hold a study `table-2`.
        if any(record.study != study for record in found.records):
            continue
        difference = first_difference(found.environment, environment)
        if difference is None and path.suffix == ".json":
            return path, None
        if why is None and found.environment["code_hash"] == environment["code_hash"]:
            reason = f"it differs in {difference}" if difference else "it is compressed"
            why = f"{path} is not continued, since {reason}"
    return free_file(place, environment, study), why


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
