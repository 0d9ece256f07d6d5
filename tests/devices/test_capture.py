"""The stream that CuPy works in while a graph is captured, and after: with streams as CuPy's."""

from types import SimpleNamespace

import pytest

from gpubench.devices.cuda import CUDADevice, CUDAGraph
from gpubench.distributed.team import Team


class Streams:
    """CuPy's current stream: `with` brings back the last that it entered, not what `use` set."""

    def __init__(self):
        self.entered = [Stream(self)]
        self.current = self.entered[0]


class Stream:
    def __init__(self, streams):
        self.streams, self.captures = streams, False

    def use(self):
        self.streams.current = self

    def __enter__(self):
        self.streams.entered.append(self)
        self.use()

    def __exit__(self, *raised):
        self.streams.entered.pop()
        self.streams.entered[-1].use()

    def begin_capture(self):
        self.captures = True

    def end_capture(self):
        self.captures = False
        return SimpleNamespace(upload=lambda stream: None)


@pytest.fixture
def streams():
    return Streams()


@pytest.fixture
def device(streams):
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: streams.current))
    return SimpleNamespace(_cupy=cupy, _cupy_stream=Stream(streams), team=None)


@pytest.mark.parametrize("is_latest", [True, False], ids=["own", "of another device"])
def test_a_capture_is_in_the_devices_stream_and_leaves_the_one_that_was_used(
    streams, device, is_latest
):
    used = device._cupy_stream if is_latest else Stream(streams)
    used.use()
    seen = []
    CUDADevice.capture(device, lambda: seen.append((streams.current, streams.current.captures)))
    assert seen == [(device._cupy_stream, True)]
    assert streams.current is used
    assert not device._cupy_stream.captures


def test_work_that_fails_ends_the_capture_and_leaves_the_stream(streams, device):
    device._cupy_stream.use()
    with pytest.raises(ZeroDivisionError):
        CUDADevice.capture(device, lambda: 1 // 0)
    assert streams.current is device._cupy_stream and not device._cupy_stream.captures


def test_steps_that_ranks_share_are_noted_in_place_of_a_capture(streams, device):
    """Each rank replays graphs of its own, so that all are told of each replay."""
    ranks = SimpleNamespace(comm=SimpleNamespace(Dup=lambda: None))
    device.team = team = Team(ranks, device, None, None)
    device._cupy_stream.use()
    told = []
    one, other = (
        SimpleNamespace(advance=lambda steps, name=name: told.append((name, steps)))
        for name in ("one", "other")
    )

    def work():
        assert all(team.notes(shared, 2) for shared in (one, one, one, other, one))

    graph = CUDADevice.capture(device, work)
    assert told == [] and not team.notes(one, 1)
    graph.launch()
    graph.launch()
    assert told == 2 * [("one", 6), ("other", 2), ("one", 2)]
    assert isinstance(CUDADevice.capture(device, lambda: None), CUDAGraph)
