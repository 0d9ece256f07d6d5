"""Run traps on a library, in other processes: what comes of it is a `Caught`.

`gpubench.verify.trapped ALGORITHM FORM DEVICE TRAP...` is a child that writes a line for each. What
a library imports is imported once: the child forks, and a fork takes traps for as long as they go
well. The first that does not is tried again, as the first of the next fork, which ends with it.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from gpubench.base import children
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.memory import allowed_bytes
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import SystemSet
from gpubench.problems.images.oracle import ImageSearchOracle, completed, pairs_within
from gpubench.problems.images.traps import LONG, Trap, traps
from gpubench.verify.smallest import shrink
from gpubench.verify.trap_results import FAILED, Caught

MOST_BYTES = 2**33  # that a process may take on a host
SHRUNK, SHOWN = 2**14, 40  # particles that are shrunk, and that are printed
TRIES, ROUNDS = 300, 20
FORKED = {"torch"}  # slow to import, and on import leaves CUDA closed, which no fork could use
WELL = ("right", "not offered")
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
# Errors by which Python code fails by accident; by others, with words, a library refuses.
ACCIDENTS = LookupError, AttributeError, NameError, AssertionError, ZeroDivisionError


class WrongAnswer(Exception):
    """A wrong answer: the message says in what."""


def run(
    algorithm: str, form: str, device: str, names: Sequence[str], limit: int = 0
) -> Iterator[Caught]:
    """Yield the cells of a library, as they are known. limit: seconds; 0 for those of the traps."""
    words = algorithm, form, device, str(limit), *names
    given = children.command("gpubench.verify.trapped", *words)
    left, library = list(names), algorithm
    with subprocess.Popen(
        given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        for line in process.stdout or ():
            cell = Caught(**json.loads(line))
            left.remove(cell.trap)
            library = cell.library
            yield cell
    for name in left:
        why = "the process ended that imports the library"
        yield Caught(library, form, name, "crashed", why, group=traps()[name].group)


def main(algorithm: str, form: str, spec: str, limit: str, *names: str) -> None:
    """Write a cell for each trap to standard output; what libraries print goes elsewhere."""
    from gpubench import registry

    cls = registry.find_algorithm(algorithm)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chosen = [replace(traps()[name], limit=int(limit) or traps()[name].limit) for name in names]
    forked(cls, form, spec, chosen[:1])  # imports what is slow to import
    for cell in caught(cls, form, spec, chosen):
        print(json.dumps(structs.asdict(cell)), file=out, flush=True)


def caught(cls: Any, form: str, spec: str, traps: Sequence[Trap]) -> Iterator[Caught]:
    """Yield the cells of traps, in their order."""
    while traps:
        yield from (cells := forked(cls, form, spec, traps))
        traps = traps[len(cells) :]


def forked(cls: Any, form: str, spec: str, traps: Sequence[Trap]) -> list[Caught]:
    """Run traps in a fork of this process, up to one that does not go well.

    Return the cells of those before it; of the first, in any case.
    """
    ours, its = os.pipe()
    found: dict[str, dict[str, Any]] = {(name := traps[0].name): {"library": cls.name}}
    with tempfile.TemporaryFile() as errors:
        if not (child := os.fork()):
            os.close(ours)
            os.dup2(errors.fileno(), 2)
            os.dup2(errors.fileno(), 1)
            signal.alarm(LONG)
            with os.fdopen(its, "w") as told:
                tell = partial(print, file=told, flush=True)
                _try(cls, form, spec, traps, lambda *of: tell(json.dumps(of)))
            os._exit(0)
        os.close(its)
        with os.fdopen(ours) as lines:
            found |= dict(map(json.loads, lines))
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    first = found[name]
    if "state" not in first:
        number = os.waitstatus_to_exitcode(status)
        ended = signal.Signals(-number).name if number < 0 else f"status {number}"
        is_late = number == -signal.SIGALRM
        late = f"no answer within {traps[0].limit} s"
        why = late if is_late else f"{ended} {' '.join(said[-1:])}"
        first |= {"state": "hung" if is_late else "crashed", "said": _first(why)}
    if first["state"] in FAILED and "bug" not in first:
        tried = Tried(cls, form, None, traps[0], print)
        first["bug"] = tried.bug(traps[0].make(), first["said"])
    sure = [(trap, of) for trap in traps if "state" in (of := found.get(trap.name, {}))]
    loaded = {module for _, of in sure for module in of.pop("modules", ())}
    loaded -= sys.modules.keys()
    for module in loaded & FORKED if spec.startswith("cuda") else loaded:  # for traps to come
        with suppress(Exception):
            __import__(module)
    return [Caught(form=form, trap=t.name, group=t.group, **of) for t, of in sure]


def _try(cls: Any, form: str, spec: str, traps: Sequence[Trap], tell: Callable[..., None]) -> None:
    """Run traps, and tell what is known of each cell, whenever more is; end where one goes ill.

    Nothing is told of the state of that one, unless it is the first.
    """
    from gpubench.devices import open_device

    device = open_device(spec)
    if device.backend != "cuda":
        most = min(MOST_BYTES, allowed_bytes() // 2)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    for number in CRASHES:  # which a device may have taken for itself
        signal.signal(number, signal.SIG_DFL)
    for trap in traps:
        tried = Tried(cls, form, device, trap, partial(tell, trap.name))
        inputs = trap.make()
        state, said = tried.outcome(inputs)
        signal.alarm(LONG)
        if state not in WELL and trap is not traps[0]:
            return
        modules = [name for name in sys.modules if not name.startswith(("gpubench", "_"))]
        found = {"library": tried.library, "state": state, "said": said, "modules": modules}
        tell(trap.name, found)
        if state == "wrong":
            if len(inputs.positions) <= SHRUNK and trap.use != "count":
                inputs, said = tried.smallest(inputs, said)
            tell(trap.name, found | {"said": said, "bug": tried.bug(inputs, said)})
        if state not in WELL:
            return


class Tried:
    """A trap on a library. library: its name and version, once it is known."""

    def __init__(
        self, cls: Any, form: str, device: Any, trap: Trap, tell: Callable[..., None]
    ) -> None:
        self._cls, self._form, self._device, self._trap, self._tell = cls, form, device, trap, tell
        self.library: str = getattr(cls, "called", cls.name)

    def outcome(self, inputs: SystemSet) -> tuple[str, str]:
        """Return the state of the cell, and what is said of it."""
        try:
            self._use(inputs)
        except WrongAnswer as error:
            return "wrong", str(error)
        except NotSupported as error:
            return "not offered", _first(error)
        except Exception as error:
            name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            refuses = str(error).strip() and not isinstance(error, ACCIDENTS)
            return "refused" if refuses else "crashed", f"{name}{_first(error)}"
        if self._trap.refused:
            return "wrong", "it answers, where nothing is right"
        return "right", ""

    def smallest(self, inputs: SystemSet, said: str) -> tuple[SystemSet, str]:
        """Return the fewest particles on which the answer is wrong, and in what."""

        def wrong(kept: NDArray[np.intp]) -> str | None:
            state, said = self.outcome(_only(inputs, kept)) if len(kept) else ("", "")
            return said if state == "wrong" else None

        kept, said, _ = shrink(len(inputs.positions), wrong, said, TRIES)
        return _only(inputs, kept), said

    def _made(self, inputs: SystemSet) -> Any:
        if missing := sorted(self._cls.forms[self._form].requires - self._device.features):
            raise NotSupported(f"needs {', '.join(missing)}")
        made = self._cls(self._device, form=self._form, parameters={}, **inputs.made_for)
        self.library = made.library or self.library
        self._tell({"library": self.library})  # in case that it crashes
        made.hold(inputs)
        if (change := self._trap.given) is not None:
            with made.on_stream():
                if (points := change(made.points)) is None:
                    raise NotSupported("its arrays have no such kind")
                made.points = points
        with made.on_stream():
            made.begin()
        return made

    def _use(self, inputs: SystemSet) -> None:
        """Search as the trap says, and check; raises WrongAnswer."""
        made, use, then = self._made(inputs), self._trap.use, self._trap.then
        signal.alarm(self._trap.limit)
        if use == "threads":
            assert then is not None
            each = (made, self._made(other := then())), (inputs, other)
            with ThreadPoolExecutor(2) as pool:
                [*pool.map(self._rounds, *each)]
            return
        with made.on_stream():
            if use == "count":
                counts = np.asarray(made._to_host(made.count()))
                if (wrong := counts != len(inputs.positions) - 1).any():
                    at = int(wrong.argmax())
                    raise WrongAnswer(f"particle {at} has {counts[at]} neighbours")
                return
            if use == "gradient":
                _require_gradient(made, inputs)
                return
            if use == "stream":
                found = _late(made)
            elif use == "graph":
                found = _captured(made)
            else:
                found = made.by_default() if use == "default" else made.search()
            self._check(made, found, inputs)
            if use == "again":
                self._check(made, made.search(), inputs)
            if use == "changed" and then is not None:
                made.change(other := _only(then(), np.arange(len(inputs.positions))))
                self._check(made, made.search(), other)

    def _check(self, made: Any, found: tuple[Any, ...], inputs: SystemSet) -> None:
        answer = made.rows(*map(made._to_host, found))
        if crowded := self._trap.crowded:
            answer, inputs = _of_crowded(answer, inputs, np.array(crowded))
        if (told := int(answer.offsets[-1])) > len(answer.neighbours):
            raise WrongAnswer(f"it lists {len(answer.neighbours)} of {told} that it counts")
        if not inputs.cutoff > 0 and len(answer.neighbours):
            raise WrongAnswer(f"it lists {len(answer.neighbours)} pairs")
        if inputs.cutoff > 0 and not self._trap.refused:
            answered = SimpleNamespace(name=made.name, answer=answer, download=np.asarray)
            if problem := ImageSearchOracle(inputs, exact=True).check(answered):
                raise WrongAnswer(problem)

    def _rounds(self, made: Any, inputs: SystemSet) -> None:
        """Search often, and check the first and the last answer."""
        with made.on_stream():
            found = [made.search() for _ in range(ROUNDS)]
            for each in found[:: ROUNDS - 1]:
                self._check(made, each, inputs)

    def bug(self, inputs: SystemSet, said: str) -> str:
        """Return about ten lines of Python that show what is wrong."""
        x, cell, n = inputs.positions, inputs.vectors[0], len(inputs.positions)
        kind = "float64" if self._cls.kind == "numpy" else str(x.dtype)
        if n <= SHOWN:
            rows = ", ".join(f"[{', '.join(f'{v:.17g}' for v in row)}]" for row in x.tolist())
            positions = f"np.array([{rows}], '{kind}').reshape(-1, 3)"
        elif (x == x[0]).all():
            positions = f"np.full(({n}, 3), {x[0].tolist()}, '{kind}')"
        else:
            import_ = "__import__('gpubench.problems.images.traps', fromlist=['traps'])"
            positions = f"{import_}.traps()[{self._trap.name!r}].make().positions.astype('{kind}')"
        given = f"  # as {self._trap.name}" if self._trap.group == "Arrays" else ""
        return "\n".join(
            (
                f"# {self._trap.name}: Python {platform.python_version()}, NumPy {np.__version__},"
                f" {platform.machine()}",
                "import numpy as np",
                f"positions = {positions}{given}",
                f"cell = np.array({cell.tolist()})",
                f"periodic, cutoff = {inputs.periodic}, {inputs.cutoff!r}",
                *self._call().strip().splitlines(),
                f"# {said}",
                _right(inputs),
            )
        )

    def _call(self) -> str:
        """Return the call as users write it, by the function of this form."""
        call: str = self._cls.call
        functions = getattr(self._cls, "functions", {})  # by form, of a library with several
        for function in functions.values():
            call = call.replace(function, functions[self._form])
        return call


def _right(inputs: SystemSet) -> str:
    if (
        not inputs.cutoff > 0
        or len(inputs.positions) > SHRUNK
        or not np.linalg.det(completed(inputs.vectors))
    ):
        return "# right: an error, or no pair"
    i, j, shifts, _ = pairs_within(inputs, inputs.cutoff, np.arange(len(inputs.positions)))
    some = [(a, b, c.tolist()) for a, b, c in zip(i[:4].tolist(), j.tolist(), shifts, strict=False)]
    return f"# right: {len(i)} pairs (i, j, shift), as {str(some)[1:-1] or 'none'}"


def _require_gradient(made: Any, inputs: SystemSet) -> None:
    """Raise WrongAnswer unless the sum of all distances has the right gradient."""
    if made.kind != "torch":
        raise NotSupported("its arrays have no gradients")
    made.points = made.points.detach().clone().requires_grad_()
    made.search()
    made.lengths().sum().backward()
    i, j, shifts, apart = pairs_within(inputs, inputs.cutoff, np.arange(len(inputs.positions)))
    x = inputs.positions.astype(np.float64)
    along = (x[j] - x[i] + shifts @ inputs.vectors[0]) / apart[:, None]
    right = np.zeros_like(x)
    np.add.at(right, j, along)
    np.add.at(right, i, -along)
    if not np.allclose(made._to_host(made.points.grad), right, atol=1e-3):
        raise WrongAnswer("the gradient of the sum of distances is another")


def _late(made: Any) -> Any:
    """Search positions that are written on the current stream, after other work."""
    if made.kind == "numpy":
        raise NotSupported("it works on the host")
    right, made.points = made.points, made.points * 0
    if made.kind == "torch" and made.points.is_cuda:
        made.torch.torch.cuda._sleep(10**8)
    made.points[...] = right
    return made.search()


def _captured(made: Any) -> Any:
    """Capture a search in a CUDA graph, and replay it for the positions."""
    if made.kind != "torch" or not made.points.is_cuda:
        raise NotSupported("CUDA graphs are of CUDA")
    torch, right = made.torch.torch, made.points.clone()
    made.search()
    graph = torch.cuda.CUDAGraph()
    made.points[...] = 0
    with torch.cuda.graph(graph):
        found = made.search()
    made.points[...] = right
    graph.replay()
    return found


def _of_crowded(
    answer: Images, inputs: SystemSet, crowded: NDArray[np.intp]
) -> tuple[Images, SystemSet]:
    """Return the answer of some particles, numbered alone; WrongAnswer if others have any."""
    counts, neighbours = np.diff(answer.offsets), np.asarray(answer.neighbours)
    others = np.setdiff1d(np.append(np.flatnonzero(counts), neighbours), crowded)
    if len(others):
        raise WrongAnswer(f"particle {others[0]} has neighbours")
    offsets = np.append(0, np.cumsum(counts[crowded]))
    found = np.searchsorted(crowded, neighbours).astype(np.int32)
    return Images(offsets, found, answer.shifts), _only(inputs, crowded)


def _only(inputs: SystemSet, kept: NDArray[np.intp]) -> SystemSet:
    return replace(inputs, positions=inputs.positions[kept], offsets=np.array([0, len(kept)]))


def _first(error: object) -> str:
    """Return what can be printed of the first line of an error."""
    line = next(iter(str(error).strip().splitlines()), "")
    return "".join(filter(str.isprintable, line))[:900]


if __name__ == "__main__":
    main(*sys.argv[1:])
