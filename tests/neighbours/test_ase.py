"""`gpubench.ase.neighbor_list` beside the functions of ASE and matscipy, on their own examples."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import needs
import numpy as np
import pytest

from gpubench.ase import neighbor_list
from gpubench.base.errors import UserError

# Two atoms in a cell, which need no ASE: silicon.
SILICON = SimpleNamespace(
    positions=np.array([(0, 0, 0), (1.3575, 1.3575, 1.3575)]),
    cell=np.array([(0, 2.715, 2.715), (2.715, 0, 2.715), (2.715, 2.715, 0)]),
    pbc=True,
    numbers=[14, 14],
)


def with_other(**changes):
    """Return the atoms of SILICON with something else in place of a part."""
    return SimpleNamespace(**{**vars(SILICON), **changes})


@pytest.fixture(scope="module")
def ase():
    if importlib.util.find_spec("ase") is None:
        needs.skip_without("ASE")
    import ase.build
    import ase.neighborlist

    return ase


@pytest.fixture(scope="module")
def matscipy():
    if importlib.util.find_spec("matscipy") is None:
        needs.skip_without("matscipy")
    from matscipy.neighbours import neighbour_list

    return neighbour_list


def in_order(found):
    """Return i, j, d, D, S sorted by i, j and S."""
    i, j, _, _, shifts = found
    order = np.lexsort((*shifts.T[::-1], j, i))
    return [each[order] for each in found]


EXAMPLES = {
    "copper": (lambda build: build.bulk("Cu"), 2.9),
    "rock salt": (
        lambda build: build.bulk("NaCl", "rocksalt", a=5.64),
        {("Na", "Cl"): 3.0, ("Na", "Na"): 4.1},
    ),
    "ethanol": (lambda build: build.molecule("CH3CH2OH"), {("C", "H"): 1.3, (6, 6): 1.7}),
    "fullerene": (lambda build: build.molecule("C60"), [0.8] * 60),
    "slab": (lambda build: build.fcc111("Al", (2, 2, 3), vacuum=5), 4.0),
    "few images": (lambda build: build.bulk("Cu", cubic=True) * (3, 3, 3), 3.0),
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("with_self", [False, True])
def test_the_answer_is_that_of_ase(ase, name, with_self):
    make, cutoff = EXAMPLES[name]
    atoms = make(ase.build)
    ours = neighbor_list("ijdDS", atoms, cutoff, with_self)
    theirs = ase.neighborlist.neighbor_list("ijdDS", atoms, cutoff, with_self)
    assert (np.diff(ours[0]) >= 0).all() and len(ours[0])
    for mine, other in zip(in_order(ours), in_order(theirs), strict=True):
        assert mine.dtype == other.dtype and np.allclose(mine, other, atol=1e-12)


@pytest.mark.parametrize("name", ["copper", "rock salt", "slab", "few images"])
def test_the_answer_is_that_of_matscipy(ase, matscipy, name):
    make, cutoff = EXAMPLES[name]
    atoms = make(ase.build)
    given = {
        "cutoff": cutoff, "positions": atoms.positions, "cell": atoms.cell, "pbc": atoms.pbc,
        "numbers": atoms.numbers.astype(np.int32),
    }  # fmt: skip
    theirs = matscipy("ijdDS", **given)
    for mine, other in zip(
        in_order(neighbor_list("ijdDS", **given)), in_order(theirs), strict=True
    ):
        assert np.allclose(mine, other, atol=1e-12)


def test_neighbours_at_the_cutoff_are_decided_in_float64():
    edge = np.linalg.norm(SILICON.positions[1])
    assert len(neighbor_list("i", SILICON, edge * (1 + 1e-12))) == 8
    assert len(neighbor_list("i", SILICON, edge * (1 - 1e-12))) == 0


def test_quantities_come_as_asked():
    distances = neighbor_list("d", SILICON, {(14, 14): 2.5})
    assert np.allclose(distances, 2.715 * 3**0.5 / 2)
    shifts, first = neighbor_list("Si", SILICON, [1.2, 1.2])
    assert shifts.shape == (8, 3) and first.tolist() == [0] * 4 + [1] * 4
    assert neighbor_list("S", SILICON, {(14, 1): 9.0}).shape == (0, 3)
    assert neighbor_list("j", SILICON, [0.0, 0.0], self_interaction=True).tolist() == []
    alone = SimpleNamespace(positions=SILICON.positions[:1])
    assert neighbor_list("j", alone, 1.0, self_interaction=True).tolist() == [0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("ijk", SILICON, 1.0), "quantities take letters of ijdDS, not 'ijk'"),
        (("", SILICON, 1.0), "quantities take letters"),
        (("ij", None, 1.0), "takes atoms, or positions="),
        (("ij", SILICON, [1.0]), "a radius for each of 2 atoms"),
        (("ij", SILICON, np.nan), "cutoff takes finite numbers"),
        (("ij", SILICON, None), "cutoff takes finite numbers"),
        (("ij", SILICON, -1.0), "numbers of at least 0"),
        (("ij", SILICON, {(14, 14): "far"}), "numbers of at least 0"),
        (("ij", SILICON, {(14, 14): [1.0, 2.0]}), "numbers of at least 0"),
        (("ij", SILICON, {1: 1.0}), "pairs such as .*, not 1$"),
        (("ij", SILICON, {"SiSi": 1.0}), "pairs such as .*, not 'SiSi'$"),
        (("ij", SILICON, {(14.5, 14): 1.0}), "a symbol or an atomic number, not 14.5"),
        (("ij", SimpleNamespace(positions=np.zeros((1, 3))), {(1, 1): 1.0}), "or numbers="),
        (("ij", with_other(numbers=[14]), {(14, 14): 1.0}), "a.* number for each of 2 atoms"),
        (("ij", with_other(numbers=["Si"] * 2), {(14, 14): 1.0}), "numbers takes"),
        (("ij", with_other(positions="abc"), 1.0), "positions takes numbers of shape"),
        (("ij", with_other(positions=[(0, 0)]), 1.0), "positions takes numbers of shape"),
        (("ij", with_other(positions=np.array(3.0)), 0.0), "positions takes numbers of shape"),
        (("ij", with_other(cell="x"), 1.0), "cell takes a 3x3 matrix of numbers, not 'x'"),
        (("ij", with_other(cell=np.ones(6)), 1.0), "cell takes a 3x3 matrix of numbers"),
        (("ij", with_other(pbc=[True, False]), 1.0), "pbc takes one or three booleans"),
        (("ij", with_other(pbc="xyz"), 1.0), "pbc takes one or three booleans, not 'xyz'"),
    ],
)
def test_wrong_arguments_are_one_line(given, message):
    with pytest.raises(UserError, match=message) as raised:
        neighbor_list(*given)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("ase")
def test_an_element_that_does_not_exist_is_one_line():
    with pytest.raises(UserError, match="there is no element 'Qq'"):
        neighbor_list("ij", SILICON, {("Qq", "H"): 1.0})
