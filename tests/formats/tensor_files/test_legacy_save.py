"""Files of ``torch.save`` before PyTorch 1.6: pickles and storages that agree are read, others refused."""

from __future__ import annotations

import io
import pickle
import struct
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError, FileKind
from tests.attacks.pieces import number, pickled, several, text
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
HOOKS = b"ccollections\nOrderedDict\n)R"


def storage(kind: str, count: int, view: bytes = b"N") -> bytes:
    """The pickle of a storage with the key 7."""
    named = b"ctorch\n" + f"{kind}Storage\n".encode()
    return several(text("storage"), named, text("7"), text("cpu"), number(count), view) + b"Q"


def tensor(stored: bytes, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    """The pickle of a tensor in a storage."""
    sizes = several(*map(number, shape)), several(*map(number, strides))
    call = b"ctorch._utils\n_rebuild_tensor_v2\n"
    return call + several(stored, number(offset), *sizes, b"\x89", HOOKS) + b"R"


def state(*, shape: tuple[int, ...] = (2, 3), count: int = 6, kind: str = "Float") -> bytes:
    """The pickle of a state dict: two tensors in one storage."""
    stored = storage(kind, count)
    rows = text("a"), tensor(stored, shape, (3, 1)), text("b"), tensor(stored, (2,), (3,), 1)
    return b"}(" + b"".join(rows) + b"u"


def file(
    value: bytes,
    storages: Sequence[tuple[int, bytes]] = (),
    *,
    keys: Sequence[str] = ("7",),
    little: bool = True,
    order: str = "<",
    version: int = VERSION,
) -> bytes:
    """A file: the pickle of an object, and storages, each with its number of elements and its bytes."""
    facts = {"protocol_version": VERSION, "little_endian": little, "type_sizes": {"int": 4}}
    before = (pickle.dumps(one, 2) for one in (MAGIC, version, facts))
    pickles = b"".join([*before, pickled(value), pickle.dumps(list(keys), 2)])
    return pickles + b"".join(struct.pack(f"{order}q", count) + data for count, data in storages)


FLOATS = struct.pack("<6f", *range(6))
STORED = [(6, FLOATS)]


def test_tensors_that_share_a_storage_count_its_bytes_once() -> None:
    data = file(state(), STORED)
    with archive.open(data) as opened:
        assert opened.recognised.kind is FileKind.LEGACY
        assert bytes_of(opened, "a") == FLOATS
        assert bytes_of(opened, "b") == struct.pack("<2f", 1, 4)
        assert opened.tensors.storages == {"data/7": ("a", "b")}
    assert archive.sizes(data).by("weights")["a"].stored == len(FLOATS)
    for labels in labels_of(data):
        assert sum(labels.values()) == len(data)


def test_a_part_of_a_storage_as_releases_before_0_4_wrote_it() -> None:
    part = storage("Float", 6, several(text("8"), number(2), number(3)))
    with archive.open(file(b"}" + text("a") + tensor(part, (2,), (1,), 1) + b"s", STORED)) as opened:
        assert bytes_of(opened, "a") == struct.pack("<2f", 3, 4)


@pytest.mark.parametrize("order", ["<", ">"])
def test_big_endian_machines_wrote_elements_as_others_do_and_their_number_in_either_order(order: str) -> None:
    with archive.open(file(state(), STORED, little=False, order=order)) as opened:
        assert bytes_of(opened, "a") == FLOATS
        assert not opened.tensors.is_big_endian


def test_texts_of_python_2_name_storages_and_tensors() -> None:
    value = state().replace(text("a"), b"U\1a").replace(text("7"), b"U\x017")
    with archive.open(file(value, STORED)) as opened:
        assert bytes_of(opened, "a") == FLOATS


SIZE = len(file(state(), STORED))
WRONG = "storage '7': expected"
REFUSED: dict[str, tuple[bytes, str]] = {
    "another version": (file(state(), STORED, version=1002), "the version: expected 1001, found 1002"),
    "another number of elements": (file(state(), [(5, FLOATS)]), f"{WRONG} 6 elements, found 5"),
    "a number in the other order": (
        file(state(), STORED, order=">"),
        f"{WRONG} 6 elements, found 432,345,564,227,567,616",
    ),
    "elements cut short": (
        file(state(), STORED)[:-1],
        f"{WRONG} {SIZE:,} bytes of file, found {SIZE - 1:,}",
    ),
    "bytes behind the last storage": (
        file(state(), STORED) + b"x",
        f"expected {SIZE:,} bytes of pickles and storages, found {SIZE + 1:,}",
    ),
    "a storage that no tensor uses": (file(b"}", STORED), f"{WRONG} a tensor that uses it, found none"),
    "a storage without elements": (file(state(), keys=()), f"{WRONG} its elements, found none"),
    "a storage twice": (file(state(), [*STORED, *STORED], keys=("7", "7")), "storage '7' is there twice"),
    "a key that is no text": (
        file(state(), STORED).replace(pickle.dumps(["7"], 2), pickle.dumps([7], 2)),
        "the keys of storages: expected a list of texts, found",
    ),
    "a class that is none": (
        file(state(kind="Odd"), STORED),
        f"{WRONG} a class whose elements are known, found 'OddStorage'",
    ),
    "a tensor beyond its storage": (
        file(state(shape=(3, 3)), STORED),
        "data/7: expected a storage of 36 bytes at least, for shape (3, 3), found 24",
    ),
    "a number of elements that is none": (
        file(state(count=-1), STORED),
        "data.pkl: expected a storage's class, key and size, found",
    ),
    "a pickle cut short": (file(state(), STORED)[:100], "byte "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused_with_its_place(name: str) -> None:
    data, problem = REFUSED[name]
    with pytest.raises(ArchiveError) as caught:
        archive.open(data, name="m")
    assert str(caught.value).startswith(f"m: {problem}")


@pytest.mark.torch
def test_what_pytorch_writes_is_read_as_it_was() -> None:
    import torch  # noqa: PLC0415 (this test alone)

    base = torch.arange(24.0).reshape(4, 6)
    plain = ["float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
    wide = ["complex64", "complex128", "uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn"]
    tensors = {name: torch.arange(3).to(getattr(torch, name)) for name in [*plain, *wide]}
    tensors |= {"base": base, "view": base[1:3, ::2], "turned": base.t(), "empty": torch.empty(0, 3)}
    tensors["scalar"] = torch.tensor(3.0)
    for protocol in (2, 3, 4, 5):
        out = io.BytesIO()
        torch.save(tensors, out, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
        with archive.open(out.getvalue()) as opened:
            assert opened.tensors.keys() == tensors.keys()
            for name, value in tensors.items():
                told = opened.tensors[name]
                assert (f"torch.{told.dtype}", told.shape) == (str(value.dtype), tuple(value.shape))
                assert bytes_of(opened, name) == bytes(
                    value.contiguous().reshape(-1).view(torch.uint8).numpy()
                )
        for labels in labels_of(out.getvalue()):
            assert sum(labels.values()) == len(out.getvalue())


@pytest.mark.torch
def test_the_source_of_a_whole_module_is_told_with_its_file() -> None:
    import torch  # noqa: PLC0415 (this test alone)

    out = io.BytesIO()
    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 3)), out, _use_new_zipfile_serialization=False)
    with archive.open(out.getvalue()) as opened:
        assert opened.tensor_file is not None
        sources = {source.name: source for source in opened.tensor_file.sources}
        assert list(opened.tensors) == ["0.weight", "0.bias"]
        assert opened.recognised.what.startswith(
            "a whole module of class torch.nn.modules.container.Sequential"
        )
    assert sources.keys() == {"torch.nn.modules.container.Sequential", "torch.nn.modules.linear.Linear"}
    linear = sources["torch.nn.modules.linear.Linear"]
    assert linear.file == torch.nn.modules.linear.__file__
    assert linear.text.startswith("class Linear(Module):")


def test_storages_of_less_than_a_byte_an_element_count_bytes() -> None:
    data = file(state(shape=(2, 6), kind="QUInt4x2", count=6), [(6, b"abcdef")])
    with archive.open(data) as opened:
        assert (opened.tensors["a"].dtype, opened.records["data/7"].size) == ("quint4x2", 6)
