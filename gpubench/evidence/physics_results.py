"""Results of checks on disk: values with references, figures, and the machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpubench.base.writing import Lock
from gpubench.evidence import bounds
from gpubench.evidence.bounds import Environment, Line, Ms, Name, Real, Size, Slug, Value
from gpubench.evidence.records import to_json
from gpubench.evidence.results import free_file

SIGMAS = 3  # standard errors by which a value may exceed its tolerance
DIGITS = 6
POINTS = 200  # maximum number of points per series

Points = Annotated[Sequence[Real], Meta(min_length=2, max_length=POINTS)]


class Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """The expected value, the tolerance, and the source."""

    value: Real
    tolerance: Size
    source: Line


class Finding(Struct, frozen=True):
    """One quantity that a check measured.

    quantity: the quantity and place in words, with its unit unless that is a unit of the fluid.
    error: the value's standard error; None for counted or computed values without one.
    reference: None where no value is known to compare it with.
    """

    quantity: Line
    value: Real
    error: Size | None = None
    reference: Reference | None = None
    note: Line = ""

    @property
    def written(self) -> str:
        """The value and its error, to the error's second digit; without an error, to 4 digits."""
        if not self.error:
            return f"{self.value:.4g}"
        decimals = max(0, 1 - math.floor(math.log10(self.error)))
        if decimals > DIGITS:
            return f"{self.value:.4g} ± {self.error:.2g}"
        return f"{self.value:.{decimals}f} ± {self.error:.{decimals}f}"

    @property
    def verdict(self) -> str:
        """Whether the value `agrees` or `differs`; `recorded` if it has no reference."""
        if self.reference is None:
            return "recorded"
        beyond = abs(self.value - self.reference.value) - self.reference.tolerance
        return "agrees" if beyond <= SIGMAS * (self.error or 0.0) else "differs"


class Series(Struct, frozen=True, forbid_unknown_fields=True):
    """Points of a figure."""

    label: Line
    x: Points
    y: Points
    role: Literal["measured", "fit", "theory"] = "measured"


class Panel(Struct, frozen=True, forbid_unknown_fields=True):
    """Series in one pair of axes."""

    title: Line
    series: Annotated[Sequence[Series], Meta(min_length=1)]


class PanelAxis(Struct, frozen=True, forbid_unknown_fields=True):
    """An axis of a figure."""

    label: Line
    scale: Literal["linear", "log"] = "linear"


class Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """Panels that share their axes. slug: a name for files, of lower-case words and hyphens."""

    slug: Slug
    title: Line
    caption: Line
    x: PanelAxis
    y: PanelAxis
    panels: Sequence[Panel]

    def __post_init__(self) -> None:
        bounds.require_slug(self.slug, "slug")


class CheckRun(Struct, frozen=True, forbid_unknown_fields=True):
    """The results of one check.

    setting: the sizes that it ran with, by name. failure: why it did not complete, else None.
    """

    name: Name
    question: Line
    setting: Mapping[Line, Value]
    seconds: Ms
    failure: Annotated[str, Meta(max_length=100_000)] | None
    findings: Sequence[Finding]
    figures: Sequence[Figure]

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each finding; only `failed` if the check did not complete."""
        return ["failed"] if self.failure else [finding.verdict for finding in self.findings]


class CheckResults(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file: one run of all checks of a family."""

    family: Slug
    size: Literal["quick", "long"]
    environment: Environment
    checks: Sequence[CheckRun]
    schema: Literal[1] = 1

    def __post_init__(self) -> None:
        bounds.require_slug(self.family, "family")

    @property
    def is_sound(self) -> bool:
        """Whether no check failed and every finding agrees with its reference."""
        found = {verdict for check in self.checks for verdict in check.verdicts}
        return not found & {"failed", "differs"}

    def as_json(self) -> dict[str, Any]:
        """Return the file's document, numbers to six digits, each finding with its verdict."""
        document: dict[str, Any] = json.loads(
            to_json(self), parse_float=lambda text: float(f"{float(text):.{DIGITS}g}")
        )
        for check, run in zip(document["checks"], self.checks, strict=True):
            for of_json, finding in zip(check["findings"], run.findings, strict=True):
                of_json["verdict"] = finding.verdict
        return document


def save(found: CheckResults, path: Path) -> None:
    """Write a file, complete or not at all; raises UserError if writing fails."""
    bounds.write(path, CheckResults, found.as_json(), "not what a file of checks holds")


@contextmanager
def free_path(folder: Path, family: str, environment: Mapping[str, Any]) -> Iterator[Path]:
    """Yield folder/<machine>/<date>-<commit>-<family>.json, or -2, -3, ... if that is taken.

    The hash of the code replaces a missing commit. No other process gets the same path before the
    body of the `with` ends.
    """
    place = folder / str(environment["machine"])
    with Lock(place / ".lock"):
        yield free_file(place, environment, family)


def load(path: Path) -> CheckResults:
    """Read a file; raises UserError where it is missing or not a file of checks."""
    return bounds.read(path, CheckResults, "a file of gpubench checks")
