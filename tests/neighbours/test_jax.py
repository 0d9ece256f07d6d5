"""Arrays of JAX in host memory: searched without a copy, and answered by arrays that it takes."""

from __future__ import annotations

import needs
import numpy as np
import pytest

from gpubench import NeighbourList
from gpubench.base.errors import UserError

jax = pytest.importorskip("jax", reason=needs.reason("JAX"))
jnp = jax.numpy

EDGES = (5.0, 4.0, 7.0)
X = (np.random.default_rng(0).random((200, 3)) * EDGES).astype(np.float32)


@pytest.mark.parametrize("more", [{}, {"half": True}, {"order": "cells"}, {"capacity": 9000}])
def test_a_search_of_jax_is_that_of_numpy(more):
    x, search = jnp.asarray(X), NeighbourList(1.0, EDGES, True, **more)
    found, plain = search(x), search(X)
    assert np.shares_memory(found._positions.owner, np.asarray(x))
    mine, theirs = (jnp.from_dlpack(each.neighbours) for each in (found, plain))
    assert isinstance(mine, jax.Array) and mine.dtype == jnp.int32
    assert mine.shape == theirs.shape
    assert np.array_equal(jnp.from_dlpack(search.count(x)), search.count(X))
    for name in ("pairs", "vectors", "distances"):
        out = jnp.from_dlpack(getattr(found, name)())
        assert out.shape == getattr(plain, name)().shape
    assert np.array_equal(jnp.from_dlpack(found.offsets), plain.offsets)


def test_all_that_a_call_takes_is_taken_of_jax():
    x, search = jnp.asarray(X), NeighbourList(1.0, EDGES, True, sort=True)
    table = NeighbourList(jnp.array([[1.0, 0.5], [0.5, 0.8]]), EDGES, True, sort=True)
    plain = NeighbourList(np.float32([[1.0, 0.5], [0.5, 0.8]]), EDGES, True, sort=True)
    radii, species, box = np.full(200, 0.4, np.float32), np.arange(200) % 2, np.float32(EDGES)
    for mine, theirs in (
        (search(x, queries=x[:9] + 0.1), search(X, queries=X[:9] + np.float32(0.1))),
        (search(x, radii=jnp.asarray(radii)), search(X, radii=radii)),
        (search(x, box=jnp.asarray(box)), search(X, box=box)),
        (search(x, cell=jnp.asarray(0.9 * box)), search(X, box=0.9 * box)),
        (table(x, species=jnp.asarray(species)), plain(X, species=species)),
    ):
        assert len(mine) > 0
        assert np.array_equal(jnp.from_dlpack(mine.matrix()[0]), theirs.matrix()[0])


def test_a_search_within_what_is_compiled():
    """A tracer is no array: the search is a callback."""
    search = NeighbourList(1.0, EDGES, True)

    @jax.jit
    def counts(x):
        shape = jax.ShapeDtypeStruct((len(x),), jnp.int32)
        return 2 * jax.pure_callback(search.count, shape, x)

    assert np.array_equal(counts(jnp.asarray(X)), 2 * search.count(X))
    with pytest.raises(UserError, match=r"positions take an array .*, not DynamicJaxprTracer"):
        jax.jit(search.count)(jnp.asarray(X))
