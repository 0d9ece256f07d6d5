"""Format numbers for readers: three significant digits, thousands separators, units."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpubench.base import numbers
from gpubench.base.numbers import listing as listing
from gpubench.base.numbers import size as size

significant = numbers.digits  # 0.0226, 1.41, 1,410
DASH = "\N{EN DASH}"  # shown for missing values
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(number: int) -> str:
    """Format a power of two as 2²⁰, any other number in full: 1,000,000."""
    if number >= 1024 and number & (number - 1) == 0:
        return "2" + str(number.bit_length() - 1).translate(_SUPERSCRIPTS)
    return f"{number:,}"


def count(number: int) -> str:
    """Format a count, with its plain value if it is a power of two: 2²⁰ (1,048,576)."""
    short, plain = power(number), f"{number:,}"
    return plain if short == plain else f"{short} ({plain})"


def plain(value: object) -> str:
    """Format a value of a record unchanged, but without a trailing ".0"; None is a dash."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"
    return str(value)


def span(values: Sequence[float]) -> str:
    """Format a range as "2.1 to 3.4", or as one number if both ends look the same."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def apart(values: Sequence[float]) -> list[str]:
    """Format numbers with three significant digits, or up to six if else all look the same."""
    found = [[numbers.digits(value, count) for value in values] for count in (3, 4, 5, 6)]
    return next((texts for texts in found if len({*texts}) > 1), found[0])


def ratio(value: float) -> str:
    """Format a factor as 1.90 followed by a multiplication sign."""
    return f"{significant(value)}\N{MULTIPLICATION SIGN}"


def percent(share: float) -> str:
    """Format a fraction as a percentage: 33.8 %."""
    return f"{significant(100 * share)} %"


def slug(text: str) -> str:
    """Return a text as a slug for files and anchors: lower-case letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
