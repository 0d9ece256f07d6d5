"""What a report says and draws of neighbour searches over their regimes: who wins where."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpubench.contracts import TASKS
from gpubench.report import formats, maps, rivals, wholes
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Place, StudyRun
from gpubench.report.crossings import FIRST, NEITHER, Compared, Crossing, compare, front
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
from gpubench.report.parts import Section
from gpubench.report.races import RIVALS, STUDIES, Field, Race, moved_share, timed, updates
from gpubench.report.tables import NOTHING, Item, Row, Table

_MOST_LINES = 12  # more in one panel cannot be told apart
_MOST_PAIRS = 6
_MOST_REBUILDS = 3
_GREY = 5  # index of a colour
_FULL = 0.5  # of the tiles of a map, below which it is drawn small, beside its like


def tells(run: StudyRun) -> bool:
    """Say whether a study is one that this module tells of."""
    return run.study.name in STUDIES


def sentences(run: StudyRun) -> list[str]:
    """Return what was found, one statement a string: first of all whether a rival wins."""
    field = Field.of(run)
    return [
        rivals.verdict(field),
        *rivals.wrong(field),
        *_winners(field),
        *_moved_sentences(field),
        *wholes.sentences(run),
    ]


def gist(run: StudyRun) -> str:
    """Return the first of these, for the front page."""
    return rivals.verdict(Field.of(run))


def sections(run: StudyRun, slug: str) -> list[Section]:
    """Return what the study's page shows, as far as there are records for it."""
    field = Field.of(run)
    crossed = [pair for task in field.tasks for pair in pairs(field, task)]
    beside = rivals.section(field)
    memory, share = _memory(field, slug), _copy_share(field, slug)
    moved = _moved_chart(field, slug)
    resorts = _moved_table(field)
    steps = wholes.charts(run, slug)
    crossing_tables = [
        table
        for task in field.tasks
        for table in [_crossing_table([pair for pair in crossed if pair.task == task], task)]
        if table is not None
    ]
    found = [
        Section("Who wins where", figures=[maps.draw(chart) for chart in _maps(field, slug)]),
        Section(
            "Where one overtakes another",
            figures=draw_all(_crossing_charts(field, slug, crossed)),
            folded=crossing_tables,
        ),
        Section(
            "Rebuild, re-sort, or a skin",
            tables=[resorts] if resorts else [],
            figures=draw_all([chart for chart in (moved, *steps) if chart is not None]),
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
            **rivals.place_columns(race.place),
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
        }
        for race in Field.of(run).races
        for margin in [race.margin]
    ]


