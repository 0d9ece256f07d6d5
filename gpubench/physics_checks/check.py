"""What a check is, and what it tells: findings, and curves of figures."""

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
    """What a check measured."""

    findings: Sequence[Finding]
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Check:
    """A check and its sizes.

    question: what it answers, in a line.
    measure: takes the device, and a size as keyword arguments.
    long: the size for a GPU, with errors below the tolerances.
    quick: the size for some seconds on a CPU; None where none is worth its time.
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
    """Return the points of a figure, x and y both (points,)."""
    return Series(label, x.tolist(), y.tolist(), role)


def found(
    quantity: str, estimate: Estimate, reference: Reference | None = None, note: str = ""
) -> Finding:
    """Return the finding of an estimate."""
    return Finding(quantity, estimate.value, estimate.error, reference, note)
