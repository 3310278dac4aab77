"""PyTorch as the oracle: what it saved is listed as it is, and packages that were rewritten load."""

from __future__ import annotations

import argparse
import gzip
import io
import pickle
import struct
import tarfile
import warnings
import zipfile
import zlib
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.describe.listing import listed
from archive.reader.recognition import FileKind, recognise
from archive.rewrite.migrate.migrate import migrate
from tests.support.corpus import KINDS
from tests.support.sampling import examples
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PACKAGE = KINDS / "package.pt"
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16),
    *(torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32),
    *(torch.uint64, torch.float8_e5m2, torch.float8_e4m3fn),
]
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
TENSORS = st.builds(
    lambda dtype, shape: torch.zeros(shape, dtype=dtype),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
)


def parameter(tensor: Any) -> Any:  # noqa: ANN401 (PyTorch's)
    return torch.nn.Parameter(tensor, requires_grad=False)


PROTOCOLS = st.integers(2, 5)


def saved(value: object, protocol: int) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, pickle_protocol=protocol)
    return out.getvalue()


@settings(max_examples=examples(50))
@given(st.dictionaries(NAMES, TENSORS | TENSORS.map(parameter), min_size=1), PROTOCOLS)
def test_tensors_are_listed_as_they_are(tensors: dict[str, Any], protocol: int) -> None:
    facts = listed(saved(tensors, protocol))
    assert facts.kind is FileKind.STATE_DICT
    assert {name: (tensor.dtype, tensor.shape, tensor.bytes) for name, tensor in facts.tensors.items()} == {
        name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.nbytes)
        for name, tensor in tensors.items()
    }


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | TENSORS
OBJECTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=8,
)


def tensors_of(value: object) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in tensors_of(item)]


@settings(max_examples=examples(50))
@given(OBJECTS, PROTOCOLS, st.booleans())
def test_whatever_is_saved_can_be_named_and_its_tensors_counted(
    value: object,
    protocol: int,
    new: bool,  # noqa: FBT001 (a drawn value)
) -> None:
    out = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):
        torch.save(value, out, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
    found = recognise(out.getvalue())
    assert "cannot be read" not in found.what
    if not new:
        assert found.kind is FileKind.LEGACY
        return
    shapes = sorted(tuple(tensor.shape) for tensor in tensors_of(value))
    assert sorted(tensor.shape for tensor in listed(out.getvalue()).tensors.values()) == shapes


def test_modules_are_listed_as_their_state_dict() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 1))
    facts = listed(saved(model, 2))
    assert facts.what == "a whole module of class torch.nn.modules.container.Sequential, saved by torch.save"
    assert set(facts.tensors) == set(model.state_dict())  # and no other names, which an LSTM has
    assert (
        listed(saved(model.state_dict(), 2)).what
        == f"a state dict of {len(model.state_dict())} tensors, saved by torch.save"
    )


def test_attributes_of_modules_are_listed_last() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 3))
    model[0].mask, model.heads = torch.ones(4), [torch.nn.Linear(1, 5)]
    model[0].__dict__["same"] = model[1].weight
    shapes = {name: tensor.shape for name, tensor in listed(saved(model, 2)).tensors.items()}
    others = {"heads.0.weight": (5, 1), "heads.0.bias": (5,), "0.mask": (4,)}
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert shapes == {**own, **others}
    assert set(list(shapes)[: len(own)]) == set(own)


class Wrapped:
    """A tensor, saved as a parameter of a parameter."""

    def __reduce__(self) -> tuple[object, ...]:
        return torch._utils._rebuild_parameter, (Inner(), False, {})


class Inner:
    def __reduce__(self) -> tuple[object, ...]:
        return torch._utils._rebuild_parameter, (torch.ones(2, 3), False, {})


def test_tensors_are_found_inside_of_what_wraps_them() -> None:
    facts = listed(saved({"weight": Wrapped()}, 2))
    assert facts.kind is FileKind.STATE_DICT
    (tensor,) = facts.tensors.values()
    assert (tensor.dtype, tensor.shape, tensor.bytes) == ("float32", (2, 3), 24)


