"""`gpubench devices`: the usable devices."""

from __future__ import annotations

import dataclasses

from gpubench.cli import require
from gpubench.cli.options import JsonOption
from gpubench.cli.output import print_json, print_table


def devices(as_json: JsonOption = False) -> None:
    """List the usable devices, and what is missing for the others."""
    from gpubench.devices import survey

    require.one_process("devices")
    found = survey()
    if as_json:
        print_json([dataclasses.asdict(device) for device in found])
        return
    rows = [(d.spec, "yes", d.name) if d.usable else (d.spec, "no", d.reason) for d in found]
    print_table(("device", "usable", "name"), rows)
