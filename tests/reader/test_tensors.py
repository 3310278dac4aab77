"""The tensors of any archive, against PyTorch's own."""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import torch

import archive
from archive import ArchiveError
from archive.formats.tensors.tensor import Tensor
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NEW = RELEASES / "torch-2.13.0"


def stored(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor, as PyTorch lays them out in logical order."""
    tensor = tensor.detach().resolve_neg().resolve_conj()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


def read(opened: archive.Archive, name: str) -> bytes:
    return b"".join(opened.tensors.elements(name))


def saved(value: object) -> archive.Archive:
    file = io.BytesIO()
    torch.save(value, file)
    return archive.open(file.getvalue())


@pytest.mark.parametrize(
    "name", ["nested.pt", "nested.ptl", "traced.pt", "consts.pt", "unicode.ptl", "frozen.ptl"]
)
def test_parameters_of_torchscript_are_those_that_pytorch_loads(name: str) -> None:
    expected = torch.jit.load(NEW / name).state_dict()
    with archive.open(NEW / name) as opened:
        for key, tensor in expected.items():
            row = opened.tensors[key]
            assert (row.shape, row.strides, row.offset) == (tensor.shape, tensor.stride(), 0)
            assert f"torch.{row.dtype}" == str(tensor.dtype)
            assert read(opened, key) == stored(tensor)


def test_constants_of_code_have_the_names_that_the_code_calls_them_by() -> None:
    with archive.open(NEW / "traced.ptl") as opened:
        constants = {name for name in opened.tensors if name.startswith("CONSTANTS.")}
        code = b"".join(bytes(one.view()) for name, one in opened.records.items() if name.endswith(".py"))
        assert constants
        assert all(name.encode() in code for name in constants)
        assert any(name.startswith("bytecode:") for name in opened.tensors.storages["constants/0.storage"])


@pytest.mark.parametrize("release", ["1.0.1", "1.2.0", "1.4.0", "1.7.0", "1.9.0", "1.13.0", "2.1.0"])
def test_each_tensor_of_old_releases_has_its_storage(release: str) -> None:
    files = sorted((RELEASES / f"torch-{release}").glob("*.pt*"))
    read_ones = 0
    for file in files:
        with archive.open(file) as opened:
            for name, tensor in opened.tensors.items():
                assert len(read(opened, name)) == tensor.bytes, (file, name)
                read_ones += 1
            storages = [
                one
                for one in opened.records
                if one.startswith(("data/", "constants/", "tensors/", "bytecode/"))
            ]
            assert set(storages) == set(opened.tensors.storages)
    assert read_ones


@pytest.mark.parametrize("name", ["shop", "choice_strict", "steps", "decoder"])
def test_tensors_of_programs_are_those_that_pytorch_loads(name: str) -> None:
    file = FIXTURES / "exported" / f"{name}.pt2"
    program = torch.export.load(file)
    expected = {
        **program.state_dict,
        **{k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)},
    }
    with archive.open(file) as opened:
        assert set(opened.tensors) == set(expected)
        assert all(read(opened, key) == stored(tensor) for key, tensor in expected.items())


def test_several_programs_stand_before_their_tensors() -> None:
    with archive.open(FIXTURES / "exported" / "several.pt2") as opened:
        assert {name.partition(":")[0] for name in opened.tensors} == {"shop", "choice", "steps"}


@pytest.mark.parametrize("name", ["exported/legacy/shop.pt2", "executorch/shop.etrecord"])
def test_files_of_torch_save_inside_are_read(name: str) -> None:
    with archive.open(FIXTURES / name) as opened:
        (part,) = {one.partition(":")[0] for one in opened.tensors if "edge_dialect" not in one}
        expected = torch.load(io.BytesIO(opened.records[part].view()), weights_only=True)
        assert all(read(opened, f"{part}:{key}") == stored(tensor) for key, tensor in expected.items())


def test_packages_have_tensors_of_their_pickles() -> None:
    with archive.open(FIXTURES / "kinds/package_python.pt") as opened:
        assert {name: one.record for name, one in opened.tensors.items()} == {
            "model/model.pkl:scale": ".data/0.storage",
            "model/model.pkl:fc.weight": ".data/1.storage",
            "model/model.pkl:fc.bias": ".data/2.storage",
        }


def test_every_kind_of_tensor_that_torch_save_writes() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain: dict[str, Any] = {
            "turned": base.t(),
            "cut": base[1:, ::2],
            "repeated": torch.arange(3).reshape(3, 1).expand(3, 4),
            "scalar": torch.tensor(3, dtype=torch.int16),
            "nothing": torch.empty(0, 3),
            "complex": torch.tensor([1 + 2j, 3 - 1j]),
            "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
            "eight": torch.tensor([1.5, -2]).to(torch.float8_e4m3fn),
            "unsigned": torch.tensor([1, 2], dtype=torch.uint16),
            "parameter": torch.nn.Parameter(base),
            "quantised": torch.quantize_per_tensor(base, 0.1, 2, torch.qint8),
        }
        per_channel = torch.quantize_per_channel(
            base, torch.rand(4) + 0.1, torch.zeros(4, dtype=torch.long), 0, torch.qint8
        )
        opened = saved(
            plain
            | {
                "conj": plain["complex"].conj(),
                "meta": torch.empty(2, device="meta"),
                "channels": per_channel,
            }
        )
    for name, tensor in plain.items():
        assert opened.tensors[name].shape == tensor.shape
        assert opened.tensors[name].strides == tensor.stride()
        assert f"torch.{opened.tensors[name].dtype}" == str(tensor.dtype)
        assert read(opened, name) == stored(tensor)
    rows = opened.tensors
    assert rows["parameter"].requires_grad is True
    assert rows["turned"].record == rows["cut"].record == rows["parameter"].record
    assert rows.storages[rows["cut"].record] == ("turned", "cut", "parameter")
    assert rows["quantised"].quantiser == ("per_tensor_affine", 0.1, 2)
    assert rows["channels"].quantiser == ("per_channel_affine", 0)
    assert read(opened, "channels.q_per_channel_scales") == stored(per_channel.q_per_channel_scales())
    assert rows["conj"].math_bits == ("conj",)
    assert rows["conj"].record == rows["complex"].record
    assert rows["meta"] == Tensor("float32", (2,), (1,), 0, "", requires_grad=False)
    with pytest.raises(ArchiveError, match="meta is a meta tensor, which has no elements"):
        read(opened, "meta")


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_tensors_are_their_parts(layout: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = torch.eye(3).to_sparse(layout=getattr(torch, f"sparse_{layout}"))
    names = {
        "coo": ["indices"],
        "csr": ["crow_indices", "col_indices"],
        "csc": ["ccol_indices", "row_indices"],
    }
    opened = saved({"w": sparse})
    assert list(opened.tensors) == [f"w.{name}" for name in [*names[layout], "values"]]
    for name in opened.tensors:
        assert read(opened, name) == stored(getattr(sparse, name.removeprefix("w."))())


def test_a_tied_tensor_has_all_of_its_names() -> None:
    tensor = torch.ones(2)
    assert list(saved({"a": tensor, "b": [tensor]}).tensors) == ["a", "b.0"]


def test_quantised_tensors_of_torchscript_have_their_scales() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.quantize_per_tensor(torch.ones(2, 2), 0.5, 1, torch.qint8)
            self.conj = torch.ones(2, dtype=torch.complex64).conj()

        def forward(self) -> torch.Tensor:
            return self.one.dequantize() + self.conj.real

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Model()), file)
    rows = archive.open(file.getvalue()).tensors
    assert rows["one"].quantiser == ("per_tensor_affine", 0.5, 1)
    assert rows["conj"].math_bits == ("conj",)


def test_big_endian_elements_are_turned(tmp_path: Path) -> None:
    file = io.BytesIO()
    torch.save({"w": torch.tensor([1.0, 2.0])}, file)
    swapped = tampered(file.getvalue(), {"byteorder": b"big", "data/0": b"\x3f\x80\0\0\x40\0\0\0"})
    opened = archive.open(swapped)
    assert opened.tensors.is_big_endian
    assert read(opened, "w") == stored(torch.tensor([1.0, 2.0]))
    target = tmp_path / "big.pt"
    target.write_bytes(swapped)
    assert torch.load(target)["w"].tolist() == [1.0, 2.0]


def test_pytorch_turns_no_elements_but_those_of_torch_save(tmp_path: Path) -> None:
    """So ``verify`` warns where :attr:`Tensors.is_big_endian` holds in another kind of archive."""
    file = tmp_path / "big.pt"
    file.write_bytes(tampered(NEW / "nested.pt", {"byteorder": b"big"}))
    before, after = (torch.jit.load(path).state_dict() for path in (NEW / "nested.pt", file))
    assert before
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_storage_is_a_view_of_the_mapped_file() -> None:
    with archive.open(FIXTURES / "kinds/state_dict.pt") as opened:
        row = next(iter(opened.tensors.values()))
        assert opened.tensors.record(row.record).borrowed
        name = next(iter(opened.tensors))
        assert (
            b"".join(opened.tensors.elements(name)) == bytes(opened.tensors.storage(row.record))[: row.bytes]
        )


def test_a_companion_has_no_tensors(tmp_path: Path) -> None:
    archive.split(NEW / "nested.pt", tmp_path / "model.pt", tmp_path / "model.ptdbg")
    assert len(archive.open(tmp_path / "model.ptdbg").tensors) == 0
    split = archive.open(tmp_path / "model.pt", companion=tmp_path / "model.ptdbg").tensors
    assert dict(split) == dict(archive.open(NEW / "nested.pt").tensors)


def test_a_missing_storage_is_told_when_its_bytes_are_asked_for() -> None:
    opened = archive.open(tampered((FIXTURES / "kinds/state_dict.pt").read_bytes(), {"data/0": None}))
    name = next(name for name, one in opened.tensors.items() if one.record == "data/0")
    with pytest.raises(ArchiveError, match="data/0: no such storage"):
        read(opened, name)
    with pytest.raises(KeyError):
        opened.tensors["no such tensor"]


def test_a_short_storage_is_refused() -> None:
    opened = archive.open(tampered((FIXTURES / "kinds/state_dict.pt").read_bytes(), {"data/0": b"12"}))
    name = next(name for name, one in opened.tensors.items() if one.record == "data/0")
    with pytest.raises(
        ArchiveError, match=r"data/0: expected a storage of \d+ bytes at least, for shape .*, found 2"
    ):
        read(opened, name)


def test_pytorch_1_0_names_are_those_of_its_modules() -> None:
    with archive.open(RELEASES / "torch-1.2.0/consts.pt") as opened, zipfile.ZipFile(opened.file) as zipped:
        assert {name: one.record for name, one in opened.tensors.items()} == {
            "table": "tensors/2",
            "gate.inner.b": "tensors/0",
            "gate.inner.w": "tensors/1",
        }
        assert read(opened, "table") == zipped.read("consts/tensors/2")
