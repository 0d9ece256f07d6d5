"""The public interface for external modules: the contracts of all problems and their base classes.

Import these names only from here; the modules that define them may change.
"""

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import BACKENDS, Algorithm, Form
from gpubench.core.case import Case
from gpubench.core.grid import Grid, HashedGrid, UnboundedGrid, hash_buckets
from gpubench.core.host_work import HostWork
from gpubench.core.oracle import Oracle
from gpubench.core.problem import Problem
from gpubench.core.recipe import Recipe, Words, among, axis, whole
from gpubench.problems.cells.contract import (
    NULL,
    CellList,
    CellListUpdate,
    HashedCells,
    LimitedCells,
    LinkedCells,
    SortedCells,
)
from gpubench.problems.collision.contract import Collisions, MeshCollision
from gpubench.problems.collision.inputs import MeshPair, mesh_pair
from gpubench.problems.key_sort.contract import KeySort, SortedKeys
from gpubench.problems.key_sort.inputs import KeySet
from gpubench.problems.neighbours.contract import HostSearch, Neighbours, NeighbourSearch
from gpubench.problems.neighbours.tasks import TASKS, forms_for, task_of
from gpubench.problems.pair_noise.contract import Noise, PairNoise
from gpubench.problems.pair_noise.inputs import PairSet
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, move
from gpubench.problems.sparse_product.contract import Assembled, Product, SparseProduct
from gpubench.problems.sparse_product.inputs import BlockRows, MatrixSet
from gpubench.problems.stream_filter.contract import Compacted, StreamFilter
from gpubench.problems.stream_filter.inputs import RecordSet
from gpubench.problems.subdivision.contract import Subdivided, Subdivision
from gpubench.problems.subdivision.inputs import LoopMesh, loop_mesh

__all__ = [
    "BACKENDS", "NULL", "TASKS", "Algorithm", "Assembled", "BlockRows", "Case", "CellList",
    "CellListUpdate", "Collisions", "Compacted", "Form", "Grid", "HashedCells", "HashedGrid",
    "HostSearch", "HostWork", "KeySet", "KeySort", "LimitedCells", "LinkedCells", "LoopMesh",
    "MatrixSet", "MeshCollision", "MeshPair", "NeighbourSearch", "Neighbours", "Noise",
    "NotSupported", "Oracle", "PairNoise", "PairSet", "ParticleAlgorithm", "ParticleSet",
    "Problem", "Product", "Recipe", "RecordSet", "SortedCells", "SortedKeys", "SparseProduct",
    "StreamFilter", "Subdivided", "Subdivision", "UnboundedGrid", "UserError", "Words", "among",
    "axis", "forms_for", "from_positions", "hash_buckets", "loop_mesh", "make", "mesh_pair",
    "move", "task_of", "whole",
]  # fmt: skip
