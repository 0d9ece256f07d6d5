"""Stream filters against NumPy, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpubench import registry
from gpubench.base.errors import NotSupported
from gpubench.primitives.filters import FILTERS, BitonicStepsFilter, Stream
from gpubench.problems.stream_filter.contract import StreamFilter

INFINITY, MINUS_INFINITY = 0x7F800000, 0xFF800000
NANS = (0x7F800001, 0x7FC00000, 0x7FC12345, 0xFF812345, 0xFFFFFFFF)  # two of them signalling
SPECIAL = np.array([INFINITY, MINUS_INFINITY, *NANS, 0, 0x80000000, 1], np.uint32)
SPECS = ("opencl:intel", "opencl:pocl", "cuda")

FORMS = [
    pytest.param(
        spec, cls, form, id=f"{spec}-{cls.name}-{form}", marks=[pytest.mark.cuda] * (spec == "cuda")
    )
    for spec in SPECS
    for cls in registry.algorithms().values()
    if issubclass(cls, StreamFilter)
    for form, described in cls.forms.items()
    if spec == "cuda" or not described.requires
]
every_form = pytest.mark.parametrize(("device", "cls", "form"), FORMS, indirect=["device"])
every_kind = pytest.mark.parametrize("nulls", ["infinity", "predicate"])
both_sizes = pytest.mark.parametrize("record_bytes", [4, 16])


def draw(
    size: int, kept: float, words: int, nulls: str, seed: int = 0
) -> tuple[NDArray[np.uint32], NDArray[np.int32] | None, NDArray[np.bool_]]:
    """Return the bits of records, half of them special values, `keep`, and which are records."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, (size, words), np.uint32)
    np.copyto(bits, rng.choice(SPECIAL, bits.shape), where=rng.random(bits.shape) < 0.5)
    is_record = rng.random(size) < kept
    if nulls == "predicate":
        some = rng.choice(np.array([1, 5, -1, 2**31 - 1, -(2**31)], np.int32), size)
        return bits, np.where(is_record, some, 0).astype(np.int32), is_record
    first = bits[:, 0]
    first[is_record & (first == INFINITY)] = MINUS_INFINITY
    first[~is_record] = INFINITY
    return bits, None, is_record


def run(algorithm: Any, bits: NDArray[np.uint32], keep: NDArray[np.int32] | None) -> Any:
    """Filter, and return the bits of what was kept; the input must stay as it was.

    Of a form that keeps both halves, what was kept and the rest after it.
    """
    device = algorithm.device
    records = device.upload(bits.view(np.float32))
    algorithm.filter(records, None if keep is None else device.upload(keep))
    assert np.array_equal(device.download(records).view(np.uint32), bits)
    answer, halves = algorithm.answer, []
    for half, size in ((answer.records, answer.count), (answer.rest, answer.rest_count)):
        if half is not None:
            count = device.download(size)
            assert count.shape == (1,) and count.dtype == np.int32
            halves.append(device.download(half)[: count[0]].view(np.uint32))
    return np.concatenate(halves)


def expected_of(algorithm: Any, bits: NDArray[np.uint32], is_record: NDArray[np.bool_]) -> Any:
    """Return what `run` must return."""
    both = algorithm.answer.rest is not None
    return np.concatenate([bits[is_record], bits[~is_record]][: 1 + both])


def in_some_order(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return bits[np.lexsort(bits.T)]


def assert_same(algorithm: Any, found: NDArray[np.uint32], expected: NDArray[np.uint32]) -> None:
    if not algorithm.forms[algorithm.form].stable:
        found, expected = in_some_order(found), in_some_order(expected)
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)


