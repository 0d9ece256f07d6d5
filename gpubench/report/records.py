"""What is unusual about the measurements of a study, and why some have no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import SIZES, between
from gpubench.report.cells import grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Table, words


def oddities(run: StudyRun) -> list[str]:
    """Say how many measurements have unusual samples, and what that means; empty without any."""
    counts = Counter(
        remark.partition(":")[0]
        for record in run.records
        for remark in (
            *(record["remarks"] or ()),
            *(["throttled"] if record["throttled_ms"] else ()),
        )
    )
    found = ", ".join(f"{kind} in {count}" for kind, count in counts.most_common())
    return [
        f"Unusual samples, which the CSV file names: {found}. Drift: samples grow or shrink with"
        " time. Bimodal: the median may fall into either of two modes. Samples of a throttled"
        " device are left out."
    ] if counts else []  # fmt: skip


def troubles(run: StudyRun) -> Table | None:
    """Return what has no time, one row for each status and reason; None where all has."""
    records = [record for record in run.records if record["status"] != "ok"]
    groups = grouped(records, lambda record: (record["status"], _reason(run, record)))
    rank = ("wrong", "failed", "skipped")
    table = Table.of(
        "Measurements without a time",
        sorted(groups.items(), key=lambda each: rank.index(each[0][0])),
        ("Status", lambda each: each[0][0]),
        {
            "Count": lambda each: str(len(each[1])),
            "Algorithm and form": lambda each: words(
                formats.listing(dict.fromkeys(f"{r['algorithm']} {r['form']}" for r in each[1]))
            ),
            "Where": lambda each: words(_where(each[1])),
            "Reason": lambda each: words(each[0][1]),
        },
    )
    return table if groups else None


def _reason(run: StudyRun, record: Record) -> str:
    """Say why there is no time; of a sweep that was not run as a whole, that the sweep is why."""
    reason = str(record["reason"])
    requires = {f for s in run.study.sweeps if s.name == record["sweep"] for f in s.requires}
    if any(reason.lower().startswith(f"needs {feature}") for feature in requires):
        return f"the sweep {record['sweep']} {reason}"
    return reason


def _where(records: Sequence[Record]) -> str:
    modes = formats.listing(dict.fromkeys(record.mode for record in records))
    return ", ".join(filter(None, (between(records, SIZES), modes)))