def crossover_rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return where any two algorithms cross along the particles, for the CSV.

    A pair that does not cross has one row, which says who is always faster.
    """
    field = Field.of(run)
    return [
        {
            "task": pair.task,
            **pair.fixed,
            "first": pair.first,
            "second": pair.second,
            "smallest_measured": pair.sizes[0],
            "largest_measured": pair.sizes[-1],
            "always_faster": pair.always,
            "faster_below": pair.name(crossing.faster_before) if crossing else None,
            "faster_above": pair.name(crossing.faster_after) if crossing else None,
            "particles": 2**crossing.at if crossing else None,
            "particles_low": _power(crossing.low) if crossing else None,
            "particles_high": _power(crossing.high) if crossing else None,
            "measured_below": _power(crossing.between[0]) if crossing else None,
            "measured_above": _power(crossing.between[1]) if crossing else None,
        }
        for task in field.tasks
        for pair in pairs(field, task)
        for crossing in _or_none(pair.compared)
    ]


def _or_none(compared: Compared) -> Sequence[Crossing | None]:
    """Return all crossings, or None once where there is none."""
    return list(compared.crossings) or [None]


def _power(exponent: float | None) -> float | None:
    return None if exponent is None else 2**exponent


# Maps of who wins.


def _winners(field: Field) -> list[str]:
    said = []
    for task in field.tasks:
        races = [race for race in field.usual_races(task) if len(race.cells) > 1]
        if len(races) < 2:
            continue
        told = Counter(race.winner.subject.algorithm for race in races if not race.is_open)
        parts = [f"{name} in {count}" for name, count in told.most_common()]
        if unclear := len(races) - told.total():
            parts.append(f"it cannot be told in {unclear}")
        said.append(
            f"Fastest in {_quoted(task)} (best form of each algorithm,"
            f" {rivals.where([race.place for race in races])}): {', '.join(parts)}."
        )
    return said


def _maps(field: Field, slug: str) -> list[MapChart]:
    """Return a map for each task that has one of at least two by two."""
    found = []
    for task in field.tasks:
        chart = _map(field, task, slug)
        if chart is not None:
            found.append(chart)
    return found


def _map(field: Field, task: str, slug: str) -> MapChart | None:
    is_moved = task == "update"
    groups: dict[tuple[str, str], list[Race]] = {}
    for race in field.races:
        place = race.place
        if race.task == task and (moved_share(place) is not None) == is_moved:
            groups.setdefault((place.distribution or "", place.order or ""), []).append(race)
    names = list(
        dict.fromkeys(race.winner.subject.algorithm for each in groups.values() for race in each)
    )
    names.sort(key=field.algorithms.index)
    alone, together = [], {}
    for kind, races in groups.items():
        panel = _alone(field, names, kind, races, is_moved)
        if panel is not None:
            alone.append(panel)
        else:
            together[kind] = races
    panels = [*alone, *_together(field, names, together, is_moved)]
    if not panels:
        return None
    keys = [Key(name, field.letter(name), field.algorithms.index(name)) for name in names]
    return MapChart(
        f"{slug}-map-{task}",
        f"Who wins: {task}",
        f"Task: {TASKS[task]}. A tile is one input; its letter and colour say which algorithm is"
        " fastest there, each with the best of its forms. The number is how many times as long"
        " the runner-up takes: the stronger the colour, the clearer the win. Hatched: the 95 %"
        " intervals leave open who is faster. White: not measured.",
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
        found.setdefault(at, Tile(*at, key, margin, race.is_open))
    return list(found.values())


def _alone(
    field: Field, names: Sequence[str], kind: tuple[str, str], races: Sequence[Race], is_moved: bool
) -> MapPanel | None:
    """Return a map of inputs that differ in size and occupancy alone, if it is full enough."""
    counts = Counter(_level(race, is_moved) for race in races)
    # Levels that only designed points have would be all but empty.
    levels = sorted(level for level, n in counts.items() if 2 * n >= max(counts.values()))
    shown = [race for race in races if _level(race, is_moved) in levels]
    sizes = sorted({race.place.particles or 0 for race in shown})
    tiles = _tiles(field, names, shown, sizes, levels, is_moved)
    if len(sizes) < 2 or len(levels) < 2 or len(tiles) < _FULL * len(sizes) * len(levels):
        return None
    title = f"{AXES['distribution'].say(kind[0])}, {AXES['order'].say(kind[1])}"
    block = Block("", tiles)
    return MapPanel(
        title, [formats.power(n) for n in sizes], [f"{v:g}" for v in levels], [block],
        _map_words(names, title, tiles),
    )  # fmt: skip


def _together(
    field: Field,
    names: Sequence[str],
    groups: Mapping[tuple[str, str], Sequence[Race]],
    is_moved: bool,
) -> list[MapPanel]:
    """Return one panel of small maps, distributions downwards and orders across; or none."""
    races = [race for each in groups.values() for race in each]
    if len(races) < 2:
        return []
    sizes = sorted({race.place.particles or 0 for race in races})
    levels = sorted({_level(race, is_moved) for race in races})
    distributions = AXES["distribution"].order([d for d, _ in groups])
    orders = AXES["order"].order([o for _, o in groups])
    blocks = [
        Block(
            f"{distribution}, {order}",
            _tiles(field, names, own, sizes, levels, is_moved),
            orders.index(order),
            distributions.index(distribution),
        )
        for (distribution, order), own in groups.items()
    ]
    title = "Other distributions and orders"
    return [
        MapPanel(
            title, [formats.power(n) for n in sizes], [f"{v:g}" for v in levels], blocks,
            _map_words(names, title, [tile for block in blocks for tile in block.tiles]),
        )
    ]  # fmt: skip


def _map_words(names: Sequence[str], where: str, tiles: Sequence[Tile]) -> str:
    wins = Counter(names[tile.key] for tile in tiles if not tile.is_open)
    told = ", ".join(f"{name} {count}" for name, count in wins.most_common())
    unclear = sum(tile.is_open for tile in tiles)
    return f"Winners of {len(tiles)} inputs, {where}: {told or 'none'}; cannot tell {unclear}."


# Crossovers along the particles.


@dataclass(frozen=True)
class Pair:
    """Two algorithms over the sizes at which both were timed, all else the same.

    fixed: what is the same. sizes: ascending. compared: along the logarithm of the particles to
    base two.
    """

    task: str
    fixed: Mapping[str, Any]
    first: str
    second: str
    sizes: Sequence[int]
    compared: Compared

    def name(self, side: int) -> str:
        """Return which of the two a side is."""
        return self.first if side == FIRST else self.second

    @property
    def always(self) -> str | None:
        """Who is faster wherever it can be told; None where each is somewhere, or nobody."""
        if self.compared.crossings or self.compared.faster in (None, NEITHER):
            return None
        assert self.compared.faster is not None
        return self.name(self.compared.faster)


def pairs(field: Field, task: str) -> list[Pair]:
    """Compare any two algorithms on all inputs of a task that differ in the particles alone."""
    groups: dict[tuple[tuple[str, Any], ...], dict[int, Race]] = {}
    for race in field.races:
        if race.task == task:
            fixed = rivals.place_columns(race.place)
            size = fixed.pop("particles")
            groups.setdefault(tuple(fixed.items()), {}).setdefault(size, race)
    found = []
    for fixed_items, races in groups.items():
        names = sorted(
            {cell.subject.algorithm for race in races.values() for cell in race.cells},
            key=field.algorithms.index,
        )
        for first, second in itertools.combinations(names, 2):
            both = [
                (size, timed(one).over(timed(other)))
                for size in sorted(races)
                for one in [races[size].of(first)]
                for other in [races[size].of(second)]
                if one is not None and other is not None
            ]
            if len(both) > 1:
                sizes, ratios = zip(*both, strict=True)
                compared = compare([math.log2(size) for size in sizes], ratios)
                found.append(Pair(task, dict(fixed_items), first, second, sizes, compared))
    return found


def _on_the_map(crossed: Sequence[Pair]) -> list[Pair]:
    """Return the pairs on inputs of the commonest kind, which differ in the occupancy."""

    def kind(pair: Pair) -> tuple[Any, ...]:
        return tuple(value for name, value in pair.fixed.items() if name != "per_cell")

    kinds = Counter(kind(pair) for pair in crossed if pair.fixed["moved_share"] is None)
    if not kinds:
        return []
    usual = kinds.most_common(1)[0][0]
    return [pair for pair in crossed if kind(pair) == usual]


def _crossing_table(crossed: Sequence[Pair], task: str) -> Table | None:
    """Return the particles at which pairs cross, a row for each pair that does, or None."""
    shown = _on_the_map(crossed)
    levels = sorted({pair.fixed["per_cell"] for pair in shown})
    rows: dict[tuple[str, str], dict[float, tuple[Pair, Crossing]]] = {}
    for pair in shown:
        for crossing in pair.compared.crossings:
            key = pair.name(crossing.faster_before), pair.name(crossing.faster_after)
            rows.setdefault(key, {})[pair.fixed["per_cell"]] = (pair, crossing)
    if not rows:
        return None
    of_pair = {(p.first, p.second, p.fixed["per_cell"]): p for p in shown}

    def other(few: str, many: str, level: float) -> Item:
        pair = of_pair.get((few, many, level)) or of_pair.get((many, few, level))
        if pair is None or pair.compared.crossings:
            return NOTHING  # not measured, or in the row of the other direction
        if pair.always is None:
            return Item("cannot tell", "none")
        return Item("former always" if pair.always == few else "latter always", "none")

    body = [
        Row(
            f"{few}, then {many}",
            [
                _crossing_item(*crossings[level]) if level in crossings else other(few, many, level)
                for level in levels
            ],
        )
        for (few, many), crossings in sorted(rows.items(), key=lambda row: -len(row[1]))
    ]
    return Table(
        f"Particles at which one overtakes another: {task} ({_kind_words(shown[0])})",
        ["Faster with few, then with many particles", *(f"{level:g}" for level in levels)],
        body,
        "particles per cell",
        [
            "Between two sizes measured, the logarithms of the times are lines; below each number"
            " stands the stretch in which the 95 % intervals leave open who is faster, an ellipsis"
            " where it goes on to the end of what was measured. Always: wherever it can be told."
        ],
    )


def _crossing_item(pair: Pair, crossing: Crossing) -> Item:
    ends = [formats.DASH, formats.DASH]
    for index, end in enumerate((crossing.low, crossing.high)):
        ends[index] = "\N{HORIZONTAL ELLIPSIS}" if end is None else formats.significant(2**end)
    return Item(formats.significant(2**crossing.at), detail=f"{ends[0]} to {ends[1]}")


def _kind_words(pair: Pair) -> str:
    return ", ".join(AXES[name].say(pair.fixed[name]) for name in ("distribution", "order"))


def _crossing_charts(field: Field, slug: str, crossed: Sequence[Pair]) -> list[Chart]:
    """Draw where those cross that each win somewhere: particles over occupancy, by task."""
    panels, named = [], set()
    for task in field.tasks:
        shown = _on_the_map([pair for pair in crossed if pair.task == task])
        wins = Counter(race.winner.subject.algorithm for race in field.usual_races(task))
        lines: dict[tuple[str, str], list[tuple[float, Crossing]]] = {}
        for pair in shown:
            if pair.first in wins and pair.second in wins:
                for crossing in pair.compared.crossings[-1:]:
                    key = pair.name(crossing.faster_before), pair.name(crossing.faster_after)
                    lines.setdefault(key, []).append((pair.fixed["per_cell"], crossing))
        kept = sorted(
            ((pair, points) for pair, points in lines.items() if len(points) > 1),
            key=lambda line: -min(wins[line[0][0]], wins[line[0][1]]),
        )[:_MOST_PAIRS]
        sizes = [size for pair in shown for size in pair.sizes]
        drawn = [
            Line(
                f"{field.letter(few)}, then {field.letter(many)}",
                [level for level, _ in points],
                [2**c.at for _, c in points],
                [min(sizes) if c.low is None else 2**c.low for _, c in points],
                [max(sizes) if c.high is None else 2**c.high for _, c in points],
                field.algorithms.index(many),
                index,
            )
            for index, ((few, many), unsorted) in enumerate(kept)
            for points in [sorted(unsorted, key=lambda point: point[0])]
        ]
        named |= {name for pair, _ in kept for name in pair}
        panels.append(Panel(task, drawn, describe("Crossovers", task, drawn, "particles")))
    letters = ", ".join(
        f"{field.letter(name)} {name}" for name in field.algorithms if name in named
    )
    chart = line_chart(
        f"{slug}-crossover",
        "The particles at which one overtakes another",
        "Below a line the first is faster, above it the second, each with its best form. Bands:"
        " where the 95 % intervals leave it open. Pairs that both win somewhere on the map and"
        f" cross at two occupancies or more; letters as there: {letters}.",
        Axis("particles per cell", "number"),
        Axis("particles", "number"),
        panels,
    )
    return [chart] if chart else []


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
            " the dashed line: nobody is both faster and smaller (the Pareto front). Memory is the most that"
            " was taken on the device where a library tells it, else what the algorithm allocated."
            " The best form of each algorithm.",
            Axis("memory, MB", "measured"),
            Axis("median time, ms", "number"),
            panels,
        )
        if chart is not None:
            found.append(chart)
    return found


def memory_bytes(cell: Cell) -> int | None:
    """Return the most memory on the device, or else what was allocated; None if unknown."""
    record = cell.headline
    found: int | None = record["workspace_bytes"]
    if record["peak_bytes"] is not None:
        found = record["peak_bytes"]
    return found


def _memory_panel(field: Field, task: str, place: Place) -> Panel | None:
    race = next(r for r in field.races if r.task == task and r.place == place)
    known = [cell for cell in race.cells if memory_bytes(cell)][:_MOST_LINES]
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
    title = rivals.where([place])
    names = formats.listing(known[index].subject.algorithm for index in best)
    words = f"Time against memory, {task}, {title}. On the front: {names}."
    return Panel(title, [border, *lines] if len(best) > 1 else lines, words)


def _copy_share(field: Field, slug: str) -> Chart | None:
    panels = []
    for task in field.tasks:
        if task == "update":
            continue
        races = field.usual_races(task, per_cell=field.usual_per_cell(task))
        lines = _lines_over(
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
        f" {_MOST_LINES} fastest of those whose traffic is known.",
        Axis("particles", "size"),
        Axis("% of copy bandwidth", "number"),
        panels,
        reference=100,
    )


def _lines_over(
    field: Field,
    races: Sequence[tuple[float, Race]],
    value: Callable[[Cell], float | None],
    names: Sequence[str] | None = None,
    scale: float | None = None,
) -> list[Line]:
    """Make a line for each algorithm, at most the fastest; scale: draw intervals, in this unit."""
    points: dict[str, list[tuple[float, float, Cell]]] = {}
    for x, race in races:
        for cell in race.cells:
            if (names is None or cell.subject.algorithm in names) and (y := value(cell)):
                points.setdefault(cell.subject.algorithm, []).append((x, y, cell))
    most = max(map(len, points.values()), default=0)
    # Who has the most points, then who is fastest on them.
    ranked = sorted(
        points,
        key=lambda name: (
            most - len(points[name]),
            sum(math.log(cell.median_ms) for *_, cell in points[name]),
        ),
    )[:_MOST_LINES]
    lines = []
    for name in sorted(ranked, key=field.algorithms.index):
        own = sorted(points[name], key=lambda point: point[0])
        ends = [(y, y) if scale is None else cell.interval_ms for _, y, cell in own]
        colour = field.algorithms.index(name)
        lines.append(
            Line(
                name,
                [x for x, *_ in own],
                [y for _, y, _ in own],
                [low for low, _ in ends],
                [high for _, high in ends],
                colour,
                colour // maps.COLOURS,
            )
        )
    return lines


# What moved.


@dataclass(frozen=True)
class Moves:
    """Races over the share that moved, all else the same; ascending."""

    particles: int
    races: Sequence[Race]

    @property
    def resorts(self) -> list[str]:
        """Algorithms that bring a structure up to date."""
        return self._names(True)

    @cached_property
    def rebuilds(self) -> list[str]:
        """Algorithms that build it anew, fastest first."""
        names = self._names(False)

        def mean(name: str) -> tuple[int, float]:
            own = [cell for race in self.races if (cell := race.of(name)) is not None]
            return -len(own), sum(math.log(cell.median_ms) for cell in own)

        return sorted(names, key=mean)

    def _names(self, updating: bool) -> list[str]:
        return list(
            dict.fromkeys(
                cell.subject.algorithm
                for race in self.races
                for cell in race.cells
                if updates(cell) == updating
            )
        )

    def against_rebuild(self, resort: str) -> Compared | None:
        """Compare a re-sort with the fastest rebuild at each share; None without two shares."""
        both = [
            (moved_share(race.place) or 0.0, timed(own).over(timed(rebuilt[0])))
            for race in self.races
            for own in [race.of(resort)]
            for rebuilt in [[cell for cell in race.cells if not updates(cell)]]
            if own is not None and rebuilt
        ]
        if len(both) < 2:
            return None
        shares, ratios = zip(*both, strict=True)
        return compare(shares, ratios)


def moves(field: Field) -> list[Moves]:
    """Return the races over the share that moved, for each number of particles."""
    by_size: dict[int, dict[float, Race]] = {}
    per_cell = field.usual_per_cell("update")
    races = [race for race in field.races if race.task == "update"]
    kinds = Counter((r.place.distribution, r.place.order, r.place.destination) for r in races)
    for race in races:
        place, share = race.place, moved_share(race.place)
        kind = (place.distribution, place.order, place.destination)
        if place.per_cell == per_cell and share is not None and kind == kinds.most_common(1)[0][0]:
            by_size.setdefault(place.particles or 0, {}).setdefault(share, race)
    return [
        Moves(size, [own[share] for share in sorted(own)])
        for size, own in sorted(by_size.items())
        if len(own) > 1
    ]


def moved_rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return where each re-sort stops paying, for the CSV: shares between 0 and 1."""
    return [
        {
            "particles": each.particles,
            "resort": name,
            "always": None if crossing else _always(compared),
            "crossover_share": crossing.at if crossing else None,
            "share_low": crossing.low if crossing else None,
            "share_high": crossing.high if crossing else None,
            "faster_below": None if crossing is None else _option(crossing),
        }
        for each in moves(Field.of(run))
        for name in each.resorts
        for compared in [each.against_rebuild(name)]
        if compared is not None
        for crossing in _or_none(compared)
    ]


