"""Tables of times, ranked among algorithms that do equal work, and of untimed measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from gpubench.base.markdown import table
from gpubench.evidence.inputs import names
from gpubench.evidence.pooling import grouped

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

TIED = "="  # after a rank: as fast as the best, within the uncertainty
TIMED = ("rank", "algorithm", "median ms", "95 % interval", "over best", "of bound", "remark")
UNTIMED = ("status", "algorithm", "inputs", "reason")


@dataclass(frozen=True)
class Text:
    """A table of strings. title: the study, the device, and values common to all rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def texts(frame: pd.DataFrame) -> list[Text]:
    """Return a data frame of `evidence.frame` as tables.

    For each study and device: a table of times, fastest first for each input; and a table of
    measurements without a time, with the reasons. Empty tables are omitted.
    """
    rows = as_json(frame)
    found: list[Text] = []
    for (machine, study), of_study in grouped(rows, itemgetter("device", "study")).items():
        timed = [row for row in of_study if row["status"] == "ok"]
        if timed:
            shared = _shared(timed)
            said = [f"{name} {_value(value)}" for name, value in shared.items() if _said(value)]
            title = ", ".join([f"{study} on {machine}", *said])
            found.append(Text(title, *_times(timed, shared)))
        if untimed := [row for row in of_study if row["status"] != "ok"]:
            found.append(Text(f"{study} on {machine}, without a time", UNTIMED, _reasons(untimed)))
    return found


def markdown(frame: pd.DataFrame) -> str:
    """Return the tables as Markdown."""
    found = texts(frame)
    return "\n".join(f"{each.title}:\n\n{table(each.columns, each.rows)}\n" for each in found)


def as_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a data frame in plain JSON types; missing values become None."""
    found = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in found.to_dict("records")]


def _times(rows: Sequence[Row], shared: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of times; tasks and inputs repeated from the row above are blank."""
    differing = [name for name in names() if name not in shared]
    named = [name for name in differing if any(_said(row[name]) for row in rows)]
    lines: list[list[str]] = []
    before: list[str] = []
    for row in rows:
        place = [_task(row), row["mode"], *(_value(row[name]) for name in named)]
        # Only the first of consecutive rows with the same input names it.
        lines.append([*([""] * len(place) if place == before else place), *_time(row)])
        before = place
    return ["task", "mode", *named, *TIMED], lines


def _time(row: Row) -> list[str]:
    rank = "" if row["rank"] is None else str(row["rank"])
    over = row["over_best"]
    return [
        rank + (TIED if row["is_first"] and row["rank"] != 1 else ""),
        _algorithm(row),
        f"{row['median_ms']:.4g}",
        f"{row['low_ms']:.4g} to {row['high_ms']:.4g}",
        "" if over is None else f"{over:.2f}",
        "" if row["bound"] is None else f"{row['bound']:.0%}",
        f"incomplete: {row['lost']:,} lost" if row["lost"] else "",
    ]


def _reasons(rows: Sequence[Row]) -> list[list[str]]:
    """Return a row for each algorithm and reason, with the number of measurements."""
    by_reason = grouped(rows, lambda row: (row["status"], _algorithm(row), row["reason"]))
    return [
        [status, label, str(len(found)), reason or ""]
        for (status, label, reason), found in by_reason.items()
    ]


def _shared(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the input properties that are equal in all rows. Needs at least one row."""
    first = rows[0]
    return {name: first[name] for name in names() if all(row[name] == first[name] for row in rows)}


def _said(value: object) -> bool:
    return value is not None and not (isinstance(value, list) and not any(value))


def _task(row: Row) -> str:
    return " ".join(filter(None, (row["task"] or row["problem"], row["answer"])))


def _algorithm(row: Row) -> str:
    given = [f"{name}={_value(value)}" for name, value in row["parameters"].items()]
    return " ".join([row["algorithm"], row["form"], *given])


def _value(value: Any) -> str:
    match value:
        case None:
            return ""
        case list():
            return "yes" if any(value) else "no"
        case bool() | str():
            return str(value)
        case float() if not value.is_integer():
            return f"{value:g}"
        case _:
            return f"{int(value):,}"
