"""Have a team make, use and drop objects with a part in every rank, and refuse some.

Argument: `well`, or the name of a method that fails in the last rank. Rank 0 prints what it finds,
and every rank that it came to its end.
"""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from gpubench.base.errors import UserError
from gpubench.distributed.ranks import Ranks, ends_all
from gpubench.distributed.team import Team, together


class Jar:
    """Coins, of which each rank has some."""

    here: ClassVar[weakref.WeakSet[Jar]] = weakref.WeakSet()

    def __init__(self, team: Team, coins: int, refusing: list[int]) -> None:
        self.team, self.coins = team, coins
        team.announce(self, coins, refusing)
        Jar.here.add(self)

        def fill() -> int:
            if team.ranks.rank in refusing:
                raise UserError(f"rank {team.ranks.rank} has no jar")
            return coins + team.ranks.rank

        self.coins = team.agree(fill)

    @together
    def add(self, coins: int) -> None:
        """Put so many into each rank's part."""
        self.coins += coins

    @together
    def everywhere(self) -> list[int]:
        """Return what each rank has."""
        return self.team.comm.allgather(self.coins)

    @together
    def jars(self) -> list[int]:
        """Return how many jars each rank has, those in use only."""
        gc.collect()
        return self.team.comm.allgather(len(Jar.here))

    @together
    def breaks(self) -> None:
        """Fail in the last rank, where the others wait for it."""
        if self.team.ranks.rank == self.team.ranks.size - 1:
            raise ZeroDivisionError("a jar without a bottom")
        self.team.comm.Barrier()

    @together
    def spills(self) -> None:
        """Refuse in the last rank, outside `agree`."""
        if self.team.ranks.rank == self.team.ranks.size - 1:
            raise UserError("the jar is full")
        self.team.comm.Barrier()


def refusal(make: Callable[[], object]) -> str:
    """Return what a UserError says."""
    try:
        make()
    except UserError as error:
        return str(error)
    return "nothing"


def lead(team: Team) -> dict[str, Any]:
    """Do what rank 0 does; return what it finds, by name."""
    last = team.ranks.size - 1
    found: dict[str, Any] = {}
    first, second = Jar(team, 10, []), Jar(team, 20, [])
    first.add(1)
    second.add(2)
    first.add(3)
    found["first"], found["second"] = first.everywhere(), second.everywhere()
    found["refused by the last"] = refusal(lambda: Jar(team, 30, [last]))
    found["refused by rank 0"] = refusal(lambda: Jar(team, 30, [0]))
    found["refused by all"] = refusal(lambda: Jar(team, 30, list(range(team.ranks.size))))
    found["jars after refusals"] = first.jars()
    del second
    gc.collect()
    found["jars after one is dropped"] = first.jars()
    third = Jar(team, 40, [])
    third.add(5)
    found["third"], found["first at last"] = third.everywhere(), first.everywhere()
    return found


def main() -> None:
    how = sys.argv[1]
    ranks = Ranks.join()
    with ends_all(ranks):
        nothing: Any = None
        team = Team(ranks, nothing, nothing, lambda *given: Jar(team, *given))
        if ranks.rank > 0:
            team.follow()
        elif how == "well":
            print(json.dumps(lead(team)) + "\n", end="", flush=True)
            team.end()
        else:
            getattr(Jar(team, 10, []), how)()
    print(f"{ranks} is done\n", end="", flush=True)


if __name__ == "__main__":
    main()