def _option(crossing: Crossing) -> str:
    return "re-sort" if crossing.faster_before == FIRST else "rebuild"


def _always(compared: Compared) -> str:
    if compared.faster in (None, NEITHER):
        return "cannot tell"
    return "re-sort" if compared.faster == FIRST else "rebuild"


def _moved_sentences(field: Field) -> list[str]:
    """Say up to which share re-sorting pays, for the re-sort that pays longest at each size."""
    found = moves(field)
    parts = []
    for each in found:
        compared = {
            name: result
            for name in each.resorts
            if (result := each.against_rebuild(name)) is not None
        }
        if not compared:
            continue
        name = max(compared, key=lambda name: _pays_until(compared[name]))
        size = AXES["particles"].say(each.particles)
        parts.append(f"{_pays(compared[name])} at {size} ({name})")
    if not parts:
        return []
    return [
        "Where particles have moved, re-sorting and counting is faster than the fastest rebuild"
        f" and count {'; '.join(parts)}."
    ]


def _pays_until(compared: Compared) -> float:
    if compared.crossings:
        falls = [c.at for c in compared.crossings if c.faster_before == FIRST]
        return max(falls, default=0.0)
    return 2.0 if compared.faster == FIRST else -1.0


def _pays(compared: Compared) -> str:
    falls = [c for c in compared.crossings if c.faster_before == FIRST]
    if falls:
        return f"while fewer than {_share_words(falls[-1])} change cells"
    if compared.crossings:
        return f"only where more than {_share_words(compared.crossings[0])} change cells"
    if compared.faster == FIRST:
        return "at every share measured"
    return "at no share measured" if compared.faster is not None else "at some shares only"


