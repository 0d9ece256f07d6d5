"""Report in one line how a run of several ranks ended, from a process that outlives them.

When one rank dies, a launcher kills the others at once with SIGKILL, so no rank can tell which died
first. On each host one process of this file holds a socket to every rank there. It runs as a plain
script, outside the ranks' sessions, and imports nothing of the package.

Ranks send lines of JSON: `{"rank": 1, "process": 4711}` first, which is answered once its socket is
watched; `{"joined": true}` when all ranks of the run have started, which is answered; `{"say":
text}`, which is printed unless another rank spoke before, and then answered; `{"done": true}` at a
normal end. A socket that closes without `say` or `done` belongs to a rank that was killed or
crashed. Sockets are reported in the order in which they closed: the first is the cause, the others
were closed by the launcher. If a rank dies right after sending a line, or before this process
watches it, the order is unknown: the line then names all ranks that are dead at that moment.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import stat
import struct
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

ANSWER = b"\n"
PATIENCE_MS = 10_000  # time limit for the reader of a rank's output
# Edge-triggered polling reports sockets in the order of their events. Level-triggered polling keeps
# earlier sockets in place, so a rank could seem to die before the one that did.
CLOSING_ORDER = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET


@dataclass(eq=False)
class Watched:
    """The socket of one rank, with its unread lines and a partially received line.

    has_gone: whether the rank has closed its side.
    """

    socket: socket.socket
    about: dict[str, Any] = field(default_factory=dict)
    rest: bytes = b""
    has_gone: bool = False

    def read(self) -> dict[str, Any]:
        """Return new data from the rank, and note whether it has gone."""
        parts = [self.rest]
        try:
            while part := self.socket.recv(1 << 16, socket.MSG_DONTWAIT):
                parts.append(part)
            self.has_gone = True
        except BlockingIOError:
            pass
        except ConnectionError:
            self.has_gone = True
        *lines, self.rest = b"".join(parts).split(b"\n")
        said = {name: value for line in lines for name, value in json.loads(line).items()}
        self.about |= said
        return said

    @property
    def is_unexplained(self) -> bool:
        """Whether a rank that ended now must have been killed or crashed."""
        return "rank" in self.about and "done" not in self.about


def watch(listener: socket.socket, size: int) -> None:
    """Serve the ranks that connect to a listener until the last of them has gone.

    size: the number of ranks in the whole run. At least one rank must already be connected.
    """
    told = all_began = False
    came = 0
    watched: dict[int, Watched] = {}
    listener.setblocking(False)
    with select.epoll() as events:
        events.register(listener, select.EPOLLIN)
        while True:
            ready = [descriptor for descriptor, _ in events.poll()]
            heard = [(watched[each], watched[each].read()) for each in ready if each in watched]
            gone = [rank for rank, _ in heard if rank.has_gone]
            for rank, said in heard:
                all_began |= "joined" in said
                if "say" in said and not told:
                    tell(said["say"])
                    told = True
                if said.keys() & {"rank", "joined", "say"}:
                    answer(rank.socket)
                if rank.has_gone:
                    del watched[rank.socket.fileno()]
                    rank.socket.close()
                    if not told and rank.is_unexplained:
                        suspects = [other for other in gone if other is rank or said]
                        tell(death(suspects, size, all_began or came == size))
                        told = True
            if len(ready) > len(heard):
                for line in accepted(listener):
                    watched[line.fileno()] = Watched(line)
                    events.register(line, CLOSING_ORDER)
                    came += 1
            if came and not watched:
                return


def accepted(listener: socket.socket) -> list[socket.socket]:
    """Accept all waiting connections, and return those of this user."""
    lines = []
    with suppress(BlockingIOError):
        while True:
            lines.append(listener.accept()[0])
    return [line for line in lines if is_ours(line)]


def death(suspects: list[Watched], size: int, all_began: bool) -> str:
    """Return the line that names the rank that died first, or the suspects.

    all_began: whether all ranks are known to have started; if not, another may have died first.
    """
    abouts = [rank.about for rank in suspects if rank.is_unexplained]
    abouts.sort(key=lambda about: int(about["rank"]))
    ranks, processes = (" or ".join(str(a[name]) for a in abouts) for name in ("rank", "process"))
    return (
        f"gpubench: rank {ranks} of {size} was killed or crashed"
        f" (process {processes} on {socket.gethostname()})"
        f"{'' if all_began else ', or another before it began'}: the whole run ends\n"
    )


def is_ours(connected: socket.socket) -> bool:
    """Return whether the other side of a socket is a process of this user."""
    owner = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", owner)[1] == os.getuid())


def tell(text: str) -> None:
    """Write to standard error, and return once it has been read; the reader may have gone."""
    try:
        os.write(2, text.encode())
    except OSError:
        return
    wait_until_read(2)


def wait_until_read(descriptor: int) -> None:
    """Wait until everything written to a pipe has been read, at most `PATIENCE_MS`.

    MPICH's launcher drops unread output of a rank when it learns of an abort. Returns at once if
    the descriptor is closed or not a pipe, or the reader has gone.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
        reader = select.poll()
        reader.register(descriptor, 0)  # reports only that the reader has gone
        for _ in range(PATIENCE_MS):
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            if not any(unread) or reader.poll(1):
                return
    except OSError:
        return


def answer(rank: socket.socket) -> None:
    """Answer a rank that waits for this; the rank may have been killed meanwhile."""
    try:
        rank.sendall(ANSWER)
    except OSError:
        return


if __name__ == "__main__":
    if not os.fork():  # the rank that started it need not wait for a child
        watch(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
