"""Door for modules written before the errors moved: `gpubench.contracts` has them."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("gpubench.base.errors"), name)