@every_form
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(0, 10000) | st.sampled_from([2**k + d for k in range(13) for d in (-1, 0, 1)]),
    kept=st.floats(0, 1),
    record_bytes=st.sampled_from([4, 16, 12]),
    nulls=st.sampled_from(["infinity", "predicate"]),
    seed=st.integers(0, 2**32),
)
@example(size=0, kept=1.0, record_bytes=4, nulls="infinity", seed=0)
@example(size=1, kept=0.0, record_bytes=4, nulls="infinity", seed=0)
@example(size=1, kept=1.0, record_bytes=16, nulls="predicate", seed=0)
@example(size=4097, kept=0.0, record_bytes=16, nulls="infinity", seed=0)
@example(size=4097, kept=1.0, record_bytes=4, nulls="predicate", seed=0)
@example(size=2**17 + 1, kept=0.5, record_bytes=4, nulls="infinity", seed=0)
def test_keeps_the_records_bit_for_bit(device, cls, form, size, kept, record_bytes, nulls, seed):
    algorithm = cls(device, size, record_bytes, form, {}, nulls=nulls)
    for turn in range(2):  # what a first launch leaves behind must not disturb a second
        bits, keep, is_record = draw(size, kept, record_bytes // 4, nulls, seed + turn)
        assert_same(algorithm, run(algorithm, bits, keep), expected_of(algorithm, bits, is_record))


@every_form
@pytest.mark.parametrize("position", ["first", "last", "first half", "second half", "every other"])
def test_nulls_in_one_place(device, cls, form, position):
    size = 3000
    bits = np.arange(size, dtype=np.uint32).reshape(-1, 1)
    null = {
        "first": slice(0, 1),
        "last": slice(size - 1, size),
        "first half": slice(0, size // 2),
        "second half": slice(size // 2, size),
        "every other": slice(1, size, 2),
    }[position]
    bits[null] = INFINITY
    algorithm = cls(device, size, 4, form, {}, nulls="infinity")
    expected = expected_of(algorithm, bits, bits[:, 0] != INFINITY)
    assert_same(algorithm, run(algorithm, bits, None), expected)


@pytest.mark.second_runtime
@every_form
@both_sizes
def test_only_plus_infinity_in_the_first_float_is_null(device, cls, form, record_bytes):
    bits = np.repeat(SPECIAL[:, None], record_bytes // 4, axis=1)
    bits[1:, 1:] = INFINITY
    algorithm = cls(device, len(bits), record_bytes, form, {}, nulls="infinity")
    is_record = np.arange(len(bits)) > 0
    assert_same(algorithm, run(algorithm, bits, None), expected_of(algorithm, bits, is_record))


@every_form
@every_kind
@both_sizes
def test_filter_only_launches(device, cls, form, nulls, record_bytes, monkeypatch):
    algorithm = cls(device, 5000, record_bytes, form, {}, nulls=nulls)
    bits, keep, _ = draw(5000, 0.5, record_bytes // 4, nulls)
    records = device.upload(bits.view(np.float32))
    keep_there = None if keep is None else device.upload(keep)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("filter must only launch")

    for method in ("empty", "upload", "write", "download", "copy", "kernel", "synchronize"):
        monkeypatch.setattr(device, method, forbidden)
    algorithm.filter(records, keep_there)


@every_form
def test_the_traffic_grows_with_what_is_kept(device, cls, form):
    def traffic(kept: float) -> int:
        algorithm = cls(device, 1000, 16, form, {}, nulls="predicate")
        bits, keep, _ = draw(1000, kept, 4, "predicate")
        run(algorithm, bits, keep)
        return algorithm.traffic_bytes()

    # A record that is kept is written, and read unless nulls are read too; the network of 2004
    # moves all of them, and so do forms that keep both halves.
    moves_all = form in ("one-launch-per-step", "both-halves")
    assert traffic(1.0) - traffic(0.0) >= (0 if moves_all else 16 * 1000)
    assert traffic(0.0) >= 4 * 1000


@every_form
def test_refuses_records_of_other_sizes(device, cls, form):
    with pytest.raises(NotSupported, match="65 words: filters move 1 to 64"):
        cls(device, 10, 260, form, {}, nulls="infinity")


@pytest.mark.parametrize("words", [2, 5])
@pytest.mark.parametrize(
    ("device", "how"),
    [
        pytest.param(spec, how, id=f"{spec}-{name}", marks=[pytest.mark.cuda] * (spec == "cuda"))
        for spec in ("opencl:intel", "cuda")
        for name, how in {**FILTERS, "bitonic-steps": BitonicStepsFilter}.items()
        if spec == "cuda" or not how.requires
    ],
    indirect=["device"],
)
def test_filters_are_chained_without_the_host(device, how, words, monkeypatch):
    """The half of one level is the stream of the next, twice, and both halves come out."""
    capacity, sizes = 5000, (0, 1, 777, 5000, 5400)  # the last is more than there is room for
    records = np.random.default_rng(words).integers(0, 2**32, (capacity, words), np.uint32)
    keeps = np.random.default_rng(1).integers(0, 2, (2, capacity)).astype(np.int32)
    made = how(device, capacity, words, both=True)
    streams = [
        Stream(device.upload(np.zeros((capacity, words), np.uint32)), device.empty(1, "int32"))
        for _ in range(4)
    ]
    given, size = device.upload(records), device.empty(1, "int32")
    levels = [device.upload(keep) for keep in keeps]
    for n in sizes:
        device.write(size, np.array([n], np.int32))
        with monkeypatch.context() as patch:
            for method in ("empty", "upload", "write", "download", "kernel", "synchronize"):
                patch.setattr(device, method, None)
            made.launch(given, levels[0], size, *streams[:2], most=max(n, 1))
            made.launch(streams[0].records, levels[1], streams[0].size, *streams[2:])
        first = keeps[0, :n] != 0
        expected = [records[:n][first], records[:n][~first]]
        found = [
            device.download(each.records)[: int(device.download(each.size)[0])] for each in streams
        ]
        # What the second level got, in whichever order the first left it.
        second = keeps[1, : len(found[0])] != 0
        expected += [found[0][second], found[0][~second]]
        for half, wanted in zip(found, expected, strict=True):
            if not how.stable:
                half, wanted = in_some_order(half), in_some_order(wanted)
            assert np.array_equal(half, wanted)


@pytest.mark.parametrize(
    ("device", "cls", "form"),
    [param for param in FORMS if param.values[1].name == "filter-scan-search"],
    indirect=["device"],
)
@pytest.mark.parametrize(
    ("size", "scan", "steps"), [(0, 1, 0), (1, 1, 0), (2, 1, 1), (1024, 10, 10), (1025, 11, 10)]
)
def test_scan_and_search_take_log2_n_passes(device, cls, form, size, scan, steps):
    algorithm = cls(device, size, 4, form, {}, nulls="infinity")
    search = steps + 1 if form == "one-pass-per-step" else 1
    assert algorithm.outcome() == {"scan_passes": scan, "search_passes": search}
