"""Do steps of simulations in turns, and tell the hash of each state.

Arguments: a device (see one_gpu.py), and `stand-in` for steps as on GPUs that write each
other's memory.
"""

from __future__ import annotations

import sys

from one_gpu import share_if
from simulations import hash_of

from gpubench.simulate.ranks import Crew
from gpubench.simulate.setup import Setup

RUNS = ("sph-dam-break", 300), ("dpd-standard", 400), ("sph-dam-break", 1100)
TURNS = 4, 1, 9, 2


def main() -> None:
    if sys.argv[2:] == ["stand-in"]:
        from stand_ins import stand_in

        stand_in()
    share_if(sys.argv[1])
    crew = Crew.join(sys.argv[1], oversubscribed=True)
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        with crew.lead() as device:
            decomposition = "slab" if crew.size > 1 else None
            all_of_them = [Setup(*run).make(device, decomposition) for run in RUNS]
            for steps in TURNS:
                for simulation in all_of_them:
                    simulation.advance(steps)
                    simulation.plain_steps(1)
            for simulation in all_of_them:
                print(hash_of(simulation.state()), flush=True)


if __name__ == "__main__":
    main()
