"""Collision of two triangle meshes."""

from gpubench.core.problem import Problem
from gpubench.problems.collision.axes import Meshes

STANDS_ON = ("particles",)


class MeshCollisionProblem(Problem):
    """Find the pairs of triangles of two meshes that intersect."""

    name = "mesh-collision"
    takes = Meshes
    oracle_name = "MeshCollisionOracle"
    suite = "meshes"
