"""Ask for simulations that ranks cannot share, and then for one that they can.

Arguments: a device, and setups as `Setup` has them, as a list in JSON. Prints a line for each:
how it was refused, or nothing; and last the hash of the good one.
"""

from __future__ import annotations

import json
import sys

from simulations import hash_of

from gpubench.base.errors import UserError
from gpubench.simulate.ranks import Crew
from gpubench.simulate.setup import Setup


def main() -> None:
    crew = Crew.join(sys.argv[1])
    with crew.ends_all():
        if crew.follows:
            crew.follow()
            return
        with crew.lead() as device:
            for given in json.loads(sys.argv[2]):
                try:
                    Setup(**given).make(device, "slab")
                except UserError as error:
                    print(error, flush=True)
                else:
                    print(flush=True)
            good = Setup("sph-dam-break", 800).make(device, "slab")
            good.advance(3)
            print(hash_of(good.state()), flush=True)


if __name__ == "__main__":
    main()
