"""The axes of keys to be sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gpubench.core.recipe import Recipe, Words, axis
from gpubench.problems.key_sort.inputs import (
    ENTROPIES,
    KEY_ORDERS,
    KEY_TYPES,
    MAX_KEYS,
    VALUE_BYTES,
    KeySet,
    check_keys,
    make_keys,
)


@dataclass(frozen=True)
class Keys(Recipe):
    """Keys to be sorted, see inputs.py."""

    kind: ClassVar[str] = "keys"
    size_axis: ClassVar[str] = "key_count"
    named_by: ClassVar[str] = "key_count"

    key_count: int = axis(
        words=Words("Keys", "keys", "{} keys", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_KEYS,
    )
    value_bytes: int = axis(
        words=Words("Bytes of a value", "bytes of a value", "values of {} bytes", "number"),
        enum=list(VALUE_BYTES),
    )
    key_order: str = axis(
        words=Words("Order of keys", "order of the keys", "{} keys"),
        enum=list(KEY_ORDERS),
    )
    key_type: str = axis(
        "uint32",
        Words("Type of keys", "type of the keys", "keys of {}"),
        enum=list(KEY_TYPES),
    )
    key_entropy: float = axis(
        1.0,
        Words("Entropy", "entropy of a bit", "entropy {}", "linear"),
        enum=list(ENTROPIES),
    )
    key_bits: int | None = axis(
        None,
        Words("Bits", "bits of a key that matter", "{} bits", "number"),
        type="integer",
        minimum=1,
        maximum=64,
    )
    keys_moved: float | None = axis(
        None,
        Words("Moved", "share of the keys moved", "a share of {} moved", "linear"),
        type="number",
        minimum=0,
        maximum=1,
    )
    segment_keys: int | None = axis(
        None,
        Words("Keys a segment", "keys in a segment", "segments of {} keys", "number"),
        type="integer",
        minimum=1,
        maximum=MAX_KEYS,
    )

    def __post_init__(self) -> None:
        first, named = self._arguments
        check_keys(*first, **named)

    @property
    def _arguments(self) -> tuple[tuple[int, int, str], dict[str, Any]]:
        named = {
            "key_type": self.key_type,
            "entropy": self.key_entropy,
            "bits": self.key_bits,
            "moved": self.keys_moved,
            "segment_keys": self.segment_keys,
        }
        return (self.key_count, self.value_bytes, self.key_order), named

    def make(self, seed: int) -> KeySet:
        """Draw the keys."""
        first, named = self._arguments
        return make_keys(*first, seed, **named)

    @property
    def title(self) -> str:
        """Size, type, value, order, and what is unusual."""
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
        """Input, the sorted order in 64 bits, the expected answer and one downloaded."""
        return self.key_count * (80 + 4 * self.value_bytes)

    @property
    def device_bytes(self) -> int:
        """Input and answer."""
        key_bytes = 8 if self.key_type.endswith("64") else 4
        return self.key_count * 2 * (key_bytes + self.value_bytes)