def _share_words(crossing: Crossing) -> str:
    return f"{formats.percent(crossing.at)} ({_share_ends(crossing)})"


def _share_ends(crossing: Crossing) -> str:
    ellipsis = "\N{HORIZONTAL ELLIPSIS}"
    low, high = (
        ellipsis if end is None else formats.significant(100 * end)
        for end in (crossing.low, crossing.high)
    )
    return f"{low} to {high} %"


def _moved_table(field: Field) -> Table | None:
    found = moves(field)
    names = list(dict.fromkeys(name for each in found for name in each.resorts))
    if not names:
        return None
    rows = []
    for name in names:
        items = []
        for each in found:
            compared = each.against_rebuild(name)
            if compared is None:
                items.append(NOTHING)
            elif compared.crossings:
                last = compared.crossings[-1]
                text = formats.percent(last.at)
                if last.faster_before != FIRST:
                    text = f"above {text}"
                items.append(Item(text, detail=_share_ends(last)))
            else:
                words = {"re-sort": "everywhere", "rebuild": "nowhere"}
                items.append(Item(words.get(_always(compared), "cannot tell"), "none"))
        rows.append(Row(name, items))
    return Table(
        "Up to which share of moved particles a re-sort is faster than the fastest rebuild",
        ["Re-sort", *(AXES["particles"].write(each.particles) for each in found)],
        rows,
        "particles",
        [
            "Both begin with particles that have moved and end with a count of neighbours. Between"
            " two shares measured, the logarithm of the ratio is a line; below each share stands"
            " the stretch in which the 95 % intervals leave open who is faster."
        ],
    )