def test_paths_are_bounded() -> None:
    value: object = torch.ones(1)
    for _ in range(100):
        value = {"k" * 100: value, "here": torch.ones(1)}
    found = listed(saved(value, 2)).tensors
    assert len(found) == 101  # a long one is its end, and numbered where another has the same
    assert max(map(len, found)) < 2 * 512


def test_tensors_of_many_objects_are_found_each() -> None:
    names = {f"n{at}": argparse.Namespace(tensor=torch.ones(at)) for at in range(50)}
    sparse = {f"s{at}": torch.eye(at + 1).to_sparse() for at in range(50)}
    tensors = listed(saved({**names, **sparse, "tied": sparse["s3"]}, 2)).tensors
    assert [tensors[f"n{at}.tensor"].shape for at in range(50)] == [(at,) for at in range(50)]
    assert [tensors[f"s{at}.values"].shape for at in range(50)] == [(at + 1,) for at in range(50)]
    assert tensors["tied.indices"].shape == (2, 4)
    assert len(tensors) == 50 + 2 * 51


def test_tensors_that_are_attributes_of_tensors_are_found() -> None:
    weight, rows = torch.nn.Parameter(torch.ones(2)), torch.ones(3)
    weight.scale, rows.sums = torch.ones(4), {"all": torch.ones(5)}
    tensors = listed(saved({"weight": weight, "rows": rows}, 2)).tensors
    shapes = {"weight": (2,), "weight.scale": (4,), "rows": (3,), "rows.sums.all": (5,)}
    assert {name: tensor.shape for name, tensor in tensors.items()} == shapes


class Rows(torch.Tensor):  # type: ignore[name-defined]
    """A class of tensors."""


class OfClass:
    """A tensor of a class, as PyTorch saved it before it kept other states than dicts."""

    def __reduce__(self) -> tuple[object, ...]:
        function, arguments = torch.ones(2, 3).__reduce_ex__(2)
        return torch._tensor._rebuild_from_type, (function, Rows, arguments, {"note": torch.ones(4)})


@pytest.mark.parametrize("module", [b"torch._tensor", b"torch.tensor"])
def test_tensors_of_classes_are_found_as_older_releases_saved_them(module: bytes) -> None:
    data = saved({"w": OfClass()}, 2)
    data = tampered(
        data, {"data.pkl": lambda pickle: pickle.replace(b"ctorch._tensor\n", b"c" + module + b"\n")}
    )
    assert type(torch.load(io.BytesIO(data), weights_only=False)["w"]) is Rows
    facts = listed(data)
    assert facts.kind is FileKind.STATE_DICT
    assert {name: tensor.shape for name, tensor in facts.tensors.items()} == {"w": (2, 3), "w.note": (4,)}


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_key_of_bytes_has_one_name_whatever_the_protocol(protocol: int) -> None:
    assert list(listed(saved({b"a\xff": torch.ones(1)}, protocol)).tensors) == ["b'a\\xff'"]


def test_paths_that_are_the_same_are_numbered() -> None:
    tensors = listed(saved({"a.b": torch.ones(1), "a": {"b": torch.ones(2)}}, 2)).tensors
    assert {path: tensor.shape for path, tensor in tensors.items()} == {"a.b": (1,), "a.b (2)": (2,)}


def rewritten(folder: Path) -> dict[str, Path]:
    """The package, as each command leaves it."""
    names = ("split", "companion", "joined", "shrunk", "embedded", "migrated")
    paths = {name: folder / f"{name}.pt" for name in names}
    archive.split(PACKAGE, paths["split"], paths["companion"])
    archive.join(paths["split"], paths.pop("companion"), paths["joined"])
    archive.shrink(PACKAGE, paths["shrunk"])
    archive.shrink(PACKAGE, paths["embedded"], level="embed")
    migrate(PACKAGE, paths["migrated"], to="1.9")
    return paths


def failing(path: Path) -> tuple[list[float], str]:
    """What the module of a package gives, and the text that it fails with."""
    module = torch.package.PackageImporter(str(path)).load_pickle("model", "model.pkl")
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(1, 7))
    return module(torch.ones(1, 3)).tolist(), str(caught.value)


