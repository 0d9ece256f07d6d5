"""`gpubench devices`: the usable devices."""

from __future__ import annotations

import dataclasses

from gpubench.cli import require
from gpubench.cli.options import JsonOption
from gpubench.cli.output import new_table, print_json, print_table


def devices(as_json: JsonOption = False) -> None:
    """List the usable devices, and what is missing for the others."""
    from gpubench.devices import survey

    require.one_process("devices")
    found = survey()
    if as_json:
        print_json([dataclasses.asdict(device) for device in found])
        return
    table = new_table("device", "usable", "name")
    for device in found:
        usable = "yes" if device.usable else "no"
        table.add_row(device.spec, usable, device.name if device.usable else device.reason)
    print_table(table)
