"""The names that plug-ins import: base classes, types of inputs and answers, kernel primitives.

Import them from here only: the modules that define them may change.
"""

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import BACKENDS, Algorithm, Form
from gpubench.core.case import Case
from gpubench.core.grid import Grid, HashedGrid, UnboundedGrid, hash_buckets
from gpubench.core.host_work import HostWork
from gpubench.core.oracle import Oracle
from gpubench.core.problem import Problem
from gpubench.core.recipe import Recipe, Words, among, axis, whole
from gpubench.devices.base import Device
from gpubench.libraries._engine import EngineStep
from gpubench.libraries._image_lists import HostPairs
from gpubench.primitives.bitonic_merge import BitonicMerge
from gpubench.primitives.cell_query import CellQuery
from gpubench.primitives.digit_sorts import OnesweepSort, ThreeKernelSort
from gpubench.primitives.filters import FILTERS
from gpubench.primitives.gather import Gather
from gpubench.primitives.linear_bvh import LinearBvh
from gpubench.primitives.radix_sort import PairRadixSort
from gpubench.primitives.scan import ExclusiveScan
from gpubench.primitives.sorted_keys import CellsOfSortedKeys
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
from gpubench.problems.particles.cell_ids import CellIds
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, move
from gpubench.problems.sparse_product.contract import Assembled, Product, SparseProduct
from gpubench.problems.sparse_product.inputs import BlockRows, MatrixSet
from gpubench.problems.stream_filter.contract import Compacted, StreamFilter
from gpubench.problems.stream_filter.inputs import RecordSet
from gpubench.problems.subdivision.contract import Subdivided, Subdivision
from gpubench.problems.subdivision.inputs import LoopMesh, loop_mesh
from gpubench.workloads.workload import Workload

__all__ = [
    "BACKENDS", "FILTERS", "NULL", "TASKS", "Algorithm", "Assembled", "BitonicMerge",
    "BlockRows", "Case", "CellIds", "CellList", "CellListUpdate", "CellQuery",
    "CellsOfSortedKeys", "Collisions", "Compacted", "Device", "EngineStep", "ExclusiveScan", "Form",
    "Gather", "Grid", "HashedCells", "HashedGrid", "HostPairs", "HostSearch", "HostWork", "KeySet",
    "KeySort", "LimitedCells", "LinearBvh", "LinkedCells", "LoopMesh", "MatrixSet",
    "MeshCollision", "MeshPair", "NeighbourSearch", "Neighbours", "Noise", "NotSupported",
    "OnesweepSort", "Oracle", "PairNoise", "PairRadixSort", "PairSet", "ParticleAlgorithm",
    "ParticleSet", "Problem", "Product", "Recipe", "RecordSet", "SortedCells", "SortedKeys",
    "SparseProduct", "StreamFilter", "Subdivided", "Subdivision", "ThreeKernelSort",
    "UnboundedGrid", "UserError", "Words", "Workload", "among", "axis", "forms_for",
    "from_positions", "hash_buckets", "loop_mesh", "make", "mesh_pair", "move", "task_of",
    "whole",
]  # fmt: skip