def test_packages_that_were_rewritten_load_and_fail_with_the_same_source(tmp_path: Path) -> None:
    result, text = failing(PACKAGE)
    assert 'File "models/net.py", line 13, in forward' in text
    for name, path in rewritten(tmp_path).items():
        assert failing(path)[0] == result
        if name in ("joined", "shrunk", "migrated"):
            assert failing(path)[1] == text
        else:
            assert "models/net.py" not in failing(path)[1]


def test_of_a_name_that_a_pickle_sets_twice_the_last_stays_as_pytorch_has_it() -> None:
    data = saved({"j": torch.zeros(2), "k": torch.ones(3)}, 2)
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        pickle = opened.read("archive/data.pkl")
    renamed = pickle.replace(b"X\x01\x00\x00\x00j", b"X\x01\x00\x00\x00k")
    data = data.replace(pickle, renamed)
    data = data.replace(struct.pack("<I", zlib.crc32(pickle)), struct.pack("<I", zlib.crc32(renamed)))
    assert torch.load(io.BytesIO(data))["k"].shape == (3,)
    assert {name: tensor.shape for name, tensor in listed(data).tensors.items()} == {"k": (3,)}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_torch_save_and_torch_jit_save_describe_a_tensor_equally(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    scales, points = torch.full((4,), 0.5, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    tensors = {
        "whole": base,
        "part": base[1:, ::2],
        "turned": base.T,
        "number": torch.tensor(7),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "negated": torch.view_as_complex(torch.ones(3, 2)).conj().imag,
        "steps": torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 3, torch.quint8),
        "channels": torch.quantize_per_channel(base, scales, points, 0, torch.qint8),
    }
    module = torch.jit.script(torch.nn.Module())
    for name, tensor in tensors.items():
        module._c._register_attribute(name, torch._C.TensorType.get(), tensor)
    torch.jit.save(module, tmp_path / "script.pt")
    torch.save(tensors, tmp_path / "saved.pt")
    with archive.open(tmp_path / "script.pt") as script, archive.open(tmp_path / "saved.pt") as plain:
        assert {*tensors} < {*plain.tensors} == {*script.tensors}
        for name, tensor in plain.tensors.items():
            other = script.tensors[name]
            assert other.in_storage(tensor.record) == tensor, name
            assert tensor.device == "cpu"
            pair = (b"".join(one.tensors.elements(name)) for one in (script, plain))
            assert len({*pair}) == 1


TAR = {
    "sys_info": pickle.dumps({"protocol_version": 1000, "little_endian": True, "type_sizes": {}}, 2),
    "pickle": pickle.dumps({"epoch": 3}, 2),
    "storages": pickle.dumps(0, 2) + pickle.dumps([], 2),
    "tensors": pickle.dumps(0, 2),
}
"""The files of a tar as PyTorch 0.3 wrote it, of an object without tensors."""


def in_tar(names: Iterable[str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = len(TAR[name])
            tar.addfile(entry, io.BytesIO(TAR[name]))
    return file.getvalue()


def test_of_a_tar_it_is_said_that_torch_load_reads_it_if_it_does(tmp_path: Path) -> None:
    """With any of its files missing, and cut short in each of them. PyTorch reads tars from disk only."""
    whole = in_tar(TAR)
    assert "around a tar saved by torch.save" in recognise(gzip.compress(whole)).what
    parts = [in_tar(names) for count in range(1, 5) for names in combinations(TAR, count)]
    cuts = [whole[:stop] for stop in range(512, 8 * 512 + 1, 256)]
    read, path = 0, tmp_path / "model.pt"
    for data in (*parts, *cuts):
        recognised = recognise(io.BytesIO(data))
        assert recognised.kind in {FileKind.LEGACY_TAR, FileKind.LEGACY_TAR_PART}
        is_said = recognised.kind is FileKind.LEGACY_TAR
        assert is_said == ("reads it" in recognised.advice)
        try:
            path.write_bytes(data)
            loaded = torch.load(path, weights_only=False)
        except (KeyError, EOFError, OSError, RuntimeError, tarfile.TarError, pickle.UnpicklingError):
            loaded = None
        assert (loaded == {"epoch": 3}) == is_said, recognised
        assert is_said or "cannot read it without" in recognised.advice
        read += is_said
    assert read >= 2
