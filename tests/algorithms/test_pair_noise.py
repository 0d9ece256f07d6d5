"""Random numbers of pairs: the generators against published vectors, NumPy, and themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench import problems, registry
from gpubench.algorithms._cycles import cycles
from gpubench.algorithms._pair_noise import moments
from gpubench.algorithms.noise_rozen import FRACTIONS
from gpubench.base.errors import UserError
from gpubench.devices import Device
from gpubench.physics.noise import GENERATORS, philox4x32, rozen_next, symmetric
from gpubench.problems.pair_noise.axes import MAX_PAIRS
from gpubench.problems.pair_noise.contract import Noise
from gpubench.problems.pair_noise.inputs import PARTNERS, PairSet, make_pairs
from gpubench.problems.pair_noise.oracle import check_noise, noise
from gpubench.studies.study import load_study

# First words of the known-answer tests of the Random123 library, file kat_vectors: counter of
# four words, key of two, rounds.
ONES, PI = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
VECTORS = [
    ((0,) * 6, 7, 0x5F6FB709),
    ((ONES,) * 6, 7, 0x5207DDC2),
    (PI, 7, 0x4DFCCABA),
    ((0,) * 6, 10, 0x6627E8D5),
    ((ONES,) * 6, 10, 0x408F276D),
    (PI, 10, 0xD16CFE09),
]
every_vector = pytest.mark.parametrize(("words", "rounds", "first"), VECTORS)
FORMS = [
    ("noise-philox", "rounds-10"),
    ("noise-philox", "rounds-7"),
    ("noise-rozen", "fourth-draw"),
]
every_form = pytest.mark.parametrize(("name", "form"), FORMS)
every_generator = pytest.mark.parametrize("generator", GENERATORS)
SOME = make_pairs(1000, seed=1)


def made(device: Device, name: str, form: str, inputs: PairSet) -> Any:
    """Make a generator and let it draw."""
    cls: Any = registry.find_algorithm(name)
    algorithm = cls(device, form=form, parameters={}, **inputs.made_for)
    algorithm.load(inputs)
    algorithm.launch()
    return algorithm


def drawn(device: Device, name: str, form: str, inputs: PairSet) -> np.ndarray:
    algorithm = made(device, name, form, inputs)
    return algorithm.device.download(algorithm.answer.values)


def ids(*words: int) -> np.ndarray:
    return np.array(words, np.uint32).view(np.int32)


# Inputs


@given(st.integers(0, 2000), st.integers(0, 2**63))
def test_pairs_are_distinct_and_successive_ones_share_a_particle(pairs: int, seed: int) -> None:
    inputs = make_pairs(pairs, seed)
    assert inputs.i.dtype == inputs.j.dtype == np.int32
    assert inputs.pairs == pairs and inputs.made_for == {"pairs": pairs}
    low, high = np.minimum(inputs.i, inputs.j), np.maximum(inputs.i, inputs.j)
    assert ((low >= 0) & (low < high)).all()
    assert len({*zip(low.tolist(), high.tolist(), strict=True)}) == pairs
    shared = low[1:] == low[:-1]
    assert np.count_nonzero(shared) == pairs - -(-pairs // PARTNERS)
    assert make_pairs(pairs, seed).hash == inputs.hash


def test_pairs_come_from_either_side_and_vary_with_the_seed() -> None:
    assert 0.4 < np.mean(SOME.i < SOME.j) < 0.6
    assert make_pairs(9, seed=1).hash != make_pairs(9, seed=2).hash


def test_everything_that_numbers_depend_on_is_in_the_hash() -> None:
    other = ids(5)
    given = {"i": ids(3), "j": ids(4), "step": 1, "key": 2}
    changed = [{}, {"i": other}, {"j": other}, {"step": 2**32 + 1}, {"key": 2**32 + 2}]
    found = [PairSet(**{**given, **change}, seed=None) for change in changed]
    assert len({inputs.hash for inputs in found}) == len(changed)


def test_the_clock_holds_low_and_high_words() -> None:
    clock = PairSet(ids(0), ids(0), 2**32 + 5, 7 * 2**32 + 9, None).clock
    assert clock.dtype == np.uint32 and clock.tolist() == [5, 1, 9, 7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1, 0), "0 to 2147483647, not -1"), ((MAX_PAIRS + 1, 0), "2147483647"), ((1, -1), "seed")],
)
def test_bad_pairs_are_refused(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_pairs(*arguments)


# The generators in NumPy


@every_vector
def test_philox_by_numpy_gives_the_published_words(
    words: tuple[int, ...], rounds: int, first: int
) -> None:
    assert philox4x32(*words, rounds=rounds)[0] == first


@every_generator
def test_numbers_lie_between_minus_one_and_one(generator: str) -> None:
    values = noise(generator, SOME.i, SOME.j, SOME.step, SOME.key, 100)
    assert values.dtype == np.float32 and values.shape == (100, SOME.pairs)
    assert values.min() >= -1 and values.max() < 1
    assert values.min() < -0.999 and values.max() > 0.999


def test_the_ends_of_philox_are_symmetric() -> None:
    """Words 0, 2^32 - 1, 2^31 - 1 and 2^31, as the least, and the two ends of the range."""
    words = np.array([0, 2**32 - 1, 2**31 - 1, 2**31], np.uint32)
    numbers = symmetric(words)
    assert numbers.tolist() == [2.0**-24, -(2.0**-24), 1 - 2.0**-24, 2.0**-24 - 1]
    assert symmetric(np.arange(0, 2**32, 2**20 + 1, np.uint32)).all()


@every_generator
@pytest.mark.parametrize("word", ["i", "j", "step", "key"])
def test_every_bit_counts(generator: str, word: str) -> None:
    given = {"i": SOME.i, "j": SOME.j, "step": 12345, "key": 2**40 + 3}
    before = noise(generator, **given, steps=1)
    for bit in range(31 if word in "ij" else 64):
        after = noise(generator, **{**given, word: given[word] ^ (1 << bit)}, steps=1)
        assert np.mean(before == after) < 0.01, f"bit {bit}"


def test_the_recurrence_is_that_of_the_paper() -> None:
    r = np.linspace(0, 1, 1001)[:-1].astype(np.float32)
    x = 1.000005 * (r.astype(np.float64) + np.sqrt(3)) ** 5
    apart = np.abs(rozen_next(r) - x % 1)
    assert np.minimum(apart, 1 - apart).max() < 1e-4


def test_check_names_pair_step_and_both_numbers() -> None:
    expected = noise("philox-10", SOME.i, SOME.j, 7, 8, 3)
    found = expected.copy()
    assert check_noise(expected, found, SOME.i, SOME.j, 7) is None
    found[2, 4] = -found[2, 4]
    said = check_noise(expected, found, SOME.i, SOME.j, 7)
    assert said == (
        f"the pair ({SOME.i[4]}, {SOME.j[4]}) has {found[2, 4]!s} in step 9,"
        f" expected {expected[2, 4]!s}"
    )
    assert "shape (2, 1000)" in str(check_noise(expected, found[:2], SOME.i, SOME.j, 7))
    doubles = found.astype(np.float64)
    assert "float64" in str(check_noise(expected, doubles, SOME.i, SOME.j, 7))


def test_a_zero_of_the_other_sign_is_another_number() -> None:
    zero = np.zeros((1, 1), np.float32)
    assert check_noise(zero, -zero, ids(0), ids(1), 0) is not None


# The generators on devices


@pytest.mark.second_runtime
@every_vector
def test_philox_on_the_device_gives_the_published_words(
    device: Device, words: tuple[int, ...], rounds: int, first: int
) -> None:
    i, j, step_low, step_high, key_low, key_high = words
    inputs = PairSet(ids(i), ids(j), step_low + (step_high << 32), key_low + (key_high << 32), None)
    values = drawn(device, "noise-philox", f"rounds-{rounds}", inputs)
    assert values[0, 0] == symmetric(np.array([first], np.uint32))[0]


@every_form
def test_both_partners_draw_the_same_bits(device: Device, name: str, form: str) -> None:
    mirrored = PairSet(SOME.j, SOME.i, SOME.step, SOME.key, None)
    one, other = (drawn(device, name, form, inputs) for inputs in (SOME, mirrored))
    assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


@every_form
def test_a_step_does_not_depend_on_where_a_launch_begins(
    device: Device, name: str, form: str
) -> None:
    start = 2**32 - 4
    early, late = (
        drawn(device, name, form, PairSet(SOME.i, SOME.j, step, SOME.key, None))
        for step in (start, start + 3)
    )
    assert np.array_equal(early[3:], late[:-3])
    assert not np.array_equal(early[:5], late[:5])


def test_no_compiler_contracts_the_recurrence(device: Device) -> None:
    draws = device.empty(FRACTIONS, "float32")
    kernel = device.kernel("pair_noise.cu", "follow_fractions", BLOCK=256, NOISE=1, STEPS=1)
    kernel(FRACTIONS // 256, 256, draws, 1 / FRACTIONS, np.uint32(FRACTIONS))
    fractions = np.ldexp(np.arange(FRACTIONS, dtype=np.float32), -24)
    expected = rozen_next(fractions)
    assert np.array_equal(device.download(draws).view(np.uint32), expected.view(np.uint32))


# What is reported of the numbers


def test_moments_of_numbers_that_are_known() -> None:
    level = moments(np.full((2, 3), 0.5, np.float32))
    assert level == {
        "mean": pytest.approx(0.75**0.5),
        "excess_variance": pytest.approx(-1),
        "step_correlation": pytest.approx(0.75),
        "pair_correlation": pytest.approx(0.75),
        "standard_error": pytest.approx(6**-0.5),
        "numbers": 6,
        "distinct": 1,
    }
    signs = np.array([[1, -1, 1, -1], [1, -1, 1, -1]], np.float32)
    found = moments(signs)
    assert (found["mean"], found["distinct"]) == (0, 2)
    assert found["excess_variance"] == pytest.approx(2)
    assert found["step_correlation"] == pytest.approx(3)
    assert found["pair_correlation"] == pytest.approx(-3)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (8, 0)])
def test_no_moments_without_products(shape: tuple[int, int]) -> None:
    assert moments(np.zeros(shape, np.float32)) == {}


@every_form
def test_moments_are_those_of_uniform_numbers(device: Device, name: str, form: str) -> None:
    found = made(device, name, form, make_pairs(2**16, seed=2)).outcome()
    error = found["standard_error"]
    assert error == pytest.approx((8 * 2**16) ** -0.5)
    for moment in ("mean", "step_correlation", "pair_correlation"):
        assert abs(found[moment]) < 4 * error, moment
    # The fourth moment of a uniform number gives the error of its square: sqrt(0.8 / n).
    if name == "noise-philox":
        assert abs(found["excess_variance"]) < 4 * 0.8**0.5 * error
        assert found["distinct"] > 0.95 * found["numbers"]
    else:
        assert abs(found["excess_variance"]) < 0.01
        assert found["distinct"] < 0.5 * found["numbers"]


def test_the_paper_generator_repeats_as_numpy_finds(device: Device) -> None:
    """Its sequence from 0, and the cycles of all fractions, by walking instead of squaring."""
    found = made(device, "noise-rozen", "fourth-draw", make_pairs(100)).outcome()
    sequence = list(itertools.takewhile(distinct(), follow(np.float32(0))))
    again = rozen_next(sequence[-1])
    tail = sequence.index(again)
    assert (found["tail"], found["cycle"]) == (tail, len(sequence) - tail)
    noise = np.sqrt(3) * (2 * np.array(sequence[tail:], np.float64) - 1)
    assert found["cycle_mean"] == pytest.approx(noise.mean())

    left, size = np.unique(rozen_next(np.arange(2**20, dtype=np.float32) / 2**20)), 0
    while len(left) != size:  # a map of a set onto itself is one of cycles alone
        size, left = len(left), np.unique(rozen_next(left))
    lengths = []
    members = set(left.tolist())
    while members:
        cycle = set(itertools.takewhile(distinct(), follow(np.float32(min(members)))))
        members -= cycle
        lengths.append(len(cycle))
    assert (found["cycles"], found["longest_cycle"]) == (len(lengths), max(lengths))
    assert 0 < found["in_longest"] <= 1


def test_a_contracted_product_would_end_elsewhere() -> None:
    """What `__fmul_rn` in noise.h is for: with the last product unrounded, 0 leads elsewhere."""

    def contracted(r: np.float32) -> np.float32:
        root = r + np.float32(3**0.5)
        fifth = root * root * (root * root) * root
        exact = np.float64(np.float32(1.000005)) * np.float64(fifth)
        return np.float32(exact - np.floor(np.float32(exact)))

    lengths = []
    for following in (rozen_next, contracted):
        sequence = list(itertools.takewhile(distinct(), follow(np.float32(0), following)))
        lengths.append((len(sequence), len(sequence) - sequence.index(following(sequence[-1]))))
    assert lengths[0] != lengths[1]
    assert lengths[1][1] == 1


def follow(r: np.float32, following: Callable[[Any], Any] = rozen_next) -> Any:
    while True:
        yield r
        r = following(r)


def distinct() -> Any:
    seen: set[float] = set()
    return lambda r: not (r in seen or seen.add(r))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_cycles_of_any_map(numbers: list[int]) -> None:
    n = len(numbers)
    successor = np.array(numbers) % n
    found = cycles(successor)
    names: dict[frozenset[int], int] = {}
    for start in range(n):
        path = [start]
        while (following := int(successor[path[-1]])) not in path:
            path.append(following)
        tail = path.index(following)
        walked, members = found.walk(start)
        assert (walked, members.tolist()) == (tail, path[tail:])
        name = int(found.cycle_of[start])
        assert names.setdefault(frozenset(path[tail:]), name) == name
        assert found.lengths[name] == len(path) - tail
    assert len({*names.values()}) == len(names) == len(found.lengths)


def test_the_study_tabulates_what_is_reported(device: Device) -> None:
    study = load_study("rozen2008-random-numbers")
    reported = set()
    for subject in study.subjects:
        reported |= made(device, subject.algorithm, subject.form, make_pairs(100)).outcome().keys()
    assert study.outcomes.keys() == reported


def test_an_answer_of_another_family_is_refused() -> None:
    class Impostor:
        name, generator, answer = "impostor", "philox-10", None

    with pytest.raises(TypeError, match="not Noise"):
        problems.problems()["pair-noise"].oracle(SOME, False).check(Impostor())


def test_an_algorithm_cannot_change_its_reference() -> None:
    inputs = make_pairs(50)
    expected = Noise(noise("philox-7", inputs.i, inputs.j, inputs.step, inputs.key, 8))
    check = problems.problems()["pair-noise"].oracle(inputs, False).check
    inputs.i[:] = 0

    class Host:
        name, generator, answer, launches = "host", "philox-7", expected, 8
        download = staticmethod(np.array)

    assert check(Host()) is None
