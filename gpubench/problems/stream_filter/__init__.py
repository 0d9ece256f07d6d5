"""Removing the null records of a stream."""

from gpubench.core.problem import Problem
from gpubench.problems.stream_filter.axes import Records


class StreamFilterProblem(Problem):
    """Compact the records that are not null."""

    name = "stream-filter"
    takes = Records
    oracle_name = "StreamFilterOracle"
    suite = "streams"
    large_suite = "large_streams"
