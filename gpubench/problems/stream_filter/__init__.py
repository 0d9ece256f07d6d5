"""Removing the null records of a stream."""

from typing import ClassVar

from gpubench.core.problem import Problem
from gpubench.problems.stream_filter.axes import Records


class StreamFilterProblem(Problem):
    """Keep the records that are not null, without gaps."""

    name = "stream-filter"
    takes = Records
    varied: ClassVar = {"kept": [0.1, 0.9]}
    fixed: ClassVar = {"record_bytes": 4, "nulls": "infinity"}
    oracle_name = "StreamFilterOracle"
    suite = "streams"
    large_suite = "large_streams"
