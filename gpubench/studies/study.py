"""A study: measurements, their inputs, and published numbers to compare with."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from gpubench import problems, registry
from gpubench.base.errors import UserError
from gpubench.base.paths import PACKAGE
from gpubench.core.algorithm import Algorithm
from gpubench.core.recipe import Recipe, axes, required_axes
from gpubench.measure.budget import Budget, Mode
from gpubench.problems.steps.axes import Simulation
from gpubench.studies import claims
from gpubench.studies.design import spread_points

FOLDER = PACKAGE / "studies"


class StudyError(UserError):
    """A study file breaks the schema, or names something unknown; its author must correct it."""


@dataclass(frozen=True)
class Quantity:
    """The quantity in a column of a published table of simulations.

    what: frames_per_s, frame_ms, or speed_up (of frames, over one rank).
    ranks, decomposition: see problems.steps.axes.Simulation.
    """

    what: str
    ranks: int | None = None
    decomposition: str | None = None


@dataclass(frozen=True)
class Published:
    """A table exactly as published.

    values: one row for each of `rows` (values of `row_axis`), with a number for each of `columns`
        (values of `column_axis`), in `unit`.
    texts: the published text of each value, with its trailing zeros.
    algorithm: our algorithm that the numbers are compared with.
    algorithms: where `column_axis` is "algorithm" and `columns` are the published headings, our
        algorithm for each column.
    quantities: where `column_axis` is "quantity" and `columns` are the published headings, the
        quantity in each column; times among them are in `unit`.
    axes: the values that the table holds fixed, e.g. {"per_cell": 4}; they select measured inputs.
    """

    caption: str
    source: str
    device: str
    unit: str
    algorithm: str
    row_axis: str
    column_axis: str
    rows: tuple[float, ...]
    columns: tuple[Any, ...]
    values: tuple[tuple[float, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    quantities: tuple[Quantity, ...] = ()
    algorithms: tuple[str, ...] = ()
    axes: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Subject:
    """An algorithm in one of its variants, with the parameters that differ from its defaults.

    In a simulation it is the algorithm that maintains the cells.

    limits: maximum of each limited quantity of an input, see `left_out`.
    """

    algorithm: str
    form: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict, compare=False)

    def left_out(self, recipe: Recipe) -> str | None:
        """Return why the study does not measure the subject on an input, or None.

        The limit `particles` (records, pairs) applies to the size of the input; `neighbours` to the
        approximate total number of neighbours of all particles, for inputs of particles; a subject
        that has it skips boxes that are too small for neighbours.
        """
        size = recipe.size_axis
        if size in self.limits and getattr(recipe, size) > self.limits[size]:
            return f"not run above {self.limits[size]:,} {size} (limit of the study)"
        most = self.limits.get("neighbours")
        if most is not None and recipe.too_small:
            return f"needs {recipe.too_small}"
        if most is not None and (recipe.neighbours or 0) > most:
            return f"not run above {most:,} neighbours in total (limit of the study)"
        return None

    @property
    def label(self) -> str:
        """A short display name: `bucket-sort host-loop`, with parameters in brackets."""
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.algorithm} {self.form}" + (f" ({given})" if given else "")


@dataclass(frozen=True)
class Sweep:
    """All combinations of values on its axes, or some of them, measured in each of its modes.

    kind: the kind of its inputs. axes: the values along the axes of that kind.
    inputs: the number of inputs, each with its own seed, that alternate in the samples.
    points: the number of combinations, spread evenly over all; None for all. seed: seed of the
        sequence that spreads them, see design.spread_points.
    requires: device features that the sweep needs; without them it is not run.
    quick: the fields that `--quick` replaces, by name, with their new values.
    quick_axes: the axes that `--quick` replaces, likewise.
    """

    name: str
    kind: type[Recipe]
    axes: Mapping[str, tuple[Any, ...]]
    modes: tuple[Mode, ...]
    subjects: tuple[Subject, ...]
    inputs: int = 1
    points: int | None = None
    seed: int = 0
    requires: frozenset[str] = frozenset()
    quick: Mapping[str, Any] = field(default_factory=dict)
    quick_axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def quickened(self) -> Sweep:
        """Return the sweep as `--quick` runs it."""
        quicker = replace(self, **self.quick, quick={}, quick_axes={})
        return quicker.along(self.quick_axes)

    def along(self, changed: Mapping[str, tuple[Any, ...]]) -> Sweep:
        """Return the sweep with other values along some axes.

        Values of `moved` (numbers of particles) replace those of `moved_fraction`.
        """
        given = {**self.axes, **changed}
        if "moved" in changed:
            given.pop("moved_fraction", None)
        return replace(self, axes=given)

    def varies(self, axis: str) -> bool:
        """Return whether an axis has values; for `moved`, values of `moved_fraction` count too."""
        return bool(self.axes.get(axis)) or (axis == "moved" and self.varies("moved_fraction"))

    @property
    def combinations(self) -> int:
        """Number of combinations of the values of all axes."""
        return math.prod(len(values) for values in self.axes.values())

    def recipes(self) -> list[Recipe]:
        """List its inputs, none if an axis has no value; UserError for contradictory axes."""
        every = itertools.product(*self.axes.values())
        found = every if self.points is None else self._designed(self.points)
        made = (self.kind(**dict(zip(self.axes, values, strict=True))) for values in found)
        # With few particles, two fractions can give the same number: drop duplicates.
        return list(dict.fromkeys(made))

    def _designed(self, points: int) -> list[tuple[Any, ...]]:
        """Return this many combinations, or all if there are fewer, in order of size."""
        along = list(self.axes.values())
        chosen = spread_points(
            [len(values) for values in along],
            [all(type(value) in (int, float) for value in values) for values in along],
            points,
            self.seed,
        )
        return [
            tuple(values[at] for values, at in zip(along, place, strict=True)) for place in chosen
        ]


@dataclass(frozen=True)
class Views:
    """How a report presents a study of neighbour searches.

    answers: tasks for which the front page shows the study's recommendation. first: what the
    study's own page shows first, "maps" or "libraries".
    """

    answers: tuple[str, ...] = ()
    first: str = "maps"


@dataclass(frozen=True)
class Study:
    """One file of gpubench/studies, or of another project.

    paper, table: the source of the published numbers, or None for a sweep of our own.
    subjects: measured by every sweep that names no subjects of its own.
    outcomes: table headings of reported values to show beside times, by the name of the value.
    rates: the same for values to show per second, in place of the size of the input per second.
    budget: when to stop sampling a task.
    phases: whether a report draws phases of steps by their "time", or as a "share" of the step.
    anew: whether each run starts a new results file.
    note: text needed to interpret its times, shown at the top of its page.
    text: the text of its file.
    views: how a report presents a study of neighbour searches; None for all others.
    claims: what the paper claims, and what tests it.
    """

    name: str
    title: str
    paper: str | None
    table: str | None
    question: str
    seed: int
    published: Published | None
    sweeps: tuple[Sweep, ...]
    subjects: tuple[Subject, ...]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    phases: str = "time"
    anew: bool = False
    note: str = ""
    text: str = field(default="", compare=False, repr=False)
    views: Views | None = None
    claims: tuple[claims.Claim, ...] = ()


def load_study(name: str) -> Study:
    """Read a study by its name, or by the path of its file, which ends in `.toml`.

    Imports no algorithm, so that reports can use it anywhere. Raises UserError for an unknown study
    and for a file that cannot be read, StudyError for an invalid one.
    """
    return parse_study(*study_text(name))


def study_text(name: str) -> tuple[str, str]:
    """Return the name of a study and the text of its file, located as in `load_study`."""
    if not name.endswith(".toml"):
        registry.require_known("study", name, registry.studies())
        return name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    path = Path(name)
    stem = registry.study_name(path)
    if stem in registry.studies() and path.resolve() != FOLDER / path.name:
        raise UserError(f"{path} has the name of another study: rename it, or run {stem}")
    try:
        return stem, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UserError(f"cannot read {path}: {reason}; give a study's name or its file") from error


def parse_study(name: str, text: str) -> Study:
    """Make a study from the text of its file, validated by the schema; see `check_names`."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise StudyError(f"{name}.toml: {error}") from error
    mistakes = _validator(tuple(problems.kinds())).iter_errors(data)
    if (mistake := jsonschema.exceptions.best_match(mistakes)) is not None:
        raise StudyError(f"{name}.toml: {mistake.json_path}: {mistake.message}")
    try:
        return replace(_study(name, data), text=text)
    except StudyError as error:
        raise StudyError(f"{name}.toml: {error}") from None


