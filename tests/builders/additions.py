"""A process in which nothing was added to the package from outside, and nothing stays added."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from gpubench import registry
from gpubench.base import plugins


@contextmanager
def nothing_added(*folders: Path) -> Iterator[None]:
    """Begin without additions; at the end forget modules that lie in one of the folders."""
    with (
        mock.patch.dict(os.environ, {plugins.VARIABLE: ""}),
        mock.patch.object(sys, "path", list(sys.path)),
    ):
        forget()
        try:
            yield
        finally:
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", "")).startswith(tuple(map(str, folders))):
                    del sys.modules[name]
    forget()


def forget() -> None:
    """Let additions be looked for again."""
    plugins.additions.cache_clear()
    registry.algorithms.cache_clear()
    registry.workloads.cache_clear()
