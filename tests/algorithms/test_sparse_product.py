"""Products with matrices of 1x3 blocks: the matrix, its layouts, and what the oracle sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import problems, registry
from gpubench.algorithms import ellpack_blocks
from gpubench.algorithms._block_rows import BLOCK
from gpubench.algorithms.ellpack_staged import STRETCHES, stretches_of
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.particles.inputs import make
from gpubench.problems.sparse_product import oracle as sparse_oracle
from gpubench.problems.sparse_product.axes import Matrices
from gpubench.problems.sparse_product.cases import antisymmetric_matrix, matrix_of_lengths
from gpubench.problems.sparse_product.contract import TASKS
from gpubench.problems.sparse_product.inputs import MatrixSet, of_particles
from gpubench.problems.sparse_product.oracle import SparseProductOracle
from gpubench.studies.study import load_study

BOX = Grid((6, 5, 7), (-1.0, 0.0, 2.0), (6.0, 5.0, 7.0))
SOME = of_particles(make(900, BOX, order="cell", seed=3), 3)
OURS = ["ellpack-blocks", "ellpack-staged", "sliced-ell", "csr-product", "matrix-free"]
REPRESENTATIVES = {
    "assemble": ("ellpack-blocks", "assemble-planes"),
    "product": ("ellpack-blocks", "product-float4"),
    "transpose": ("csr-product", "transpose-thread"),
}


def launched(device: Device, name: str, form: str, inputs: MatrixSet, **parameters: int) -> Any:
    """Make an algorithm and let it work."""
    cls: Any = registry.find_algorithm(name)
    algorithm = cls(device, form=form, parameters=parameters, **inputs.made_for)
    algorithm.load(inputs)
    algorithm.launch()
    return algorithm


def problem_of(algorithm: Any, inputs: MatrixSet) -> str | None:
    return problems.problems()["sparse-product"].check(algorithm, inputs)


# The matrix


def test_blocks_are_the_gradient_of_a_density() -> None:
    """B_ij and D_i are dg_i/dx_j and dg_i/dx_i of g = sum of (1 - d^2)^3, times h / 6."""
    reference = SparseProductOracle(SOME)
    matrix = reference.matrix
    assert SOME.particles is not None
    xyz, cutoff = SOME.particles.positions[:, :3].astype(np.float64), min(BOX.cell_size)

    def density(i: int, places: Any) -> float:
        d2 = ((places - places[i]) ** 2).sum(axis=1) / cutoff**2
        return float((np.maximum(1 - d2, 0) ** 3).sum())

    step = 1e-5
    rng = np.random.default_rng(5)
    for i in rng.integers(0, len(xyz), 20):
        entries = slice(matrix.start[i], matrix.start[i + 1])
        moved = [(i, matrix.diagonal[i])]
        moved += list(zip(matrix.columns[entries], matrix.blocks[entries], strict=True))[:3]
        for j, block in moved:
            for axis in range(3):
                ends = []
                for sign in (-1, 1):
                    places = xyz.copy()
                    places[j, axis] += sign * step
                    ends.append(density(i, places))
                slope = (ends[1] - ends[0]) / (2 * step)
                assert slope * cutoff / 6 == pytest.approx(block[axis], abs=1e-7)


def test_an_input_is_drawn_from_its_seed() -> None:
    recipe = Matrices("density-gradient", 800, 4, "clusters", "cell")
    one, same, other = (recipe.make(seed) for seed in (1, 1, 2))
    assert one.hash == same.hash != other.hash
    assert one.made_for == {"rows": 800, "antisymmetric": True}
    torus = replace(BOX, periodic=(True, False, False))
    with pytest.raises(UserError, match="open box"):
        of_particles(make(10, torus))


def test_transposed_and_plain_products_agree(device: Device) -> None:
    """z . (A x) = (A^T z) . x, with answers of two layouts."""
    y = launched(device, "ellpack-blocks", "product-planes", SOME)
    u = launched(device, "csr-product", "transpose-warp", SOME)
    y, u = (device.download(each.answer.values).astype(np.float64) for each in (y, u))
    left = SOME.numbers.astype(np.float64) @ y
    assert left == pytest.approx((u[:, :3] * SOME.vector[:, :3]).sum(), rel=1e-4)


@pytest.mark.parametrize("name", OURS)
def test_only_antisymmetric_blocks_are_transposed_through_the_rows(name: str) -> None:
    cls: Any = registry.find_algorithm(name)
    form = next(form for form in cls.forms if form.startswith("transpose"))
    with pytest.raises(NotSupported, match="B_ji = -B_ij"):
        cls(SimpleNamespace(), form=form, parameters={}, rows=3, antisymmetric=False)


@pytest.mark.parametrize("form", ["product", "transpose"])
def test_products_without_blocks_are_those_with_them(device: Device, form: str) -> None:
    free = launched(device, "matrix-free", form, SOME, width=5)  # shorter than many rows
    stored = launched(device, "ellpack-blocks", f"{form}-float4", SOME, width=5)
    assert problem_of(free, SOME) is None
    found, expected = (device.download(each.answer.values) for each in (free, stored))
    if form == "transpose":
        found, expected = found[:, :3], expected[:, :3]
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    saved = stored.workspace_bytes - free.workspace_bytes
    assert saved == 16 * (stored.places + stored.rows)


# Layouts


@settings(max_examples=15)
@given(
    st.lists(st.integers(0, 30), max_size=400),
    st.integers(1, 32),
    st.sampled_from(["assemble-planes", "product-float4"]),
)
def test_what_is_beyond_the_width_is_spilled_and_told(
    device: Device, lengths: list[int], width: int, form: str
) -> None:
    inputs = matrix_of_lengths(lengths, seed=width)
    algorithm = launched(device, "ellpack-blocks", form, inputs, width=width)
    assert problem_of(algorithm, inputs) is None
    found = algorithm.outcome()
    beyond = [max(0, length - width) for length in lengths]
    assert found["spilled_blocks"] == sum(beyond)
    assert found["spilled_rows"] == sum(map(bool, beyond))
    assert found["width"] == min(width, max([1, *lengths]))
    assert found["longest_row"] == max([0, *lengths])


def test_the_default_width_pads_even_rows_and_spills_few_long_ones() -> None:
    rows = 9000
    even = np.random.default_rng(0).poisson(33, rows).astype(np.int32)
    assert ellpack_blocks.worthwhile_width(even) == even.max()
    uneven = np.full(rows, 3, np.int32)
    uneven[:4095] = 5
    uneven[:10] = 4000
    assert ellpack_blocks.worthwhile_width(uneven) == 3
    uneven[4095] = 5  # now 4096 rows fill five columns
    assert ellpack_blocks.worthwhile_width(uneven) == 5
    assert ellpack_blocks.worthwhile_width(np.zeros(rows, np.int32)) == 1


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("ellpack-blocks", {"width": 0}, "width must be at least 1, not 0"),
        ("sliced-ell", {"unroll": 0}, "unroll must be 1 to 16, not 0"),
        ("sliced-ell", {"sigma": 48}, "sigma must be a power of two, 32 to 2048, not 48"),
        ("csr-product", {"unroll": 17}, "unroll must be 1 to 16, not 17"),
    ],
)
def test_bad_parameters_are_one_line(
    device: Device, name: str, parameters: dict[str, int], sentence: str
) -> None:
    cls: Any = registry.find_algorithm(name)
    with pytest.raises(UserError, match=sentence) as raised:
        cls(device, form=next(iter(cls.forms)), parameters=parameters, **SOME.made_for)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("order", ["cell", "random"])
def test_stretches_hold_what_the_rows_of_a_block_need(device: Device, order: str) -> None:
    particles = make(3000, BOX, order=order, seed=1)
    inputs = of_particles(particles)
    stretches = stretches_of(inputs, 4000)
    assert stretches.shape == (-(-3000 // BLOCK), STRETCHES, 4)
    begin, length, place = stretches[..., 0], stretches[..., 1], stretches[..., 2]
    assert (length >= 0).all() and (begin >= 0).all() and (begin + length <= 3000).all()
    assert (place == np.cumsum(length, axis=1) - length)[length > 0].all()
    matrix = SparseProductOracle(inputs).matrix
    row = np.repeat(np.arange(3000), np.diff(matrix.start))
    block = stretches[row // BLOCK]
    column = matrix.columns[:, None]
    times = ((column >= block[..., 0]) & (column < block[..., 0] + block[..., 1])).sum(axis=1)
    assert times.max() == 1
    assert (times == 1).all() if order == "cell" else times.mean() < 0.2
    few = stretches_of(inputs, 100)
    assert (few[..., 1].sum(axis=1) <= 100).all()
    staged = launched(device, "ellpack-staged", "product-planes", inputs)
    assert problem_of(staged, inputs) is None
    assert 0 < staged.outcome()["staged_share"] <= times.mean()


def test_planes_move_less_than_float4(device: Device) -> None:
    """A float4 is moved with its w: 4 bytes for each block, those of the diagonal too."""
    made = [
        launched(device, "ellpack-blocks", f"product-{layout}", SOME)
        for layout in ("float4", "planes")
    ]
    blocks = int(made[0].outcome()["blocks"])
    assert made[0].traffic_bytes() - made[1].traffic_bytes() == 4 * (blocks + SOME.rows)
    assert made[0].traffic_bytes() == 20 * blocks + 40 * SOME.rows


# The oracle


def spoiled(device: Device, algorithm: Any, change: Callable[[Any], None], name: str) -> Any:
    """Change an array of the answer on the host, and put it back."""
    array = getattr(algorithm.answer, name)
    host = device.download(array)
    change(host)
    device.write(array, host)
    return algorithm


def scaled(index: Any, by: Any) -> Callable[[Any], None]:
    """Return what multiplies an entry by a number, or puts what a function makes of it there."""

    def change(array: Any) -> None:
        array[index] = by(array[index]) if callable(by) else array[index] * by

    return change


def place_of_largest(device: Device, algorithm: Any, reference: SparseProductOracle) -> Any:
    """Return where the largest number of the blocks is: atomics decide, and many are near zero.

    Places that hold no block are poisoned: memory may hold an earlier answer there.
    """
    algorithm.poison()
    algorithm.launch()
    expected, stored = reference.matrix.blocks, device.download(algorithm.answer.blocks)
    largest = expected.flat[np.argmax(np.abs(expected))]
    return np.unravel_index(np.nanargmin(np.abs(stored - largest)), stored.shape)


@pytest.mark.parametrize("rows", [2**15, 300], ids=["all rows", "a sample"])
@pytest.mark.parametrize(
    ("task", "array", "index", "by"),
    [
        ("product", "values", 5, 1 + 1e-4),
        ("product", "values", -1, np.nan),
        ("transpose", "values", (0, 1), 1 + 1e-4),
        ("transpose", "values", (-1, 2), -1.0),
        ("assemble", "lengths", -1, 0),
        ("assemble", "blocks", None, 1 + 1e-4),
        ("assemble", "diagonal", (2, -1), -1.0),
        ("assemble", "columns", 2, lambda column: -1 - column),
    ],
)
def test_what_is_wrong_is_seen(
    device: Device, monkeypatch: pytest.MonkeyPatch,
    rows: int, task: str, array: str, index: Any, by: Any,
) -> None:  # fmt: skip
    monkeypatch.setattr(sparse_oracle, "MOST_ROWS", rows)
    oracle = SparseProductOracle(SOME)
    algorithm = launched(device, *REPRESENTATIVES[task], SOME)
    assert oracle.check(algorithm) is None
    index = place_of_largest(device, algorithm, oracle) if index is None else index
    assert oracle.check(spoiled(device, algorithm, scaled(index, by), array)) is not None


@pytest.mark.parametrize("task", TASKS)
def test_a_given_matrix_is_compared_with_what_was_given(device: Device, task: str) -> None:
    inputs = antisymmetric_matrix(50, 200)
    algorithm = launched(device, *REPRESENTATIVES[task], inputs)
    assert problem_of(algorithm, inputs) is None
    assert inputs.given is not None
    other = inputs.given.blocks.copy()
    other[7, 1] *= 1 + 2**-10
    changed = replace(inputs, given=replace(inputs.given, blocks=other))
    assert problem_of(algorithm, changed) is not None


def test_errors_stay_within_the_bound_of_a_row_of_large_terms(device: Device) -> None:
    """The bound is relative to the absolute sum: cancelled terms of 2^20 leave an error of 2^-3."""
    inputs = matrix_of_lengths(np.full(20, 8), seed=1)
    assert inputs.given is not None
    inputs.given.blocks[:] *= np.where(np.arange(160) % 2, 2.0**20, -(2.0**20))[:, None]
    algorithm = launched(device, "sliced-ell", "product-planes", inputs)
    assert problem_of(algorithm, inputs) is None
    assert problem_of(spoiled(device, algorithm, scaled(3, 1.01), "values"), inputs) is not None


# The study


def test_the_study_tells_what_layouts_report(device: Device) -> None:
    study = load_study("slides-ellpack")
    told: set[str] = set()
    for name in OURS:
        form = next(form for form in registry.find_algorithm(name).forms if "product" in form)
        told |= launched(device, name, form, SOME).outcome().keys()
    assert study.outcomes.keys() <= told
    assert {subject.algorithm for subject in study.subjects} == {*OURS, "cusparse-csr"}
