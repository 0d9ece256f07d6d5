"""Tensors of PyTorch in host memory: gradients, and kinds that have no plain memory."""

from __future__ import annotations

import copy
import pickle

import needs
import numpy as np
import pytest

from gpubench import NeighbourList
from gpubench.base.errors import UserError

torch = pytest.importorskip("torch", reason=needs.reason("PyTorch"))

EDGES, REPEATS = (3.6, 5.0, 4.0), (True, False, True)
OPTIONS = [{}, {"half": True}, {"order": "cells"}, {"capacity": 900}, {"skin": 0.2}]


def drawn(columns=3, dtype=torch.float64, together=0):
    """Return particles, some of them beyond a wall that repeats, and so many in one place."""
    rng = np.random.default_rng(3)
    positions = torch.full((18, columns), torch.nan, dtype=dtype)
    positions[:, :3] = torch.from_numpy(rng.random((18, 3)) * EDGES)
    positions[:9, 0] -= 3 * EDGES[0]
    positions[:together] = positions[0].clone()
    return positions.requires_grad_()


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("more", OPTIONS)
def test_vectors_and_distances_have_derivatives(columns, more):
    search, positions = NeighbourList(1.0, EDGES, REPEATS, **more), drawn(columns)
    positions = positions.detach().nan_to_num().requires_grad_()  # compared with differences
    assert len(search(positions)) > 9
    for of in ("vectors", "distances"):
        assert torch.autograd.gradcheck(lambda x, of=of: getattr(search(x), of)(), positions)
    assert torch.autograd.gradgradcheck(lambda x: search(x).distances() ** 2, positions)


