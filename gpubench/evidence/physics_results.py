"""What checks found, on disk: values beside references, figures, and the machine.

Imports no device, so that a report can be made of them anywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubench.core.errors import UserError
from gpubench.core.writing import Lock, whole_file
from gpubench.evidence import results

SCHEMA_FILE = Path(__file__).with_name("physics_results.schema.json")

SIGMAS = 3  # standard errors that a value may lie beyond its tolerance
DIGITS = 6


@dataclass(frozen=True)
class Reference:
    """What a value should be, how far from it counts as the same, and who says so."""

    value: float
    tolerance: float
    source: str


@dataclass(frozen=True)
class Finding:
    """One quantity that a check measured.

    quantity: what it is and where it was read, in words, with its unit unless that is the fluid's.
    error: its standard error; None for what is counted or computed and has none.
    reference: None where nothing is known to hold it against.
    """

    quantity: str
    value: float
    error: float | None = None
    reference: Reference | None = None
    note: str = ""

    @property
    def written(self) -> str:
        """The value with its error, to the error's second digit; to four digits without."""
        if not self.error:
            return f"{self.value:.4g}"
        decimals = max(0, 1 - math.floor(math.log10(self.error)))
        if decimals > DIGITS:
            return f"{self.value:.4g} ± {self.error:.2g}"
        return f"{self.value:.{decimals}f} ± {self.error:.{decimals}f}"

    @property
    def verdict(self) -> str:
        """Say whether the value is that of the reference, as far as its error lets one tell."""
        if self.reference is None:
            return "recorded"
        beyond = abs(self.value - self.reference.value) - self.reference.tolerance
        return "agrees" if beyond <= SIGMAS * (self.error or 0.0) else "differs"


@dataclass(frozen=True)
class Series:
    """Points of a figure. role: measured, fit or theory."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    role: str = "measured"


@dataclass(frozen=True)
class Panel:
    """Series in one pair of axes."""

    title: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Axis:
    """An axis of a figure. scale: linear or log."""

    label: str
    scale: str = "linear"


@dataclass(frozen=True)
class Figure:
    """Panels that share their axes. slug: a name for files, of lower-case words and hyphens."""

    slug: str
    title: str
    caption: str
    x: Axis
    y: Axis
    panels: Sequence[Panel]


@dataclass(frozen=True)
class CheckRun:
    """What one check found.

    setting: the sizes that it ran with, by name.
    failure: why it came to no end, else None.
    """

    name: str
    question: str
    setting: Mapping[str, Any]
    seconds: float
    failure: str | None
    findings: Sequence[Finding]
    figures: Sequence[Figure]

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each finding; one failure if there are none."""
        return ["failed"] if self.failure else [finding.verdict for finding in self.findings]


@dataclass(frozen=True)
class CheckResults:
    """The content of a file: all checks of a family, once.

    size: "quick" or "long".
    """

    family: str
    size: str
    environment: Mapping[str, Any]
    checks: Sequence[CheckRun]

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed and nothing differs from its reference."""
        found = {verdict for check in self.checks for verdict in check.verdicts}
        return not found & {"failed", "differs"}

    def as_json(self) -> dict[str, Any]:
        """Return the document of a file, numbers to six digits, each finding with its verdict."""
        return {
            "schema": 1,
            "family": self.family,
            "size": self.size,
            "environment": dict(self.environment),
            "checks": [_check_as_json(check) for check in self.checks],
        }


def save(found: CheckResults, path: Path) -> None:
    """Write a file, whole or not at all; raises UserError where that cannot be done."""
    document = found.as_json()
    offence = results.offence_in(document, SCHEMA_FILE)
    if offence:
        raise ValueError(f"not what a file of checks holds: {offence}")
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with whole_file(path) as file:
        file.write(text.encode())


@contextmanager
def free_path(folder: Path, family: str, environment: Mapping[str, Any]) -> Iterator[Path]:
    """Give folder/<machine>/<date>-<commit>-<family>.json, or -2, -3, ... where that is taken.

    The hash of the code stands in where there is no commit. No other process is given the same
    path before the body of the `with` ends.
    """
    code = (environment["commit"] or environment["code_hash"])[:7]
    stem = f"{environment['started'][:10]}-{code}-{family}"
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    place = folder / str(environment["machine"])
    with Lock(place / ".lock"):
        candidates = (place / f"{name}.json" for name in names)
        yield next(path for path in candidates if not path.exists())


def is_of_checks(path: Path) -> bool:
    """Tell a file of checks from one of measurements; raises UserError where it is no JSON."""
    document = results.read_json(path)
    return isinstance(document, dict) and "checks" in document


def load(path: Path) -> CheckResults:
    """Read a file; raises UserError where it is missing or no file of checks."""
    document = results.read_json(path)
    offence = results.offence_in(document, SCHEMA_FILE)
    if offence:
        raise UserError(f"{path} is not a file of gpubench checks: {offence}")
    return CheckResults(
        document["family"],
        document["size"],
        document["environment"],
        [_check_of_json(check) for check in document["checks"]],
    )


def _check_as_json(check: CheckRun) -> dict[str, Any]:
    plain = dataclasses.asdict(check)
    for finding, of_json in zip(check.findings, plain["findings"], strict=True):
        of_json["verdict"] = finding.verdict
    rounded: dict[str, Any] = _rounded(plain)
    return rounded


def _rounded(value: Any) -> Any:
    """Return plain JSON with floats to DIGITS significant digits."""
    match value:
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
        case bool() | int() | str() | None:
            return value
    number = float(value)
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else number


def _check_of_json(check: Mapping[str, Any]) -> CheckRun:
    findings = [
        Finding(
            found["quantity"],
            found["value"],
            found["error"],
            Reference(**found["reference"]) if found["reference"] else None,
            found["note"],
        )
        for found in check["findings"]
    ]
    figures = [
        Figure(
            figure["slug"], figure["title"], figure["caption"], Axis(**figure["x"]),
            Axis(**figure["y"]),
            [Panel(p["title"], [Series(**s) for s in p["series"]]) for p in figure["panels"]],
        )
        for figure in check["figures"]
    ]  # fmt: skip
    return CheckRun(**{**check, "findings": findings, "figures": figures})
