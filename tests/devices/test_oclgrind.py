"""Every kernel under Oclgrind, a simulator that sees data races and accesses out of bounds.

Each algorithm runs in a process of its own, whose only OpenCL runtime is Oclgrind. All are forked
by one process, which has imported everything.

Its search for uninitialised values is not used. In Oclgrind 21.10 it takes the operand of every
atomic for uninitialised, constants too, and it abandons kernels at LLVM's `freeze`. Instead
test_algorithms.py fills memory with rubbish before algorithms get it.

Code that has been seen clean stays clean: CI leaves out cases whose version is the one in CLEAN.
`make test-all` runs all; `GPUBENCH_RECORD=1 pytest tests/devices/test_oclgrind.py` writes CLEAN.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import needs
import pytest
from seen import unless_seen

from gpubench import registry
from gpubench.core.host_work import HostWork
from gpubench.core.version import version_of

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
CLEAN = Path(__file__).with_name("clean_under_oclgrind.json")  # case: version of what it ran

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(LIBRARY is None, reason=needs.reason("Oclgrind")),
]

# Searches are made of cell lists and of queries over each of the two shapes, which are all here by
# themselves, and of cell ids; what the libraries of others launch is theirs. A search over sorted
# cells runs the query of CPUs, `neighbour-query` that of GPUs.
SEARCHES = {
    ("search-atomic-list", "list"), ("search-counting-sort", "list"), ("brute-force", "count"),
    ("cluster-pairs", "list"), ("lbvh-search", "list"), ("search-fine-cells", "list"),
}  # fmt: skip
# The list form launches the kernels of the count forms, over either table: those are here too.
HASH_QUERY = ("hash-query", "list-world-limits")
# Every kernel of each layout; blocks in planes are read as those in float4 are.
PRODUCTS = {
    ("ellpack-blocks", "assemble-planes"), ("ellpack-blocks", "product-float4"),
    ("ellpack-staged", "product-planes"), ("sliced-ell", "transpose-planes"),
    ("csr-product", "product-thread"), ("csr-product", "transpose-warp"),
    ("matrix-free", "product"), ("matrix-free", "transpose"),
}  # fmt: skip
# Compositions of kernels that all run here in other forms; seen by recording what each compiles.
ELSEWHERE = {
    ("loop-subdivision", "by-screen-scan-search"), ("loop-subdivision", "by-screen-bitonic"),
    ("adaptive-bitonic", "reorder"), ("hash-grid", "original"),
    ("bucket-sort-partial", "host-loop"),
    ("lj-csr", "forces"), ("lj-cluster-pairs", "forces"),
    ("bitonic-search", "order"), ("hash-grid", "world-limits"), ("counting-sort", "order"),
    ("counting-sort", "gather"), ("neighbour-query", "count-linked"),
    ("neighbour-query", "list-linked"),
}  # fmt: skip
FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    for form, described in cls.forms.items()
    if not described.requires - {"opencl"}
    and (cls.family != "neighbour-search" or (name, form) in SEARCHES)
    # Calls of libraries; the kernels of ours run in `cells_of_any_shape`, a case below.
    and cls.family != "image-search"
    and (cls.family != "unbounded-query" or (name, form) == HASH_QUERY)
    and (cls.family != "sparse-product" or (name, form) in PRODUCTS)
    and not issubclass(cls, HostWork)
    and (cls.family != "mesh-collision" or form in ("atomic", "no-filter", "given-tree"))
    and (name, form) not in ELSEWHERE
]

# The first sample is launched twice: what a launch left behind must not disturb the next.
CHECK = """
import json, sys
from gpubench import problems, registry
from gpubench.devices import open_device
from gpubench.primitives import adaptive_merge, digit_sorts, simd_query

digit_sorts.ThreeKernelSort.shapes = {True: (4, 32, 4)}
# So small that few particles have trees that one launch does not split.
adaptive_merge.SPLIT_BLOCK, adaptive_merge.MAX_STAGES = 64, 6

name, form = sys.argv[1:]
if name == "neighbour-query":
    simd_query.suits = lambda device: False
cls = registry.find_algorithm(name)
problem = problems.problems()[cls.family]
wrong = []
with open_device("opencl:oclgrind") as device:
    for sample, (inputs, parameters) in enumerate(problem.samples(cls, form)):
        parameters = {**cls.conformance_parameters, **parameters}
        algorithm = cls(device, form=form, parameters=parameters, **inputs.made_for)
        algorithm.load(inputs)
        for _ in range(1 if sample else 2):
            algorithm.launch()
            wrong.append(problem.check(algorithm, inputs))
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

