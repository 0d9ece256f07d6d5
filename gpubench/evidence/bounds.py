"""Typed reading of our files, with bounds on values; a bad file is rejected with one line."""

from __future__ import annotations

import gzip
import json
import math
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from gpubench.base.errors import UserError
from gpubench.base.writing import write_whole

T = TypeVar("T")

# No type has a `pattern`: in unions with arrays, msgspec 0.22 frees compiled patterns too early.
# `_require_texts` rejects characters that names and lines must not contain.
Name = Annotated[str, Meta(min_length=1, max_length=100)]  # used in titles and file names
Line = Annotated[str, Meta(max_length=1000)]
Slug = Annotated[str, Meta(max_length=60)]  # see `require_slug`
Exact = 2**53 - 1  # float64 represents all integers up to this exactly
Count = Annotated[int, Meta(ge=1, le=Exact)]
Amount = Annotated[int, Meta(ge=0, le=Exact)]
Ms = Annotated[float, Meta(ge=0, le=1e12)]
Share = Annotated[float, Meta(ge=0, le=1)]
Size = Annotated[float, Meta(ge=0, le=1e30)]
Positive = Annotated[float, Meta(ge=1e-12, le=1e12)]
Real = Annotated[float, Meta(ge=-1e30, le=1e30)]
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Real
Scalar = Number | bool | Line | None
Value = Scalar | list[Scalar] | dict[Line, Scalar]

# Functions that convert plain JSON to each of our types; they raise ValueError or msgspec's error.
HOOKS: dict[type, Callable[[Any], Any]] = {}
SUFFIXES = (".json", ".json.gz")  # file name extensions of our files
LONGEST = 2**30  # maximum decompressed size of a file in bytes
TEXTS = (".reason", ".failure", ".bug")  # fields that may have several lines, as may a study's text
# JSON that msgspec does not check fully: escapes, and numbers that are too small or may exceed 64
# bits. Each alternative of a pattern starts with a literal, which makes the search faster.
_ESCAPES = (re.compile(rb"\\[bfnrtu]"), re.compile(rb"\x7f"))
_EXPONENTS = (re.compile(rb"e-0*[3-9]\d\d"), re.compile(rb"E-0*[3-9]\d\d"))
_SMALL = re.compile(rb"[\s:,\[]-?\d[\d.]*[eE]-0*[3-9]\d\d")
_LONG = re.compile(rb"[\s:,\[]-?\d{19}")
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_NO_LINE = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Environment(dict[str, Any]):
    """A file's record of machine, device, libraries and code: plain JSON, validated on reading.

    Always has `machine`, `device`, `host`, `libraries`, `commit`, `dirty`, `code_hash`, `started`
    and `copy_bandwidth_gb_s`; the device has `backend` and `name`, and any other fields it reports.
    """


class _Device(Struct):
    backend: Literal["cuda", "opencl"]
    name: Line
    is_cpu: bool = False
    memory_bytes: Amount | None = None
    cache_bytes: Amount | None = None


class _Host(Struct):
    cpu: Line | None = None
    cores: Count | None = None
    memory_bytes: Amount | None = None
    os: Line | None = None
    python: Line | None = None


class _Surroundings(Struct):
    machine: Slug  # names the folder of its results
    device: _Device
    host: _Host
    libraries: dict[Line, Line | None]
    commit: Line | None
    dirty: bool | None
    code_hash: Line
    copy_bandwidth_gb_s: Annotated[float, Meta(gt=0, le=1e12)] | None
    started: Annotated[datetime, Meta(tz=True)]
    added: list[Line] = []
    added_commits: dict[Line, Line | None] = {}
    added_dirty: dict[Line, bool | None] = {}
    empty_launch_ms: Ms | None = None
    overhead_ms: dict[str, Ms] = {}

    def __post_init__(self) -> None:
        require_slug(self.machine, "machine")
        if self.started.year < 1000:
            raise ValueError("Expected a year of four digits - at `$.started`")


class _Details(Struct):
    """Optional fields of an environment's device and host."""

    device: dict[Line, Scalar]
    host: dict[Line, Scalar]


def _hook(kind: type, value: Any) -> Any:
    try:
        return HOOKS[kind](value)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # msgspec adds the location


def _environment(value: Any) -> Environment:
    msgspec.convert(value, _Surroundings)
    msgspec.convert(value, _Details)
    return Environment(value)


HOOKS[Environment] = _environment


