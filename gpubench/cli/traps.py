"""`gpubench traps`: which library survives which trap."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from gpubench.base import install
from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.base.writing import write_whole, writing
from gpubench.cli import require
from gpubench.cli.options import DeviceOption
from gpubench.cli.output import print_table
from gpubench.cli.values import arg, count, opt
from gpubench.evidence.bounds import SUFFIXES, Environment
from gpubench.problems.images import ImageSearchProblem
from gpubench.verify import trap_results
from gpubench.verify.trap_results import FAILED, Caught, TrapResults

if TYPE_CHECKING:
    from gpubench.core.algorithm import Algorithm

FAMILY, ENDING = ImageSearchProblem.name, "-images"
OUT = Path("reports/traps")


def traps(
    libraries: Annotated[
        list[str] | None,
        arg(
            "[LIBRARY]...",
            "As `gpubench list image` names them, or an adapter.py; default: all. Or the traps.json"
            " of earlier runs, for one page.",
        ),
    ] = None,
    only: Annotated[str, opt("TEXT", "Only traps whose name contains it.")] = "",
    device: DeviceOption = "auto",
    limit: Annotated[
        int, opt("S", "Seconds after which a search hangs. Default: 60, or 300 if it is large.")
    ] = 0,
    jobs: Annotated[int, opt("N", "Traps that are tried at a time.", read=count)] = 1,
    out: Annotated[Path, opt("DIR", "Folder of the page and of traps.csv.")] = OUT,
) -> None:
    """Try libraries on inputs that some get wrong. Exit 1 if one fails.

    A cell is right, refused with a message, wrong, crashed or hung; for the last three, lines that
    show it are printed. Without the extra `report`, only traps.json is written.
    """
    require.one_process("traps")
    require.folder("--out", out)
    earlier = [Path(name) for name in libraries or () if name.endswith(SUFFIXES)]
    kept, lacking = out / "traps.json", install.lacking("report", "a page of traps")
    if lacking and earlier:
        raise UserError(lacking)
    if lacking and kept.exists():
        raise UserError(f"{kept} exists: remove it, or name another folder with --out")
    if not lacking:
        from gpubench.report import folder

        folder.require_own(out)
    found = [*map(trap_results.load, earlier)]
    if not found:
        found = [_tried(libraries or [], only, device, limit, jobs)]
    files = {} if earlier else {kept.name: json.dumps(found[0].as_json(), indent=1)}
    if lacking:
        say(lacking)
        with writing(kept):
            out.mkdir(parents=True, exist_ok=True)
            write_whole(kept, files[kept.name])
        print(kept)
    else:
        _draw(found, out, files)
    if any(cell.state in FAILED for each in found for cell in each.traps):
        raise typer.Exit(1)


def _draw(found: Sequence[TrapResults], out: Path, files: dict[str, str]) -> None:
    """Write the page and the CSV beside other files."""
    from gpubench.cli.trap_page import CSV, csv, page
    from gpubench.report import folder, render

    pages = [page(found)]
    folder.replace(out, {**render.markdown(pages), **render.html(pages), CSV: csv(found), **files})
    print(out / "index.html")


def _tried(libraries: Sequence[str], only: str, device: str, limit: int, jobs: int) -> TrapResults:
    """Try libraries, and print what came of it."""
    from gpubench.devices import open_device
    from gpubench.measure.environment import environment
    from gpubench.problems.images.traps import traps as all_traps
    from gpubench.verify import trapped

    chosen, names = _chosen(libraries), [name for name in all_traps() if only in name]
    if not names:
        raise UserError(f"no trap has {only!r} in its name: {', '.join(all_traps())}")
    with open_device(device) as opened:
        spec, called, has = opened.spec, opened.name, opened.features
        about = environment(opened)
    ways = [(c.name, form) for c in chosen for form in c.forms if c.forms[form].requires <= has]
    say(f"{len(names)} traps, {len(ways)} ways to search, on {called} ({spec})")

    def tried(task: tuple[tuple[str, str], list[str]]) -> list[Caught]:
        way, part = task
        return [*trapped.run(*way, spec, part, limit)]

    parts = min(len(names), -(-jobs // max(1, len(ways))))
    tasks = [(way, names[first::parts]) for way in ways for first in range(parts)]
    with ThreadPoolExecutor(jobs) as pool:
        caught = [*pool.map(tried, tasks)]
    together = [chain(*caught[first : first + parts]) for first in range(0, len(tasks), parts)]
    columns = [sorted(own, key=lambda cell: names.index(cell.trap)) for own in together]
    offered = [own for own in columns if any(c.state != "not offered" for c in own)]
    for cell in (own[0] for own in columns if own not in offered):
        say(f"{cell.library} {cell.form}: {cell.said}")
    cells = [structs.replace(c, library=_named(own)) for own in offered for c in own]
    found = TrapResults(Environment(about), cells)
    shown = [(n, *(_mark(own[n].state) for own in found.columns.values())) for n in names]
    print_table(("trap", *found.columns), shown)
    for cell in (cell for cell in cells if cell.bug):
        print(f"# {cell.library} {cell.form}: {cell.state}\n{cell.bug}\n")
    return found


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
    """Return the name and version of a library, which a crash may hide."""
    return max((cell.library for cell in cells), key=lambda name: " " in name)


def _mark(state: str) -> str:
    return {"not offered": "\N{EN DASH}"}.get(state, state.upper() if state in FAILED else state)
