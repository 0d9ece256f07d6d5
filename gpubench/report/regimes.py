"""What a report says and draws of neighbour searches over their regimes: who wins where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from gpubench.core.tasks import LAUNCHES_MS, LAUNCHES_PARTICLES, TASKS, may_be_launches
from gpubench.evidence.crossover import front
from gpubench.report import crossovers, formats, incremental_updates, libraries, maps, time_steps
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Place, StudyRun
from gpubench.report.figures import (
    Axis,
    Chart,
    Line,
    Panel,
    describe,
    draw_all,
    line_chart,
    scatter,
)
from gpubench.report.maps import Block, Key, MapChart, MapPanel, Tile
from gpubench.report.pages import Section
from gpubench.report.rankings import (
    CONTENDER,
    MOST_LINES,
    RIVALS,
    STUDIES,
    Field,
    Race,
    lines_over,
    moved_share,
)

_MOST_NAMED = 3  # winners of a task in a sentence
_MANY = 4  # inputs of a task, from which on their winners are counted
_KIND = ("per_cell", "distribution", "order")  # what inputs of one line have in common
_GREY = 5  # index of a colour
_LEAST = 3  # inputs of a map that is not full
# Shares of the tiles of a map below which it is drawn small, beside its like: of sweeps over one
# kind of input, and of those over several, unless they are complete.
_FULL, _COMPLETE = 0.5, 0.95

# Distribution and order of the inputs of a map; particles per cell, where that is no axis of it.
_Kind = tuple[str, str, float | None]


def tells(run: StudyRun) -> bool:
    """Say whether a study is one that this module tells of."""
    return run.study.name in STUDIES


def sentences(run: StudyRun) -> list[str]:
    """Return what was found, one statement a string: first of all whether a rival wins."""
    field = Field.of(run)
    return [
        _verdict(field),
        *libraries.wrong(field),
        *([margins] if run.study.name == RIVALS and (margins := libraries.margins(field)) else []),
        *_by_size(field),
        *_winners(field),
        *incremental_updates.sentences(field),
        *time_steps.sentences(run),
        *_launches(field),
    ]


def gist(run: StudyRun) -> str:
    """Return the first of these and what is wrong, for the front page."""
    field = Field.of(run)
    return " ".join([_verdict(field), *libraries.wrong(field)])


def _verdict(field: Field) -> str:
    """Say who is first, and of whom nothing is said."""
    return " ".join(filter(None, (libraries.verdict(field), libraries.untimed(field))))


def sections(run: StudyRun, slug: str) -> list[Section]:
    """Return what the study's page shows, as far as there are records for it."""
    field = Field.of(run)
    crossed = [pair for task in field.tasks for pair in crossovers.pairs(field, task)]
    beside = libraries.section(field)
    memory, share = _memory(field, slug), _copy_share(field, slug)
    moved = [incremental_updates.chart(field, slug), incremental_updates.ratio_chart(field, slug)]
    resorts = incremental_updates.table(field)
    steps = time_steps.charts(run, slug)
    crossing_tables = [
        table
        for task in field.tasks
        for table in [crossovers.table([pair for pair in crossed if pair.task == task], task)]
        if table is not None
    ]
    found = [
        Section("Who wins where", figures=[maps.draw(chart) for chart in _maps(field, slug)]),
        Section(
            "Where one overtakes another",
            figures=draw_all(crossovers.charts(field, slug, crossed)),
            folded=crossing_tables,
        ),
        Section(
            "Rebuild, re-sort, or a skin",
            tables=[resorts] if resorts else [],
            figures=draw_all([chart for chart in (*moved, *steps) if chart is not None]),
        ),
        Section("Time against memory", figures=draw_all(memory)),
        Section("Share of the bandwidth", figures=draw_all([share] if share else [])),
    ]
    found.insert(0 if run.study.name == RIVALS else len(found), beside)
    return [each for each in found if each.figures or each.tables or each.folded]


