"""Carry rows between ranks in rings and at random, and compare each with what was sent.

Arguments: device, transport, seed. A GPU's number is the rank's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.devices import Device, open_device
from gpubench.distributed.ranks import Ranks, device_spec, ends_all
from gpubench.distributed.transport import Parcel, Transport, open_transport

ROWS = 5000
ROUNDS = 12
BUSY_BYTES = {"cuda": 64 << 20, "opencl": 1 << 20}  # to fill, where a queue shall lag
LAYOUTS: list[tuple[tuple[int, ...], Any]] = [((4,), np.float32), ((), np.int32), ((4,), np.int32)]


def drawn(rank: int, which: int, number: int, seed: int) -> NDArray[Any]:
    """Return what a rank's array holds in a round: bits of every kind, NaNs among them."""
    shape, dtype = LAYOUTS[which]
    rng = np.random.default_rng([seed, rank, which, number])
    bits = rng.integers(0, 2**32, (ROWS, *shape), dtype=np.uint32)
    return bits.view(dtype)


def ring(device: Device, transport: Transport, ranks: Ranks, seed: int) -> None:
    """Send halos to both neighbours, ends first and last rows, as slabs do."""
    left, right = (ranks.rank - 1) % ranks.size, (ranks.rank + 1) % ranks.size
    for number in range(ROUNDS):
        rows = 1 + number * 61
        host = drawn(ranks.rank, 0, number, seed)
        array = device.upload(host)
        # Two ranks are each other's neighbour on both sides: their parcels match in order.
        transport.begin(
            [Parcel(left, array, rows, rows), Parcel(right, array, ROWS - 2 * rows, rows)],
            [Parcel(right, array, ROWS - rows, rows), Parcel(left, array, 0, rows)],
        )
        transport.finish()
        host[ROWS - rows :] = drawn(right, 0, number, seed)[rows : 2 * rows]
        host[:rows] = drawn(left, 0, number, seed)[ROWS - 2 * rows : ROWS - rows]
        same(device.download(array), host, f"ring, round {number}")


def at_random(device: Device, transport: Transport, ranks: Ranks, seed: int) -> None:
    """Exchange parcels of any size, none among them, between any two ranks.

    The same arrays serve all rounds: each round first overwrites them on the device, and copies
    what came before the next overwrites it. The queues of some ranks lag behind the others', so
    that a row which is read or written out of order is a wrong one.
    """
    busy = device.empty(BUSY_BYTES[device.backend], np.uint8)
    lags = np.random.default_rng([seed, ranks.rank]).integers(0, 2, (ROUNDS, 2)) * 20
    arrays = [device.empty((ROWS, *shape), dtype) for shape, dtype in LAYOUTS]
    targets = [device.empty((ROWS, *shape), dtype) for shape, dtype in LAYOUTS]
    fresh = [
        [device.upload(drawn(ranks.rank, which, number, seed)) for which in range(len(LAYOUTS))]
        for number in range(ROUNDS)
    ]
    kept = [
        [device.empty((ROWS, *shape), dtype) for shape, dtype in LAYOUTS] for _ in range(ROUNDS)
    ]
    expected = []
    for number in range(ROUNDS):
        sends, receives = [], []
        for _ in range(lags[number, 0]):
            device.fill(busy, 0)
        for which, (array, target) in enumerate(zip(arrays, targets, strict=True)):
            device.copy(fresh[number][which], array)
            device.fill(target, 0)
            expected.append(np.zeros(target.shape, target.dtype))
            # Every rank draws the whole pattern, so that sender and receiver agree.
            rng = np.random.default_rng([seed, number, which])
            ends = [0] * ranks.size  # rows received so far
            for sender, receiver in rng.integers(0, ranks.size, (3 * ranks.size, 2)).tolist():
                wanted, first = rng.integers([-ROWS, 0], [ROWS, ROWS]).tolist()  # half: no rows
                rows = max(0, min(wanted, ROWS - first, ROWS - ends[receiver]))
                if sender == receiver:
                    continue
                at = ends[receiver]
                ends[receiver] += rows
                if ranks.rank == sender:
                    sends.append(Parcel(receiver, array, first, rows))
                if ranks.rank == receiver:
                    receives.append(Parcel(sender, target, at, rows))
                    sent = drawn(sender, which, number, seed)[first : first + rows]
                    expected[-1][at : at + rows] = sent
        transport.begin(sends, receives)
        for _ in range(lags[number, 1]):
            device.fill(busy, 0)
        transport.finish()
        for source, copy in zip(targets, kept[number], strict=True):
            device.copy(source, copy)
        for array in arrays:  # what was sent may be overwritten now
            device.fill(array, 0xFF)
    got = [device.download(array) for arrays in kept for array in arrays]
    for number, (have, want) in enumerate(zip(got, expected, strict=True)):
        same(have, want, f"at random, array {number}")


def sums(device: Device, transport: Transport, ranks: Ranks, seed: int) -> None:
    """Add up whole numbers, whose sums are exact in float32, between exchanges."""
    for number, shape in enumerate([(1000, 4), (3,), (0, 4)]):
        summands = [
            np.random.default_rng([seed, number, rank]).integers(-9999, 9999, shape)
            for rank in range(ranks.size)
        ]
        array = device.upload(summands[ranks.rank].astype(np.float32))
        transport.begin([], [])
        transport.add_up(array)
        transport.finish()
        same(device.download(array), np.sum(summands, axis=0, dtype=np.float32), f"sum {number}")


def same(have: NDArray[Any], want: NDArray[Any], what: str) -> None:
    """Raise AssertionError unless two arrays are equal to the bit."""
    wrong = np.flatnonzero(have.reshape(-1).view(np.uint32) != want.reshape(-1).view(np.uint32))
    if have.shape != want.shape or wrong.size:
        raise AssertionError(f"{what}: {wrong.size} of {want.size} numbers differ, {wrong[:4]}")


def main() -> None:
    spec, name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ranks = Ranks.join()
    with ends_all(ranks):
        gpus = ranks.local_size if spec.startswith("cuda") else None
        device = open_device(device_spec(ranks, spec, False, gpus))
        transport = open_transport(name, device, ranks)
    with device:
        with ends_all(ranks):
            for check in (ring, at_random, sums):
                check(device, transport, ranks, seed)
        print(f"{ranks} {transport.name}: intact\n", end="", flush=True)
        transport.close()


if __name__ == "__main__":
    main()
