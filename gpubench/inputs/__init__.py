"""Seeded inputs: particles in cells, particles that move, streams of records, pairs, matrices.

Everything random comes from ``numpy.random.default_rng(seed)``; the same arguments give the
same bytes on any machine, and ``hash`` names them.
"""

from gpubench.core.recipe import Inputs
from gpubench.inputs.drawing import DISPLACED, MARGIN, SPRAY, STEP, SURFACE, WAVES, morton_codes
from gpubench.inputs.loop_meshes import LoopMesh, loop_mesh, make_loop_mesh
from gpubench.inputs.making import (
    PARTNERS,
    from_positions,
    grid_for,
    make,
    make_pairs,
    move,
)
from gpubench.inputs.matrices import MatrixSet, of_particles, of_rows
from gpubench.inputs.meshes import MeshPair, make_mesh_pair, mesh_pair
from gpubench.inputs.sets import (
    DECOMPOSITIONS,
    DESTINATIONS,
    DISTRIBUTIONS,
    MAX_PAIRS,
    MAX_PARTICLES,
    ORDERS,
    PairSet,
    ParticleSet,
    SimulationStart,
)

__all__ = [
    "DECOMPOSITIONS",
    "DESTINATIONS",
    "DISPLACED",
    "DISTRIBUTIONS",
    "MARGIN",
    "MAX_PAIRS",
    "MAX_PARTICLES",
    "ORDERS",
    "PARTNERS",
    "SPRAY",
    "STEP",
    "SURFACE",
    "WAVES",
    "Inputs",
    "LoopMesh",
    "MatrixSet",
    "MeshPair",
    "PairSet",
    "ParticleSet",
    "SimulationStart",
    "from_positions",
    "grid_for",
    "loop_mesh",
    "make",
    "make_loop_mesh",
    "make_mesh_pair",
    "make_pairs",
    "mesh_pair",
    "morton_codes",
    "move",
    "of_particles",
    "of_rows",
]
