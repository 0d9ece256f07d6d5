"""Prefix sums of integers: a problem outside the package, complete in one file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from gpubench.contracts import (
    Algorithm,
    Case,
    ExclusiveScan,
    Form,
    Oracle,
    Problem,
    Recipe,
    Words,
    axis,
    whole,
)


@dataclass(frozen=True, eq=False)
class IntegerSet:
    numbers: Any
    seed: int | None

    @property
    def made_for(self) -> dict[str, Any]:
        return {"integers": len(self.numbers)}

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.numbers.data).hexdigest()[:16]


def draw(integers: int, largest: int, seed: int = 0) -> IntegerSet:
    rng = np.random.default_rng(seed)
    return IntegerSet(rng.integers(0, largest + 1, integers, np.int32), seed)


@dataclass(frozen=True)
class Integers(Recipe):
    """Integers to be added up."""

    kind, size_axis, named_by = "integers", "integers", "integers"

    integers: int = axis(
        Words("Integers", "integers", "{} integers", "size", is_size=True), whole(1, 2**28)
    )
    largest: int = axis(
        Words("Largest", "largest integer", "integers up to {}", "number"), whole(0, 7), 7
    )

    def make(self, seed: int) -> IntegerSet:
        return draw(self.integers, self.largest, seed)

    @property
    def title(self) -> str:
        return f"{self.integers:,} integers up to {self.largest}"

    @property
    def host_bytes(self) -> int:
        return self.integers * 24

    @property
    def device_bytes(self) -> int:
        return self.integers * 8


@dataclass(frozen=True)
class Sums:
    """sums: int32, shape (integers + 1,): those before each, and the total."""

    sums: Any


class SumsOracle(Oracle):
    def __init__(self, inputs: IntegerSet) -> None:
        self.sums = np.append(0, np.cumsum(inputs.numbers, dtype=np.int64)).astype(np.int32)

    def check(self, algorithm: Any) -> str | None:
        found = algorithm.download(algorithm.answer.sums)
        if found.shape != self.sums.shape:
            return f"{found.shape} sums, expected {self.sums.shape}"
        wrong = np.flatnonzero(found != self.sums)
        return (
            f"sum {wrong[0]} is {found[wrong[0]]}, expected {self.sums[wrong[0]]}"
            if len(wrong)
            else None
        )


class PrefixSumProblem(Problem):
    """Add up the integers before each."""

    name = "prefix-sum"
    takes = Integers

    def oracle(self, inputs: IntegerSet, exact: bool = False) -> Oracle:
        return SumsOracle(inputs)

    def cases(self) -> list[Case]:
        return [
            Case(f"{n} integers", partial(draw, n, 7, n)) for n in (1, 2, 255, 2048, 2049, 50001)
        ]


class PrefixSum(Algorithm):
    """What every algorithm of the problem is made for and given."""

    family: ClassVar[str] = "prefix-sum"

    def __init__(self, device: Any, form: str, parameters: Any, *, integers: int) -> None:
        super().__init__(device, form, parameters)
        self.integers = integers
        self.prepare()

    def load(self, inputs: IntegerSet) -> None:
        self.numbers = self.device.upload(inputs.numbers)

    def traffic_bytes(self) -> int:
        return 8 * self.integers


class ScanSum(PrefixSum):
    name = "scan-sum"
    summary = "the package's own scan"
    source = "Merrill and Garland 2016"
    forms: ClassVar = {"tiles": Form("one pass on CUDA, else three")}

    def prepare(self) -> None:
        self._scan = ExclusiveScan(self.device, self.integers)
        self._sums = self.allocate(self.integers + 1, "int32")
        self.workspace_bytes += self._scan.workspace_bytes

    def launch(self) -> None:
        self._scan.launch(self.numbers, self._sums)

    @property
    def answer(self) -> Sums:
        return Sums(self._sums)
