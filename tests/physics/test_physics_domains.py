"""Structure factors and domain sizes of fields and particles whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.physics.box import Box
from gpubench.physics.domains import domain_size, order_parameter, structure_factor

seeds = st.integers(0, 2**32 - 1)
FLAT = (True, True, False)


class TestOrderParameter:
    def test_by_hand(self) -> None:
        box = Box((2.0, 2.0, 2.0), FLAT)
        positions = np.array(
            [[0.1, 0.1, 0.1], [0.9, 0.9, 0.9], [1.1, 0.1, 0.1], [1.9, 0.2, 0.3], [1.5, 0.5, 0.5],
             [0.5, 1.5, 1.5]]
        )  # fmt: skip
        field = order_parameter(positions, np.array([0, 1, 1, 1, 0, 0]), box, spacing=1.0)
        assert field.shape == (2, 2, 2)
        assert field[0, 0, 0] == 0
        assert field[1, 0, 0] == pytest.approx(1 / 3)
        assert field[0, 1, 1] == -1
        assert np.count_nonzero(field) == 2
        flat = order_parameter(positions, np.array([0, 1, 1, 1, 0, 0]), box, 1.0, dimensions=2)
        assert flat.shape == (2, 2, 1)
        assert flat[0, 1, 0] == -1

    @given(seeds, st.floats(0.4, 5.0))
    def test_of_one_species_is_one_wherever_there_is_a_particle(
        self, seed: int, spacing: float
    ) -> None:
        box = Box((3.0, 4.0, 5.0))
        positions = np.random.default_rng(seed).random((200, 3)) * box.size
        for species, value in ((0, -1), (1, 1)):
            field = order_parameter(positions, np.full(200, species), box, spacing)
            assert set(np.unique(field)) <= {0, value}
            assert (np.divide(box.size, field.shape) >= min(spacing, *box.size)).all()


class TestStructureFactor:
    @pytest.mark.parametrize("mode", [1, 3, 7])
    def test_of_one_wave(self, mode: int) -> None:
        box = Box((16.0, 16.0, 16.0))
        wave = np.cos(2 * math.pi * mode * np.arange(16) / 16)
        field = np.broadcast_to(wave[:, None, None], (16, 16, 16))
        factor = structure_factor(field, box)
        peak = mode - 1
        # Two of the wavevectors in a shell, with half of the sum of squares each.
        assert factor.power[peak] * factor.modes[peak] == pytest.approx(16**3 / 2)
        assert np.delete(factor.power, peak) == pytest.approx(np.zeros(len(factor.power) - 1))
        # The shell has others, up to half a smallest wavenumber longer or shorter.
        assert abs(factor.wavenumber[peak] * 16 / (2 * math.pi) - mode) < 0.5

    def test_two_dimensions_and_unequal_edges(self) -> None:
        box = Box((40.0, 20.0, 1.0), FLAT)
        along_y = np.sin(2 * math.pi * 4 * np.arange(20) / 20)
        field = np.broadcast_to(along_y[None, :, None], (40, 20, 1))
        factor = structure_factor(field, box)
        assert factor.power.argmax() == 7  # of multiples of 2 pi / 40, from the first
        assert domain_size(factor) == pytest.approx(5.0, rel=0.02)
        assert factor.wavenumber[-1] <= math.pi * 1.0001

    def test_a_wall_continues_the_field_by_its_mirror_image(self) -> None:
        """Half a wave between walls is one mode, of wavenumber pi / edge, and no edge shows."""
        box = Box((8.0, 8.0, 16.0), FLAT)
        z = np.arange(16) + 0.5
        field = np.broadcast_to(np.cos(math.pi * z / 16), (8, 8, 16))
        factor = structure_factor(field, box)
        assert factor.wavenumber[0] == pytest.approx(math.pi / 16)
        assert factor.power[0] > 1
        assert factor.power[1:] == pytest.approx(np.zeros(len(factor.power) - 1), abs=1e-20)
        assert domain_size(factor) == pytest.approx(32.0)

    @pytest.mark.parametrize("periodic", [(True, True, True), FLAT])
    def test_of_white_noise_is_flat(self, periodic: tuple[bool, bool, bool]) -> None:
        field = np.random.default_rng(0).normal(size=(48, 48, 48)) * 1.5
        factor = structure_factor(field, Box((48.0, 48.0, 48.0), periodic))
        # The power of half of the wavevectors is independent, with a spread of its own size.
        deviation = (factor.power / 2.25 - 1) / np.sqrt(2 / factor.modes)
        assert np.abs(deviation).max() < 4.5
        assert np.sum(factor.modes * factor.power) / factor.modes.sum() == pytest.approx(
            2.25, rel=0.02
        )

    @given(seeds, st.integers(0, 11))
    def test_shifts_and_turns_change_nothing(self, seed: int, shift: int) -> None:
        field = np.random.default_rng(seed).normal(size=(12, 12, 12))
        box = Box((12.0, 12.0, 12.0))
        expected = structure_factor(field, box).power
        assert structure_factor(np.roll(field, shift, 1), box).power == pytest.approx(expected)
        assert structure_factor(field.transpose(2, 0, 1), box).power == pytest.approx(expected)
        assert structure_factor(-field + 3, box).power == pytest.approx(expected)

    def test_one_cell_has_none(self) -> None:
        with pytest.raises(UserError, match="more than one cell"):
            structure_factor(np.ones((1, 1, 1)), Box((1.0, 1.0, 1.0)))


class TestDomainSize:
    @given(seeds, st.floats(0.1, 100.0))
    def test_goes_with_the_size_of_everything(self, seed: int, scale: float) -> None:
        field = np.sign(np.random.default_rng(seed).normal(size=(16, 16, 1)))
        size = domain_size(structure_factor(field, Box((16.0, 16.0, 1.0), FLAT)))
        scaled = Box((16 * scale, 16 * scale, scale), FLAT)
        assert domain_size(structure_factor(field, scaled)) == pytest.approx(scale * size)

    def test_of_stripes_of_particles(self) -> None:
        """A square wave has the odd harmonics n, with powers that go as 1 / n^2."""
        box = Box((64.0, 64.0, 1.0), FLAT)
        positions = np.random.default_rng(1).random((200_000, 3)) * box.size
        species = (positions[:, 0] % 16 < 8).astype(np.int8)
        field = order_parameter(positions, species, box, 1.0, dimensions=2)
        assert (field[:, :, 0] == np.where(np.arange(64) % 16 < 8, 1, -1)[:, None]).all()
        factor = structure_factor(field, box)
        whole = factor.power * factor.modes
        assert np.flatnonzero(whole > 1e-6).tolist() == [3, 11, 19, 27]  # 1, 3, 5 and 7 times 4
        # On the mesh 1 / sin^2 takes the place of 1 / n^2.
        assert whole[11] / whole[3] == pytest.approx(
            (math.sin(math.pi / 16) / math.sin(3 * math.pi / 16)) ** 2
        )

    def test_a_uniform_fluid_has_no_domains(self) -> None:
        factor = structure_factor(np.ones((8, 8, 8)), Box((8.0, 8.0, 8.0)))
        with pytest.raises(UserError, match="no domains"):
            domain_size(factor)
