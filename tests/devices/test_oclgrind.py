"""Every kernel under Oclgrind, a simulator that sees data races and accesses out of bounds.

Each algorithm runs in a process of its own, whose only OpenCL runtime is Oclgrind. All are forked
by one process, which has imported everything.

Its search for uninitialised values is not used. In Oclgrind 21.10 it takes the operand of every
atomic for uninitialised, constants too, and it abandons kernels at LLVM's `freeze`. Instead
test_algorithms.py fills memory with rubbish before algorithms get it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import needs
import pytest

from gpubench import registry
from gpubench.core.host_work import HostWork

LIBRARIES = [
    Path(folder, "liboclgrind-rt-icd.so")
    for folder in (
        "/usr/lib/oclgrind",
        "/usr/lib/x86_64-linux-gnu/oclgrind",
        "/usr/local/lib",
        "/usr/local/lib/oclgrind",
    )
]
LIBRARY = next((path for path in LIBRARIES if path.exists()), None)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(LIBRARY is None, reason=needs.reason("Oclgrind")),
]

# Searches are made of cell lists and of queries over each of the two shapes, which are all here by
# themselves, and of cell ids; what the libraries of others launch is theirs. A search over sorted
# cells runs the query of CPUs, `neighbour-query` that of GPUs.
SEARCHES = {
    ("search-atomic-list", "list"), ("search-counting-sort", "list"), ("brute-force", "count"),
}  # fmt: skip
# The list form launches the kernels of the count forms, over either table: those are here too.
HASH_QUERY = ("hash-query", "list-world-limits")
# Every kernel of each layout; blocks in planes are read as those in float4 are.
PRODUCTS = {
    ("ellpack-blocks", "assemble-planes"), ("ellpack-blocks", "product-float4"),
    ("ellpack-staged", "product-planes"), ("sliced-ell", "transpose-planes"),
    ("csr-product", "product-thread"), ("csr-product", "transpose-warp"),
}  # fmt: skip
FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    for form, described in cls.forms.items()
    if not described.requires - {"opencl"}
    and (cls.family != "neighbour-search" or (name, form) in SEARCHES)
    and (cls.family != "unbounded-query" or (name, form) == HASH_QUERY)
    and (cls.family != "sparse-product" or (name, form) in PRODUCTS)
    and (cls.family != "key-sort" or not issubclass(cls, HostWork))
    and (cls.family != "mesh-collision" or form in ("atomic", "no-filter", "given-tree"))
]

# Each case is checked twice: what the first launch left behind must not disturb the second.
CHECK = """
import json, sys
import numpy as np
from gpubench import problems, registry
from gpubench.core.grid import Grid
from gpubench.devices import open_device
from gpubench.primitives import adaptive_merge, digit_sorts, simd_query
from gpubench.problems.collision.inputs import make_mesh_pair
from gpubench.problems.key_sort.inputs import make_keys
from gpubench.problems.pair_noise.inputs import make_pairs
from gpubench.problems.particles.inputs import make, move
from gpubench.problems.sparse_product.cases import antisymmetric_matrix, matrix_of_lengths
from gpubench.problems.sparse_product.inputs import of_particles
from gpubench.problems.stream_filter.axes import NULLS, RECORD_BYTES
from gpubench.problems.stream_filter.inputs import make_records
from gpubench.problems.subdivision.inputs import make_loop_mesh

digit_sorts.ThreeKernelSort.shapes = {True: (4, 32, 4)}
# So small that few particles have trees that one launch does not split.
adaptive_merge.SPLIT_BLOCK, adaptive_merge.MAX_STAGES = 64, 6

def particles():
    torus = Grid((8, 6, 7), (0.0,) * 3, (8.0, 6.0, 7.0), (True,) * 3)
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    long = Grid((40, 20, 1), (0.0,) * 3, (40.0, 20.0, 1.0))
    cell = Grid((1, 1, 1), (0.0,) * 3, (1.0,) * 3)
    # A chunk of the default size takes seconds to sort here, however few particles are in it.
    usual = {"chunk": 32} if name == "adaptive-bitonic" else {}
    yield make(300, torus), usual
    yield make(100, box, "clusters"), usual
    yield make(200, long), usual
    yield make(40, long, "one-cell"), usual
    yield make(40, cell), usual
    yield make(1, box), usual
    yield make(0, box), {}
    if name == "bitonic-search":
        # Several tiles, so that every kind of merge runs.
        yield make(2100, torus, seed=1), {}
    if name == "adaptive-bitonic":
        # Without the network; trees that take more than one launch to split.
        size = 100 if form == "intervals" else 140
        yield make(size, torus, seed=1), {"chunk": 2, "count_comparisons": 1}
    if name == "counting-sort":
        # Several tiles of its scan.
        yield make(600, Grid((300, 20, 6), (0.0,) * 3, (300.0, 20.0, 6.0))), {}
    if name == "bucket-sort-partial":
        yield make(200, torus), {"parts": 3, "threshold": 50}
        yield make(60, torus), {"parts": 8, "threshold": 1}

