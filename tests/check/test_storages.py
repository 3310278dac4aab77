"""Each tensor of TorchScript lies in a storage that is there, and as long as it needs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import archive
from archive.check.verify import verify
from tests.support.corpus import KINDS, RELEASES
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NEW = RELEASES / "torch-2.13.0"
PATHS = [NEW / "nested.pt", NEW / "nested.ptl", RELEASES / "torch-1.9.0" / "nested.ptl", KINDS / "package.pt"]


def storages_of(path: Path) -> dict[str, int]:
    """The storages of an archive with bytes, each with its size."""
    with archive.open(path) as opened:
        sizes = {name: opened.records[name].size for name in opened.tensors.storages}
    return {name: size for name, size in sizes.items() if size}


def found(data: bytes) -> list[str]:
    """The errors of an archive."""
    return [str(one) for one in verify(data) if one.severity == "error"]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_missing_storage_is_an_error_once(path: Path) -> None:
    storages = storages_of(path)
    assert storages
    for name in storages:
        (error,) = found(tampered(path, {name: None}))
        assert error.startswith(f"{name}: no such storage, for ")
        assert error.endswith(
            f'refuses it: "PytorchStreamReader failed locating file {name}: file not found"'
        )


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("lacks", [1, 4])
def test_a_storage_that_is_too_short_is_an_error(path: Path, lacks: int) -> None:
    assert not found(path.read_bytes())
    for name, size in storages_of(path).items():
        with archive.open(path) as opened:
            data = bytes(opened.records[name].view())
        longer, shorter = (tampered(path, {name: part}) for part in (data + b"x", data[:-lacks]))
        assert not found(longer)
        errors = found(shorter)
        assert errors
        for error in errors:
            assert error.startswith(f"{name}, ")
            assert f"found {size - lacks}; PyTorch 2.13 reads memory beyond it" in error


def test_pytorch_refuses_a_missing_storage_with_these_words(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = PATHS[0]
    for name in storages_of(path):
        made = tmp_path / "without.pt"
        made.write_bytes(tampered(path, {name: None}))
        with pytest.raises(
            RuntimeError, match=f"PytorchStreamReader failed locating file {name}: file not found"
        ):
            torch.jit.load(made)


def test_a_tensor_without_elements_needs_no_storage() -> None:
    """TorchScript writes an empty record for the storage of a meta tensor."""
    torch = pytest.importorskip("torch")
    module = torch.nn.Flatten()
    module.register_buffer("lazy", torch.empty(3, device="meta"))
    made = io.BytesIO()
    torch.jit.save(torch.jit.script(module), made)
    assert verify(made.getvalue()) == []
    assert torch.jit.load(io.BytesIO(made.getvalue())).lazy.is_meta
    with archive.open(made.getvalue()) as opened:
        assert (opened.tensors["lazy"].record, opened.tensors["lazy"].device) == ("", "meta")
    assert "tensor/lazy" in archive.digest(made.getvalue()).parts
    assert archive.diff(made.getvalue(), made.getvalue()).same_model


def test_of_many_tensors_in_a_short_storage_the_first_are_listed() -> None:
    torch = pytest.importorskip("torch")
    module, storage = torch.nn.Flatten(), torch.zeros(200)
    for number in range(150):
        module.register_buffer(f"part{number}", storage[number:])
    made = io.BytesIO()
    torch.jit.save(torch.jit.script(module), made)
    errors = found(tampered(made.getvalue(), {"data/0": b""}))
    assert len(errors) == 101
    assert errors[-1] == "data/0: … and 50 more"
