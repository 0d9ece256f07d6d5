"""Answers beside a measured input are those on it, as far as the distance allows."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from searches import grid, record, results

from gpubench.choose.chooser import Chooser
from gpubench.choose.evidence import to_octaves
from gpubench.choose.question import Question

SIZES = [2**k for k in range(10, 23)]
OCCUPANCIES = [1, 2, 4, 16, 64]
SLOPE = 2.0  # by how much a logarithm may change over the square root of a distance of one octave
# Equal at 2^17 particles; short times are mostly launches.
LAWS = {
    "quick-to-start": lambda n, p: 0.002 * (n / 2**10) ** 0.9 * p**0.2,
    "quick-in-the-end": lambda n, p: 0.002 * 2 ** (7 * 0.4) * (n / 2**10) ** 0.5 * p**0.2,
    "limited": lambda n, p: 0.003 * (n / 2**10) ** 0.6 * p**0.3,
}


@pytest.fixture(scope="module")
def chooser():
    """Small inputs have wide intervals; one has limits, others were not measured everywhere."""
    records = []
    for n in SIZES:
        width = 0.3 if n < 2**16 else 0.005
        records += grid(LAWS, [n], OCCUPANCIES, noise=0.05, width=width)
    records = [
        record(each.algorithm, None, n, p, status="skipped", reason="too many neighbours")
        if each.algorithm == "limited" and (n := each.at("particles")) * (p := each.at("per_cell"))
        > 2**22
        else each
        for each in records
    ]  # fmt: skip
    records += grid({"seldom": LAWS["quick-in-the-end"]}, [2**14, 2**20], [4], noise=0.05)
    records += grid({"often": LAWS["limited"]}, SIZES[::2], OCCUPANCIES, noise=0.2)
    return Chooser([results(*records)])


def octaves(question):
    return [to_octaves("particles", question.particles), to_octaves("per_cell", question.per_cell)]


def numbers(answer):
    """Return the logarithms of the times, ends and margins of every candidate, by its name."""
    best = answer.best
    found = {best.subject: (best.ms, best.low_ms, best.high_ms, 1.0, 1.0, 1.0)}
    for margin in answer.margins:
        other = margin.other
        times = (other.ms, other.low_ms, other.high_ms)
        found[other.subject] = (*times, margin.ratio, margin.low, margin.high)
    return {subject: [math.log(value) for value in values] for subject, values in found.items()}


@settings(max_examples=200)
@given(
    sizes=st.tuples(*[st.sampled_from(SIZES)] * 2),
    occupancies=st.tuples(*[st.sampled_from(OCCUPANCIES)] * 2),
    power=st.integers(4, 40),
)
def test_an_answer_beside_a_measured_input_is_the_one_on_it(chooser, sizes, occupancies, power):
    share = 2.0**-power
    particles, per_cell = (
        at * (towards / at) ** share for at, towards in (sizes, occupancies)
    )  # towards another measured input, so that it lies inside the hull
    there, beside = Question(sizes[0], occupancies[0]), Question(round(particles), per_cell)
    assume(SIZES[0] <= beside.particles <= SIZES[-1])
    distance = math.dist(octaves(there), octaves(beside))
    known, answer = (chooser.choose(each, with_changes=False) for each in (there, beside))
    near = SLOPE * math.sqrt(distance) + 1e-6
    on_it, next_to_it = numbers(known), numbers(answer)
    model, _ = chooser.known("count")
    for subject, measured in model.right.items():
        if distance < 0.1 and any(octaves(place) == octaves(there) for place in measured):
            assert subject in on_it and subject in next_to_it
        if subject in on_it and subject in next_to_it:
            if known.best.subject == answer.best.subject:
                assert next_to_it[subject] == pytest.approx(on_it[subject], abs=near)
            else:  # then margins are to another
                assert next_to_it[subject][:3] == pytest.approx(on_it[subject][:3], abs=near)
    if known.verdict == "chosen" and all(math.log(each.low) > near for each in known.margins):
        assert (answer.verdict, answer.best.subject) == ("chosen", known.best.subject)
