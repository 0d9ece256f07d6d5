"""Measure two codes side by side: pairs of processes whose samples are interleaved.

This process requests one sample at a time from two workers, so both see the same disturbances.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpubench.base import children
from gpubench.base.errors import UserError
from gpubench.compare.worker import PROTOCOL
from gpubench.evidence.records import AnyRecord, record_of
from gpubench.studies.plan import Group, plan
from gpubench.studies.selection import Selection
from gpubench.studies.study import parse_study, study_text

PLAIN = ((1, 0),)
TURNS = 20  # samples of a cell on each side of a pair
VARIANT_EVERY = 4  # turns between samples of other variants of a cell, if any
BLOCK_TURNS = 5  # turns between readings of clocks and throttling
PATIENCE_S = 900  # time limit of a request; checking a large input takes minutes
GRACE_S = 60

Variants = dict[tuple[str, int], list[float]]

UNDERSTOOD = (1, PROTOCOL)  # protocols accepted from workers; `record_of` upgrades old records


class Code(NamedTuple):
    """One side of a comparison.

    name: base or head. title: describes the code to users. variables: environment variables, added
    to those of this process. folder: working folder. is_ours: whether it is the running package.
    """

    name: str
    title: str
    python: str
    variables: Mapping[str, str] = {}
    folder: Path | None = None
    is_ours: bool = False


@dataclass(frozen=True)
class ComparedJob:
    """A comparison's measurements: a study on a device.

    text: the study file's text. selection: see studies.plan.plan; quick=None: quick only on a CPU.
    variants: for base and for head, grain and extra of each variant of a cell (see
        measure.sampling.Task); records are of the first variant.
    """

    study: str
    text: str
    device: str
    selection: Mapping[str, Any]
    variants: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]] = (PLAIN, PLAIN)

    @classmethod
    def of(cls, study: str, device: str, selection: Mapping[str, Any]) -> ComparedJob:
        """Return the job of measuring a study, given by name or file.

        Raises UserError for an unknown study, or if it lacks something in the selection.
        """
        job = cls(*study_text(study), device, selection)
        job.plan(is_cpu=False)
        return job

    def selected(self, is_cpu: bool) -> dict[str, Any]:
        """Return the selection for a kind of device."""
        quick = self.selection.get("quick")
        return {**self.selection, "quick": is_cpu if quick is None else quick}

    def plan(self, is_cpu: bool) -> list[Group]:
        """Return this package's plan of measurements for a kind of device."""
        return plan(parse_study(self.study, self.text), Selection(**self.selected(is_cpu)))


class Pair(NamedTuple):
    """The measurements of two processes.

    records: of base and of head. variants: samples in ms of other variants, by (cell, variant).
    """

    records: tuple[list[AnyRecord], list[AnyRecord]]
    variants: tuple[Variants, Variants]


