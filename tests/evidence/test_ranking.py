"""Ranks: equal work only, nothing that lost particles, no win that would not be found again."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import record, results

from gpubench import registry
from gpubench.evidence.declared import declared, group, legacy, lost
from gpubench.evidence.pooling import pool
from gpubench.evidence.ranking import best_rule, rank, single_choices
from gpubench.libraries.cupy_argsort import CupyKeySort


def ranked(*records):
    """Return (algorithm, rank, whether nothing is known to be faster) for each group ranked."""
    return [
        [
            (
                each.measurement.record.algorithm,
                each.in_mode and each.in_mode.rank,
                bool(each.in_mode and each.in_mode.is_first),
            )
            for each in race
        ]
        for race in rank(pool([results(list(records))]))
    ]


def by_device_time(*records):
    """Return (algorithm, mode, rank, ratio to the fastest, is_first), fastest first."""
    every = [each for race in rank(pool([results(list(records))])) for each in race]
    able = [(each, each.by_device_time) for each in every if each.by_device_time]
    return sorted(
        (
            (
                each.measurement.record.algorithm,
                each.measurement.record.mode,
                standing.rank,
                round(standing.ratio.value, 6),
                standing.is_first,
            )
            for each, standing in able
        ),
        key=lambda row: row[2],
    )


def test_a_graph_counts_before_a_launch_from_python():
    found = by_device_time(
        record(median=1.0, mode="hot"),
        record(median=0.5, mode="graph"),
        record("bucket-sort", "host-loop", median=0.8, mode="hot"),
        record("bucket-sort", "host-loop", median=0.6, mode="graph"),
    )
    assert found == [
        ("atomic-list", "graph", 1, 1.0, True),
        ("bucket-sort", "graph", 2, 1.2, False),
    ]


def test_what_no_graph_holds_is_compared_as_launched_with_the_fastest_as_launched():
    found = by_device_time(
        record(median=1.0, mode="hot"),
        record(median=0.1, mode="graph"),
        record("bucket-sort", "host-loop", median=3.0, mode="hot"),
        record("bucket-sort", "host-loop", status="skipped", reason="reads back", mode="graph"),
    )
    assert found == [
        ("atomic-list", "graph", 1, 1.0, True),
        ("bucket-sort", "hot", 2, 3.0, False),  # never 30: a launch beside a kernel
    ]


@pytest.mark.parametrize(("steps", "ratio"), [(None, 3.0), (2, 3.0), (100, 30.0)])
def test_an_engine_that_does_many_steps_in_a_call_is_compared_as_it_is(steps, ratio):
    found = by_device_time(
        record(median=1.0, mode="hot"),
        record(median=0.1, mode="graph"),
        record("bucket-sort", "host-loop", median=3.0, mode="hot", steps=steps),
    )
    assert found[1] == ("bucket-sort", "hot", 2, ratio, False)


def test_a_launch_that_cannot_be_compared_has_no_rank_by_device_time():
    found = by_device_time(
        record(median=0.1, mode="graph"),
        record("bucket-sort", "host-loop", median=3.0, mode="hot"),
    )
    assert found == [("atomic-list", "graph", 1, 1.0, False)]


def test_what_is_faster_as_launched_comes_before_the_fastest_graph():
    found = by_device_time(
        record(median=1.0, mode="hot"),
        record(median=0.1, mode="graph"),
        record("bucket-sort", "host-loop", median=0.5, mode="hot"),
    )
    assert found == [
        ("bucket-sort", "hot", 1, 1.0, True),
        ("atomic-list", "graph", 2, 2.0, False),
    ]


def test_linked_lists_and_sorted_cells_are_ranked_apart():
    found = ranked(
        record("bucket-sort", "device-loop", median=2.0),
        record("counting-sort", "order", median=1.0),
        record("atomic-list", median=0.5),
        record("radix-grid", "order", median=1.5),
    )
    assert found == [
        [("atomic-list", 1, True), ("bucket-sort", 2, False)],
        [("counting-sort", 1, True), ("radix-grid", 2, False)],
    ]


@pytest.mark.parametrize("declares", [True, False])  # new records, and those of before
def test_searches_that_build_linked_lists_and_sorted_cells_are_ranked_apart(declares):
    def made(name, form, median):
        found = registry.find_algorithm(name).declared(form) if declares else None
        return record(name, form, median=median, declared=found)

    names = (
        "search-counting-sort", "search-radix-grid", "search-atomic-list", "search-bucket-sort",
        "warp-hash-grid",
    )  # fmt: skip
    built = ranked(*(made(name, "build", 1.0 + at) for at, name in enumerate(names)))
    assert built == [
        [("search-counting-sort", 1, True), ("search-radix-grid", 2, False)],
        [("search-atomic-list", 1, True), ("search-bucket-sort", 2, False)],
        [("warp-hash-grid", 1, False)],
    ]
    [counted] = ranked(*(made(name, "count", 1.0 + at) for at, name in enumerate(names)))
    assert [name for name, *_ in counted] == list(names)


def test_a_sort_that_its_library_documents_as_stable_is_ranked_as_one_whatever_a_record_says():
    says = {"problem": "key-sort", "task": None, "answer": "unstable", "replaces": None}
    found = record("cupy-key-sort", "sort", declared=says | {"loses": None})
    assert declared(found).answer == "stable" == CupyKeySort.declared("sort")["answer"]
    assert found.key == record("cupy-key-sort", "sort").key


def test_what_is_overruled_of_old_records_is_what_the_algorithms_declare():
    for row in legacy()["overruled"]:
        algorithm = registry.find_algorithm(row["algorithm"])
        said = algorithm.declared(row.get("task") or next(iter(algorithm.forms)))
        assert {name: said[name] for name in row if name != "algorithm"} == {
            name: value for name, value in row.items() if name != "algorithm"
        }


def test_filters_that_keep_the_order_are_ranked_apart():
    stream = {"records": 64, "record_bytes": 16, "kept": 0.5}
    found = ranked(
        record("filter-lookback", "single-pass", median=2.0, **stream),
        record("filter-atomic", "aggregated", median=1.0, **stream),
    )
    assert [len(race) for race in found] == [1, 1]


def test_an_answer_that_lost_particles_has_no_rank():
    lossy = {"parameters": {"capacity": 4, "allow_overflow": 1}}
    found = ranked(
        record("fixed-capacity", median=0.1, outcome={"lost": 1}, **lossy),
        record("fixed-capacity", median=0.2, outcome={"lost": 0}, parameters={"capacity": 64}),
    )
    assert found == [[("fixed-capacity", 1, False), ("fixed-capacity", None, False)]]


@pytest.mark.parametrize("status", ["wrong", "failed", "skipped"])
def test_what_has_no_time_has_no_rank(status):
    found = ranked(record(), record("bucket-sort", "host-loop", status=status, reason="why"))
    assert found == [[("atomic-list", 1, False), ("bucket-sort", None, False)]]


def test_what_is_wrong_in_one_mode_has_a_rank_in_none():
    found = ranked(
        record(median=1.0, mode="hot"),
        record(mode="graph", status="wrong", reason="why"),
        record("bucket-sort", "host-loop", median=2.0, mode="hot"),
    )
    assert found[0] == [("bucket-sort", 1, False), ("atomic-list", None, False)]


def test_a_lead_within_the_intervals_is_no_win():
    rows = [record(median=1.0, width=0.05), record("bucket-sort", "host-loop", median=1.04)]
    assert ranked(*rows) == [[("atomic-list", 1, True), ("bucket-sort", 2, True)]]
    rows[1] = record("bucket-sort", "host-loop", median=1.2, width=0.05)
    assert ranked(*rows) == [[("atomic-list", 1, True), ("bucket-sort", 2, False)]]


def test_modes_and_inputs_are_ranked_apart():
    found = ranked(record(), record(mode="graph"), record(per_cell=1), record(order="Morton"))
    assert [len(race) for race in found] == [1, 1, 1, 1]


def test_where_particles_moved_a_rebuild_does_the_work_of_an_update():
    moved = {"moved": 10, "destination": "next"}
    assert group(record("search-a", "count", **moved)) == group(
        record("search-b", "update", **moved)
    )
    assert group(record("search-a", "count")) != group(record("search-a", "list"))


def test_what_a_record_carries_comes_before_what_is_known_of_old_ones():
    own = {"problem": "p", "task": None, "answer": "a", "replaces": None, "loses": "gone"}
    found = record("bucket-sort", "host-loop", declared=own, outcome={"gone": 3})
    assert declared(found).problem == "p" and lost(found) == 3
    assert declared(record("unheard-of", "some-form")).problem is None


TIMES = [
    (1, {"a": 1.0, "b": 2.0}),
    (2, {"a": 1.0, "b": 1.5}),
    (4, {"a": 3.0, "b": 1.0, "c": 0.5}),
]


def test_a_single_choice_costs_its_time_over_the_best():
    found = {rule.first: rule.costs.tolist() for rule in single_choices(TIMES)}
    assert found == {"b": [2.0, 1.5, 2.0], "a": [1.0, 1.0, 6.0]}  # c was not timed everywhere
    assert single_choices([]) == []


def test_a_rule_names_one_for_small_and_one_for_large_inputs():
    rule = best_rule(single_choices(TIMES), [size for size, _ in TIMES])
    assert (rule.first, rule.above, rule.up_to) == ("a", "b", 2)
    assert rule.costs.tolist() == [1.0, 1.0, 2.0]


def test_of_one_size_the_best_single_choice_is_the_rule():
    times = [(8, {"a": 1.0, "b": 2.0}), (8, {"a": 1.0, "b": 0.9})]
    assert best_rule(single_choices(times), [8, 8]).first == "a"


@given(
    st.lists(
        st.tuples(
            st.integers(1, 9), st.fixed_dictionaries(dict.fromkeys("abc", st.floats(0.1, 10)))
        ),
        min_size=1,
    )
)
def test_no_other_rule_has_a_lower_worst_case(times):
    times = sorted(times, key=lambda each: each[0])
    sizes = [size for size, _ in times]
    least = best_rule(single_choices(times), sizes)
    for limit in {*sizes, max(sizes) + 1}:
        for small, large in itertools.product("abc", repeat=2):
            ratios = [
                by_thing[small if size < limit else large] / min(by_thing.values())
                for size, by_thing in times
            ]
            # Worst cases are rounded, and two choices must save more than 5 %.
            assert least.costs.max() <= 1.05 * max(ratios) + 0.002