def test_a_gradient_is_that_of_the_pairs():
    """A pair beyond a wall that repeats, of which one is drawn to where the other's image is."""
    positions = torch.tensor([[0.1, 0, 0], [3.4, 0.4, 0]], requires_grad=True)
    (distance, _) = NeighbourList(1.0, EDGES, REPEATS)(positions).distances()
    distance.backward()
    assert torch.allclose(positions.grad, torch.tensor([[0.6, -0.8, 0], [-0.6, 0.8, 0]]), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_distance_of_zero_has_the_gradient_zero(dtype):
    positions = drawn(4, dtype, together=3)
    with torch.no_grad():
        positions[1, 0] += 1e-30 if dtype == torch.float64 else 0
        positions[5, :3] = 0
        positions[6, :3] = torch.tensor([1e-25, 0, 0])  # whose square float32 does not hold
    distances = NeighbourList(1.0, EDGES, REPEATS)(positions).distances()
    assert (distances == 0).sum() == 6
    distances.sum().backward()
    assert positions.grad[:, :3].isfinite().all() and (positions.grad[:, 3] == 0).all()
    alone = torch.autograd.grad(
        NeighbourList(0.05, EDGES, REPEATS)(positions).distances().sum(), positions
    )[0]
    assert torch.allclose(alone[5:7, 0], torch.tensor([-2.0, 2.0], dtype=dtype))
    assert not alone[:3].any()


def test_an_updated_list_has_the_gradient_of_what_moved():
    search, first = NeighbourList(1.0, EDGES, REPEATS, skin=0.2), drawn()
    search.update(first)
    moved = (first.detach() + 0.01).requires_grad_()
    found = search.update(moved)
    assert search.searches == 1
    found.distances().square().sum().backward()
    assert first.grad is None and moved.grad.abs().max() > 1


def test_a_gradient_outlives_a_list_that_is_written_anew():
    search, positions = NeighbourList(1.0, EDGES, REPEATS, capacity=900), drawn()
    found = search(positions)
    expected = torch.autograd.grad(found.distances().sum(), positions)[0]
    distances = found.distances()
    search(drawn().detach().flip(0), out=found)
    assert torch.equal(torch.autograd.grad(distances.sum(), positions)[0], expected)


def test_the_same_numbers_with_and_without_a_gradient():
    search, positions = NeighbourList(1.0, EDGES, REPEATS), drawn(dtype=torch.float32)
    plain = search(positions.detach())
    for found in (search(positions), copy.deepcopy(search(positions))):
        for name in ("vectors", "distances"):
            with_one, without = getattr(found, name)(), getattr(plain, name)()
            assert torch.equal(with_one, without)
            assert (with_one.requires_grad, without.requires_grad) == (True, False)
    with torch.no_grad():
        assert not search(positions).distances().requires_grad


CELLS = {
    "edges": (EDGES, True, 1.0),
    "matrix": (np.diag(EDGES), REPEATS, 1.0),
    "tilted": ([(3.6, 0, 0), (0.8, 3.5, 0), (-0.7, 0.4, 3.4)], True, 1.0),
    "images": ([(1.2, 0, 0), (0.3, 1.5, 0), (-0.2, 0.4, 1.4)], True, 1.6),
    "slab": ([(3.6, 0, 0), (0.8, 3.5, 0), (0, 0, 0)], True, 1.0),
}


@pytest.mark.parametrize("kind", CELLS)
def test_vectors_and_distances_have_derivatives_in_the_box(kind):
    cell, periodic, cutoff = CELLS[kind]
    box = torch.tensor(np.array(cell), requires_grad=True)
    x = drawn().detach()[: 6 if kind == "images" else 18].requires_grad_()
    search = NeighbourList(cutoff, cell, periodic, sort=True)
    pairs = search(x).pairs()
    assert len(pairs) > 9 and search(x).shifts.any()
    weights = torch.from_numpy(np.random.default_rng(1).random(len(pairs)))

    def energy(x, box):
        found = search(x, box=box)
        assert torch.equal(found.pairs(), pairs)
        return (found.distances() ** 3 * weights).sum() + (found.vectors() ** 2).sum(dim=0)[
            :2
        ].sum()

    if kind in ("matrix", "slab"):  # what is 0 must stay, for this to be the same kind of box
        free = box.detach() != 0
        parts = box.detach()[free].requires_grad_()
        of = lambda x, parts: energy(x, torch.zeros_like(box).masked_scatter(free, parts))  # noqa: E731
    else:
        parts, of = box, energy
    assert torch.autograd.gradcheck(of, (x, parts))
    assert torch.autograd.gradgradcheck(of, (x, parts))
    assert torch.autograd.gradcheck(lambda b: of(x.detach(), b), parts)


@pytest.mark.parametrize("shape", [(2, 3, 3), (3, 3), (3,)])
def test_vectors_and_distances_of_a_batch_have_derivatives(shape):
    """In positions and in the box of all systems, or of each."""
    x, search = drawn().detach().requires_grad_(), NeighbourList(1.0, periodic=True)
    box = torch.diag(torch.tensor(EDGES, dtype=torch.float64)) + 0.1
    box = (torch.stack((box, 1.1 * box)) if shape == (2, 3, 3) else box).requires_grad_()
    box = box.detach().diagonal().clone().requires_grad_() if shape == (3,) else box

    def energy(x, box):
        found = search(x, batch=(0, 10, 18), box=box)
        return (found.distances() ** 3).sum() + (found.vectors() ** 2)[:, :2].sum()

    assert search(x, batch=(0, 10, 18), box=box).shifts.any()
    assert torch.autograd.gradcheck(energy, (x, box))
    assert torch.autograd.gradgradcheck(energy, (x, box))


@pytest.mark.parametrize("name", ["box", "cell"])
def test_the_gradient_in_the_box_is_the_virial(name):
    """Of a strain of positions and box, as potentials compute stress; a kept list has it too."""
    cell = torch.tensor(CELLS["tilted"][0], dtype=torch.float64)
    search = NeighbourList(1.0, cell, True, skin=0.2)
    for step in range(2):
        strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        x = drawn().detach() + 0.01 * step
        strained = torch.eye(3) + strain
        found = search.update(x @ strained, **{name: cell @ strained})
        found.distances().square().sum().backward()
        ways = found.vectors().detach()
        assert torch.allclose(strain.grad, 2 * ways.T @ ways)
    assert search.searches == 1


def test_the_gradient_in_a_box_has_its_type():
    box = torch.tensor(EDGES, requires_grad=True)  # float32
    found = NeighbourList(1.0, EDGES, True)(drawn().detach(), box=box)
    other = pickle.loads(pickle.dumps(found))
    for each in (found, other):
        (grad,) = torch.autograd.grad(each.distances().sum(), each._box)
        assert grad.dtype == torch.float32 and grad.shape == (3,) and grad.any()
    assert (
        not NeighbourList(1.0, EDGES, True)(drawn().detach(), box=box.detach())
        .vectors()
        .requires_grad
    )


def test_positions_that_are_no_tensor_have_no_gradient_in_a_box():
    with pytest.raises(UserError, match="no gradient in the box: give the box detached"):
        NeighbourList(1.0, EDGES, True)(
            drawn().detach().numpy(), box=torch.tensor(EDGES, requires_grad=True)
        )


@pytest.mark.parametrize("name", ["cutoff", "box", "cell", "low", "skin"])
def test_no_gradient_is_lost_in_a_box(name):
    one = torch.tensor(1.0, requires_grad=True)
    value = one if name in ("cutoff", "skin") else (one, one, one)
    said = "the box" if name in ("box", "cell") else name
    with pytest.raises(UserError, match=f"there is no gradient in {said}: give {said} detached"):
        NeighbourList(**{"cutoff": 1.0, "box" if name != "cell" else name: EDGES, name: value})
    if name == "box":
        with pytest.raises(UserError, match="no gradient in the box"):
            NeighbourList(1.0, torch.ones(3, requires_grad=True))


def of_func(positions):
    return torch.func.grad(lambda x: NeighbourList(1.0)(x).distances().sum())(positions)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda x: x.bfloat16(), "float32 or float64, not bfloat16"),
        (lambda x: x.half(), "not float16"),
        (lambda x: x.int(), "not int32"),
        (lambda x: x.to_sparse(), "tensors that lie in memory"),
        (lambda x: x.to("meta"), "on another device: meta"),
        (of_func, "nor those of torch.func"),
    ],
)
def test_tensors_that_no_kernel_can_read_are_refused_in_one_line(changed, message):
    with pytest.raises(UserError, match=message) as raised:
        NeighbourList(1.0, EDGES, REPEATS)(changed(drawn().detach()))
    assert "\n" not in str(raised.value)