class Process:
    """The requesting side's handle on a worker process."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._errors = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115  # closed by close
        ours, its = socket.socketpair()
        words = "gpubench.compare.worker", str(its.fileno())
        with its:
            self._process = subprocess.Popen(
                children.command(*words, python=code.python, is_ours=code.is_ours),
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd=code.folder,
                env={**os.environ, **code.variables},
            )
        self._connection = Connection(ours.detach())

    def open(self, device: str) -> bool:
        """Open a device in the process; return whether it is a CPU."""
        hello = self.ask("open", device=device)
        if hello["protocol"] not in UNDERSTOOD:
            raise UserError(
                f"{self.code.name} ({self.code.title}) measures in another way (protocol"
                f" {hello['protocol']}, here {PROTOCOL}): compare results files instead"
            )
        return bool(hello["is_cpu"])

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        self.send(do, **request)
        return self.receive()

    def send(self, do: str, **request: Any) -> None:
        """Send a request without receiving its answer."""
        try:
            self._connection.send_bytes(json.dumps({"do": do, **request}).encode())
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> dict[str, Any]:
        """Wait for the answer to the last request; raise UserError for an error, or no answer."""
        try:
            if not self._connection.poll(PATIENCE_S):
                raise UserError(
                    f"a process of {self.code.name} ({self.code.title}) has not answered for"
                    f" {PATIENCE_S} s: is the device taken?"
                )
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._ended() from None
        if "error" in answer:
            raise UserError(f"{self.code.name} ({self.code.title}): {answer['error']}")
        return answer

    def _ended(self) -> UserError:
        """Return the exception for a process that ended unexpectedly."""
        status = self._process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip() or "it said nothing").split("\n")[-1].strip()
        return UserError(
            f"a process of {self.code.name} ({self.code.title}) ended with status {status}: {last}"
        )

    def close(self) -> None:
        """Disconnect, which ends the worker; kill it if it runs for another GRACE_S seconds."""
        self._connection.close()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class ProcessPairs(AbstractContextManager["ProcessPairs"]):
    """Pairs of processes of base and head, each measuring a job once.

    On a GPU, the next pair starts while one measures; on a CPU this would disturb measurements.
    """

    def __init__(self, codes: tuple[Code, Code], job: ComparedJob) -> None:
        self.job = job
        self._codes = codes
        self._spare: list[Process] = []

    def __exit__(self, *_: object) -> None:
        for process in self._spare:
            process.close()

    def measure(self, seed: int, only: Collection[str] | None = None) -> Pair:
        """Measure in a fresh pair of processes.

        seed: seed of the sample order. only: keys of cells (studies.plan.cell_key); None for all.
        Raises UserError if a process ends, or fails a request.
        """
        processes, self._spare = self._spare or self._start(), []
        with closing(processes[0]), closing(processes[1]):
            are_cpus = [process.open(self.job.device) for process in processes]
            if not any(are_cpus):
                self._spare = self._start()
            keys = None if only is None else sorted(only)
            return _measure(processes, self.job, are_cpus[0], seed, keys)

    def _start(self) -> list[Process]:
        return [Process(code) for code in self._codes]


def _measure(
    processes: Sequence[Process], job: ComparedJob, is_cpu: bool, seed: int, keys: list[str] | None
) -> Pair:
    rng = np.random.default_rng(seed)
    records: tuple[list[AnyRecord], list[AnyRecord]] = ([], [])
    variants: tuple[Variants, Variants] = ({}, {})
    asked = {"study": job.study, "text": job.text, "selection": job.selected(is_cpu)}
    groups = [answer["groups"] for answer in _both(processes, "plan", **asked)]
    for title in dict.fromkeys((*groups[0], *groups[1])):
        sides = [side for side in (0, 1) if title in groups[side]]
        for side in sides:
            group = groups[side].index(title)
            processes[side].send("make", group=group, only=keys, variants=job.variants[side])
        ready = [processes[side].receive()["cells"] for side in sides]
        if len(sides) == 2:
            _take_turns(processes, [key for key in ready[0] if key in ready[1]], job, rng)
        # A cell that is wrong or missing on the other side is not compared: one sample suffices
        # for the record that its answer is right on this side.
        for side, own in zip(sides, ready, strict=True):
            for key in own:
                if len(sides) < 2 or any(key not in each for each in ready):
                    processes[side].ask("sample", cell=key, variant=0)
        answers = _both([processes[side] for side in sides], "finish", check=True)
        for side, answer in zip(sides, answers, strict=True):
            records[side].extend(map(record_of, answer["records"]))
            for each in answer["variants"]:
                variants[side][each["cell"], each["variant"]] = each["samples_ms"]
    return Pair(records, variants)


def _take_turns(
    processes: Sequence[Process], cells: Sequence[str], job: ComparedJob, rng: np.random.Generator
) -> None:
    plain = [(0, 0), (1, 0)]
    every = [(side, variant) for side in (0, 1) for variant in range(len(job.variants[side]))]
    for turn in range(TURNS):
        turns = plain if turn % VARIANT_EVERY else every
        for cell in rng.permutation(len(cells)):
            for which in rng.permutation(len(turns)):
                side, variant = turns[which]
                processes[side].ask("sample", cell=cells[cell], variant=variant)
        if (turn + 1) % BLOCK_TURNS == 0 or turn == TURNS - 1:
            words = {word for seen in _both(processes, "look") for word in seen["throttled_by"]}
            _both(processes, "end_block", throttled_by=sorted(words))


def _both(processes: Sequence[Process], do: str, **request: Any) -> list[dict[str, Any]]:
    """Send a request to all processes at once, and wait for all answers."""
    for process in processes:
        process.send(do, **request)
    return [process.receive() for process in processes]


def describe(code: Code, device: str) -> dict[str, Any]:
    """Return the environment record of a code on a device."""
    with closing(Process(code)) as process:
        process.open(device)
        environment: dict[str, Any] = process.ask("describe")["environment"]
        return environment
