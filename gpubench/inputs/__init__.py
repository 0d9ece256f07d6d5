"""Seeded inputs: particles in cells, particles that move, streams of records, pairs, matrices.

Everything random comes from ``numpy.random.default_rng(seed)``; the same arguments give the
same bytes on any machine, and ``hash`` names them.
"""

from gpubench.inputs.drawing import DISPLACED, MARGIN, SPRAY, STEP, SURFACE, WAVES, morton_codes
from gpubench.inputs.keys import KeySet, make_keys
from gpubench.inputs.loop_meshes import LoopMesh, loop_mesh, make_loop_mesh
from gpubench.inputs.making import (
    PARTNERS,
    SPECIAL_BITS,
    from_positions,
    grid_for,
    make,
    make_pairs,
    make_records,
    move,
    records_from,
)
from gpubench.inputs.matrices import MatrixSet, of_particles, of_rows
from gpubench.inputs.meshes import MeshPair, make_mesh_pair, mesh_pair
from gpubench.inputs.sets import (
    DECOMPOSITIONS,
    DESTINATIONS,
    DISTRIBUTIONS,
    MAX_PAIRS,
    MAX_PARTICLES,
    NULLS,
    ORDERS,
    RECORD_BYTES,
    Inputs,
    PairSet,
    ParticleSet,
    RecordSet,
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
    "NULLS",
    "ORDERS",
    "PARTNERS",
    "RECORD_BYTES",
    "SPECIAL_BITS",
    "SPRAY",
    "STEP",
    "SURFACE",
    "WAVES",
    "Inputs",
    "KeySet",
    "LoopMesh",
    "MatrixSet",
    "MeshPair",
    "PairSet",
    "ParticleSet",
    "RecordSet",
    "SimulationStart",
    "from_positions",
    "grid_for",
    "loop_mesh",
    "make",
    "make_keys",
    "make_loop_mesh",
    "make_mesh_pair",
    "make_pairs",
    "make_records",
    "mesh_pair",
    "morton_codes",
    "move",
    "of_particles",
    "of_rows",
    "records_from",
]
