"""Forces between pairs: by hand, by brute force over images, and what mechanics asks for."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.physics import pairs
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import PARTS, conservative_energy, pair_forces, virial
from gpubench.physics.noise import pair_noise

FLUID = Fluid(
    repulsion=(25.0, 40.0, 20.0), friction=(4.5, 3.0, 6.0), noise=(3.0, 2.0, 4.0), cutoff=1.2
)
CLOCK = {"time_step": 0.02, "step": 7, "seed": 2008}


class Particles(NamedTuple):
    positions: np.ndarray
    velocities: np.ndarray
    ids: np.ndarray
    species: np.ndarray


def random_particles(seed: int, count: int, box: Box) -> Particles:
    rng = np.random.default_rng(seed)
    return Particles(
        rng.random((count, 3)) * box.size,
        rng.normal(size=(count, 3)),
        rng.permutation(count).astype(np.uint32),
        rng.integers(0, 2, count).astype(np.int8),
    )


periods = st.tuples(st.booleans(), st.booleans(), st.booleans())
boxes = st.builds(lambda periodic: Box((3.0, 4.0, 5.0), periodic), periods)
seeds = st.integers(0, 2**32 - 1)


def brute_force(p: Particles, box: Box, fluid: Fluid, parts: Any) -> np.ndarray:
    """Sum over all pairs and all images, one pair at a time, from the formulas."""
    images = [
        np.multiply(shift, box.size)
        for shift in itertools.product(*((-1, 0, 1) if x else (0,) for x in box.periodic))
    ]
    forces = np.zeros_like(p.positions)
    for i, j in itertools.permutations(range(len(p.ids)), 2):
        for image in images:
            apart = p.positions[i] - p.positions[j] + image
            r = np.linalg.norm(apart)
            if r >= fluid.cutoff or r == 0:
                continue
            kind, w, e = p.species[i] + p.species[j], 1 - r / fluid.cutoff, apart / r
            theta = pair_noise(p.ids[i], p.ids[j], CLOCK["step"], CLOCK["seed"])
            strength = {
                "conservative": fluid.repulsion[kind] * w,
                "dissipative": -fluid.friction[kind]
                * w**2
                * e
                @ (p.velocities[i] - p.velocities[j]),
                "random": fluid.noise[kind] * w * theta * math.sqrt(3 / CLOCK["time_step"]),
            }
            forces[i] += sum(strength[part] for part in parts) * e
    return forces


@pytest.mark.parametrize("parts", [PARTS, *((part,) for part in PARTS)])
@pytest.mark.parametrize("periodic", [(True, True, True), (True, False, True)])
def test_agrees_with_brute_force(periodic: tuple[bool, bool, bool], parts: Any) -> None:
    box = Box((3.0, 2.5, 4.0), periodic)
    p = random_particles(1, 40, box)
    found = pair_forces(*p, box, FLUID, **CLOCK, parts=parts)
    assert found == pytest.approx(brute_force(p, box, FLUID, parts), abs=1e-10)


def test_two_particles_across_a_periodic_face() -> None:
    box = Box((10.0, 10.0, 10.0))
    two = Particles(
        np.array([[0.1, 5.0, 5.0], [9.7, 5.0, 5.0]]),
        np.array([[2.0, 7.0, 0.0], [0.5, 0.0, 3.0]]),
        np.array([3, 9]),
        np.array([0, 1]),
    )
    fluid = Fluid(repulsion=(0, 25, 0), friction=(0, 4.5, 0), noise=(0, 3, 0))
    conservative = 25 * 0.6
    drag = -4.5 * 0.6**2 * 1.5
    random = 3 * 0.6 * math.sqrt(3 / 0.02) * pair_noise(two.ids[:1], two.ids[1:], 7, 2008)[0]
    found = pair_forces(*two, box, fluid, **CLOCK)
    assert found[0] == pytest.approx([conservative + drag + random, 0, 0])
    assert (found[1] == -found[0]).all()


@settings(max_examples=30)
@given(boxes, seeds, st.tuples(*[st.floats(-20, 20)] * 3))
def test_forces_do_not_change_where_all_is_shifted(
    box: Box, seed: int, shift: tuple[float, float, float]
) -> None:
    p = random_particles(seed, 100, box)
    shifted = p._replace(positions=p.positions + shift)
    assert pair_forces(*shifted, box, FLUID, **CLOCK) == pytest.approx(
        pair_forces(*p, box, FLUID, **CLOCK), rel=1e-9, abs=1e-9
    )


@settings(max_examples=30)
@given(boxes, seeds)
def test_parts_add_up(box: Box, seed: int) -> None:
    p = random_particles(seed, 100, box)
    each = [pair_forces(*p, box, FLUID, **CLOCK, parts=(part,)) for part in PARTS]
    assert sum(each) == pytest.approx(pair_forces(*p, box, FLUID, **CLOCK), abs=1e-10)


def test_an_unknown_part_is_refused() -> None:
    box = Box((3.0, 3.0, 3.0))
    with pytest.raises(ValueError, match="drag"):
        pair_forces(*random_particles(0, 3, box), box, FLUID, **CLOCK, parts=("drag",))


def test_coincident_particles_feel_only_others() -> None:
    box = Box((5.0, 5.0, 5.0))
    three = Particles(
        np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.5, 1.0, 1.0]]),
        np.zeros((3, 3)),
        np.arange(3),
        np.zeros(3, np.int8),
    )
    forces = pair_forces(*three, box, Fluid(), **CLOCK, parts=("conservative",))
    assert forces[:, 0].tolist() == [-12.5, -12.5, 25.0]
    # Their energy is that of any pair at no distance.
    assert conservative_energy(three.positions, three.species, box, Fluid()) == 12.5 + 2 * 3.125


def test_no_particles_no_forces() -> None:
    box = Box((3.0, 3.0, 3.0))
    p = random_particles(0, 0, box)
    assert pair_forces(*p, box, FLUID, **CLOCK).shape == (0, 3)


def test_a_box_in_which_a_particle_sees_two_images_is_refused() -> None:
    box = Box((5.0, 2.3, 5.0))
    with pytest.raises(UserError, match=r"2\.3 long along y.*need 2\.4 or more"):
        pair_forces(*random_particles(0, 5, box), box, FLUID, **CLOCK)


def test_pairs_come_in_bounded_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box((4.0, 4.0, 4.0))
    p = random_particles(4, 300, box)
    whole = list(pairs.ordered_pairs(p.positions, box, 1.0))
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 100)
    parts = list(pairs.ordered_pairs(p.positions, box, 1.0))
    assert len(whole) == 1
    assert len(parts) > 10
    # A particle's pairs come together, so that a part may be longer by those of one.
    most = np.bincount(whole[0].first).max()
    assert max(len(part.first) for part in parts) <= 100 + most

    def as_set(found: list[pairs.OrderedPairs]) -> set[tuple[int, int]]:
        return {
            (int(i), int(j)) for part in found for i, j in zip(part.first, part.second, strict=True)
        }

    assert as_set(parts) == as_set(whole)
    assert sum(len(part.first) for part in parts) == len(whole[0].first)


@settings(max_examples=30)
@given(boxes, seeds)
def test_conservative_forces_are_the_slope_of_the_energy(box: Box, seed: int) -> None:
    p = random_particles(seed, 80, box)
    rng = np.random.default_rng(seed)
    along = rng.normal(size=(80, 3)) * 1e-6

    def energy(sign: int) -> float:
        return conservative_energy(p.positions + sign * along, p.species, box, FLUID)

    forces = pair_forces(*p, box, FLUID, **CLOCK, parts=("conservative",))
    assert energy(1) - energy(-1) == pytest.approx(-2 * np.sum(forces * along), rel=1e-4, abs=1e-9)


@settings(max_examples=30)
@given(boxes, seeds)
def test_the_virial_is_the_slope_of_the_energy_with_the_scale(box: Box, seed: int) -> None:
    p = random_particles(seed, 80, box)

    def energy(scale: float) -> float:
        x, y, z = (scale * edge for edge in box.size)
        scaled = Box((x, y, z), box.periodic)
        return conservative_energy(scale * p.positions, p.species, scaled, FLUID)

    slope = (energy(1 + 1e-5) - energy(1 - 1e-5)) / 2e-5
    assert virial(p.positions, p.species, box, FLUID) == pytest.approx(-slope, rel=1e-3)
