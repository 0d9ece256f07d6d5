"""Tell asv what this machine is, and print the name that its results have there.

The name is that of `results/measured`: the GPU's, or the processor's, never the host's. asv draws
a line of its own for each system and each size of memory, so these are told without what changes
from one boot to the next.
"""

from __future__ import annotations

import argparse
import os
import platform

from asv.machine import Machine, MachineCollection

from gpubench.devices import open_device
from gpubench.measure.environment import machine


def register(spec: str) -> str:
    """Write the machine into asv's file in the home folder, and return its name.

    spec: the device that is measured, as `gpubench run --device` takes it.
    """
    with open_device(spec) as device:
        name = machine(device.name, device.is_cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    told = {"machine": name, "os": platform.system(), "ram": f"{memory / 2**30:.0f} GiB"}
    MachineCollection.save(name, {**Machine.get_defaults(), **told})
    return name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="cuda, opencl, ...; default: auto")
    print(register(parser.parse_args().device))