def moved():
    torus = Grid((5, 6, 7), (0.0,) * 3, (5.0, 6.0, 7.0), (True,) * 3)
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    yield move(make(400, torus), 150, "random"), {}
    yield move(make(100, box, "clusters"), 60, "next"), {}
    yield move(make(40, box, "one-cell"), 40, "random"), {}
    yield move(make(90, box), 1, "random"), {}
    yield move(make(1, box), 1, "next"), {}
    yield move(make(0, box), 0, "next"), {}
    if name == "bucket-resort":
        yield move(make(200, torus), 100, "random"), {"parts": 3, "threshold": 40}

def unbounded():
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    about = Grid((6, 6, 6), (-3.0,) * 3, (6.0,) * 3)
    far = Grid((4, 4, 4), (-1e5, 2e5, 3e4), (4.0,) * 3)
    for buckets in (0, 1, 5):
        yield make(50, about, "symmetric"), {"buckets": buckets}
    yield make(30, box, "one-cell"), {"buckets": 5}
    for size in (0, 1, 300):
        yield make(size, far), {}

def records():
    for record_bytes in RECORD_BYTES:
        for nulls in NULLS:
            yield make_records(300, 0.5, record_bytes, nulls), {}
    # Several tiles and blocks.
    yield make_records(2100, 0.9, 4, "infinity"), {}
    for size, kept in ((300, 0), (300, 1), (1, 1), (0, 0.5)):
        yield make_records(size, kept, 16, "infinity"), {}

def pairs():
    for size in (0, 1, 255, 256, 300, 600):
        yield make_pairs(size, seed=size), {}

def matrices():
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    for size in (0, 1, 150):
        yield of_particles(make(size, box, order="cell")), {}
    yield of_particles(make(30, box, "one-cell")), {}
    yield antisymmetric_matrix(3, 9), {}
    yield antisymmetric_matrix(40, 60), {}
    if not form.startswith("transpose"):
        yield matrix_of_lengths([0, 40, 0, 3, *range(30)]), {}

def surfaces():
    yield make_loop_mesh("flipped-sphere", 20, 2, 1), {"pixels": 250, "bend_percent": 60}
    yield make_loop_mesh("icosphere", 20, 1), {"pixels": 0, "bend_percent": 0}
    yield make_loop_mesh("torus", 36, 2), {"pixels": 200}
    yield make_loop_mesh("icosphere", 80, 1), {"pixels": 10**6, "bend_percent": 10**5}

def keys():
    given = {"chunk": 32} if name == "adaptive-bitonic-sort" else {}
    axes = {"segment_keys": 9} if name == "segment-sort" else {}
    axes |= {"bits": 7} if name == "counting-key-sort" else {}
    axes |= {"moved": 0.2} if name == "key-resort" else {}
    for size, width, order in (
        (1, 4, "uniform"), (33, 16, "uniform"), (33, 4, "few-distinct"), (130, 0, "uniform"),
        (700, 4, "few-distinct"),
    ):
        order = "nearly-sorted" if axes.get("moved") else order
        yield make_keys(size, min(width, max(cls.widths)), order, **axes), given

def meshes():
    for mesh, pose in (("sphere", "deep"), ("soup", "touching")):
        yield make_mesh_pair(mesh, 32, pose, 0), {"capacity": 2048}

name, form = sys.argv[1:]
if name == "neighbour-query":
    simd_query.suits = lambda device: False
cls = registry.find_algorithm(name)
cases = {
    "cell-list-update": moved,
    "hash-grid": unbounded,
    "unbounded-query": unbounded,
    "stream-filter": records,
    "pair-noise": pairs,
    "sparse-product": matrices,
    "surface-subdivision": surfaces,
    "key-sort": keys,
    "mesh-collision": meshes,
}.get(cls.family, moved if form == "update" else particles)
wrong = []
with open_device("opencl:oclgrind") as device:
    for inputs, parameters in cases():
        parameters = {**cls.conformance_parameters, **parameters}
        algorithm = cls(device, form=form, parameters=parameters, **inputs.made_for)
        algorithm.load(inputs)
        for _ in range(2):
            algorithm.launch()
            wrong.append(problems.problems()[cls.family].check(algorithm, inputs))
        if cls.family == "unbounded-query":
            algorithm.outcome()  # counts on the device
print(json.dumps(wrong))
"""

# More tiles than a block has threads, which would be millions of items with the blocks of real use.
SCAN = """
import numpy as np
from gpubench.devices import open_device
from gpubench.primitives import scan

