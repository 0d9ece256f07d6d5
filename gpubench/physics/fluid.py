"""The fluid of dissipative particle dynamics: two species, their pair coefficients, gravity.

Forces have the form of Groot and Warren (J. Chem. Phys. 107, 4423, 1997), with w = 1 - r / cutoff:
conservative a w, dissipative -gamma w^2 (e . v), random sigma theta w / sqrt(time step), along the
unit vector e between two particles. Species are 0 and 1; pairs are (0, 0), (0, 1), (1, 1), so a
pair's number is the sum of its two species.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Groot and Warren's lambda: the drag uses the velocity at t + lambda dt, which is the half-step
# velocity plus lambda - 1/2 times the last velocity change.
INTEGRATORS = {"velocity-verlet": 0.5, "groot-warren": 0.65, "leap-frog": 1.0}

# The layout of `struct Fluid` in kernels/dpd.cu.
FLUID_DTYPE = np.dtype([
    ("repulsion", np.float32, 3), ("friction", np.float32, 3), ("noise", np.float32, 3),
    ("inverse_mass", np.float32, 2), ("gravity", np.float32, 3), ("time_step", np.float32),
    ("ahead", np.float32), ("inverse_cutoff", np.float32), ("rounder", np.float32),
])  # fmt: skip


@dataclass(frozen=True)
class Fluid:
    """Coefficients of the three pairs of species, masses, and gravity.

    repulsion, friction, noise: a, gamma and sigma of the pairs (0, 0), (0, 1), (1, 1).
    mass: particle mass of each species.
    gravity: acceleration along x, y, z.
    """

    repulsion: tuple[float, float, float] = (25.0, 25.0, 25.0)
    friction: tuple[float, float, float] = (4.5, 4.5, 4.5)
    noise: tuple[float, float, float] = (3.0, 3.0, 3.0)
    mass: tuple[float, float] = (1.0, 1.0)
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    cutoff: float = 1.0

    def __post_init__(self) -> None:
        require_amounts(self)
        if min(self.mass) <= 0 or self.cutoff <= 0:
            raise UserError(
                f"masses and cutoff must be positive, not {self.mass} and {self.cutoff}"
            )

    @classmethod
    def of_paper(
        cls,
        repulsion: tuple[float, float, float],
        friction: tuple[float, float, float],
        noise: tuple[float, float, float],
        *,
        density: float,
        dimensions: int,
        mass: tuple[float, float] = (1.0, 1.0),
        gravity: tuple[float, float, float] = (0.0, 0.0, 0.0),
        cutoff: float = 1.0,
    ) -> Fluid:
        """Convert the coefficients pi, gamma M and sigma of rozen2008, section 4.1.

        In the paper, both weights are normalised (density times their integral over space is 1) and
        the second is the square of the first, which cannot both hold. Here each weight has a
        factor of its own, absorbed by its coefficient. The fluctuation-dissipation theorem only
        requires one weight to be proportional to the square of the other: any factors will do.
        """
        first, second = (normalisation(power, density, dimensions, cutoff) for power in (1, 2))

        def scaled(factor: float, values: tuple[float, float, float]) -> tuple[float, float, float]:
            x, y, z = (factor * value for value in values)
            return x, y, z

        return cls(
            scaled(first, repulsion), scaled(second, friction), scaled(first, noise), mass,
            gravity, cutoff,
        )  # fmt: skip

    @property
    def temperature(self) -> tuple[float, float, float]:
        """The thermal energy kT of each pair: sigma^2 / (2 gamma); NaN without friction."""
        x, y, z = (
            sigma**2 / (2 * gamma) if gamma > 0 else math.nan
            for sigma, gamma in zip(self.noise, self.friction, strict=True)
        )
        return x, y, z

    def force_step(self, time_step: float) -> float:
        """Return the step to which each pair's force is rounded, so that sums are exact.

        Multiples of a power of two add up without rounding as long as the sum is below 2^24 times
        that power: the sum is then bitwise independent of the order of neighbours. This range holds
        32 times the strongest expected pair force.
        """
        speed = 5 * max(math.sqrt(kt) if kt > 0 else 1.0 for kt in (*self.temperature, 1.0))
        strongest = (
            max(self.repulsion)
            + max(self.friction) * speed
            + max(self.noise) * math.sqrt(3 / time_step)
        )
        return 2.0 ** (math.ceil(math.log2(32 * max(strongest, 1e-6))) - 24)

    def packed(self, time_step: float, integrator: str) -> NDArray[np.void]:
        """Return the fluid as the kernels read it: one element of FLUID_DTYPE.

        noise: sigma times sqrt(3 / time step), for uniform random numbers from -1 to 1.
        ahead: the fraction of the last velocity change added to the velocity in the drag.
        rounder: 1.5 * 2^23 force steps; adding and subtracting it rounds to whole force steps.
        """
        packed = np.zeros(1, FLUID_DTYPE)
        packed["repulsion"], packed["friction"] = self.repulsion, self.friction
        packed["noise"] = np.asarray(self.noise) * math.sqrt(3 / time_step)
        packed["inverse_mass"] = 1 / np.asarray(self.mass)
        packed["gravity"], packed["inverse_cutoff"] = self.gravity, 1 / self.cutoff
        packed["time_step"] = time_step
        packed["ahead"] = INTEGRATORS[integrator] - 0.5
        packed["rounder"] = 1.5 * 2**23 * self.force_step(time_step)
        return packed


def require_amounts(fluid: DataclassInstance) -> None:
    """Raise UserError where a field is not finite, or is negative (other than gravity)."""
    for field in fields(fluid):
        value = getattr(fluid, field.name)
        values = value if isinstance(value, tuple) else (value,)
        if not all(math.isfinite(v) for v in values):
            raise UserError(f"{field.name} must be finite, not {value}")
        if field.name != "gravity" and min(values) < 0:
            raise UserError(f"{field.name} must not be negative, and is {value}")


def normalisation(power: int, density: float, dimensions: int, cutoff: float = 1.0) -> float:
    """Return c with density * integral of c (1 - r / cutoff)^power over space = 1.

    power: 1 or 2. dimensions: 2 or 3.
    """
    # The integrals of 2 pi r (1 - r)^p and of 4 pi r^2 (1 - r)^p from 0 to 1.
    integrals = {
        (1, 2): math.pi / 3, (2, 2): math.pi / 6,
        (1, 3): math.pi / 3, (2, 3): 2 * math.pi / 15,
    }  # fmt: skip
    return 1 / (density * integrals[power, dimensions] * cutoff**dimensions)
