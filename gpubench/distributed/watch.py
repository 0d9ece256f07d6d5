"""Tell in one line how a run of several ranks ended, from a process that outlives them.

A launcher ends all ranks at once with SIGKILL where one dies, so no rank can say which it was. On
each host one process of this file holds a socket to every rank there. It runs as a plain script,
outside the ranks' sessions, and imports nothing of the package.

What a rank sends are lines of JSON: `{"rank": 1, "process": 4711}` at first, which is answered once
its socket is watched; `{"joined": true}` when all ranks of the run have begun, which is answered;
`{"say": text}`, which is printed unless another rank spoke before, and then answered; `{"done":
true}` at a good end. A socket that closes without either belongs to a rank that was killed or
crashed. Sockets are reported in the order in which they closed: the first is the cause, the others
are the launcher's doing. Where a rank goes right after it said something, as before this process
watches it, the order is unknown: the line names all ranks that have gone at that moment.
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
PATIENCE_MS = 10_000  # for what reads the output of a rank
# Edge-triggered: sockets are reported in the order of what happened to them. Level-triggered, one
# that was reported before keeps its place, and a rank may seem to go before the one that did.
CLOSING_ORDER = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET


@dataclass(eq=False)
class Watched:
    """The socket to one rank, and what came of it: whole lines, and the beginning of one.

    has_gone: whether the rank has closed its side.
    """

    socket: socket.socket
    about: dict[str, Any] = field(default_factory=dict)
    rest: bytes = b""
    has_gone: bool = False

    def read(self) -> dict[str, Any]:
        """Return what the rank said anew, and note whether it has gone."""
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
        """Whether its end would be that of a rank which was killed or crashed."""
        return "rank" in self.about and "done" not in self.about


def watch(listener: socket.socket, size: int) -> None:
    """Serve the ranks that connect to a listener until the last of them has gone.

    size: the number of ranks in the whole run. At least one rank must have connected before.
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
    """Accept all connections that wait, and return those of this user."""
    lines = []
    with suppress(BlockingIOError):
        while True:
            lines.append(listener.accept()[0])
    return [line for line in lines if is_ours(line)]


def death(suspects: list[Watched], size: int, all_began: bool) -> str:
    """Return the line that names the ranks of which one was the first to go without notice.

    all_began: whether all ranks are known to have begun; if not, the first may be another.
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
    """Tell whether the other side of a socket is a process of this user."""
    owner = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", owner)[1] == os.getuid())


def tell(text: str) -> None:
    """Write to standard error, and return when it was read; its reader may have gone."""
    try:
        os.write(2, text.encode())
    except OSError:
        return
    wait_until_read(2)


def wait_until_read(descriptor: int) -> None:
    """Wait until all that was written to a pipe has been read, `PATIENCE_MS` at most.

    MPICH's launcher drops what it has not read of a rank's output when it learns of an abort.
    Returns at once where the descriptor is closed or no pipe, and where the reader has gone.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
        reader = select.poll()
        reader.register(descriptor, 0)  # reports nothing but that the reader has gone
        for _ in range(PATIENCE_MS):
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            if not any(unread) or reader.poll(1):
                return
    except OSError:
        return


def answer(rank: socket.socket) -> None:
    """Let a rank go on to its end; it may have been ended meanwhile."""
    try:
        rank.sendall(ANSWER)
    except OSError:
        return


if __name__ == "__main__":
    if not os.fork():  # the rank that started it has no child to wait for
        watch(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