scan.BLOCK, scan.ITEMS_CPU = 32, 2
items = 32 * 2 * 70 + 3
counts = np.random.default_rng(0).integers(0, 9, items, np.int32)
with open_device("opencl:oclgrind") as device:
    sums = device.empty(items + 1, np.int64)
    exclusive = scan.ExclusiveScan(device, items, sum_type="int64", clear=True)
    exclusive.launch(device.upload(counts), sums)
    print((device.download(sums) == np.concatenate(([0], np.cumsum(counts)))).all())
"""

# Every workload for some steps, and one particle that goes nowhere at the end.
STEPS = """
import json, sys
import numpy as np
from gpubench import registry
from gpubench.devices import open_device
from gpubench.base.errors import NotSupported
from gpubench.workloads import cell_workload, dpd
from gpubench.workloads.workload import BlowUp, Workload

cell_workload.DEFERRED_ON_CPU = 5  # so that it is emptied on the way
name, form, skin, all_variants = *sys.argv[1:3], *map(float, sys.argv[3:])
dpd.PAIRS_ONCE = {"opencl"} if form == "reorder" else ()  # without a skin
algorithm = registry.find_algorithm(name)
# So few buckets that cells share them.
room = {"fixed-capacity": {"capacity": 30}, "hash-grid": {"buckets": 64}}.get(name, {})
said = []
with open_device("opencl:oclgrind") as device:
    for index, workload in enumerate(registry.workloads().values()):
        for variant in workload.variants if index == 0 and all_variants else [{}]:
            given = {**variant, **room, "time_step": 0.01}
            particles = 260  # three blocks, and boxes that hold three cells with a skin
            if workload.name == "sph-rigid-body":
                given["drop"] = -0.6  # bodies touch the fluid from the beginning
            try:
                simulation = workload(device, particles, algorithm, form, given, seed=1, skin=skin)
            except NotSupported:
                continue
            simulation.advance(2)
            if workload.paint is not Workload.paint:
                simulation.paint()
            simulation.require_sound()
            state = simulation.state()
            state["velocities"][7, 0] = np.nan
            simulation.restore(state)
            simulation.advance(1)
            try:
                simulation.require_sound()
            except BlowUp as error:
                said.append(str(error))
print(json.dumps(said))
"""

# Steps of a single rank, in each decomposition.
SHARED = """
from gpubench import registry
from gpubench.devices import open_device
from gpubench.distributed.ranks import Ranks
from gpubench.distributed.team import Team
from gpubench.distributed.transport import MPITransport
from gpubench.decomposed import DECOMPOSITIONS, share

cells = registry.find_algorithm("counting-sort")
with open_device("opencl:oclgrind") as device:
    ranks = Ranks.join()
    device.team = Team(ranks, device, MPITransport(device, ranks), lambda *given: None)
    for decomposition in DECOMPOSITIONS:
        workload = share(registry.find_workload("sph-rigid-body"), decomposition, device)
        simulation = workload(device, 260, cells, "order", {"drop": -0.6}, seed=1)
        simulation.advance(3)
        simulation.require_sound()
        simulation.paint()
print(simulation.step)
"""

# A kernel from argv, written to the folder in argv, run over one array of 128.
FAULTY = """
import pathlib, sys
import numpy as np
from gpubench.base import paths
from gpubench.devices import open_device

folder = pathlib.Path(sys.argv[1])
(folder / "prelude").symlink_to(paths.kernel_folder() / "prelude")
(folder / "faulty.cu").write_text(sys.argv[2])
paths.kernel_folder = lambda: folder
with open_device("opencl:oclgrind") as device:
    values = device.upload(np.arange(128, dtype=np.int32))
    device.kernel("faulty.cu", "faulty")(2, 64, values)
    device.download(values)
"""


@dataclass(frozen=True)
class Outcome:
    """What a program printed, and what Oclgrind said of it."""

    printed: str
    log: str


# Forks a child for each line of JSON: code, arguments and a folder for what the child prints.
# Imports take longer than most children. No OpenCL runtime is loaded before the fork.
PARENT = """
import json, os, sys
import pyopencl
from gpubench import problems, registry
from gpubench.distributed import transport
from gpubench.problems.sparse_product import cases

registry.algorithms(), registry.workloads()
for line in sys.stdin:
    code, arguments, folder = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
            kept = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(kept, descriptor)
        os.environ["OCL_ICD_VENDORS"] = folder
        os.environ["OCLGRIND_LOG"] = f"{folder}/oclgrind.log"
        sys.argv = ["-c", *arguments]
        exec(code, {"__name__": "__main__"})
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def parent() -> Iterator[subprocess.Popen[str]]:
    """Return a process that forks programs under Oclgrind."""
    settings = {
        "OCLGRIND_DATA_RACES": "1", "OCLGRIND_MAX_ERRORS": "20", "PYOPENCL_NO_CACHE": "1",
    }  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env=os.environ | settings,
        stdin=pipe,
        stdout=pipe,
        text=True,
    ) as started:
        yield started