# Workloads for some steps, and one particle that goes nowhere at the end.
STEPS = """
import json, sys
import numpy as np
from gpubench import registry
from gpubench.devices import open_device
from gpubench.workloads import cell_workload, dpd
from gpubench.workloads.workload import BlowUp, Workload

cell_workload.DEFERRED_ON_CPU = 5  # so that it is emptied on the way
name, form, skin, runs = *sys.argv[1:3], float(sys.argv[3]), json.loads(sys.argv[4])
dpd.PAIRS_ONCE = dpd.MARKS = {"opencl"} if form == "reorder" else ()  # without a skin
algorithm = registry.find_algorithm(name)
# So few buckets that cells share them.
room = {"fixed-capacity": {"capacity": 30}, "hash-grid": {"buckets": 64}}.get(name, {})
said = []
with open_device("opencl:oclgrind") as device:
    for workload, variant in runs:
        given = {**variant, **room, "time_step": 0.01}
        particles = 260  # three blocks, and boxes that hold three cells with a skin
        if workload == "sph-rigid-body":
            given["drop"] = -0.6  # bodies touch the fluid from the beginning
        if workload == "lj-fluid":
            given["cutoff"] = 1.8
        workload = registry.find_workload(workload)
        simulation = workload(device, particles, algorithm, form, given, seed=1, skin=skin)
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
        for name, given in {"sph-rigid-body": {"drop": -0.6}, "dpd-rozen2008": {}}.items():
            workload = share(registry.find_workload(name), decomposition, device, cells)
            simulation = workload(device, 260, cells, "order", given, seed=1)
            simulation.advance(3)
            simulation.require_sound()
            if given:
                simulation.paint()
            if decomposition == "slab":  # as if the lowest plane were of another rank
                simulation.bounds = simulation.bounds + [1, 0]
                first = simulation.edge
                simulation._edges = lambda: [(first, first + simulation.owned)]
                simulation._look_for_leavers()
                simulation._wait_for_leavers()
                assert 0 < simulation._left.view("int32")[0] < simulation.owned
print(simulation.step)
"""

# Particles and their images: in a tilted cell, and where two axes are measured.
CELLS = """
import threading
import numpy as np
from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.devices import open_device
from gpubench.neighbours import arrays
from gpubench.neighbours import batch as batches
from gpubench.primitives import simd_query

positions = np.random.default_rng(0).random((120, 3)) * (3, 3, 2.5)
counts = []
with open_device("opencl:oclgrind") as device:
    arrays._cpu = lambda: (device, threading.RLock())
    for box in (((3, 0, 0), (1, 3, 0), (0.5, -1, 2.5)), ((3, 0, 0), (0, 0, 0), (0, 0, 0))):
        for half in (False, True):
            search = NeighbourList(1.1, box, True, half=half, skin=0.1)
            found = search.update(positions)
            assert len(found.vectors()) == len(found.distances()) == len(found.shifts)
            search.update(positions)
            counts.append(int(search.count(positions).sum()))
            try:
                search(np.where(np.arange(120)[:, None] == 7, np.nan, positions))
            except UserError:
                counts.append(-1)
    wide, tilted = positions * 1.5, ((4.5, 0, 0), (1, 4.5, 0), (0.5, -1, 3.75))
    for suits in (simd_query.suits, lambda device: False):  # kernels of CPUs, and of GPUs
        simd_query.suits = suits
        for half in (False, True):
            search = NeighbourList(1.2, tilted, True, half=half)
            found = search(wide)
            assert len(found.vectors()) == len(found.distances()) == len(found.shifts)
            assert len(found) == search.count(wide).sum() > 300
    found = NeighbourList(0.7, (3, 3, 2.5), True)(positions)
    counts.append(int(np.abs(found.shifts).max()))
    batch = {"batch": [0, 0, 70, 120], "box": ((3, 0, 0), (1, 3, 0), (0.5, -1, 2.5))}
    for half in (False, True):
        lists = []
        for lanes in (1, 16):  # threads that share a row: on a CPU, on a GPU
            batches.lanes_on = lambda _: lanes
            found = NeighbourList(1.1, periodic=True, half=half)(positions, **batch)
            assert len(found.vectors()) == len(found.distances()) == len(found.shifts)
            lists.append(np.column_stack((found.pairs(), found.shifts)))
        assert np.array_equal(*lists)
        counts.append(len(found))
    for far in (1e6, 0.0):  # packed; in a long box
        given = positions + np.array((far, 0, 0)) * (np.arange(120)[:, None] == 7)
        search = NeighbourList(0.5, None if far else (400, 400, 400), not far)
        assert len(search(given).vectors()) == search.count(given).sum() > 0
print(counts)
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
        "PYOPENCL_BUILD_OPTIONS": "",
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


def version_of_case(program: str, name: str, workloads: Iterable[str] = ("",)) -> str:
    """Return the version of a program and of the algorithm and workloads that it runs."""
    versions = [str(version_of(name, each or None, "opencl")) for each in sorted(workloads)]
    return hashlib.sha256("\n".join([program, *versions]).encode()).hexdigest()[:12]


@pytest.fixture
def unless_clean(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Return what skips a test whose version has been seen clean."""
    yield from unless_seen(request, CLEAN)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_no_race_and_no_access_out_of_bounds(
    name: str,
    form: str,
    under_oclgrind: Callable[..., Outcome],
    unless_clean: Callable[[str], None],
) -> None:
    unless_clean(version_of_case(CHECK, name))
    outcome = under_oclgrind(CHECK, name, form)
    problems = json.loads(outcome.printed)
    assert len(problems) >= 3  # two samples, of which the first is launched twice
    assert [problem for problem in problems if problem] == []
    assert outcome.log == ""


