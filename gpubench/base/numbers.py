"""Parse numbers such as `65536`, `1e6`, `2**20`; format them for people: `0.25 %`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

LARGEST = 2**64 - 1
_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")
POWER = re.compile(r"(-?\d{1,4})\*\*(\d{1,2})")


def read_whole(text: str) -> int:
    """Parse a whole number; raises ValueError for anything else, or if it exceeds 64 bits."""
    found = _decimal(text)
    if not found.is_finite() or found.copy_abs() > LARGEST or found != found.to_integral_value():
        raise ValueError(f"a whole number such as 65536, 1e6 or 2**20, not {text!r}")
    return int(found)


def read_number(text: str) -> float:
    """Parse a number, which may be infinite or NaN; raises ValueError for anything else."""
    return float(_decimal(text))


def _decimal(text: str) -> Decimal:
    if power := POWER.fullmatch(text.strip()):
        return Decimal(int(power[1]) ** int(power[2]))
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"a number such as 65536, 1e6 or 2**20, not {text!r}") from None


def digits(value: float, count: int = 3) -> str:
    """Format a number with `count` significant digits, keeping trailing zeros, without exponent."""
    if not math.isfinite(value):
        return "?"
    rounded = float(f"{value:.{count - 1}e}")
    exponent = math.floor(math.log10(abs(rounded))) if rounded else count - 1
    return f"{rounded:,.{max(0, count - 1 - exponent)}f}"


def size(number: int) -> str:
    """Format a number of bytes in decimal units: 8.39 MB."""
    exponent = min(len(_BYTE_UNITS) - 1, (len(str(number)) - 1) // 3)
    if exponent == 0:
        return f"{number} bytes"
    return f"{digits(number / 1000**exponent)} {_BYTE_UNITS[exponent]}"


def listing(words: Iterable[str]) -> str:
    """Join words with commas, and the last with "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def percent(share: float) -> str:
    """Format a fraction in percent, to two significant digits: 3 %, 0.25 %, 120 %."""
    text = digits(100 * share, 2)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"
