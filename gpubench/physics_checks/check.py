"""The types of a check and its outcome: findings, and figures with their curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from gpubench.evidence.physics_results import Figure, Finding, Reference, Series
from gpubench.physics.fits import Estimate

SEED = 1
NEVER = Reference(0, 0, "by construction")


@dataclass(frozen=True)
class CheckOutcome:
    """The measurements of a check."""

    findings: Sequence[Finding]
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Check:
    """A check and its sizes.

    question: the question that the check answers, in one line.
    measure: the function; it takes the device, and a size as keyword arguments.
    long: the size for a GPU, with errors below the tolerances.
    quick: the size for a few seconds on a CPU; None if such a short run shows nothing.
    """

    name: str
    question: str
    measure: Callable[..., CheckOutcome]
    long: Mapping[str, Any]
    quick: Mapping[str, Any] | None


def curve(
    label: str,
    x: NDArray[Any],
    y: NDArray[Any],
    role: Literal["measured", "fit", "theory"] = "measured",
) -> Series:
    """Return a series for a figure; x and y are both (points,)."""
    return Series(label, x.tolist(), y.tolist(), role)


def found(
    quantity: str, estimate: Estimate, reference: Reference | None = None, note: str = ""
) -> Finding:
    """Return an estimate as a finding."""
    return Finding(quantity, estimate.value, estimate.error, reference, note)
