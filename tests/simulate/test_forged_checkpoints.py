"""Checkpoints that may come from anywhere: one line for whatever is wrong with them."""

from __future__ import annotations

import copy
import io
import json
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.simulate import checkpoint
from gpubench.simulate.setup import Setup, settle

# Bodies, two columns, and species in each particle.
SETUPS = [
    Setup("sph-rigid-body", 600),
    Setup("dpd-separation", 200, parameters={"integrator": "leap-frog"}),
]
SEEDED = settings(derandomize=True, database=None, max_examples=100)


class Forger:
    """A checkpoint of a workload, in parts that can be changed."""

    def __init__(self, workload, path):
        self.workload, self.path = workload, path
        workload.advance(3)
        seen = {"step": 0, "time": 0.0, "energy": float("nan")}
        checkpoint.save(path, workload, [seen], checkpoint.new_run())
        self.content = path.read_bytes()
        with np.load(path) as arrays:
            self.arrays = dict(arrays)
        self.header = json.loads(str(self.arrays.pop("header")))
        self.setup = checkpoint.load(path).setup

    def write(self, header=None, **arrays):
        told = np.array(json.dumps(self.header if header is None else header))
        parts = {"header": told, **self.arrays, **arrays}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a dtype that NumPy will refuse one day
            np.savez(self.path, **{n: a for n, a in parts.items() if a is not None})

    def attempt(self):
        """Resume as the command does; return whether the checkpoint was taken."""
        try:
            saved = checkpoint.load(self.path)
            setup = settle(self.setup.workload, {}, [], saved.setup)
            if setup == self.setup:
                saved.resume(self.workload)
                self.workload.snapshot()
                self.workload.advance(1)
                self.workload.require_sound()
        except UserError as error:
            assert "\n" not in str(error).replace(json.dumps("\n"), "")
            return False
        return True


@pytest.fixture(scope="module")
def forgers(open_once, tmp_path_factory):
    folder, device = tmp_path_factory.mktemp("forged"), open_once("opencl:intel")
    return [Forger(setup.make(device), folder / f"{setup.workload}.npz") for setup in SETUPS]


@pytest.fixture(scope="module")
def forger(forgers):
    return forgers[0]


@pytest.fixture(scope="module", params=[0, 1], ids=[setup.workload for setup in SETUPS])
def each_forger(forgers, request):
    return forgers[request.param]


def test_what_was_saved_is_taken(each_forger):
    each_forger.write()
    assert each_forger.attempt()
    assert each_forger.workload.step == 4


def places_in(told, before=()):
    """Yield the way to each value of nested dicts and lists."""
    pairs = told.items() if isinstance(told, dict) else enumerate(told)
    for name, value in pairs:
        yield (*before, name)
        if isinstance(value, dict | list):
            yield from places_in(value, (*before, name))


NASTY = [
    None, True, -1, 0, 2**31, 2**63, 10**30, 10**400, 1.5, 1e308, float("nan"), float("inf"), "",
    "x" * 3000, "\0", "\ud800", [], [1], {}, {"a": 1}, [[[]]], "left out",
]  # fmt: skip


@SEEDED
@given(data=st.data())
def test_any_header_is_taken_or_refused_in_one_line(forger, data):
    header = copy.deepcopy(forger.header)
    *way, last = data.draw(st.sampled_from(list(places_in(header))))
    value = data.draw(st.sampled_from(NASTY))
    parent = header
    for name in way:
        parent = parent[name]
    if value == "left out":
        del parent[last]
    else:
        parent[last] = value
    forger.write(header)
    forger.attempt()


def changed_shape(array):
    return st.sampled_from(
        [None, array[None], array.ravel(), array[..., None], array.ravel()[:0], array[:-1]]
        if array.ndim
        else [None, array[None], array[None][:0]]
    )


def changed_dtype(array):
    dtypes = ["f8", ">f4", ">u4", "i8", "u8", "c16", "?", "U5", "S4", "O", "V8", "f4,i4", "M8[s]"]
    different = [dtype for dtype in map(np.dtype, dtypes) if dtype != array.dtype]
    return st.sampled_from(different).map(lambda dtype: np.zeros(array.shape, dtype))


@SEEDED
@given(data=st.data())
def test_an_array_of_another_shape_or_type_is_refused(each_forger, data):
    name = data.draw(st.sampled_from(sorted(each_forger.arrays)))
    array = each_forger.arrays[name]
    other = data.draw(changed_shape(array) | changed_dtype(array))
    each_forger.write(**{name: other})
    assert not each_forger.attempt()


def bits(word):
    """Return the float32 with the bits of a whole number."""
    return np.array(word).astype(np.uint32).view(np.float32)


OUTSIDE, STILL = "bodies outside the box", "motion is no finite number"
SPOILT = {
    "sph-rigid-body": [
        ("velocities", (7, 1), np.nan, "velocities that are no finite numbers"),
        ("places", (slice(2), 3), 8, "lacks particle"),
        ("places", (7, 3), 2**32 - 1, "lacks particle"),
        ("places", (7, 2), 2**32 - 1, "outside its box"),
        ("bodies", (1, 0, 2), bits(2**31), OUTSIDE),
        ("bodies", (1, 0, 3), bits(2), OUTSIDE),
        ("bodies", (1, 1), 0, STILL),
        ("bodies", (1, 3, 2), np.nan, STILL),
    ],
    "dpd-separation": [
        ("drags", (7, 2), -np.inf, "drags that are no finite numbers"),
        ("drags", (7, 3), bits(2), "unknown species"),
        ("velocities", (7, 3), bits(2**32 - 1), "unknown species"),
    ],
}


