"""The input axes of keys to be sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, among, axis, whole

KEY_TYPES = ("uint32", "uint64", "int32", "int64", "float32")
VALUE_BYTES = (0, 4, 16)
MAX_KEYS = 2**28
KEY_ORDERS = ("uniform", "sorted", "nearly-sorted", "reversed", "few-distinct")
# The entropy of a bit that is the AND of one, two, ... random bits, as in CUB's benchmarks.
ENTROPIES = (1.0, 0.811, 0.544, 0.337, 0.201)


@dataclass(frozen=True)
class Keys(Recipe):
    """Keys to sort; see inputs.py."""

    kind, size_axis, named_by = "keys", "key_count", "key_count"
    fixed: ClassVar = {"value_bytes": 4, "key_order": "uniform"}

    key_count: int = axis(
        Words("Keys", "keys", "{} keys", "size", is_size=True), whole(1, MAX_KEYS)
    )
    value_bytes: int = axis(
        Words("Bytes of a value", "bytes of a value", "values of {} bytes", "number"),
        among(VALUE_BYTES),
    )
    key_order: str = axis(Words("Order of keys", "order of the keys", "{} keys"), among(KEY_ORDERS))
    key_type: str = axis(
        Words("Type of keys", "type of the keys", "keys of {}"), among(KEY_TYPES), "uint32"
    )
    key_entropy: float = axis(
        Words("Entropy", "entropy of a bit", "entropy {}", "linear"), among(ENTROPIES), 1.0
    )
    key_bits: int | None = axis(
        Words("Bits", "bits of a key that matter", "{} bits", "number"), whole(1, 64), None
    )
    keys_moved: float | None = axis(
        Words("Moved", "share of the keys moved", "a share of {} moved", "linear"),
        {"type": "number", "minimum": 0, "maximum": 1},
        None,
    )
    segment_keys: int | None = axis(
        Words("Keys a segment", "keys in a segment", "segments of {} keys", "number"),
        whole(1, MAX_KEYS),
        None,
    )

    def __post_init__(self) -> None:
        check_keys(
            self.key_count,
            self.value_bytes,
            self.key_order,
            self.key_type,
            self.key_entropy,
            self.key_bits,
            self.keys_moved,
            self.segment_keys,
        )

    @property
    def title(self) -> str:
        """A title with the size, the types, the order, and other axes that are set."""
        parts = [f"{self.key_count:,} keys of {self.key_type}"]
        if self.value_bytes:
            parts.append(f"values of {self.value_bytes} bytes")
        parts.append(self.key_order)
        if self.keys_moved is not None:
            parts.append(f"{self.keys_moved:.1%} moved")
        if self.key_entropy < 1:
            parts.append(f"entropy {self.key_entropy:g}")
        if self.key_bits is not None:
            parts.append(f"{self.key_bits} bits")
        if self.segment_keys is not None:
            parts.append(f"segments of {self.segment_keys:,}")
        return ", ".join(parts)

    @property
    def host_bytes(self) -> int:
        """The bytes of the input, the sorted order (int64), and expected and downloaded answers."""
        return self.key_count * (80 + 4 * self.value_bytes)

    @property
    def device_bytes(self) -> int:
        """The bytes of the input and the answer."""
        key_bytes = 8 if self.key_type.endswith("64") else 4
        return self.key_count * 2 * (key_bytes + self.value_bytes)


def check_keys(
    keys: int,
    value_bytes: int,
    key_order: str,
    key_type: str = "uint32",
    entropy: float = 1.0,
    bits: int | None = None,
    moved: float | None = None,
    segment_keys: int | None = None,
) -> None:
    """Raise UserError for invalid axes; see `make_keys`."""
    if not 0 <= keys <= MAX_KEYS:
        raise UserError(f"0 to {MAX_KEYS} keys can be sorted, not {keys}")
    for value, known, said in (
        (value_bytes, VALUE_BYTES, f"a key has no value of {value_bytes} bytes"),
        (key_order, KEY_ORDERS, f"no order of keys {key_order!r}"),
        (key_type, KEY_TYPES, f"no type of keys {key_type!r}"),
        (entropy, ENTROPIES, f"no entropy {entropy:g} of a bit"),
    ):
        if value not in known:
            raise UserError(f"{said}: one of {', '.join(map(str, known))}")
    if key_type == "float32" and entropy != 1:
        raise UserError("keys of float32 have an entropy of 1")
    if bits is not None and not (
        key_type.startswith("uint") and 0 < bits <= int(key_type.removeprefix("uint"))
    ):
        raise UserError(f"keys of {key_type} cannot have {bits} bits that matter")
    if (moved is not None) != (key_order == "nearly-sorted"):
        raise UserError("nearly sorted keys, and no others, need the share that has moved")
    if moved is not None and not 0 <= moved <= 1:
        raise UserError(f"0 to 1 of the keys can have moved, not {moved:g}")
    if segment_keys is not None and segment_keys < 1:
        raise UserError(f"segments have at least 1 key on average, not {segment_keys}")
