"""Your library in cells of any shape, for the traps: `gpubench traps your_images.py`."""

from gpubench.contracts import HostPairs


class YourImages(HostPairs):
    """ASE stands in for your library."""

    name = "your-images"
    summary = "pairs with shifts, on the host"
    source = "your paper or address"
    package, module = "ase", "ase.neighborlist"  # on PyPI, and what is imported
    # positions[j] - positions[i] + shifts @ cell is the vector from i to j.
    call = """
from ase.neighborlist import primitive_neighbor_list
i, j, shifts = primitive_neighbor_list("ijS", periodic, cell, positions, cutoff)
"""
