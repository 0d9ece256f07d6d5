"""Immutable objects for users."""

from __future__ import annotations

from typing import Any

from gpubench.base.errors import UserError


class Fixed:
    """Base class whose public attributes are read-only."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            kind = type(self).__name__
            raise UserError(f"{name} of a {kind} cannot be set: make another {kind}")
        super().__setattr__(name, value)