def check_names(study: Study, algorithms: Mapping[str, type[Algorithm]]) -> None:
    """Raise StudyError where a study names an algorithm, form or parameter that does not exist.

    Also raises it where a sweep gives an algorithm the wrong kind of input.
    """
    families = problems.problems()
    published = study.published
    for name in (published.algorithm, *published.algorithms) if published else ():
        if name not in algorithms:
            raise StudyError(f"{study.name}.toml: no algorithm {name!r}; {registry.OWN}")
    sweeps = [*study.sweeps, *(sweep.quickened() for sweep in study.sweeps)]
    measured = [(subject, sweep.kind) for sweep in sweeps for subject in sweep.subjects]
    claimed = [Subject(c.algorithm, c.form, c.parameters) for c in claims.cells(study.claims)]
    named = ((subject, None) for subject in (*study.subjects, *claimed))
    for subject, inputs in (*measured, *named):
        algorithm = algorithms.get(subject.algorithm)
        if algorithm is None:
            raise StudyError(
                f"{study.name}.toml: no algorithm {subject.algorithm!r}; {registry.OWN}"
            )
        takes = families[algorithm.family].takes
        is_part = inputs is Simulation and families[algorithm.family].makes_cells
        if inputs is not None and not issubclass(inputs, takes) and not is_part:
            raise StudyError(
                f"{study.name}.toml: {algorithm.name} takes {takes.kind}, which its sweep has not"
            )
        for kind, given, known in (
            ("form", {subject.form}, algorithm.forms),
            ("parameter", set(subject.parameters), algorithm.defaults),
        ):
            for name in given - known.keys():
                raise StudyError(
                    f"{study.name}.toml: {algorithm.name} has no {kind} {name!r}:"
                    f" {', '.join(known) or 'it has none'}"
                )


