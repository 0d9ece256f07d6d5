"""Deprecated alias, kept for old modules: import from `gpubench.contracts` instead."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("gpubench.base.errors"), name)
