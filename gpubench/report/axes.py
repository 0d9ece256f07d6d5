"""How a report writes the axes along which inputs differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.inputs.specs import KINDS
from gpubench.report import formats


@dataclass(frozen=True)
class Axis:
    """One axis of an input.

    heading: what heads its values in a table. label: what stands below it in a figure.
    phrase: one value or several in a sentence. kind: its scale in a figure, see figures.Axis.
    names: its values in their order, and how a figure writes those that it writes otherwise.
    """

    heading: str
    label: str
    phrase: str
    kind: str = "names"
    names: Mapping[Any, str | None] | None = None

    def say(self, *values: Any) -> str:
        """Write values in a sentence: "4 and 16 per cell"."""
        return self.phrase.format(formats.listing(self.write(value) for value in values))

    def write(self, value: Any) -> str:
        """Write a value: a size as a power of two where it is one, all else as it is."""
        if isinstance(value, tuple):  # periodicity of each axis
            return "periodic box" if any(value) else "open box"
        return formats.power(int(value)) if self.kind == "size" and value else formats.plain(value)

    def count(self, value: Any) -> str:
        """Write a value where there is room: a size with its plain number beside the power."""
        return formats.count(int(value)) if self.kind == "size" and value else self.write(value)

    def order(self, values: Sequence[Any]) -> list[Any]:
        """Return numbers in ascending order, or values of `names` in its, others as they come."""
        if all(isinstance(value, int | float) for value in values):
            return sorted(set(values))
        known = [value for value in self.names or () if value in values]
        return known + [value for value in dict.fromkeys(values) if value not in known]


# The axes of an input in the order in which tables show them.
AXES: Mapping[str, Axis] = {
    "workload": Axis("Workload", "workload", "{}"),
    "particles": Axis("Particles", "particles", "{} particles", "size"),
    "per_cell": Axis("Particles per cell", "particles per cell", "{} per cell", "number"),
    "records": Axis("Records", "records", "{} records", "size"),
    "kept": Axis("Share kept", "share of the records kept", "a share of {} kept", "linear"),
    "record_bytes": Axis("Bytes per record", "bytes per record", "records of {} bytes"),
    "nulls": Axis("Nulls by", "how nulls are marked", "nulls by {}"),
    "pairs": Axis("Pairs", "pairs", "{} pairs", "size"),
    "matrix": Axis("Matrix", "matrix", "{} matrix"),
    "surface": Axis("Surface", "surface", "{}"),
    "faces": Axis("Triangles", "triangles of the mesh", "{} triangles", "size"),
    "key_count": Axis("Keys", "keys", "{} keys", "size"),
    "value_bytes": Axis("Bytes of a value", "bytes of a value", "values of {} bytes", "number"),
    "key_order": Axis("Order of keys", "order of the keys", "{} keys"),
    "key_type": Axis("Type of keys", "type of the keys", "keys of {}"),
    "key_entropy": Axis("Entropy", "entropy of a bit", "entropy {}", "linear"),
    "key_bits": Axis("Bits", "bits of a key that matter", "{} bits", "number"),
    "keys_moved": Axis("Moved", "share of the keys moved", "a share of {} moved", "linear"),
    "segment_keys": Axis("Keys a segment", "keys in a segment", "segments of {} keys", "number"),
    "mesh": Axis("Meshes", "meshes", "two of {}"),
    "pose": Axis("Pose", "pose", "{}"),
    "depth": Axis("Depth", "levels of subdivision", "depth {}", "number"),
    "time_step": Axis("Time step", "time step", "time step {}", "linear"),
    "setting": Axis("Setting", "setting", "{}"),
    "skin": Axis("Skin", "skin", "skin {}", "linear"),
    "ranks": Axis("Ranks", "ranks", "{} ranks", "number"),
    "decomposition": Axis(
        "Decomposition", "decomposition", "{}", names=dict.fromkeys(("slab", "master"))
    ),
    "distribution": Axis(
        "Distribution",
        "distribution",
        "{} distribution",
        names=dict.fromkeys(  # from least to most clustered
            ("lattice", "uniform", "symmetric", "free-surface", "clusters", "one-cell")
        ),
    ),
    "order": Axis(
        "Order",
        "initial order",
        "{} order",
        # From least to most ordered.
        names={"random": "random", "nearly-sorted": "nearly", "morton": "Morton", "cell": "cell"},
    ),
    "moved": Axis("Moved", "particles moved", "{} moved", "with zero"),
    "destination": Axis(
        "Destination",
        "destination",
        "destination {}",
        names=dict.fromkeys(("random", "next", "step")),
    ),
    "periodic": Axis("Box", "box", "{}"),
    "inputs": Axis("Inputs", "inputs that take turns", "{} inputs in turn", names={None: "1"}),
}
SIZES = ("particles", "per_cell", "records", "kept", "pairs", "faces", "depth", "key_count")
COUNTS = tuple(dict.fromkeys(kind.size_axis for kind in KINDS.values()))  # an input has one


def between(places: Iterable[Any], names: Iterable[str]) -> str:
    """Say where places or records lie along some axes: between which sizes, and at which names."""
    said = []
    for axis, found in ((AXES[name], [getattr(p, name) for p in places]) for name in names):
        values = [value for value in found if value is not None]
        if values and axis.kind in ("size", "number"):
            ends = dict.fromkeys(map(axis.write, (min(values), max(values))))
            said.append(axis.phrase.format(" to ".join(ends)))
        elif values:
            said.append(axis.say(*axis.order(values)))
    return ", ".join(said)


def describe(place: Any, names: Iterable[str]) -> str:
    """Write a place by some of its axes: "2¹⁸ particles, 4 per cell"; leaves out what is None."""
    found = ((AXES[name], getattr(place, name)) for name in names)
    return ", ".join(axis.say(value) for axis, value in found if value is not None)


def varying(places: Iterable[Any]) -> list[str]:
    """Return the axes along which some places differ."""
    known = list(places)
    return [name for name in AXES if len({getattr(place, name) for place in known}) > 1]
