"""Launches that name their arguments."""

from __future__ import annotations

import numpy as np
import pytest

from gpubench.devices import Device
from gpubench.devices.named import NamedKernel, parameters_of


def test_names_are_those_of_the_source():
    names = "positions start order grid cutoff2 slack particles counts"
    assert parameters_of("neighbour_sorted_count.cu", "count") == tuple(names.split())
    with pytest.raises(ValueError, match="has 0 lists of parameters for nothing"):
        parameters_of("neighbour_sorted_count.cu", "nothing")


def test_arguments_go_where_their_names_are(device: Device):
    gather = NamedKernel(device, "gather.cu", "gather", BLOCK=64)
    positions = np.arange(40, dtype=np.float32).reshape(10, 4)
    order = np.arange(10, dtype=np.int32)[::-1].copy()
    gathered = device.empty((10, 4), "float32")
    names = parameters_of("gather.cu", "gather")
    arrays = [device.upload(order), device.upload(positions), gathered]
    given = dict(reversed([*zip(names, [*arrays, 10], strict=True)]))
    gather(1, 64, **given)
    assert (device.download(gathered) == positions[::-1]).all()
    with pytest.raises(TypeError, match=r"gather of gather.cu takes .*; wrong: more"):
        gather(1, 64, **given, more=1)
    given.pop(names[0])
    with pytest.raises(TypeError, match=f"wrong: {names[0]}"):
        gather(1, 64, **given)