def win_rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return the winner of each task and input, for the CSV of the maps."""
    return [
        {
            "task": race.task,
            **libraries.place_columns(race.place),
            "winner": race.winner.subject.algorithm,
            "winner_form": race.winner.subject.form,
            "winner_median_ms": race.winner.median_ms,
            "runner_up": race.cells[1].subject.algorithm if margin else None,
            "runner_up_form": race.cells[1].subject.form if margin else None,
            "margin": margin.value if margin else None,
            "margin_low": margin.low if margin else None,
            "margin_high": margin.high if margin else None,
            "cannot_tell": race.is_open,
            "timed": len(race.cells),
            "not_timed_but_might_win": "; ".join(field.missing(race)) or None,
        }
        for field in [Field.of(run)]
        for race in field.races
        for margin in [race.margin]
    ]


# Maps of who wins.


def _launches(field: Field) -> list[str]:
    """Say which times a GPU has little to do with."""
    short = sum(
        race.winner.headline["device"] == "cuda"
        and may_be_launches(race.place.count, race.winner.median_ms)
        for race in field.races
    )
    if not short:
        return []
    return [
        f"Of up to {formats.power(LAUNCHES_PARTICLES)} particles, times below {LAUNCHES_MS:g} ms"
        f" may be mostly those of launches from Python. So short is the fastest in {short} of"
        f" {len(field.races)} cases (a task on an input): whoever needs fewer launches wins there,"
        " and from a graph, as from C++, another may."
    ]


def _by_size(field: Field) -> list[str]:
    """Say who is fastest at which numbers of particles, at the usual occupancy."""
    said: dict[str, list[str]] = {}
    for task in field.tasks:
        per_cell = field.usual_per_cell(task)
        races = [race for race in field.usual_races(task, per_cell=per_cell) if race.margin]
        if task == "update" or len(races) < _MANY:
            continue  # others tell of it
        parts: dict[str | None, list[str]] = {}
        for winner, group in groupby(races, partial(_known_winner, field)):
            parts.setdefault(winner, []).append(_sizes_words(list(group), winner is not None))
        unknown = parts.pop(None, [])
        words = [f"{name} {formats.listing(where)}" for name, where in parts.items()]
        words += [f"open {formats.listing(unknown)}"] if unknown else []
        where = libraries.where([race.place for race in races], _KIND).partition(" (")[0]
        said.setdefault(where, []).append(f"in {libraries.quoted(task)} {', '.join(words)}")
    return [
        f"Fastest by the number of particles, with {where} (in brackets: how many times as long the"
        f" next takes; open: it cannot be told): {'; '.join(parts)}."
        for where, parts in said.items()
    ]


def _known_winner(field: Field, race: Race) -> str | None:
    return race.winner.subject.algorithm if field.is_settled(race) else None


def _sizes_words(races: Sequence[Race], has_margin: bool) -> str:
    """Write from which size to which: "from 2¹⁴ to 2²⁰ (1.09 to 1.38)"."""
    ends = [formats.power(race.place.particles or 0) for race in (races[0], races[-1])]
    words = f"at {ends[0]}" if len(races) == 1 else f"from {ends[0]} to {ends[1]}"
    margins = [race.margin.value for race in races if race.margin]
    return f"{words} ({formats.span(margins)})" if has_margin else words


def _winners(field: Field) -> list[str]:
    """Say who wins how many inputs of each task; tasks on the same inputs in one sentence."""
    said: dict[str, list[str]] = {}
    for task in field.tasks:
        races = [race for race in field.usual_races(task) if len(race.cells) > 1]
        if len(races) < _MANY:
            continue  # the tables say it
        if task != "update" and len({race.place.per_cell for race in races}) == 1:
            continue  # so does the sentence on sizes
        told = Counter(name for race in races if (name := _known_winner(field, race)))
        parts = [f"{name} on {count}" for name, count in told.most_common(_MOST_NAMED)]
        if len(told) > _MOST_NAMED:
            parts.append(f"others on {sum(sorted(told.values())[:-_MOST_NAMED])}")
        if unclear := sum(race.is_open for race in races):
            parts.append(f"on {unclear} it cannot be told")
        if partial_ones := len(races) - told.total() - unclear:
            parts.append(f"on {partial_ones} not all that might win were timed")
        where = libraries.where([race.place for race in races])
        said.setdefault(where, []).append(f"in {libraries.quoted(task)} {', '.join(parts)}")
    return [
        f"Fastest, each with its best form, {where}: {'; '.join(parts)}."
        for where, parts in said.items()
    ]


def _maps(field: Field, slug: str) -> list[MapChart]:
    """Return a map for each task that has one of at least two by two."""
    found = []
    for task in field.tasks:
        chart = _map(field, task, slug)
        if chart is not None:
            found.append(chart)
    return found


def _designed(field: Field) -> set[str]:
    """Return the sweeps whose points are spread over several distributions and orders."""
    kinds: dict[str, set[tuple[str | None, str | None]]] = {}
    for race in field.races:
        sweep = str(race.winner.headline["sweep"])
        kinds.setdefault(sweep, set()).add((race.place.distribution, race.place.order))
    return {sweep for sweep, found in kinds.items() if len(found) > 1}


def _map(field: Field, task: str, slug: str) -> MapChart | None:
    is_moved = task == "update"
    designed = _designed(field)
    grids: dict[_Kind, list[Race]] = {}
    points: dict[_Kind, list[Race]] = {}
    for race in field.races:
        place = race.place
        if race.task == task and (moved_share(place) is not None) == is_moved:
            kind = place.distribution or "", place.order or "", place.per_cell if is_moved else None
            groups = points if race.winner.headline["sweep"] in designed else grids
            groups.setdefault(kind, []).append(race)
    shown = [race for groups in (grids, points) for each in groups.values() for race in each]
    names = sorted({race.winner.subject.algorithm for race in shown}, key=field.algorithms.index)
    alone = []
    for groups, least in ((grids, _FULL), (points, _COMPLETE)):
        for kind, races in list(groups.items()):
            panel = _alone(field, names, kind, races, is_moved, least)
            if panel is not None:
                alone.append((kind, panel))
                del groups[kind]
    panels = [panel for _, panel in sorted(alone, key=lambda each: each[0][2] or 0.0)]
    for kind, races in grids.items():
        points.setdefault(kind, []).extend(races)
    if not is_moved:
        panels += _together(field, names, points)
    if not panels:
        return None
    keys = [Key(name, field.letter(name), field.algorithms.index(name)) for name in names]
    blocks = [block for panel in panels for block in panel.blocks]
    partly = ""
    if any(tile.is_partial for block in blocks for tile in block.tiles):
        partly = (
            " A star behind the letter, without a margin: not timed is one that took less than"
            f" {CONTENDER:g} times as long as the winner of the nearest input, so it might win."
        )
    return MapChart(
        f"{slug}-map-{task}",
        f"Who wins: {task}",
        f"Task: {TASKS[task]}. A tile is one input; its letter and colour say which algorithm is"
        " fastest there, each with the best of its forms. The number, where there is room,"
        " is how many times as long the runner-up takes: the stronger the colour, the clearer the"
        " win. Hatched: the 95 %"
        f" intervals leave open who is faster. Empty: not measured.{partly}",
        "particles",
        "% of the particles in another cell than before" if is_moved else "particles per cell",
        keys,
        panels,
    )


def _level(race: Race, is_moved: bool) -> float:
    return 100 * (moved_share(race.place) or 0.0) if is_moved else race.place.per_cell or 0.0


def _tiles(
    field: Field,
    names: Sequence[str],
    races: Sequence[Race],
    sizes: Sequence[int],
    levels: Sequence[float],
    is_moved: bool,
) -> list[Tile]:
    found: dict[tuple[int, int], Tile] = {}
    for race in races:
        at = sizes.index(race.place.particles or 0), levels.index(_level(race, is_moved))
        key = names.index(race.winner.subject.algorithm)
        margin = race.margin.value if race.margin else None
        found.setdefault(at, Tile(*at, key, margin, race.is_open, bool(field.missing(race))))
    return list(found.values())


def _alone(
    field: Field,
    names: Sequence[str],
    kind: _Kind,
    races: Sequence[Race],
    is_moved: bool,
    least: float,
) -> MapPanel | None:
    """Return a map of inputs that differ in size and occupancy alone, if it is full enough."""
    levels = sorted({_level(race, is_moved) for race in races})
    sizes = sorted({race.place.particles or 0 for race in races})
    tiles = _tiles(field, names, races, sizes, levels, is_moved)
    if len(sizes) < 2 or len(levels) < 2 or len(tiles) < least * len(sizes) * len(levels):
        return None
    title = _kind_words(kind)
    block = Block("", tiles)
    return MapPanel(
        title, [formats.power(n) for n in sizes], [f"{v:g}" for v in levels], [block],
        _map_words(names, title, tiles),
    )  # fmt: skip


def _together(
    field: Field, names: Sequence[str], groups: Mapping[_Kind, Sequence[Race]]
) -> list[MapPanel]:
    """Return one panel of small maps, distributions downwards and orders across; or none."""
    races = [race for each in groups.values() for race in each]
    if len(races) < _LEAST:
        return []
    sizes = sorted({race.place.particles or 0 for race in races})
    levels = sorted({_level(race, False) for race in races})
    distributions = AXES["distribution"].order([d for d, *_ in groups])
    orders = AXES["order"].order([o for _, o, _ in groups])
    orders_written = {order: (AXES["order"].names or {}).get(order, order) for order in orders}
    blocks = [
        Block(
            f"{distribution}, {orders_written[order]}",
            _tiles(field, names, own, sizes, levels, False),
            orders.index(order),
            distributions.index(distribution),
        )
        for (distribution, order, _), own in groups.items()
    ]
    title = "By distribution and order"
    if len(groups) == 1:
        title = _kind_words(next(iter(groups)))
    return [
        MapPanel(
            title, [formats.power(n) for n in sizes], [f"{v:g}" for v in levels], blocks,
            _map_words(names, title, [tile for block in blocks for tile in block.tiles]),
        )
    ]  # fmt: skip


def _kind_words(kind: _Kind) -> str:
    """Say what the inputs of a map have in common."""
    words = [AXES["distribution"].say(kind[0]), AXES["order"].say(kind[1])]
    if kind[2] is not None:
        words.insert(0, AXES["per_cell"].say(kind[2]))
    return ", ".join(words)


def _map_words(names: Sequence[str], where: str, tiles: Sequence[Tile]) -> str:
    wins = Counter(names[tile.key] for tile in tiles if not (tile.is_open or tile.is_partial))
    told = ", ".join(f"{name} {count}" for name, count in wins.most_common())
    unclear = sum(tile.is_open for tile in tiles)
    words = f"Winners of {len(tiles)} inputs, {where}: {told or 'none'}; cannot tell {unclear}"
    if in_part := sum(tile.is_partial and not tile.is_open for tile in tiles):
        words += f"; not all that might win were timed {in_part}"
    return f"{words}."


# Memory and bandwidth.


def _memory(field: Field, slug: str) -> list[Chart]:
    found = []
    for task in field.tasks:
        panels = [
            panel for place in field.chosen(task) for panel in [_memory_panel(field, task, place)]
            if panel is not None
        ]  # fmt: skip
        chart = scatter(
            f"{slug}-memory-{task}",
            f"Time against memory: {task}",
            f"Task: {TASKS[task]}. The lower and the further left, the better. Filled, on"
            " the dashed line: nobody is both faster and smaller (the Pareto front). Memory is the"
            " most that was taken on the device where a library tells it, else what the algorithm"
            f" allocated. The best form of each algorithm.{_stopped(field, task)}",
            Axis("memory, MB", "measured"),
            Axis("median time, ms", "number"),
            panels,
        )
        if chart is not None:
            found.append(chart)
    return found


def _stopped(field: Field, task: str) -> str:
    """Say who is not among the inputs shown of a task though it was close nearby."""
    shown = field.chosen(task)
    return "".join(
        f" At {AXES['particles'].say(race.place.particles)} {formats.listing(names)}"
        f" {'was' if len(names) == 1 else 'were'} not timed, though close to the fastest nearby."
        for race in field.races
        if race.task == task and race.place in shown and (names := field.missing(race))
    )


def memory_bytes(cell: Cell) -> int | None:
    """Return the most memory on the device, or else what was allocated; None if unknown."""
    record = cell.headline
    found: int | None = record["workspace_bytes"]
    if record["peak_bytes"] is not None:
        found = record["peak_bytes"]
    return found


def _memory_panel(field: Field, task: str, place: Place) -> Panel | None:
    race = next(r for r in field.races if r.task == task and r.place == place)
    known = [cell for cell in race.cells if memory_bytes(cell)][:MOST_LINES]
    if len(known) < 2:
        return None
    points = [((memory_bytes(cell) or 0) / 1e6, cell.median_ms) for cell in known]
    best = front(points)
    lines = [
        Line(
            cell.subject.algorithm, [x], [y], None, None,
            field.algorithms.index(cell.subject.algorithm), 0 if index in best else 1,
        )
        for index, (cell, (x, y)) in enumerate(zip(known, points, strict=True))
    ]  # fmt: skip
    steps = [points[best[0]]]
    for x, y in (points[index] for index in best[1:]):
        steps += [(x, steps[-1][1]), (x, y)]
    border = Line("", [x for x, _ in steps], [y for _, y in steps], None, None, _GREY, 1, False)
    title = libraries.where([place], libraries.SHORT)
    names = formats.listing(known[index].subject.algorithm for index in best)
    words = f"Time against memory, {task}, {title}. On the front: {names}."
    return Panel(title, [border, *lines] if len(best) > 1 else lines, words)


def _copy_share(field: Field, slug: str) -> Chart | None:
    panels = []
    for task in field.tasks:
        if task == "update":
            continue
        races = field.usual_races(task, per_cell=field.usual_per_cell(task))
        lines = lines_over(
            field,
            [(race.place.particles or 0, race) for race in races],
            lambda cell: None if cell.copy_share is None else 100 * cell.copy_share,
        )
        title = f"{task}, {AXES['per_cell'].say(field.usual_per_cell(task))}"
        words = describe("Share of the copy bandwidth", title, lines, "%")
        panels.append(Panel(title, lines, words))
    return line_chart(
        f"{slug}-bandwidth",
        "Share of the copy bandwidth",
        "The fewest bytes that an algorithm must move, over its median time, as a share of the"
        " bandwidth of a plain copy measured on the same machine (dotted: all of it). Data that"
        " stay in a cache can go above, and a search computes as well. At most the"
        f" {MOST_LINES} fastest of those whose traffic is known.",
        Axis("particles", "size"),
        Axis("% of copy bandwidth", "number"),
        panels,
        reference=100,
    )
