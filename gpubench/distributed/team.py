"""Ranks that act together under rank 0: objects with a part in every rank.

Rank 0 makes such objects and calls their methods as if it were alone; each call is forwarded to the
other ranks, which `follow`. If one rank raises UserError, all do.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from gpubench.base.errors import UserError
from gpubench.devices.base import Device, Graph
from gpubench.distributed.ranks import Ranks
from gpubench.distributed.transport import Transport

P = ParamSpec("P")
R = TypeVar("R")

END = "end"


class Team:
    """The ranks of a run, each with its device and transport.

    make: makes a shared object in ranks other than 0, from rank 0's arguments to `announce`.
    """

    def __init__(
        self, ranks: Ranks, device: Device, transport: Transport, make: Callable[..., Any]
    ) -> None:
        self.ranks, self.device, self.transport = ranks, device, transport
        self.comm = ranks.comm.Dup()  # separates its messages from a transport's
        self._make = make
        self._known: dict[int, Any] = {}
        self._gone: list[int] = []
        self._count = 0
        self._noted: list[tuple[Any, int]] | None = None

    def announce(self, shared: Any, *arguments: Any) -> None:
        """Make the other ranks create their parts of an object that rank 0 is creating."""
        number, self._count = self._count, self._count + 1
        if self.ranks.rank == 0:
            shared.number_in_team = number
            self._tell("make", number, arguments)
            weakref.finalize(shared, self._gone.append, number)
        else:
            self._known[number] = shared

    def tell(self, shared: Any, method: str, *arguments: Any) -> None:
        """Make the other ranks call a method of their parts of an object; rank 0 calls its own."""
        if self.ranks.rank == 0:
            self._tell(method, shared.number_in_team, arguments)

    def agree(self, work: Callable[[], R]) -> R:
        """Do one rank's part of joint work; if one rank raises UserError, all do."""
        refusal: UserError | None = None
        done: R
        try:
            done = work()
        except UserError as error:
            refusal = error
        refused = [error for error in self.comm.allgather(refusal) if error is not None]
        if refused:
            raise refused[0]
        return done

    @contextmanager
    def noted(self) -> Iterator[list[tuple[Any, int]]]:
        """Return a context in which steps of shared objects are noted in a list, not queued."""
        self._noted = []
        try:
            yield self._noted
        finally:
            self._noted = None

    def notes(self, shared: Any, steps: int) -> bool:
        """Note steps if they are only noted now; return whether they are."""
        if self._noted is None:
            return False
        if self._noted and self._noted[-1][0] is shared:
            steps += self._noted.pop()[1]
        self._noted.append((shared, steps))
        return True

    @staticmethod
    def graph(steps: Sequence[tuple[Any, int]]) -> Graph:
        """Return noted steps as a graph: each rank replays its own, and looks between them."""
        return _SharedGraph(steps)

    def follow(self) -> None:
        """Execute rank 0's commands until it ends."""
        while True:
            gone, method, number, arguments = self.comm.bcast(None)
            for each in gone:
                self._known.pop(each, None)
            if method == END:
                return
            if method != "make":
                getattr(self._known[number], method)(*arguments)
                continue
            try:
                self._make(*arguments)
            except UserError:  # raised in rank 0 too, which reports it
                self._known.pop(number, None)

    def end(self) -> None:
        """Stop the other ranks."""
        if self.ranks.rank == 0:
            self._tell(END, -1, ())

    def _tell(self, method: str, number: int, arguments: tuple[Any, ...]) -> None:
        gone, self._gone[:] = list(self._gone), []
        self.comm.bcast((gone, method, number, arguments))


class _SharedGraph(Graph):
    def __init__(self, steps: Sequence[tuple[Any, int]]) -> None:
        self._steps = steps

    def launch(self) -> None:
        for shared, steps in self._steps:
            shared.advance(steps)


def together(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Make a method of an object with a `team` run in all ranks when rank 0 calls it.

    It takes positional arguments only, which must be picklable.
    """

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            raise TypeError(f"{method.__name__} takes no arguments by name: all ranks call it")
        self.team.tell(self, method.__name__, *args)
        return method(self, *args)  # type: ignore[call-arg]

    return call