def test_values_that_no_step_leads_to_are_refused(each_forger):
    for name, index, value, message in SPOILT[each_forger.setup.workload]:
        array = each_forger.arrays[f"state.{name}"].copy()
        array[index] = value
        each_forger.write(**{f"state.{name}": array})
        saved = checkpoint.load(each_forger.path)
        with pytest.raises(UserError, match=message):
            saved.resume(each_forger.workload)


@pytest.mark.parametrize(
    ("step", "header", "message"),
    [(-1, {}, "step below 0"), (2, {}, "is of step 3, but its state of step 2"),
     (-1, {"step": -1}, "no whole checkpoint")],
)  # fmt: skip
def test_impossible_steps_are_refused(forger, step, header, message):
    forger.write({**forger.header, **header}, **{"state.step": np.array(step)})
    with pytest.raises(UserError, match=message):
        checkpoint.load(forger.path).resume(forger.workload)


@SEEDED
@given(data=st.data())
def test_any_bytes_are_taken_or_refused_in_one_line(forger, data):
    content = bytearray(forger.content)
    for _ in range(data.draw(st.integers(1, 3))):
        # The directory of the archive is at its end.
        at = data.draw(st.integers(0, len(content)) | st.integers(len(content) - 500, len(content)))
        content[at : at + data.draw(st.sampled_from([0, 1, 4, 3000]))] = data.draw(
            st.binary(max_size=8)
        )
    forger.path.write_bytes(content)
    forger.attempt()


def npy(kind, shape, data=b""):
    """Return an .npy file that says what it likes."""
    told = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told + data


class Unpickled:
    """What must never be made."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle ran",))


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([Unpickled()]), allow_pickle=True)
    return file.getvalue()


BOMBS = {
    "larger than memory": npy("<f4", (2**60, 4)),
    "larger than the file": npy("<f4", (2**28, 4), bytes(100)),
    "many digits": npy("<f4", f"({'9' * 3000},)"),
    "negative": npy("<f4", (-(2**20), -(2**20))),
    "items of no bytes": npy("|V0", (2**60,)),
    "texts of no letters": npy("<U0", (2**60,)),
    "a long text": npy("<U999999999", (1,)),
    "objects": npy("|O", (1,)),
    "nested": npy("<f4", "(" * 3000),
    "empty": b"",
}


@pytest.mark.parametrize("bomb", [*BOMBS, "pickled", "compressed"])
def test_no_more_memory_is_taken_than_the_file_has(forger, bomb):
    compression = zipfile.ZIP_STORED
    if bomb == "pickled":
        content = pickled()
    elif bomb == "compressed":
        rows = forger.setup.particles
        content = npy("<f4", (rows, 4, 2**10), bytes(rows * 2**14))
        compression = zipfile.ZIP_DEFLATED
    else:
        content = BOMBS[bomb]
    forger.write(**{"state.velocities": None})
    with zipfile.ZipFile(forger.path, "a") as archive:
        archive.writestr("state.velocities.npy", content, compression)
    del content
    tracemalloc.start()
    try:
        assert not forger.attempt()
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_members_that_overlap_are_refused(forger):
    """One array, counted twice, would be read twice."""
    forger.write()
    with zipfile.ZipFile(forger.path, "a") as archive:
        again = copy.copy(archive.getinfo("state.places.npy"))
        again.filename = "state.velocities.npy"
        archive.filelist.append(again)
        archive._didModify = True
    assert not forger.attempt()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": "dpd-standart"}, "did you mean dpd-standard"),
        ({"algorithm": "sort"}, "no algorithm 'sort'"),
        ({"form": "sideways"}, "no form of counting-sort 'sideways'"),
        ({"parameters": {"colour": 1}}, "no parameter 'colour'"),
        ({"parameters": {"time_step": "x"}}, "time_step takes a finite number"),
        ({"particles": 0}, "number of particles must be"),
        ({"particles": 2**30}, "no whole checkpoint"),
        ({"seed": -1}, "seed must be"),
        ({"skin": float("nan")}, "skin must be"),
    ],
)
def test_a_setup_that_cannot_be_made_is_refused(forger, changes, message):
    forger.write({**forger.header, "setup": {**forger.header["setup"], **changes}})
    with pytest.raises(UserError, match=message):
        checkpoint.load(forger.path)


def test_a_checkpoint_of_before_ids_is_taken(forger):
    older = {name: value for name, value in forger.header.items() if name != "run"}
    forger.write(older)
    assert checkpoint.load(forger.path).run is None
    assert forger.attempt()


def test_a_half_step_temperature_of_before_is_not_taken_for_one_of_full_steps(each_forger):
    older = {"step": 0, "time": 0.0, "kinetic_temperature": 1.07}
    now = {**older, "step": 1, "kinetic_temperature": 1.03, "half_step_temperature": 1.06}
    each_forger.write({**each_forger.header, "observations": [older, now]})
    seen = checkpoint.load(each_forger.path).observations
    if each_forger.setup.workload.startswith("dpd-"):
        older["half_step_temperature"] = older.pop("kinetic_temperature")
    assert seen == [older, now]
