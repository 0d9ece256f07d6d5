"""What is told of ranks that go, and waiting for what reads the output of a rank."""

from __future__ import annotations

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore

import pytest

from gpubench.distributed import watch
from gpubench.distributed.watch import wait_until_read

ENDLESS = sys.maxsize


@pytest.fixture
def pipe():
    """Return the descriptors of a pipe in which something waits to be read."""
    reader, writer = os.pipe()
    os.write(writer, b"a line\n")
    with os.fdopen(reader), os.fdopen(writer):
        yield reader, writer


def test_a_pipe_is_waited_for_until_it_was_read(pipe, monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE_MS", ENDLESS)
    reader, writer = pipe
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_until_read, writer)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        os.read(reader, 3)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        os.read(reader, 100)
        waiting.result()


def test_a_reader_that_never_reads_is_waited_for_no_longer_than_that(pipe, monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE_MS", 5)
    wait_until_read(pipe[1])


def test_a_reader_that_has_gone_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE_MS", ENDLESS)
    reader, writer = os.pipe()
    with os.fdopen(writer):
        os.write(writer, b"a line\n")
        os.close(reader)
        wait_until_read(writer)


def test_what_is_no_pipe_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(watch, "PATIENCE_MS", ENDLESS)
    (tmp_path / "log").write_text("more than was written to it")
    leader, terminal = os.openpty()
    with (tmp_path / "log").open() as file, os.fdopen(leader), os.fdopen(terminal):
        os.write(leader, b"typed before anybody asked\n")
        for descriptor in (file.fileno(), terminal):
            wait_until_read(descriptor)
    wait_until_read(terminal)  # closed by now


@pytest.mark.parametrize(
    ("size", "more", "doubt"),
    [
        (1, b"", ""),
        (2, b"", ", or another before it began"),
        (2, b'{"joined": true}\n', ""),
    ],
)
def test_a_death_is_told_with_the_doubt_that_is_left(tmp_path, monkeypatch, size, more, doubt):
    told = []
    monkeypatch.setattr(watch, "tell", told.append)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "line"))
        listener.listen()
        with socket.socket(socket.AF_UNIX) as rank:
            rank.connect(listener.getsockname())
            rank.sendall(b'{"rank": 0, "process": 4711}\n' + more)
        watch.watch(listener, size)
    (line,) = told
    assert line.startswith(f"gpubench: rank 0 of {size} was killed or crashed (process 4711 on ")
    assert line.endswith(f"){doubt}: the whole run ends\n")


@pytest.mark.parametrize(
    ("closes_early", "named"),
    [((0, 1), "rank 0 or 1 of 2"), ((1,), "rank 1 of 2"), ((0,), "rank 0 of 2")],
)
def test_a_rank_that_is_killed_before_it_is_watched_is_named(
    tmp_path, monkeypatch, closes_early, named
):
    """The launcher kills the others meanwhile: of two that have gone either may be the cause."""
    told = []
    monkeypatch.setattr(watch, "tell", told.append)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(tmp_path / "line"))
        listener.listen()
        ranks = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for number, rank in enumerate(ranks):
            rank.connect(listener.getsockname())
            rank.sendall(b'{"rank": %d, "process": 471%d}\n' % (number, number))
        for number in closes_early:
            ranks[number].close()
        watching = pool.submit(watch.watch, listener, 2)
        for number in {0, 1}.difference(closes_early):
            assert ranks[number].recv(1) == watch.ANSWER
            ranks[number].close()
        watching.result()
    (line,) = told
    assert line.startswith(f"gpubench: {named} was killed or crashed (process 471")
    assert line.endswith("): the whole run ends\n")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_that_go_while_the_watcher_is_busy_the_first_is_named(tmp_path, monkeypatch, order):
    told, is_last, both_went = [], Semaphore(0), Event()
    answers = iter((False, True))

    def answer_and_hold(rank):
        rank.sendall(watch.ANSWER)
        if next(answers):
            is_last.release()
            both_went.wait()

    monkeypatch.setattr(watch, "tell", told.append)
    monkeypatch.setattr(watch, "answer", answer_and_hold)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(tmp_path / "line"))
        listener.listen()
        ranks = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for number, rank in enumerate(ranks):
            rank.connect(listener.getsockname())
            rank.sendall(b'{"rank": %d, "process": 471%d}\n' % (number, number))
        watching = pool.submit(watch.watch, listener, 2)
        is_last.acquire()
        for number in order:
            ranks[number].close()
        both_went.set()
        watching.result()
    (line,) = told
    assert line.startswith(f"gpubench: rank {order[0]} of 2 was killed or crashed")