@cache
def _validator(kinds: tuple[str, ...]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file: study.schema.json with the axes of every kind."""
    found: dict[str, Any] = json.loads((FOLDER / "study.schema.json").read_text(encoding="utf-8"))
    sweep = found["$defs"]["sweep"]["properties"]
    limits = found["$defs"]["subjects"]["items"]["properties"]["limits"]["properties"]
    for kind in problems.kinds().values():
        limits[kind.size_axis] = {"type": "integer", "minimum": 1}
        for name, value in axes(kind).items():
            values = {"type": "array", "items": value, "uniqueItems": True}
            sweep[name] = sweep["quick"]["properties"][name] = values
    return found


def _study(name: str, data: dict[str, Any]) -> Study:
    subjects = _subjects(data["subjects"])
    sweeps = tuple(_sweep(sweep, subjects, data["seed"]) for sweep in data["sweeps"])
    names = [sweep.name for sweep in sweeps]
    if len(set(names)) < len(names):
        raise StudyError(f"two sweeps have one name: {', '.join(names)}")
    as_they_are = ("title", "question", "seed", "outcomes", "rates", "phases", "anew", "note")
    return Study(
        name=name,
        paper=data.get("paper"),
        table=data.get("table"),
        published=_published(data["published"], sweeps) if "published" in data else None,
        sweeps=sweeps,
        subjects=subjects,
        budget=Budget(**data.get("budget", {})),
        views=Views(**_frozen_fields(data["views"])) if "views" in data else None,
        claims=_claims(data.get("claims", ())),
        **{key: data[key] for key in as_they_are if key in data},
    )


def _claims(data: Sequence[dict[str, Any]]) -> tuple[claims.Claim, ...]:
    found, known = claims.parse(data), problems.axes()
    for cell in claims.cells(found):
        if unknown := {*cell.axes, *filter(None, [cell.per])} - {*known}:
            raise StudyError(f"claims: no axis {', '.join(sorted(unknown))}")
    return found


def _published(data: dict[str, Any], sweeps: Sequence[Sweep]) -> Published:
    shape = [len(row) for row in data["values"]]
    if shape != [len(data["columns"])] * len(data["rows"]):
        raise StudyError(
            f"published.values: {len(data['rows'])} rows of {len(data['columns'])} numbers"
            f" belong there, not rows of {shape}"
        )
    for axis, entry in (("algorithm", "algorithms"), ("quantity", "quantities")):
        named = len(data.get(entry, ()))
        if named != (len(data["columns"]) if data["column_axis"] == axis else 0):
            raise StudyError(
                f"published.{entry}: one for each of the columns belongs there where column_axis"
                f" is {axis}, and none elsewhere, not {named}"
            )
    _require_axes(data, sweeps)
    fields = _frozen_fields(data)
    # Numbers with trailing zeros are written as text in the file.
    fields["texts"] = tuple(
        tuple(v if isinstance(v, str) else repr(v) for v in row) for row in data["values"]
    )
    fields["values"] = tuple(tuple(map(_number, row)) for row in data["values"])
    fields["quantities"] = tuple(Quantity(**each) for each in data.get("quantities", ()))
    numbers = [*fields["rows"], *(c for c in fields["columns"] if not isinstance(c, str))]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise StudyError("published: rows and columns are finite numbers of at least 0")
    if not all(math.isfinite(number) and number > 0 for row in fields["values"] for number in row):
        raise StudyError("published: values are finite numbers above 0")
    return Published(**fields)


def _require_axes(data: dict[str, Any], sweeps: Sequence[Sweep]) -> None:
    """Raise StudyError if a published table has axes that no input of the study has."""
    # Results record how many particles moved, not the fraction.
    known = {
        name: schema
        for kind in (sweep.kind for sweep in sweeps)
        for name, schema in axes(kind).items()
        if name in problems.recorded(kind)
    }
    numbers = [n for n, schema in known.items() if schema.get("type") in ("integer", "number")]
    columns = [*known, "algorithm", "quantity"]
    for entry, given, allowed in (
        ("row_axis", [data["row_axis"]], numbers),
        ("column_axis", [data["column_axis"]], columns),
        ("axes", data.get("axes", {}), known),
    ):
        for name in given:
            if name not in allowed:
                raise StudyError(
                    f"published.{entry}: no axis {name!r} here: one of {', '.join(allowed)}"
                )


def _number(value: float | str) -> float:
    return float(value) if isinstance(value, str) else value


def _sweep(data: dict[str, Any], inherited: tuple[Subject, ...], seed: int) -> Sweep:
    named = [kind for kind in problems.kinds().values() if kind.named_by in data]
    # A simulation also has particles: if two kinds fit, choose the one with both kinds' axes.
    kinds = [kind for kind in named if all(other.named_by in axes(kind) for other in named)]
    if len(kinds) != 1:
        names = " or ".join(kind.named_by for kind in problems.kinds().values())
        raise StudyError(f"sweep {data['name']}: it needs one of {names}")
    kind = kinds[0]
    along, fields = _split(data, kind)
    if missing := required_axes(kind) - along.keys():
        raise StudyError(f"sweep {data['name']}: it needs {', '.join(sorted(missing))}")
    quick_along, quick = _split(fields.pop("quick", {}), kind)
    every = {name for other in problems.kinds().values() for name in axes(other)}
    if wrong := (every - axes(kind).keys()) & {*fields, *quick}:
        raise StudyError(
            f"sweep {data['name']}: {', '.join(sorted(wrong))} does not go with {kind.named_by}"
        )
    if kind is Simulation and {"inputs"} & {*fields, *quick}:
        raise StudyError(f"sweep {data['name']}: a simulation continues from one input: no inputs")
    requires = frozenset(fields.pop("requires", ()))
    fields = {"subjects": inherited, **_sweep_fields(fields), "requires": requires}
    sweep = Sweep(
        kind=kind, axes=along, seed=seed, quick=_sweep_fields(quick), quick_axes=quick_along,
        **fields,
    )  # fmt: skip
    for each, what in ((sweep, "its axes"), (sweep.quickened(), "its axes with --quick")):
        if each.combinations and (each.points or 0) > each.combinations:
            raise StudyError(
                f"sweep {sweep.name}: {what} have {each.combinations} combinations, so points can"
                f" be at most that, not {each.points}"
            )
    return sweep


def _split(
    data: dict[str, Any], kind: type[Recipe]
) -> tuple[dict[str, tuple[Any, ...]], dict[str, Any]]:
    """Separate the axes of a kind, in the kind's order, from the other fields."""
    along = {name: _frozen(data[name]) for name in axes(kind) if name in data}
    return along, {name: value for name, value in data.items() if name not in along}


def _sweep_fields(data: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _subjects(value) if key == "subjects" else _frozen(value)
        for key, value in data.items()
    }


def _subjects(data: Sequence[dict[str, Any]]) -> tuple[Subject, ...]:
    """Expand lists of parameters into all their combinations."""
    subjects: list[Subject] = []
    for entry in data:
        given = entry.get("parameters", {})
        choices = [value if isinstance(value, list) else [value] for value in given.values()]
        for values in itertools.product(*choices):
            parameters = dict(zip(given, values, strict=True))
            limits = entry.get("limits", {})
            subject = Subject(entry["algorithm"], entry["form"], parameters, limits)
            if subject in subjects:
                raise StudyError(f"{subject.label} appears twice among the subjects")
            subjects.append(subject)
    return tuple(subjects)


def _frozen_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _frozen(value) for key, value in data.items()}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