class Own(torch.Tensor):
    """A tensor of the user's own class."""


@pytest.mark.parametrize("changed", [lambda x: x.as_subclass(Own), lambda x: torch._neg_view(-x)])
def test_tensors_that_are_read_otherwise(changed):
    search, positions = NeighbourList(1.0, EDGES, REPEATS), drawn().detach()
    counts = search(changed(positions)).counts
    assert isinstance(counts, torch.Tensor) and torch.equal(counts, search(positions).counts)


def test_what_was_found_of_tensors_is_pickled():
    found = NeighbourList(1.0, EDGES, REPEATS)(drawn())
    other = pickle.loads(pickle.dumps(found))
    assert torch.equal(other.neighbours, found.neighbours)
    assert torch.equal(other.distances(), found.distances()) and other.distances().requires_grad


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of what else is compiled
def test_a_search_within_what_is_compiled():
    search, positions = NeighbourList(1.0, EDGES, REPEATS), drawn()

    def energy(x):
        found = search(x * 1.0)
        return found.distances().sum() + search.count(x).sum() + len(found)

    compiled = torch.compile(energy, backend="eager")
    (expected,) = torch.autograd.grad(energy(positions), positions)
    for _ in range(2):
        assert torch.equal(compiled(positions), energy(positions))
    assert torch.equal(torch.autograd.grad(compiled(positions), positions)[0], expected)


@pytest.mark.parametrize("columns", [3, 4])
def test_vectors_to_other_points_have_derivatives_in_both(columns):
    x = drawn(columns).detach().nan_to_num().requires_grad_()
    q = (x.detach()[:7] + 0.05).requires_grad_()
    box = torch.tensor(EDGES, dtype=torch.float64, requires_grad=True)
    search = NeighbourList(1.0, EDGES, REPEATS, sort=True)
    assert len(search(x, queries=q)) > 7

    def energy(x, q, box):
        return (search(x, queries=q, box=box).distances() ** 3).sum()

    assert torch.autograd.gradcheck(energy, (x, q, box))
    assert torch.autograd.gradgradcheck(energy, (x, q, box))


def test_pairs_of_tensors_are_selected():
    x = drawn().detach()
    radii, search = torch.linspace(0.1, 0.5, 18), NeighbourList(1.0, EDGES, REPEATS)
    found = search(x, radii=radii)
    i, j = search(x).pairs().long().T
    assert len(found) == (search(x).distances() < radii[i].double() + radii[j]).sum() > 0
    table = torch.tensor([[1.0, 0.5], [0.5, 0.0]])
    found = NeighbourList(table, EDGES, REPEATS)(x, species=torch.arange(18) % 2)
    assert isinstance(found.neighbours, torch.Tensor) and len(found) > 0
    assert (found.distances() < table[i % 2, j % 2].max()).all()
    with pytest.raises(UserError, match="no gradient in radii"):
        search(x, radii=radii.requires_grad_())
