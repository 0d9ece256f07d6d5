"""Immutable objects for users."""

from __future__ import annotations

from typing import Any

from gpubench.base.errors import UserError


class Fixed:
    """Base class whose public attributes are read-only."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise self._refusal(name, "set")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if not name.startswith("_"):
            raise self._refusal(name, "deleted")
        super().__delattr__(name)

    def _refusal(self, name: str, done: str) -> UserError:
        kind = type(self).__name__
        return UserError(f"{name} of a {kind} cannot be {done}: make another {kind}")