def _moved_chart(field: Field, slug: str) -> Chart | None:
    panels = []
    for each in moves(field):
        names = [*each.resorts, *each.rebuilds[:_MOST_REBUILDS]]
        races = [(round(100 * (moved_share(r.place) or 0.0), 6), r) for r in each.races]
        lines = _lines_over(field, races, lambda cell: cell.median_ms, names, scale=1.0)
        lines = [
            Line(
                line.label, line.x, line.y, line.low, line.high, line.colour,
                0 if line.label in each.resorts else 1,
            )
            for line in lines
        ]  # fmt: skip
        title = AXES["particles"].say(each.particles)
        words = describe("Time against the share moved", title, lines, "ms")
        panels.append(Panel(title, lines, words))
    return line_chart(
        f"{slug}-moved",
        "One step where particles have moved: re-sort or rebuild",
        "Time to bring the structure up to date and count neighbours (filled, solid), or to build"
        f" it anew and count (hollow, dashed; the {_MOST_REBUILDS} fastest on average), against"
        " the share of the particles that are in another cell than before. A re-sort pays to the"
        " left of where its line crosses the lowest dashed one.",
        Axis("% of the particles in another cell than before", "with zero"),
        Axis("median time, ms", "number"),
        panels,
    )


def _quoted(text: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}"
