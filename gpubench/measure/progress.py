"""Progress of longer work, shown on standard error as a bar or as lines."""

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

from gpubench.base.messages import is_quiet, say
from gpubench.measure.clock import now

SHOWN_AFTER_S = 2.0
LINE_AFTER_S = 10.0
LINE_AFTER_SHARE = 0.25  # pause between lines, as a fraction of the time so far


class RateColumn(ProgressColumn):
    """A column with the rate of progress per second; empty until the rate is known."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the average rate over the last half minute, as text."""
        if task.speed is None:
            return Text("")
        digits = 0 if task.speed >= 10 else 2
        return Text(f"{task.speed:,.{digits}f} {self._unit}/s")


class ProgressBar:
    """A progress bar."""

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
        """Advance by `n` steps."""
        self._progress.advance(self._task, n)

    def describe(self, text: str) -> None:
        """Set the description shown with the bar."""
        self._progress.update(self._task, description=text)

    @property
    def line(self) -> str:
        """The progress as text."""
        (task,) = self._progress.tasks
        return f"{task.description}: {task.completed:g} of {task.total:g} done"

    def show(self) -> None:
        """Start drawing the bar."""
        self._progress.start()

    def hide(self) -> None:
        """Erase the bar."""
        self._progress.stop()


@contextmanager
def progress(
    total: int, title: str, console: Console | None = None, *, done: int = 0, unit: str = ""
) -> Iterator[ProgressBar]:
    """Show a progress bar with the time left, while the body of the `with` runs.

    After two seconds the bar is drawn on standard error (or `console`), if that is a terminal. If
    not, a line is printed after ten seconds, and further lines at growing intervals. With --quiet
    nothing is printed.

    total: number of steps; the body calls `advance` on the yielded bar.
    done: number of steps that are already done.
    unit: name of the steps, to show their rate per second; empty for no rate.
    """
    console = console or Console(stderr=True)
    bar = ProgressBar(total, title, console, done, unit)
    if is_quiet():
        yield bar
        return
    has_ended = threading.Event()
    shows = _draw if console.is_interactive else _tell
    thread = threading.Thread(target=shows, args=(bar, has_ended), daemon=True)
    thread.start()
    try:
        yield bar
    finally:
        has_ended.set()
        thread.join()
        if console.is_interactive:
            bar.hide()


def _draw(bar: ProgressBar, has_ended: threading.Event) -> None:
    if not has_ended.wait(SHOWN_AFTER_S):
        bar.show()


def _tell(bar: ProgressBar, has_ended: threading.Event) -> None:
    begin = now()
    while not has_ended.wait(max(LINE_AFTER_S, LINE_AFTER_SHARE * (now() - begin))):
        say(f"{now() - begin:.0f} s: {bar.line}")
