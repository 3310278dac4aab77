"""Values of ``data.pkl``: inert, tensors as descriptions, and the lowered modules among them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError, LimitError, Limits
from archive.base.limits import DEFAULT_LIMITS
from archive.container.write import new_member
from archive.debuginfo.model import Generation
from archive.formats.tensors.tensor import Tensor
from archive.pickles.values import Global, Inert
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.plain import RANGES, archive_of
from tests.support.protobuf import field, onnx_model, onnx_tensor
from tests.support.strategies import PROTO, STOP, get, put, text
from tests.support.tampering import packed

if TYPE_CHECKING:
    from pathlib import Path

    from archive.debuginfo.model import LoweredState


# --- lowered modules


def lowered(path: Path) -> LoweredState:
    with archive.open(path) as opened:
        (state,) = opened.lowered.values()
        assert opened.lowered == {state.path: state}
        assert opened.generations["data.pkl"] == state.generation
        return state


@pytest.mark.parametrize(
    ("name", "path", "original", "generation", "handles"),
    [
        ("torch-1.6.0/lowered-testbackend.pt", "", None, Generation.LOWERED_2, 0),
        ("torch-1.8.0/lowered-host.pt", "low", None, Generation.LOWERED_2, 0),
        ("torch-1.9.0/lowered-host.ptl", "low", None, Generation.LOWERED_3, 0),
        ("torch-1.10.0/lowered.pt", "", "__torch__.models.AddTree", Generation.LOWERED_3, 6),
        ("torch-1.10.0/lowered-host.ptl", "low", "__torch__.models.AddTree", Generation.LOWERED_3, 6),
        ("torch-1.11.0/lowered.pt", "__loweredModule__", "__torch__.models.AddTree", Generation.LOWERED_3, 6),
        (
            *("torch-2.13.0/lowered-host.pt", "low.__loweredModule__", "__torch__.models.AddTree"),
            *(Generation.LOWERED_3, 6),
        ),
    ],
)
def test_lowered_modules_are_found_by_their_attribute_path(
    name: str, path: str, original: str | None, generation: Generation, handles: int
) -> None:
    state = lowered(RELEASES / name)
    backend = "test_backend" if "testbackend" in name else "backend_with_compiler_demo"
    assert (state.path, state.backend, state.original) == (path, backend, original)
    assert (state.generation, state.wrapped) == (generation, path.endswith("__loweredModule__"))
    assert state.create_backend is (True if generation is Generation.LOWERED_3 else None)
    assert len(state.handles) == handles
    assert set(state.handles) <= set(range(10))
    assert isinstance(state.method_compile_spec, dict)
    assert isinstance(state.processed, dict) or name.startswith("torch-1.6.0")


def test_lowered_modules_may_hang_anywhere() -> None:
    module = (
        b"ctorch.jit\nLoweredModule.b.__torch__.M\n)\x81"
        + text(b"s")
        + text(b"<debug_handle>7")
        + b"\x88\x87b"
    )
    nested = b"cm\nTop\n)\x81}(" + text(b"a") + b"](" + b"N" + module + put(9) + b"e"
    nested += text(b"b") + b"}(" + text(b"k") + module + b"u" + text(b"again") + get(9) + b"ub"
    with archive_of(data=PROTO + nested + STOP) as opened:
        assert list(opened.lowered) == ["a[1]", "b['k']"]
        assert [state.handles for state in opened.lowered.values()] == [(7,), (7,)]


LOWERED = b"ctorch.jit\nLoweredModule.b.__torch__.M\n"


def test_blobs_that_many_modules_hold_are_searched_once() -> None:
    blob = text(b"<debug_handle>7" * 20_000) + put(0)
    first = LOWERED + put(1) + b")\x81N" + blob + b"\x88\x87b"
    again = get(1) + b")\x81N" + get(0) + b"\x88\x87b"
    with archive_of(data=PROTO + b"(" + first + again * 100 + b"t" + STOP) as opened:
        assert {len(state.handles) for state in opened.lowered.values()} == {20_000}
    said = r"made\.pt: data\.pkl: memory is limited to [0-9,]+, found [0-9,]+ with values and handles in l"
    many = PROTO + b"(" + first + again * 1000 + b"t" + STOP
    with archive_of(data=many) as opened, pytest.raises(LimitError, match=said):
        _ = opened.lowered


def test_attribute_paths_are_as_long_as_can_be_shown() -> None:
    for length in (3000, 5000):
        module = b"cm\nC\n)\x81}" + text(b"k" * length) + LOWERED + b")\x81NN\x86bsb"
        with archive_of(data=PROTO + module + STOP) as opened:
            if length < DEFAULT_LIMITS.name_bytes:
                assert list(opened.lowered) == ["k" * length]
            else:
                with pytest.raises(LimitError, match=r"data\.pkl: name_bytes is limited to 4,096, found 5"):
                    _ = opened.lowered


# --- data.pkl


def test_tensors_are_descriptions_of_their_storages() -> None:
    with archive.open(RELEASES / "torch-2.13.0" / "consts.pt") as opened:
        data = opened.data
        assert isinstance(data, Inert)
        assert (data.what, opened.top) == (Global("__torch__.models", "Consts"), "Consts")
        assert data.attributes["table"] == Tensor(
            "float32", (6,), (1,), 0, "data/0", requires_grad=False, device="cpu"
        )
        assert data.attributes["training"] is True
        tensors = [value for value in data.attributes.values() if isinstance(value, Tensor)]
        assert [opened.records[tensor.record].size for tensor in tensors] == [24]
        assert opened.data is data


def test_values_are_inert() -> None:
    value = b"(G?\xf8" + bytes(6) + b"\x88\x89N](K\x01K\x02e}K\x03" + text(b"x") + b"s)" + text(b"id") + b"Qt"
    with archive_of(data=PROTO + value + STOP) as opened:
        assert opened.data == (1.5, True, False, None, [1, 2], {3: "x"}, (), ("id",))
    many = b"(" + b"K\x01" * (DEFAULT_LIMITS.dimensions + 1) + b"t"
    storage = b"(" + text(b"storage") + b"ctorch\nHalfStorage\n" + text(b"0") + text(b"cpu") + b"K\x06tQ"
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x02%s(K\x03K\x01t\x89ccollections\nOrderedDict\n)RtR"
    )
    with archive_of(data=PROTO + tensor % b"(K\x01K\x02t" + STOP) as opened:
        assert opened.data == Tensor(
            "float16", (1, 2), (3, 1), 2, "data/0", requires_grad=False, device="cpu"
        )
    with (
        archive_of(data=PROTO + tensor % many + STOP) as opened,
        pytest.raises(LimitError, match="dimensions is limited to 256, found 257"),
    ):
        _ = opened.data


def test_a_tensor_has_as_many_dimensions_in_every_kind_of_file() -> None:
    ones = b"(" + b"K\x01" * 300 + b"t"
    storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(b"0") + text(b"cpu") + b"K\x01tQ"
    arguments = storage + b"K\x00" + ones + ones + b"\x89ccollections\nOrderedDict\n)R"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR"
    saved = [new_member("data.pkl", PROTO + tensor + STOP), new_member("data/0", bytes(4))]
    version = new_member("version", b"3\n")
    header = b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,4]}}' % b",".join([b"1"] * 300)
    files = {
        "TorchScript": packed([*saved, new_member("constants.pkl", PROTO + b")" + STOP), version]),
        "torch.save": packed([*saved, new_member("byteorder", b"little"), version]),
        "safetensors": struct.pack("<Q", len(header)) + header + bytes(4),
        "ONNX": onnx_model(onnx_tensor("a", 1, (1,) * 300, field(9, bytes(4)))),
    }
    for kind, data in files.items():
        with pytest.raises(
            LimitError, match=r"dimensions is limited to 256, found (257|300).*dimensions=(512|1024)"
        ):
            shapes_in(data, DEFAULT_LIMITS)
        assert shapes_in(data, Limits(dimensions=1024)) == [(1,) * 300], kind


def shapes_in(data: bytes, limits: Limits) -> list[tuple[int, ...]]:
    with archive.open(data, limits=limits) as opened:
        return [tensor.shape for tensor in opened.tensors.values()]


def test_a_member_of_an_enum_is_its_class_and_value() -> None:
    with archive.open(FIXTURES / "canaries" / "enums.pt") as opened:
        module = opened.data
    assert isinstance(module, Inert)
    assert isinstance(module.state, dict)
    member = Global("__torch__.zqpackagexz.zqmodulexz", "zqenumxz")
    assert module.state["zqattributexz"] == Inert(member, ("zqenumvaluexz",), None)


def test_a_broken_record_spoils_only_what_needs_it() -> None:
    with archive_of(data=b"junk", code=PROTO + b")" + STOP) as opened:
        assert list(opened.ranges(RANGES)) == []
        for _ in range(2):
            with pytest.raises(ArchiveError, match=r"^made\.pt: data\.pkl, byte \d"):
                _ = opened.data
            with pytest.raises(ArchiveError, match=r"^made\.pt: data\.pkl, byte \d"):
                _ = opened.lowered
    limits = Limits(memory=3_050)
    with (
        archive_of(limits, data=PROTO + b"N" + STOP) as opened,
        pytest.raises(
            LimitError,
            match=r"data\.pkl, byte 0: memory is limited to 3,050, found [0-9,]+ with pickle opcodes",
        ),
    ):
        _ = opened.data
