"""Numbers as people write them: `65536`, `1e6`, `2**20`."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

LARGEST = 2**64 - 1
POWER = re.compile(r"(-?\d{1,4})\*\*(\d{1,2})")


def read_whole(text: str) -> int:
    """Return a whole number; raises ValueError for what is none, and for what takes 65 bits."""
    found = _decimal(text)
    if not found.is_finite() or found.copy_abs() > LARGEST or found != found.to_integral_value():
        raise ValueError(f"a whole number such as 65536, 1e6 or 2**20, not {text!r}")
    return int(found)


def read_number(text: str) -> float:
    """Return a number, which may be infinite or NaN; raises ValueError for what is none."""
    return float(_decimal(text))


def _decimal(text: str) -> Decimal:
    if power := POWER.fullmatch(text.strip()):
        return Decimal(int(power[1]) ** int(power[2]))
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"a number such as 65536, 1e6 or 2**20, not {text!r}") from None
