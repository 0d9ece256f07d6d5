"""The oracle of stream filters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.arrays import Ints, bits, check_array, first_true
from gpubench.core.oracle import Oracle
from gpubench.problems.stream_filter.contract import Compacted
from gpubench.problems.stream_filter.inputs import RecordSet


class StreamFilterOracle(Oracle):
    """Check the kept records, bit for bit, and the null records if the filter keeps them."""

    def __init__(self, inputs: RecordSet, exact: bool = False) -> None:
        self.kept = inputs.records[inputs.is_kept]
        self.rest = inputs.records[~inputs.is_kept]

    def check(self, algorithm: Any) -> str | None:
        """Check count and records, in order if the form is stable."""
        download, answer = algorithm.download, self.answer_of(algorithm, Compacted)
        form = algorithm.forms[algorithm.form]
        if problem := check_compacted(
            self.kept, download(answer.records), download(answer.count), form.stable
        ):
            return problem
        if form.halves == 1:
            return None
        rest, count = download(answer.rest), download(answer.rest_count)
        problem = check_compacted(self.rest, rest, count, form.stable)
        return problem and f"of the nulls: {problem}"


def check_compacted(
    kept: NDArray[np.float32], records: NDArray[Any], count: Ints, stable: bool
) -> str | None:
    """Check the kept records, bit for bit, in order or as a multiset of rows.

    kept: float32, shape (kept, words), the expected records in order. records: float32, shape (at
    least kept, words); further rows are ignored.
    count: int32, shape (1,). stable: whether records must be in the order of `kept`.
    """
    expected, words = kept.shape
    if problem := check_array("count", count, (1,), np.int32):
        return problem
    if count[0] != expected:
        return f"count is {count[0]}, expected {expected}"
    if records.ndim != 2 or len(records) < expected or records.shape[1] != words:
        return f"records has shape {records.shape}, expected ({expected} or more, {words})"
    if records.dtype != np.float32:
        return f"records has type {records.dtype}, expected float32"
    # Compare bits: payloads of NaNs matter, and -0.0 differs from 0.0.
    found, wanted = (
        np.ascontiguousarray(rows).view(np.uint32) for rows in (records[:expected], kept)
    )
    if not stable:
        found, wanted = (rows[np.lexsort(rows.T)] for rows in (found, wanted))
    if (k := first_true((found != wanted).any(axis=1))) is not None:
        place = f"record {k}" if stable else f"record {k} in sorted order"
        return f"{place} is {bits(found[k])}, expected {bits(wanted[k])}"
    return None
