"""`gpubench traps`: which library survives which trap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.cli import require
from gpubench.cli.options import DeviceOption
from gpubench.cli.output import print_table
from gpubench.cli.values import arg, count, opt
from gpubench.problems.images import ImageSearchProblem

if TYPE_CHECKING:
    from gpubench.core.algorithm import Algorithm
    from gpubench.report.pages import Page
    from gpubench.verify.trapped import Caught

FAMILY, ENDING = ImageSearchProblem.name, "-images"
OUT = Path("reports/traps")
MARKS = {"right": "right", "refused": "refused", "not offered": "\N{EN DASH}"}
LEAD = (
    "The same inputs, given to each library as its users give them, each in a process of its own."
    " Right: the pairs that float64 arithmetic finds; those at the cutoff from both sides, or from"
    " none. Refused: an error with a message. A dash: its interface, or this device, has no such"
    " thing."
)


def traps(
    libraries: Annotated[
        list[str] | None,
        arg("[LIBRARY]...", "As `gpubench list image` names them, or an adapter.py. Default: all."),
    ] = None,
    only: Annotated[str, opt("TEXT", "Only traps whose name contains it.")] = "",
    device: DeviceOption = "auto",
    limit: Annotated[
        int, opt("S", "Seconds after which a search hangs. Default: 60, or 300 if it is large.")
    ] = 0,
    jobs: Annotated[int, opt("N", "Libraries that are tried at a time.", read=count)] = 1,
    out: Annotated[Path, opt("DIR", "Folder of the page and of traps.csv.")] = OUT,
) -> None:
    """Try libraries on inputs that some get wrong. Exit 1 if one fails.

    A cell is right, refused with a message, wrong, crashed or hung; for the last three, lines that
    show it are printed.
    """
    import pandas as pd

    from gpubench.devices import open_device
    from gpubench.problems.images.traps import traps as all_traps
    from gpubench.verify import trapped

    require.one_process("traps")
    install.require("report", "gpubench traps")
    from gpubench.report import folder, render

    require.folder("--out", out)
    folder.require_own(out)
    chosen, names = _chosen(libraries or []), [name for name in all_traps() if only in name]
    if not names:
        raise UserError(f"no trap has {only!r} in its name: {', '.join(all_traps())}")
    with open_device(device) as opened:
        spec, called, has = opened.spec, opened.name, opened.features
    ways = [(c.name, form) for c in chosen for form in c.forms if c.forms[form].requires <= has]
    say(f"{len(names)} traps, {len(ways)} ways to search, on {called} ({spec})")

    def tried(way: tuple[str, str]) -> list[Caught]:
        return [*trapped.run(*way, spec, names, limit)]

    with ThreadPoolExecutor(jobs) as pool:
        columns = [*pool.map(tried, ways)]
    columns = [cells for cells in columns if any(c.state != "not offered" for c in cells)]
    rows = [*zip(*columns, strict=True)]
    shown = [(row[0].trap, *(MARKS.get(c.state, c.state.upper()) for c in row)) for row in rows]
    print_table(("trap", *map(_named, columns)), shown)
    for cell in (cell for cells in columns for cell in cells if cell.bug):
        print(f"# {cell.library} {cell.form}: {cell.state}\n{cell.bug}\n")
    pages, each = [_page(columns, called)], [asdict(cell) for cells in columns for cell in cells]
    files = {**render.markdown(pages), **render.html(pages)}
    folder.replace(out, files | {"traps.csv": pd.DataFrame(each).to_csv(index=False)})
    print(out / "index.html")
    if any(cell["state"] not in MARKS for cell in each):
        raise typer.Exit(1)


def _chosen(given: Sequence[str]) -> list[type[Algorithm]]:
    """Return the searches to try; raise UserError for a name that is none."""
    from gpubench import registry

    paths = [Path(name) for name in given if name.endswith(".py")]
    before = {*registry.algorithms()}
    if paths:
        registry.add(paths)
    known = {n: c for n, c in registry.algorithms().items() if c.family == FAMILY}
    names = [name for name in known if name not in before]
    if paths and not names:
        raise UserError(f"{paths[0]} declares no search of the family {FAMILY}")
    for name in (name for name in given if not name.endswith(".py")):
        names.append(name if name in known else f"{name}{ENDING}")
        registry.require_known("library", names[-1], known)
    return [known[name] for name in names or known]


def _named(cells: Sequence[Caught]) -> str:
    """Return the name and version of a library, which a crash may hide, and the way it searches."""
    library = max((cell.library for cell in cells), key=lambda name: " " in name)
    return f"{library} {cells[0].form}"


def _page(columns: Sequence[Sequence[Caught]], device: str) -> Page:
    from gpubench.problems.images.traps import traps as all_traps
    from gpubench.report.pages import Item, Page, Row, Section, Table, words

    names, cells = [*map(_named, columns)], [cell for column in columns for cell in column]
    groups: dict[str, list[Row]] = {}
    for row in zip(*columns, strict=True):
        states = [cell.state for cell in row]
        items = [Item(MARKS.get(s, s), "none", strong=s not in MARKS) for s in states]
        groups.setdefault(all_traps()[row[0].trap].group, []).append(Row(row[0].trap, items))
    tables = [Table(group, ["Trap", *names], rows) for group, rows in groups.items()]
    states = [*MARKS, "wrong", "crashed", "hung"]
    counted = {_named(column): Counter(c.state for c in column) for column in columns}
    total = [Row(name, [Item(str(n[s])) for s in states]) for name, n in counted.items()]
    said = [
        Row(c.trap, [words(f"{c.library} {c.form}"), words(c.said)])
        for c in cells
        if c.state == "refused"
    ]
    failures = [
        Section(title=f"{c.library} {c.form}, {c.state}: {c.trap}", command=c.bug)
        for c in cells
        if c.bug
    ]
    sections = [
        Section(level=2, tables=[Table(f"How many, on {device}", ["Library", *states], total)]),
        Section(title="Every trap", level=2, tables=tables, links={"As CSV": "traps.csv"}),
        Section(title="Failures, as lines that show them", level=2),
        *failures,
        Section(level=2, tables=[Table("What is refused", ["Trap", "Library", "Message"], said)]),
    ]
    return Page("index", "Neighbour searches in traps", LEAD, sections)
