"""Objects that users hold and cannot change."""

from __future__ import annotations

from typing import Any

from gpubench.base.errors import UserError


class Fixed:
    """Refuses to set public attributes, which are what it was made with."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            kind = type(self).__name__
            raise UserError(f"{name} of a {kind} cannot be set: make another {kind}")
        super().__setattr__(name, value)
