"""The page of traps: which library survives which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
from msgspec import structs

from gpubench.report import formats
from gpubench.report.cells import grouped
from gpubench.report.pages import NOTHING, Item, Page, Row, Section, Table, words
from gpubench.verify.trap_results import FAILED, RIGHT, Caught, TrapResults

CSV = "traps.csv"
_LEAD = (
    "The same inputs, given to each library as its users give them, in processes where none failed."
    " Right: the pairs that float64 arithmetic finds; those at the cutoff from both sides, or from"
    " none. Refused: an error with a message. A dash: its interface, or this device, has no such"
    " thing."
)


def page(found: Sequence[TrapResults]) -> Page:
    """Return the page of all files, by machine; its lead names what failed in no trap."""
    machines = grouped(found, lambda each: each.environment["device"]["name"])
    merged = [
        TrapResults(own[0].environment, [cell for each in own for cell in each.traps])
        for own in machines.values()
    ]
    columns, unsound = [], set()
    for each in merged:
        traps = {cell.trap for cell in each.traps}
        for name, own in each.columns.items():
            columns.append(name)
            if own.keys() != traps or any(c.state in FAILED for c in own.values()):
                unsound.add(name)  # what was not tried may fail
    sound = [name for name in dict.fromkeys(columns) if name not in unsound]
    lead = f"Nothing wrong, crashed or hung: {formats.listing(sound or ['no library'])}. {_LEAD}"
    shown = [section for each in merged for section in _sections(each)]
    return Page("index", "Neighbour searches in traps", lead, shown)


def csv(found: Sequence[TrapResults]) -> str:
    """Return a row for each cell."""
    rows = [
        {"device": each.environment["device"]["name"], **structs.asdict(cell)}
        for each in found
        for cell in each.traps
    ]
    return pd.DataFrame(rows).to_csv(index=False)


def _sections(found: TrapResults) -> list[Section]:
    columns, device = found.columns, found.environment["device"]["name"]
    counted = {name: Counter[str](c.state for c in own.values()) for name, own in columns.items()}
    total = [
        Row(name, [Item(str(n[state])) for state in (*RIGHT, *FAILED)])
        for name, n in counted.items()
    ]
    groups = grouped(found.traps, lambda cell: cell.group)
    tables = [
        Table(
            group,
            ["Trap", *columns],
            [
                Row(trap, [_item(own, trap) for own in columns.values()])
                for trap in dict.fromkeys(cell.trap for cell in cells)
            ],
        )
        for group, cells in groups.items()
    ]
    said = [
        Row(c.trap, [words(f"{c.library} {c.form}"), words(c.said)])
        for c in found.traps
        if c.state == "refused"
    ]
    how_many = Table(f"How many, on {device}", ["Library", *RIGHT, *FAILED], total)
    return [
        Section(title=device, level=2, tables=[how_many]),
        Section(title="Every trap", tables=tables, links={"As CSV": CSV}),
        *(
            Section(
                title=f"{c.library} {c.form}, {c.state}: {c.trap}",
                level=4,
                sentences=[c.said],
                command=c.bug,
            )
            for c in found.traps
            if c.bug
        ),
        Section(tables=[Table("What is refused", ["Trap", "Library", "Message"], said)]),
    ]


def _item(cells: Mapping[str, Caught], trap: str) -> Item:
    state = cells[trap].state if trap in cells else "not tried"
    return NOTHING if state == "not offered" else Item(state, "none", strong=state in FAILED)