def converted(value: object, kind: Any) -> Any:
    """Convert plain JSON, whose texts have been checked, to a type."""
    return msgspec.convert(value, kind, dec_hook=_hook)


def require_slug(text: str, name: str) -> None:
    """Raise ValueError unless a field consists of lower-case words joined by hyphens."""
    if not _SLUG.fullmatch(text):
        raise ValueError(f"Expected lower-case words and hyphens, not {text!r} - at `$.{name}`")


def checked(kind: Any, value: object, what: str) -> Any:
    """Convert plain JSON to a type; raises ValueError that names `what` and the location."""
    _require_texts(value, what)
    try:
        return converted(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{what}: {_offence(error)}") from error


def content_of(path: Path) -> bytes:
    """Return a file's contents, decompressed if its name ends in .gz; may raise OSError."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            content = file.read(LONGEST + 1)
    except (EOFError, zlib.error) as error:
        raise OSError(f"it is damaged: {error}") from error
    if len(content) > LONGEST:
        raise OSError(f"it holds more than {LONGEST} bytes")
    return content


def only_ours(paths: Iterable[Path]) -> list[Path]:
    """Return the JSON files among the paths, sorted; X.json.gz only if X.json is not among them."""
    among = {path for path in paths if path.name.endswith(SUFFIXES)}
    return sorted(among - {path.with_name(f"{path.name}.gz") for path in among})


def read(path: Path, kind: type[T], title: str) -> T:
    """Read a JSON file, possibly compressed, as a type. title: the expected kind, for messages.

    Whole numbers may be written as floats. Raises UserError, with one line, if the file is missing,
    unreadable, not JSON or not of the type, or if it contains NaN, a number beyond float64, an
    integer beyond int64, or text that cannot be written to a file.
    """
    try:
        content = content_of(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}: give {title}") from error
    if not _is_suspect(content):
        try:
            return msgspec.json.decode(content, type=kind, dec_hook=_hook)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the code below finds the error, unless it is only 4.0 instead of 4
    what = f"{path} is not {title}"
    try:
        document = json.loads(
            content.decode(),
            parse_int=_int64, parse_float=number_of, parse_constant=number_of,
        )  # fmt: skip
    except UnicodeDecodeError as error:
        raise UserError(f"{what}: it is not text") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: no JSON: {error}") from error
    try:
        found: T = checked(kind, document, what)
    except (ValueError, RecursionError) as error:
        raise UserError(str(error)) from error
    return found


def _is_suspect(content: bytes) -> bool:
    return bool(
        any(each.search(content) for each in _ESCAPES)
        or (any(each.search(content) for each in _EXPONENTS) and _SMALL.search(content))
        or (b"0" * 19 in content.translate(_DIGITS) and _LONG.search(content))
    )


def write(path: Path, kind: Any, document: object, what: str) -> None:
    """Write a document of a type, complete or not at all.

    Raises ValueError starting with `what` for another type, UserError if it cannot be written.
    """
    checked(kind, document, what)
    write_whole(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def number_of(text: str) -> float | int:
    """Parse a JSON number, as an int if it is whole; ValueError if too large or small, or NaN."""
    number = float(text)
    if not math.isfinite(number) or 0 < abs(number) < 1e-300:
        raise ValueError(f"the number {text[:24]} is beyond the finite numbers of a float64")
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _int64(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"the whole number {text[:24]} is beyond 64 bits")
    return int(text)


def _offence(error: msgspec.ValidationError) -> str:
    """Describe in one line where and how a value violates its type."""
    message, *places = str(error).split(" - at ")
    # The innermost location comes first; `key` in `$.a` means that a key of $.a is invalid.
    at = "$" + "".join(place.split("`")[-2][1:] for place in reversed(places) if "`" in place)
    line = textwrap.shorten(message, 200, placeholder=" ...")
    return f"at {at}: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def _require_texts(value: object, what: str, place: str = "$", study: str = "") -> None:
    """Raise ValueError for text that breaks files, lines or terminals.

    A name is reported at the location of its object. study: the location of a study file's text.
    """
    match value:
        case dict():
            study = "$.study" if place == "$" and "records" in value else study
            for name, each in value.items():
                _require_texts(name, what, place, study)
                _require_texts(each, what, f"{place}.{name}", study)
        case list():
            for number, each in enumerate(value):
                _require_texts(each, what, f"{place}[{number}]", study)
        case str():
            refused = _NO_TEXT if place == study or place.endswith(TEXTS) else _NO_LINE
            if refused.search(value):
                raise ValueError(f"{what}: at {place}: text without control characters is due")
