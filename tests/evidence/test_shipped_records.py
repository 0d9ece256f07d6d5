"""Records that ship: keys that never change, pickles, and files of the first schema."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from kinds import flat_fields

from gpubench.base.errors import UserError
from gpubench.evidence.frame import frame
from gpubench.evidence.records import Record, identity_of, record_key
from gpubench.evidence.results import Results, load

FROZEN = Path(__file__).with_name("frozen")
# Two files of this commit hold keys of another rule; they stay as they are.
OTHER_RULE = ("b60ac87-neighbour-query.json.gz", "b60ac87-rozen2008-partial-update.json.gz")


def by_shape(found: list[Results]) -> Iterator[Record]:
    """Yield one record of each kind of input, status and set of axes."""
    seen = set()
    for results in found:
        for record in results.records:
            given = (name for name, value in flat_fields(record).items() if value is not None)
            shape = type(record), tuple(given)
            if shape not in seen:
                seen.add(shape)
                yield record


def test_keys_never_change(shipped_results: list[Results]) -> None:
    changed = [
        results.path.name
        for results in shipped_results
        for record in results.records
        if record_key(**identity_of(record)) != record.key
    ]
    assert len(changed) == 167
    assert all(name.endswith(OTHER_RULE) for name in changed)


def test_every_record_pickles(shipped_results: list[Results]) -> None:
    found = list(by_shape(shipped_results))
    assert len(found) > 50
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_file_of_schema_1_is_read_as_it_was() -> None:
    """One record of each kind of input, status and mode, written at d543f64 and before."""
    results = load(FROZEN / "schema-1.json")
    found = frame([results])
    was = pd.read_csv(FROZEN / "schema-1.frame.csv")
    del was["is_first"]  # was also said of one entrant alone
    was.loc[was.task == "build", "answer"] = "sorted"  # was not declared
    written = io.StringIO(found[[*was]].to_csv(index=False))
    pd.testing.assert_frame_equal(pd.read_csv(written), was)
    assert all(record_key(**identity_of(record)) == record.key for record in results.records)


@pytest.mark.parametrize(
    ("field", "value"),
    [("cells", "%s%n"), ("cells", [4, 4]), ("particles", -1), ("mode", "warm"), ("per_cell", "4")],
)
def test_what_was_no_record_of_schema_1_still_is_none(field, value, tmp_path) -> None:
    document = json.loads((FROZEN / "schema-1.json").read_text(encoding="utf-8"))
    index = next(n for n, each in enumerate(document["records"]) if each["cells"] is not None)
    document["records"][index][field] = value
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError, match=rf"\$\.records\[{index}\]"):
        load(forged)