@pytest.fixture
def under_oclgrind(parent: subprocess.Popen[str], tmp_path: Path) -> Callable[..., Outcome]:
    """Return what runs Python code where Oclgrind is the only OpenCL runtime."""
    (tmp_path / "oclgrind.icd").write_text(f"{LIBRARY}\n")

    def run(code: str, *arguments: str) -> Outcome:
        assert parent.stdin and parent.stdout
        print(json.dumps([code, arguments, str(tmp_path)]), file=parent.stdin, flush=True)
        status, said = int(parent.stdout.readline()), (tmp_path / "stderr").read_text()
        assert (status, said) == (0, "")
        return Outcome((tmp_path / "stdout").read_text(), (tmp_path / "oclgrind.log").read_text())

    return run


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_no_race_and_no_access_out_of_bounds(
    name: str, form: str, under_oclgrind: Callable[..., Outcome]
) -> None:
    outcome = under_oclgrind(CHECK, name, form)
    problems = json.loads(outcome.printed)
    assert len(problems) >= 4
    assert [problem for problem in problems if problem] == []
    assert outcome.log == ""


def test_scan_of_many_tiles(under_oclgrind: Callable[..., Outcome]) -> None:
    assert under_oclgrind(SCAN) == Outcome("True\n", "")


@pytest.mark.parametrize(
    ("name", "form", "skin", "all_variants"),
    # Variants differ in what a pair does, not in how pairs are found: over each shape of cells,
    # and over lists. What is re-sorted has the shape of what is sorted.
    [
        ("counting-sort", "order", "0", "1"),
        ("counting-sort", "reorder", "0.2", "1"),
        ("counting-sort", "reorder", "0", "0"),
        ("atomic-list", "one-pass", "0.2", "0"),
        ("fixed-capacity", "one-pass", "0", "0"),
        ("hash-grid", "world-limits", "0", "0"),
        ("hash-grid", "original", "0.2", "0"),
    ],
)
def test_steps_of_workloads(
    name: str, form: str, skin: str, all_variants: str, under_oclgrind: Callable[..., Outcome]
) -> None:
    outcome = under_oclgrind(STEPS, name, form, skin, all_variants)
    said = json.loads(outcome.printed)
    workloads = registry.workloads().values()
    more = len(next(iter(workloads)).variants) - 1 if all_variants == "1" else 0
    refused = 1 if float(skin) else 0  # lists hold no bodies
    refused += name != "hash-grid"  # no grid holds the cells of sph-unbounded
    assert len(said) == len(workloads) + more - refused
    assert all(sentence.startswith("step 2: particle") for sentence in said)
    assert outcome.log == ""


def test_steps_of_ranks(under_oclgrind: Callable[..., Outcome]) -> None:
    assert under_oclgrind(SHARED) == Outcome("3\n", "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("values[0] = (int)get_global_id(0);", "Write-write data race at global memory"),
        (
            "values[threadIdx.x] = values[threadIdx.x + 1];",
            "Read-write data race at global memory",
        ),
        (
            "__shared__ int tile[64]; tile[threadIdx.x] = values[threadIdx.x];\n"
            "values[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];",
            "data race at local memory",
        ),
        ("values[get_global_id(0) + 1] = 1;", "Invalid write of size 4 at global memory"),
        (
            "if (values[get_global_id(0) + 1] == -1) values[0] = 1;",
            "Invalid read of size 4 at global memory",
        ),
    ],
    ids=["write-write", "read-write", "no barrier", "write out of bounds", "read out of bounds"],
)
def test_faults_are_found(
    body: str, says: str, under_oclgrind: Callable[..., Outcome], tmp_path: Path
) -> None:
    source = f"__global__ void faulty(GLOBAL int *values) {{ {body} }}"
    outcome = under_oclgrind(FAULTY, str(tmp_path), source)
    assert says in outcome.log
    assert "Kernel: faulty" in outcome.log


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ int tile[64]; tile[threadIdx.x] = values[get_global_id(0)];\n"
        "__syncthreads(); values[get_global_id(0)] = tile[63 - threadIdx.x];",
        "store_relaxed(&values[0], (int)get_global_id(0));",
        "atomicAdd(&values[threadIdx.x % 2], 1);",
    ],
    ids=["barrier", "relaxed stores", "atomics"],
)
def test_the_right_way_is_silent(
    body: str, under_oclgrind: Callable[..., Outcome], tmp_path: Path
) -> None:
    source = f"__global__ void faulty(GLOBAL int *values) {{ {body} }}"
    assert under_oclgrind(FAULTY, str(tmp_path), source).log == ""
