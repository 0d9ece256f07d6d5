"""Write rows into the neighbours' boxes by kernels' order alone, and compare what arrives.

Arguments: a device (see one_gpu.py); `host` and turns, of the stand-in; or a transport and
`late`: rank 0 is silent.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from one_gpu import share_if
from stand_ins import stand_in

from gpubench.decomposed.direct import FAULT, LATE, WORDS
from gpubench.devices import Device, open_device
from gpubench.distributed import mailboxes
from gpubench.distributed.mailboxes import SIDES, Mailboxes
from gpubench.distributed.ranks import Ranks, device_spec, ends_all
from gpubench.distributed.transport import open_transport
from gpubench.physics.box import Box

KINDS = {"first": ("rows", "few"), "second": ("others",), "third": ("last",)}
LAYOUTS: list[dict[str, tuple[tuple[int, ...], str]]] = [
    {
        "rows": ((999, 4), "float32"),
        "few": ((3,), "int32"),
        "others": ((5000, 4), "int32"),
        "last": ((1,), "int32"),
    },
    {
        "rows": ((70000, 4), "float32"),
        "few": ((1,), "int32"),
        "others": ((7, 4), "int32"),
        "last": ((90, 4), "int32"),
    },
]
BUSY_BYTES = {"cuda": 64 << 20, "opencl": 1 << 10}  # to fill, where a queue shall lag


def drawn(layout: Any, name: str, turn: int, rank: int, side: int) -> NDArray[Any]:
    """Return what a rank writes for a side in a turn."""
    shape, dtype = layout[name]
    rng = np.random.default_rng([turn, rank, side, len(name)])
    return rng.integers(0, 2**31, shape, dtype=np.int32).view(dtype)


def turns(device: Device, boxes_of: Mailboxes, ranks: Ranks, number: int) -> None:
    """Exchange in both layouts by turns; rows are copied away as they arrive, and compared last."""
    busy = device.empty(BUSY_BYTES[device.backend], np.uint8)
    lags = np.random.default_rng([ranks.rank]).integers(0, 2, (number, 3)) * 20
    kept = []
    for turn in range(number):
        layout = LAYOUTS[turn // 4 % 2]
        boxes = boxes_of.boxes(layout)
        assert boxes_of.boxes(layout) is boxes
        for k, (kind, names) in enumerate(KINDS.items()):
            for side in boxes_of.neighbours:
                for name in names:
                    fresh = device.upload(drawn(layout, name, turn, ranks.rank, side))
                    device.copy(fresh, boxes.theirs[side][name])
            boxes_of.post(boxes, kind)
            for _ in range(lags[turn, k]):
                device.fill(busy, 0)
            boxes_of.wait(boxes, kind)
            for side, peer in boxes_of.neighbours.items():
                for name in names:
                    copy = device.empty(*layout[name])
                    device.copy(boxes.mine[side][name], copy)
                    kept.append((copy, drawn(layout, name, turn, peer, 1 - side)))
    for have, want in kept:
        assert device.download(have).tobytes() == want.tobytes()


def late(device: Device, boxes_of: Mailboxes, ranks: Ranks) -> None:
    """Rank 1 waits for rank 0 in vain, and then not again; its neighbours, if any, for it."""
    mailboxes.PATIENCE_NS = 10**8
    part = device.upload(np.zeros(WORDS, np.int32))
    boxes = boxes_of.boxes(LAYOUTS[0])
    rows, box = device.empty((1, 4), "float32"), Box((2.0,) * 3, (False,) * 3)
    end_step = device.kernel("slabs.cu", "take_movers", BLOCK=128, COLUMNS=1)
    mine = [boxes.mine[side][name] for side in SIDES for name in ("rows", "rows", "last")]
    if ranks.rank == 1:
        for _ in range(1000):
            end_step(
                4, 128, *boxes_of.flags(boxes), *mine,
                device.upload(box.packed(box.grid(1.0, 1), 1.0).view("uint8")), 1, part, rows, rows,
                device.empty(1, "int32"),
            )  # fmt: skip
    assert device.download(part)[FAULT] == (LATE if ranks.rank == 1 else 0)


def main() -> None:
    spec, name, number = sys.argv[1:]
    if name == "host":
        stand_in()
        name = "mpi"
    share_if(spec)
    ranks = Ranks.join()
    with ends_all(ranks):
        gpus = ranks.local_size if spec == "cuda" else None
        device = open_device(device_spec(ranks, spec, gpus is None, gpus))
        transport = open_transport(name, device, ranks)
    with device:
        with ends_all(ranks):
            boxes_of = transport.mailboxes(KINDS)
            assert transport.mailboxes(KINDS) is boxes_of
            if number == "late":
                late(device, boxes_of, ranks)
            else:
                turns(device, boxes_of, ranks, int(number))
                turns(device, transport.mailboxes(KINDS, True), ranks, int(number))
        print(f"{ranks}: intact\n", end="", flush=True)
        transport.close()


if __name__ == "__main__":
    main()
