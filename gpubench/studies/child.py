"""A child process that measures one input after another, and may crash.

`gpubench.studies.child SOCKET` is started by `Child`. Requests and answers are pickled: both sides
run the same code. The process ends as soon as the other side is gone, whatever it is doing, so
that it never measures at the same time as its successor (`base/children.py`).
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from gpubench import devices
from gpubench.base import children, plugins
from gpubench.base.errors import DeviceUnavailable, UserError
from gpubench.devices.base import Device
from gpubench.distributed.ranks import unlaunched
from gpubench.evidence.records import AnyRecord
from gpubench.measure.environment import conditions, environment
from gpubench.measure.sampling import Budget
from gpubench.studies.bench import measure
from gpubench.studies.plan import Job

SECONDS_TO_END = 10.0


class NoAnswer(Exception):
    """A request failed; the message says why, or how the process ended."""


class Child:
    """The requesting side: starts a measuring process and sends it requests."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                children.command("gpubench.studies.child", str(its.fileno())),
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # keeps output of libraries out of results
                env=unlaunched(),
            )
        self._connection = Connection(ours.detach())

    def ask(self, do: str, *given: Any, on_news: Callable[[Any], None] | None = None) -> Any:
        """Call a method of `MeasuringSide` and return its answer.

        on_news: called with data that the process sends before its answer.
        Raises UserError if the method did, and NoAnswer if it raised another exception (the message
        has its type and first line) or if the process ended.
        """
        try:
            self._connection.send((do, given))
            while True:
                kind, value = self._connection.recv()
                if kind != "news":
                    break
                if on_news is not None:
                    on_news(value)
        except (EOFError, OSError):
            raise NoAnswer(f"the process that measured it {_ending(self._end())}") from None
        if kind == "refusal":
            raise value
        if kind == "exception":
            raise NoAnswer(value)
        return value

    def close(self) -> None:
        """Make the process close its device and end; kill it if it does not respond."""
        with suppress(OSError):
            self._connection.send(None)
        self._end()

    def _end(self) -> int:
        try:
            return self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._connection.close()


def _ending(status: int) -> str:
    """Describe how a process ended, given its return code from `Popen`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class MeasuringSide:
    """The measuring side: each method is a request.

    tell: sends data to the other side before the answer.
    """

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._device: Device | None = None

    def see(self, spec: str) -> list[tuple[str, str, str | None]]:
        """List the devices that `spec` could open, without opening any.

        Each entry has the spec of that device alone, an identity that is unique on the host, and
        its UUID, if it has one. All OpenCL devices of a host count as one, since two platforms can
        offer the same processor. Raises UserError where there is none.
        """
        backend, _, number = spec.partition(":")
        if backend in ("auto", "cuda"):
            from gpubench.devices import cuda

            reports = cuda.survey()
            if backend == "cuda" and not reports[0].usable:
                raise DeviceUnavailable(reports[0].reason)
            found = [
                (each.spec, each.details["pci_bus_id"], each.details["uuid"])
                for each in reports
                if each.usable and (not number or each.spec == spec)
            ]
            if found:
                return found
        with devices.open_device(spec) as opened:  # raises with the reason if absent
            return [(opened.spec, opened.backend, None)]

    def open(self, spec: str) -> dict[str, Any]:
        """Open a device and return the fields of `plan.DescribedDevice`."""
        plugins.additions()  # imported before receiving an input that they define
        self._device = device = devices.open_device(spec)
        names = ("backend", "spec", "name", "is_cpu", "memory_bytes")
        return {name: getattr(device, name) for name in names}

    def conditions(self) -> dict[str, Any]:
        """Return the part of the environment that needs no measurement."""
        assert self._device is not None
        return conditions(self._device)

    def environment(self) -> dict[str, Any]:
        """Return the environment record."""
        assert self._device is not None
        return environment(self._device)

    def measure(self, job: Job, budget: Budget) -> list[AnyRecord]:
        """Return the records of an input; first send the record fields known once it is drawn."""
        assert self._device is not None
        given = job.group, job.items, self._device, budget
        # Progress is ignored: the requesting side counts inputs.
        return measure(*given, lambda _: None, job.reason, self._tell)

    def close(self) -> None:
        """Close the device."""
        if self._device is not None:
            self._device.close()


def serve(connection: Connection) -> None:
    """Answer requests until the other side ends or disconnects."""
    worker = MeasuringSide(lambda news: connection.send(("news", news)))
    with suppress(EOFError, ConnectionError):
        while (request := connection.recv()) is not None:
            connection.send(_answer(worker, *request))
    worker.close()


def _answer(worker: MeasuringSide, do: str, given: tuple[Any, ...]) -> tuple[str, Any]:
    """Carry out a request; return the kind of its answer, and the answer."""
    try:
        return "answer", getattr(worker, do)(*given)
    except UserError as error:
        return "refusal", error
    except Exception as error:
        (line, *_) = traceback.format_exception_only(error)
        return "exception", line.splitlines()[0]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the leader handles Ctrl-C
    serve(Connection(int(sys.argv[1])))
