"""Numbers as a reader meets them: three significant digits, thousands separated, units named."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpubench.base import numbers
from gpubench.base.numbers import listing as listing
from gpubench.base.numbers import size as size

significant = numbers.digits  # 0.0226, 1.41, 1,410
DASH = "\N{EN DASH}"  # stands for what is not there
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(number: int) -> str:
    """Write a power of two as 2 with an exponent, any other number in full: 2²⁰, 1,000,000."""
    if number >= 1024 and number & (number - 1) == 0:
        return "2" + str(number.bit_length() - 1).translate(_SUPERSCRIPTS)
    return f"{number:,}"


def count(number: int) -> str:
    """Write a count with its plain value: 2²⁰ (1,048,576)."""
    short, plain = power(number), f"{number:,}"
    return plain if short == plain else f"{short} ({plain})"


def plain(value: object) -> str:
    """Write a value of a record as it is, without a needless ".0"; None becomes a dash."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{int(value):,}" if value.is_integer() else f"{value:g}"
    return str(value)


def span(values: Sequence[float]) -> str:
    """Write the least and greatest of some values: "2.1 to 3.4", or one where they print alike."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def ratio(value: float) -> str:
    """Write a factor: 1.90 and a multiplication sign."""
    return f"{significant(value)}\N{MULTIPLICATION SIGN}"


def percent(share: float) -> str:
    """Write a share: 33.8 %."""
    return f"{significant(100 * share)} %"


def slug(text: str) -> str:
    """Write a text as a name of files and places: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
