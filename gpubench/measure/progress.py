"""A progress bar on standard error for work that takes longer than a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gpubench.base.messages import is_quiet

SHOWN_AFTER_S = 2.0


class RateColumn(ProgressColumn):
    """The rate of progress per second, once it is known."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the rate of the last half minute."""
        if task.speed is None:
            return Text("")
        digits = 0 if task.speed >= 10 else 2
        return Text(f"{task.speed:,.{digits}f} {self._unit}/s")


class ProgressBar:
    """The progress of the work."""

    def __init__(self, total: int, title: str, console: Console, done: int, unit: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            *([RateColumn(unit)] if unit else []),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=total, completed=done)

    def advance(self, n: int = 1) -> None:
        """Note that `n` more steps are done."""
        self._progress.advance(self._task, n)

    def describe(self, text: str) -> None:
        """Show the current work."""
        self._progress.update(self._task, description=text)

    def show(self) -> None:
        """Draw the bar from now on."""
        self._progress.start()

    def hide(self) -> None:
        """Erase the bar."""
        self._progress.stop()


@contextmanager
def progress(
    total: int, title: str, console: Console | None = None, *, done: int = 0, unit: str = ""
) -> Iterator[ProgressBar]:
    """Show a bar with the time left, while the body of the `with` runs.

    It is drawn on standard error (or `console`) after two seconds, if that is a terminal;
    otherwise, and with --quiet, nothing is printed.

    total: number of steps; the body calls `advance` on the bar that it is given.
    done: steps that were done before.
    unit: what the steps are, to show how many are done in a second; empty for no rate.
    """
    console = console or Console(stderr=True)
    bar = ProgressBar(total, title, console, done, unit)
    if is_quiet() or not console.is_interactive:
        yield bar
        return
    timer = threading.Timer(SHOWN_AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()
        bar.hide()
