"""Steps in which no host takes part: what one rank finds, to the bit, whatever room there is."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from mpi_programs.coarse_rows import coarse_of
from mpi_programs.simulations import Run, moments
from mpi_runs import run_ranks

from gpubench.decomposed import direct
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.devices import survey
from gpubench.physics.box import Box

TALL = {"gravity": 2.0, "depth": 3.0, "height": 4.0}
GAS = {"gravity": 2.0, "depth": 3.0, "height": 10.0, "density": 0.3, "walls": "none"}
RUNS = {
    # Flows along most of the tank, so that planes change hands.
    "dam-break": Run("sph-dam-break", 1500, {"mach": 0.8, "depth": 0.3}, None, 160, 32),
    # Enough steps for graphs, and for planes to be assigned anew between them.
    "whole-blocks": Run("sph-dam-break", 1100, {"mach": 0.8, "depth": 0.3}, None, 195, 39),
    "euler": Run(
        "sph-dam-break", 800, {"integrator": "euler", "time_step": 0.1, "mach": 0.8}, None, 30, 15
    ),
    "one-particle": Run("sph-dam-break", 1, {"length": 12.0}, None, 36, 18),
    "large": Run("sph-dam-break", 200_000, {}, None, 204, 51),  # with room for all steps
    # Rings of parts; with velocities for the drag, which travel too.
    "dpd": Run("dpd-standard", 1600, {}, None, 96, 32),
    "dpd-drags": Run("dpd-rozen2008", 1600, {}, None, 80, 16),
    # Falls onto a wall, or around the ring, so that planes change hands.
    "dpd-walls": Run("dpd-rayleigh-taylor", 900, TALL, None, 192, 48),
    "dpd-falling": Run("dpd-rayleigh-taylor", 900, GAS, None, 192, 48),
    # Cross the ends of a ring, of which parts are empty.
    "two-particles": Run("dpd-standard", 2, {"density": 0.002}, None, 384, 48),
    "dpd-one": Run("dpd-rayleigh-taylor", 1, {"gravity": 0.5, "density": 0.01}, None, 96, 32),
    "dpd-large": Run("dpd-standard", 200_000, {}, None, 204, 51),
}
TIGHT = {"SPARE": 1.0, "SPARE_OF_EVEN": 1.0, "SPARE_EDGE": 1.0, "LEAST": 0, "SPARE_PLANES": 1}
OFTEN = {"WORTH_A_CUT": 1}  # planes are assigned anew whenever that helps
ONCE = {"PAIRS_ONCE": ["opencl"]}  # one particle of a pair computes both forces, as on CUDA
MARKED = {**ONCE, "MARKS": ["opencl"]}  # which there tests coarse positions first
THOROUGH = pytest.mark.long, pytest.mark.thorough


def gpus() -> int:
    return sum(report.backend == "cuda" and report.usable for report in survey())


def require_same(device, spec, ranks, names, constants):
    """See that ranks find what one does; return the steps that were done again in each run."""
    runs = [dataclasses.replace(RUNS[name], decomposition="slab") for name in names]
    given = json.dumps([dataclasses.asdict(run) for run in runs])
    done = run_ranks(ranks, "simulations.py", spec, given, json.dumps(constants))
    assert done.returncode == 0, done.stderr
    redone = []
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        found, alone = json.loads(line), moments(RUNS[name], device)
        assert [(m["step"], m["bits"]) for m in found] == [(m["step"], m["bits"]) for m in alone]
        if name in ("dam-break", "whole-blocks", "dpd-walls", "dpd-falling"):
            assert found[0]["bounds"] != found[-1]["bounds"]  # planes changed hands
        redone.append(found[-1]["redone"])
    return redone


@pytest.mark.parametrize(
    ("ranks", "names", "constants"),
    [
        (2, ("euler", "one-particle"), {}),
        (2, ("dpd", "two-particles"), {}),
        pytest.param(3, ("whole-blocks",), {}, marks=pytest.mark.long),
        pytest.param(2, ("dam-break", "whole-blocks"), {}, marks=THOROUGH),
        pytest.param(2, ("dpd-walls", "dpd-falling", "dpd-drags", "dpd-one"), ONCE, marks=THOROUGH),
        pytest.param(
            3, ("dpd", "dpd-falling", "dpd-drags", "two-particles"), MARKED, marks=pytest.mark.long
        ),
        pytest.param(4, ("dpd-walls", "dpd-falling", "dpd-one", "dpd"), {}, marks=pytest.mark.long),
    ],
)
def test_trajectories_are_those_of_one_rank_to_the_bit(open_once, ranks, names, constants):
    device = open_once("opencl:intel")
    redone = require_same(
        device, "opencl:intel", ranks, names, {"DIRECT": True, **OFTEN, **constants}
    )
    assert redone[-1] == 0  # hosts did none of the steps


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "names"),
    [
        (4, ("whole-blocks", "one-particle")),
        (2, ("dpd", "dpd-one")),
        pytest.param(3, ("dpd-drags",), marks=THOROUGH),
    ],
)
def test_steps_without_room_are_done_again(open_once, ranks, names):
    device = open_once("opencl:intel")
    constants = {"DIRECT": True, **OFTEN, **TIGHT, **MARKED}
    redone = require_same(device, "opencl:intel", ranks, names, constants)
    assert redone[0] > 0


def require_same_in_turns(spec, *how):
    alone, shared = (run_ranks(ranks, "alternating.py", spec, *how) for ranks in (1, 2))
    assert (alone.returncode, shared.returncode) == (0, 0), shared.stderr
    assert shared.stdout == alone.stdout and len(alone.stdout.splitlines()) == 3


@pytest.mark.long
def test_simulations_share_boxes_in_turns():
    require_same_in_turns("opencl:intel", "stand-in")


@pytest.mark.parametrize("ranks", [pytest.param(3, marks=pytest.mark.long)])
def test_the_stand_in_for_boxes_carries_rows(ranks):
    done = run_ranks(ranks, "mailboxes.py", "opencl:intel", "host", "12")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("intact") == ranks


@pytest.fixture(scope="module")
def kernel(open_once):
    """Return the kernels of parts by name, for boxes of two cells a plane."""
    device = open_once("opencl:intel")
    return lambda name, **given: device.kernel("slabs.cu", name, BLOCK=32, COLUMNS=1, **given)


BOX = Box((2.0, 1.0, 3.0), (False,) * 3)
FEW_CELLS = BOX.grid(1.0, 1)


def flags(device, sides):
    """Return the arguments by which kernels wait and tell, which they do only with CUDA."""
    words = [device.upload(np.zeros(1, kind)) for kind in ("int32", *4 * ["uint32"])]
    return [sides, words[0], np.int64(0), *words[1:]]


class TestRoom:
    """Each lack of room is a fault of its own, and nothing is written beyond the room."""

    @pytest.mark.parametrize("blocks", [3, 8, 13])  # the senders side by side, or apart
    @pytest.mark.parametrize(
        ("sides", "room", "rises", "fault"),
        [
            (0b11, 5, 0, 0), (0b11, 4, 0, 1), (0b10, 1, 0, 0), (0b01, 4, 0, 1), (0, 0, 0, 0),
            (0b11, 5, 1, 4), (0b01, 4, 1, 5),
        ],
    )  # fmt: skip
    def test_of_edges(self, open_once, kernel, sides, room, rises, fault, blocks):
        device = open_once("opencl:intel")
        upload, rows = device.upload, 7
        # Five particles in the first plane, one in the second, one in the third.
        start = np.array([0, 2, 5, 6, 6, 7, 7], np.int32)
        order = np.array([6, 5, 4, 3, 2, 1, 0], np.int32)
        places = np.arange(4 * rows, dtype=np.uint32).reshape(rows, 4) << np.uint32(26)
        part = np.zeros(direct.WORDS, np.int32)
        part[[direct.LOW, direct.TOP, direct.HIGH]] = 1, 4, 4 + rises
        part = upload(part)
        found, cells, coarse, *starts = (upload(np.full(n, -1, np.int32)) for n in (4, 9, 99, 3, 3))
        sorted_places, velocities, *sent = (upload(np.zeros((40, 4), np.float32)) for _ in range(4))
        kernel("arrange", MARKED=1)(
            blocks, 32, *flags(device, sides), upload(start), upload(order), upload(places),
            upload(places.astype(np.float32)),
            upload(BOX.packed(FEW_CELLS, 1.0).view("uint8")), 8, room, 1, part, found, cells,
            sorted_places, velocities, coarse, sent[0], starts[0], sent[1], starts[1],
        )  # fmt: skip
        noted = device.download(part)
        first, last = 8 + 5 * (sides & 1), 15 - (sides >> 1)
        assert noted[direct.FAULT] == fault
        assert noted[[direct.OWNED, direct.BEGIN, direct.INNER]].tolist() == [7, 8, first]
        assert noted[[direct.LAST, direct.END, direct.UPPER]].tolist() == [last, 15, last]
        assert first <= noted[direct.MIDDLE] <= last
        assert device.download(found).tolist() == [0, 5, 6, 7]
        assert device.download(cells).tolist() == [-1, -1, *(start + 8)]
        moved = device.download(sorted_places).view(np.uint32)
        assert (moved[8:15] == places[::-1]).all() and not moved[:8].any() and not moved[15:].any()
        words = device.download(coarse)
        assert (words[8:15] == coarse_of(BOX, 1.0, places[::-1])).all()
        assert (words[:8] == -1).all() and (words[15:] == -1).all()
        for side, (begin, ends) in enumerate([(0, [0, 2, 5]), (6, [0, 1, 1])]):
            rows = min(ends[-1], room) if sides >> side & 1 else 0
            written = device.download(sent[side]).view(np.uint32)
            assert (written[:rows] == places[::-1][begin : begin + rows]).all()
            assert not written[rows:].any()
            told = [min(end, room) for end in ends] if sides >> side & 1 else [-1] * 3
            assert device.download(starts[side]).tolist() == told

    def test_a_single_plane_goes_to_both_sides(self, open_once, kernel):
        device = open_once("opencl:intel")
        upload, start = device.upload, np.array([0, 2, 5], np.int32)
        places = np.arange(20, dtype=np.uint32).reshape(5, 4)
        part = np.zeros(direct.WORDS, np.int32)
        part[[direct.LOW, direct.TOP, direct.HIGH]] = 1, 2, 2
        part = upload(part)
        words = [upload(np.full(n, -1, np.int32)) for n in (2, 9, 99, 3, 3)]
        rows = [upload(np.zeros((20, 4), np.float32)) for _ in range(4)]
        kernel("arrange")(
            3, 32, *flags(device, 0b11), upload(start), upload(np.arange(5, dtype=np.int32)),
            upload(places), upload(places.astype(np.float32)),
            upload(BOX.packed(FEW_CELLS, 1.0).view("uint8")), 8, 9, 1, part, *words[:2],
            *rows[:2], words[2], rows[2], words[3], rows[3], words[4],
        )  # fmt: skip
        noted = device.download(part)
        names = direct.INNER, direct.LAST, direct.END, direct.UPPER
        assert noted[[*names]].tolist() == [13, 13, 13, 8]
        for array, first in zip(rows, (8, 8, 0, 0), strict=True):
            found = device.download(array)
            found = found if array is rows[1] else found.view(np.uint32)
            assert (found[first : first + 5] == places).all()
        assert all(device.download(each).tolist() == [0, 2, 5] for each in words[3:])

    @pytest.mark.parametrize(("held", "capacity", "fault"), [(10, 11, 0), (10, 10, 0), (10, 9, 2)])
    def test_of_rows(self, open_once, kernel, held, capacity, fault):
        device = open_once("opencl:intel")
        rows = [np.full((3, 4), side, np.float32) for side in (1, 2)]
        boxes = []
        for side, count in enumerate((2, 3)):
            boxes += [device.upload(rows[side]), device.upload(-rows[side])]
            boxes.append(device.upload(np.array([count], np.int32)))
        part = np.zeros(direct.WORDS, np.int32)
        part[[direct.OWNED, direct.TOP, direct.HIGH]] = held - 5, 3, 3
        part[[direct.LEFT, direct.LEFT + 1, direct.TAKEN, direct.SENT]] = 1, 2, 2, 2
        part = device.upload(part)
        places, velocities = (device.upload(np.zeros((12, 4), np.float32)) for _ in range(2))
        turn, *rest = flags(device, 0b11)[1:]
        cells = device.upload(np.full(12, -1, np.int32))
        box = device.upload(BOX.packed(FEW_CELLS, 1.0).view("uint8"))
        kernel("take_movers")(
            2, 32, 0b11, turn, *rest, *boxes, box, capacity, part, places, velocities, cells,
        )  # fmt: skip
        noted = device.download(part)
        assert noted[direct.FAULT] == fault and device.download(turn)[0] == 1
        assert noted[[direct.HELD, direct.STAYED]].tolist() == [min(held, capacity), held - 3]
        assert not noted[direct.LEFT :].any()
        expected = np.array([0] * (held - 5) + [1, 1, 2, 2, 2] + [0] * 9)[:12]
        expected[capacity:] = 0
        assert device.download(places)[:, 0].tolist() == expected.tolist()
        assert device.download(velocities)[:, 0].tolist() == (-expected).tolist()
        # Positions of 1.0 and 2.0, as bits, are in the second half; behind them rows are empty.
        found = device.download(cells).tolist()
        assert found[: held - 5] == [-1] * (held - 5) and found[capacity:] == [-1] * (12 - capacity)
        assert all(0 <= cell < 6 for cell in found[held - 5 : min(held, capacity)])
        assert found[held:capacity] == [6 + row % 2 for row in range(held, capacity)]


@pytest.mark.parametrize(
    ("sides", "counts", "begins", "taken", "fault"),
    [
        (0b0011, (3, 2), (5, 13), (3, 2), 0), (0b0011, (8, 9), (0, 13), (8, 8), 1),
        (0b0111, (3, 2), (15, 13), (3, 2), 0), (0b0111, (5, 4), (17, 13), (4, 4), 1),
        (0b1011, (3, 5), (5, 0), (3, 5), 0), (0b1011, (5, 4), (3, 0), (5, 3), 1),
    ],
)  # fmt: skip
def test_rows_of_the_halo_are_in_the_order_of_planes(
    open_once, sides, counts, begins, taken, fault
):
    """The third and the fourth bit of `sides` are of neighbours beyond the periodic end."""
    device, edge, box = open_once("opencl:intel"), 8, Box((3.0, 3.0, 9.0))
    low, high = {0b0111: (0, 3), 0b1011: (6, 9)}.get(sides, (3, 6))
    part = np.zeros(direct.WORDS, np.int32)
    part[[direct.LOW, direct.TOP, direct.HIGH, direct.BEGIN, direct.END]] = low, high, high, 8, 13
    part, upload = device.upload(part), device.upload
    mine = []
    for side, count in enumerate(counts):
        rows = np.full((9, 4), side + 1, np.float32) + np.arange(9, dtype=np.float32)[:, None] / 16
        mine += [rows, -rows, np.linspace(0, count, 10).astype(np.int32)]
    places, drags, force = (upload(np.zeros((21, 4), np.float32)) for _ in range(3))
    cells, coarse = upload(np.full(91, -1, np.int32)), upload(np.zeros(25, np.uint32))
    constants = {
        "BLOCK": 32, "TRAVERSAL": 0, "REACH": 1, "DEFER": 0, "SCATTER": 0, "KEEP": 0,
        "LIST_BY_PARTICLE": 1, "NOISE": 0, "AHEAD": 0, "ONCE": 1, "MARKED": 1, "FINDS_CELLS": 0,
    }  # fmt: skip
    device.kernel("dpd_slabs.cu", "forces_of", **constants)(
        2, 32, 0, 2, 2, 1, *flags(device, sides), *map(upload, mine), edge, places, coarse, drags,
        cells, upload(box.packed(box.grid(1.0, 1), 1.0).view("uint8")),
        upload(np.zeros(96, "uint8")), upload(np.zeros((2, 4), np.uint32)), 1.0, 21, part, force,
    )  # fmt: skip
    assert device.download(part)[direct.FAULT] == fault
    expected, starts = np.zeros((21, 4), np.float32), np.full(91, -1, np.int32)
    for side, (begin, count) in enumerate(zip(begins, taken, strict=True)):
        expected[begin : begin + count] = mine[3 * side][:count]
        plane, wraps = (high, low - 1)[1 - side] % 9, sides >> (2 + side) & 1
        is_first = begin + count <= 8  # rows before the part's: their pairs with these are needed
        found = np.full(10, 8) if is_first else begin + np.minimum(mine[3 * side + 2], count)
        starts[9 * plane :][: 10 if side or wraps else 9] = found[: 10 if side or wraps else 9]
    assert (device.download(places) == expected).all()
    assert (device.download(coarse)[:21] == coarse_of(box, 1.0, expected)).all()
    assert (device.download(drags) == -expected).all()
    assert device.download(cells).tolist() == starts.tolist()


@pytest.mark.parametrize(("owned", "allocated"), [(198, []), (199, [199])])
def test_a_part_that_a_cut_nearly_fills_gets_more_room(owned, allocated):
    """Else it would ask for a cut after every block."""
    given = []
    rank = SimpleNamespace(
        rank=0, planes=(0, 2), top=2, bounds=np.array([0, 1, 3]), edge=8, capacity=200, current=[],
        cells=None, owned=0, _kept=[], device=SimpleNamespace(fill=lambda *_: None),
        _counted=lambda: np.array([99, 1]), _allocate_part=given.append, _find_cells=lambda: None,
        _make_sorter=lambda: None, _exchange=lambda *_: None, _sort_rows=lambda _: None,
        _comm=SimpleNamespace(allgather=lambda mine: [mine, np.array([150])]),
    )  # fmt: skip
    rank._cut = lambda counts: vars(rank).update(owned=owned)
    Slabs._cut_again(rank, 0)
    assert given == allocated and rank.held == owned


def test_a_rank_that_waited_in_vain_raises():
    word = [0] * direct.WORDS
    word[direct.FAULT] = direct.LATE
    told = direct.DirectSlabs._told
    rank = SimpleNamespace(
        rank=1, block=3, step=3, _count_loss=lambda: None, planes=(0, 1), top=1,
        _found=np.zeros(8, "uint8"), _found_starts=None, _part=None,
        _noted_part=np.array(word, "int32").view("uint8"), capacity=1,
        grid=SimpleNamespace(cells=(1, 1, 1)), _told=lambda *given: told(rank, *given),
        device=SimpleNamespace(read_rows=lambda *_: lambda: None),
        _comm=SimpleNamespace(Allreduce=lambda *_, op: None),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="waited in vain"):
        direct.DirectSlabs._look(rank)


@pytest.mark.cuda
@pytest.mark.parametrize("ranks", [2, 4])
class TestGPUs:
    @pytest.fixture
    def spec(self, ranks):
        """Return the spec of a GPU for each rank; where there are fewer, of one that all share."""
        return "cuda" if gpus() >= ranks else "cuda:0"

    def test_simulations_share_boxes_in_turns(self, spec):
        require_same_in_turns(spec)

    def test_a_wait_ends(self, spec, ranks):
        done = run_ranks(ranks, "mailboxes.py", spec, "auto", "late")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("intact") == ranks

    def test_trajectories_are_those_of_one_rank(self, spec, ranks, open_once):
        device = open_once("cuda")
        redone = require_same(device, spec, ranks, tuple(RUNS), OFTEN)
        assert redone[-1] == 0

    def test_steps_without_room_are_done_again(self, spec, ranks, open_once):
        device = open_once("cuda")
        names = "whole-blocks", "dpd", "dpd-drags"
        assert min(require_same(device, spec, ranks, names, {**OFTEN, **TIGHT})) > 0
