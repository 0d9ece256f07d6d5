"""Removing the null records of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.stream_filter.axes import Records

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.stream_filter.inputs import RecordSet


class StreamFilterProblem(Problem):
    """Keep the records that are not null, without gaps."""

    name = "stream-filter"
    takes = Records

    def oracle(self, inputs: RecordSet, exact: bool = False) -> Oracle:
        """Return the records that are kept, and the others."""
        from gpubench.problems.stream_filter.oracle import StreamFilterOracle

        return StreamFilterOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return every pattern with both sizes of record and both kinds of null."""
        from gpubench.problems.stream_filter.cases import streams

        return streams()

    def large_cases(self) -> Sequence[Case]:
        """Return one stream."""
        from gpubench.problems.stream_filter.cases import large_streams

        return large_streams()
