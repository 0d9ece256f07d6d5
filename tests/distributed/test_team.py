"""Ranks that do together what rank 0 says."""

from __future__ import annotations

import json

import pytest
from mpi_runs import run_ranks


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    """Return the number of ranks, and what rank 0 found."""
    size = request.param
    done = run_ranks(size, "team.py", "well")
    assert (done.returncode, done.stderr) == (0, "")
    lines = sorted(done.stdout.splitlines())
    assert lines[:size] == [f"rank {rank} of {size} is done" for rank in range(size)]
    return size, json.loads(lines[size])


def test_calls_reach_the_parts_of_the_object_they_are_meant_for(found):
    size, told = found
    assert told["first"] == [14 + rank for rank in range(size)]
    assert told["second"] == [22 + rank for rank in range(size)]


def test_what_one_refuses_all_refuse(found):
    size, told = found
    assert told["refused by the last"] == f"rank {size - 1} has no jar"
    assert told["refused by rank 0"] == "rank 0 has no jar"
    assert told["refused by all"] == "rank 0 has no jar"


def test_what_was_refused_is_forgotten(found):
    size, told = found
    assert told["jars after refusals"] == [2] * size


def test_what_rank_0_drops_all_drop(found):
    size, told = found
    assert told["jars after one is dropped"] == [1] * size


def test_later_objects_are_not_taken_for_those_that_are_gone(found):
    size, told = found
    assert told["third"] == [45 + rank for rank in range(size)]
    assert told["first at last"] == told["first"]


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("breaks", 2, "gpubench: rank 2 of 3 ended by ZeroDivisionError"),
        ("spills", 2, "gpubench: rank 2 of 3: the jar is full"),
    ],
)
def test_an_error_of_a_follower_ends_all(how, status, message):
    done = run_ranks(3, "team.py", how)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.splitlines()[-1] == message
