"""Count the particles of a simulation by id, repeatedly, on any number of ranks.

    mpirun -n 4 python tools/count_particles.py --steps 10000

Prints one line of JSON. lost: number of ids that were missing in any count. doubled: number of ids
that occurred more than once in any count. distinct_bounds: number of different domain
decompositions. Exit status 1 if a particle was lost or doubled, 2 for bad input.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.simulate.ranks import Crew, choose_decomposition
from gpubench.simulate.setup import settle


def count(ids: NDArray[np.integer], particles: int) -> tuple[set[int], set[int]]:
    """Return the ids from 0 on that are missing, and those that occur more than once.

    Raises ValueError for an id that no particle has.
    """
    if len(ids) and int(ids.max()) >= particles:
        raise ValueError(f"there is an id {ids.max()} among {particles} particles")
    found = np.bincount(ids, minlength=particles)
    return set(np.flatnonzero(found == 0).tolist()), set(np.flatnonzero(found > 1).tolist())


def count_particles(
    workload: Annotated[str, typer.Argument()] = "sph-dam-break",
    particles: int = 2000,
    steps: int = 10000,
    every: int = 10,
    decomposition: str | None = None,
    device: str = "auto",
    parameter: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None,
    oversubscribe: bool = False,
) -> None:
    """Run a simulation; count its particles at the start and every few steps."""
    crew = Crew.join(device, oversubscribed=oversubscribe)
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        if steps < 0 or every < 1:
            raise UserError("--steps must be 0 or more, and --every 1 or more")
        sharing = choose_decomposition(decomposition, crew.size)
        setup = settle(workload, {"particles": particles}, parameter or [])
        lost: set[int] = set()
        doubled: set[int] = set()
        cuts: set[tuple[int, ...]] = set()
        moments = 0
        with crew.lead() as opened:
            simulation = setup.make(opened, sharing)
            while True:
                simulation.require_sound()
                missing, twice = count(simulation.state()["places"][:, 3], particles)
                lost |= missing
                doubled |= twice
                moments += 1
                cuts.add(tuple(getattr(simulation, "bounds", np.zeros(0, np.int64)).tolist()))
                if simulation.step == steps:
                    break
                simulation.advance(min(every, steps - simulation.step))
            told = {
                "workload": workload,
                "particles": particles,
                "parameters": setup.parameters,
                "ranks": crew.size,
                "decomposition": sharing,
                "device": opened.name,
                "steps": steps,
                "every": every,
                "moments": moments,
                "lost": len(lost),
                "doubled": len(doubled),
                "distinct_bounds": len(cuts),
            }
        print(json.dumps(told), flush=True)
        if lost or doubled:
            raise typer.Exit(1)


def main() -> None:
    """Run the command line; bad input ends as one line on standard error and exit status 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(count_particles)
    try:
        app()
    except UserError as error:
        print(f"count_particles: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
