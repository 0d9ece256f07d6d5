"""The ranks of a command-line run: rank 0 leads, the others follow its commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from gpubench import devices, registry
from gpubench.base.errors import UserError
from gpubench.decomposed import DECOMPOSITIONS, share
from gpubench.devices.base import Device
from gpubench.distributed.ranks import Ranks, device_spec, ends_all, launched_size
from gpubench.distributed.team import Team
from gpubench.distributed.transport import NAMES, open_transport
from gpubench.simulate.setup import find_cells
from gpubench.workloads.workload import Value


@dataclass(frozen=True)
class Crew:
    """The ranks of a run: this process and those that a launcher started with it, if any.

    ranks: None for a single process. device, transport, oversubscribed: the user's options.
    """

    ranks: Ranks | None
    device: str
    transport: str
    oversubscribed: bool

    @classmethod
    def join(cls, device: str, transport: str = "auto", oversubscribed: bool = False) -> Crew:
        """Join the other ranks; a collective call if a launcher started several processes.

        Raises UserError for a transport that is unknown.
        """
        registry.require_known("transport", transport, ("auto", *NAMES))
        ranks = Ranks.join() if launched_size() > 1 else None
        return cls(ranks, device, transport, oversubscribed)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.ranks.size if self.ranks else 1

    @property
    def follows(self) -> bool:
        """Whether this rank must only call `follow`."""
        return self.ranks is not None and self.ranks.rank > 0

    def ends_all(self) -> AbstractContextManager[None]:
        """End all ranks if the body of the `with` raises in one of them."""
        return ends_all(self.ranks) if self.ranks else nullcontext()

    @contextmanager
    def lead(self) -> Iterator[Device]:
        """Open rank 0's device; if there are other ranks, they await its commands as a team."""
        with self._opened() as device:
            yield device
            if device.team is not None:
                device.team.end()
                device.team.transport.close()

    def follow(self) -> None:
        """Execute rank 0's commands until it ends."""
        with self._opened() as device:
            device.team.follow()
            device.team.transport.close()

    @contextmanager
    def _opened(self) -> Iterator[Device]:
        if self.ranks is None:
            with devices.open_device(self.device) as device:
                yield device
            return
        spec = device_spec(self.ranks, self.device, self.oversubscribed, _usable_gpus(self.device))
        # Closing may wait for the other ranks, so an error must end the run first.
        with devices.open_device(spec) as device, ends_all(self.ranks):
            transport = open_transport(self.transport, device, self.ranks)
            team = Team(self.ranks, device, transport, lambda *given: _make(team, *given))
            device.team = team
            yield device


def choose_decomposition(wanted: str | None, ranks: int) -> str | None:
    """Return how the ranks divide a box: `slab` by default; None for a single rank.

    Raises UserError for an unknown name, and for a decomposition of a single rank.
    """
    if wanted is not None:
        registry.require_known("decomposition", wanted, DECOMPOSITIONS)
        if ranks == 1:
            raise UserError(
                f"--decomposition {wanted} needs two ranks or more, and this is one: start it"
                f" with mpirun -n 2 gpubench simulate ... --decomposition {wanted}"
            )
    return wanted or ("slab" if ranks > 1 else None)


def _make(
    team: Team,
    workload: str,
    decomposition: str,
    particles: int,
    algorithm: str,
    form: str,
    parameters: Mapping[str, Value],
    seed: int,
    skin: float,
) -> None:
    """Make a follower's part of a simulation; the team keeps it."""
    cells = find_cells(algorithm)
    made = share(registry.find_workload(workload), decomposition, team.device, cells)
    made(team.device, particles, cells, form, parameters, seed, skin)


def _usable_gpus(spec: str) -> int:
    """Return the number of NVIDIA GPUs that the device spec allows; 0 for other back ends."""
    if spec.partition(":")[0] not in ("auto", "cuda"):
        return 0
    from gpubench.devices import cuda

    return sum(report.usable for report in cuda.survey())
