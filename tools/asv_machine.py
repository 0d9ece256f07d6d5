"""Register this machine with asv, and print the name of its results there.

The name is that of `results/measured`: of the GPU or the processor, never of the host. asv draws a
separate line per system and memory size, so these are recorded without details that change between
boots.
"""

from __future__ import annotations

import argparse
import os
import platform

from asv.machine import Machine, MachineCollection

from gpubench.devices import open_device
from gpubench.measure.environment import machine


def register(spec: str) -> str:
    """Write the machine to asv's file in the home folder, and return its name.

    spec: the measured device, as for `gpubench run --device`.
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