def test_what_was_seen_clean_is_a_case() -> None:
    """So that no renamed case keeps another's name."""
    name = "no_race_and_no_access_out_of_bounds"
    recorded = {case for case in json.loads(CLEAN.read_text()) if case.startswith(name)}
    assert recorded and recorded <= {f"{name}[{'-'.join(form)}]" for form in FORMS}


def test_scan_of_many_tiles(under_oclgrind: Callable[..., Outcome]) -> None:
    assert under_oclgrind(SCAN) == Outcome("True\n", "")


# Workloads with kernels of their own. The others differ in scene and weights alone; what else the
# paper has, its random numbers and integrator, are variants.
KINDS = {
    "constraint-fluid", "dpd-rayleigh-taylor", "lj-fluid", "sph-dam-break", "sph-rigid-body",
    "sph-unbounded",
}  # fmt: skip
ALIKE = {
    "dpd-rozen2008", "dpd-rozen2008-rayleigh-taylor", "dpd-rozen2008-separation",
    "dpd-separation", "dpd-standard", "sph-silva2012", "sph-silva2012-at-rest",
}  # fmt: skip
IN_BOX = KINDS - {"sph-unbounded"}  # no grid holds its cells
IN_LISTS = IN_BOX - {"sph-rigid-body"}  # lists hold no bodies


@pytest.mark.parametrize(
    ("name", "form", "skin", "names", "has_variants"),
    # What a pair does, in every variant: over sorted cells, and over lists. How pairs are found, by
    # DPD and by SPH: in cells of each other shape. A re-sort leaves the shape of a sort.
    [
        ("counting-sort", "order", "0", IN_BOX, True),
        ("counting-sort", "reorder", "0.2", IN_LISTS, True),
        ("counting-sort", "reorder", "0", {"dpd-rayleigh-taylor"}, False),  # each pair once
        ("atomic-list", "one-pass", "0.2", {"dpd-rayleigh-taylor", "sph-dam-break"}, False),
        ("fixed-capacity", "one-pass", "0", {"dpd-rayleigh-taylor", "sph-dam-break"}, False),
        ("hash-grid", "world-limits", "0", {"dpd-rayleigh-taylor", "sph-unbounded"}, False),
        ("hash-grid", "original", "0.2", {"dpd-rayleigh-taylor", "sph-dam-break"}, False),
        ("atomic-list", "one-pass", "0", {"lj-fluid"}, False),
    ],
)
def test_steps_of_workloads(
    name: str,
    form: str,
    skin: str,
    names: set[str],
    has_variants: bool,
    under_oclgrind: Callable[..., Outcome],
    unless_clean: Callable[[str], None],
) -> None:
    workloads = registry.workloads()
    assert {*workloads} == KINDS | ALIKE
    unless_clean(version_of_case(STEPS, name, names))
    runs = [
        (each, variant)
        for each in sorted(names)
        for variant in (workloads[each].variants if has_variants else [{}])
    ]
    outcome = under_oclgrind(STEPS, name, form, skin, json.dumps(runs))
    said = json.loads(outcome.printed)
    assert len(said) == len(runs)
    assert all(sentence.startswith("step 2: particle") for sentence in said)
    assert outcome.log == ""


def test_cells_of_any_shape(
    under_oclgrind: Callable[..., Outcome], unless_clean: Callable[[str], None]
) -> None:
    unless_clean(version_of_case(CELLS, "neighbour-list-images"))
    outcome = under_oclgrind(CELLS)
    full, _, half, *_ = counts = json.loads(outcome.printed)
    assert (full, counts[4]) == (2 * half, 2 * counts[6]) and full > counts[4] > 0
    assert counts[1:8:2] == [-1] * 4 and counts[8] == 1
    assert counts[9] == 2 * counts[10] > 0
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
