"""Targets for files of tensors, whose readings are compared with those of slow readers."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import archive
from archive.base.errors import ArchiveError
from archive.reader.recognition import TENSOR_KINDS
from tests.fuzz.mutations import changed_bytes
from tests.fuzz.targets import Target
from tests.support.corpus import FIXTURES, KINDS
from tests.support.slow_tensor_files import slow_gguf, slow_onnx, slow_safetensors, slow_storages

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from archive.reader.archive import Archive
    from tests.support.slow_tensor_files import Tensors

MOST = 64
"""Tensors whose elements are read."""


def read_tensors(slow: Callable[[bytes], Tensors], data: bytes) -> None:
    """A file of tensors: its sizes add up, and its tensors are those of a slow reader."""
    with archive.open(data, kinds=TENSOR_KINDS) as opened:
        account = archive.sizes(opened)
        for view in ("weights", "kind", "module"):
            assert sum(size.stored for size in account.by(view).values()) == opened.size == account.size
        ours = {name: elements(opened, name) for name in islice(opened.tensors, MOST)}
        shapes = {name: tensor.shape for name, tensor in opened.tensors.items()}
        is_big = opened.tensors.is_big_endian
    try:
        theirs = slow(data)
    except Exception:  # noqa: BLE001 (whatever it raises: there is no second opinion)
        return
    for name, (shape, data_of) in theirs.items():
        if name in ours and ours[name] is not None and not is_big:
            assert (shapes[name], ours[name]) == (shape, data_of), name


def elements(opened: Archive, name: str) -> bytes | None:
    """The elements of a tensor; None where they cannot be read."""
    try:
        return b"".join(opened.tensors.elements(name))
    except ArchiveError:
        return None


def read_legacy(data: bytes) -> None:
    """A file of ``torch.save`` before 1.6: its storages are those of a slow reader."""
    read_tensors(lambda _: {}, data)
    with archive.open(data, kinds=TENSOR_KINDS) as opened:
        ours = {
            record.removeprefix("data/"): bytes(opened.tensors.storage(record))
            for record in opened.tensors.storages
        }
    try:
        theirs = slow_storages(data)
    except Exception:  # noqa: BLE001 (the same)
        return
    for key, stored in theirs.items():
        assert ours.get(key, stored) == stored, key


def _changed(chance: Random, data: bytes) -> bytes:
    """A change near the beginning, where headers are, or anywhere."""
    if chance.randrange(4):
        cut = chance.randrange(len(data) // 2, len(data) + 1)
        return changed_bytes(chance, data[:cut]) + data[cut:]
    return changed_bytes(chance, data)


def _seeds(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [(FIXTURES / name).read_bytes() for name in names]


TARGETS = {
    "safetensors": Target(
        partial(read_tensors, slow_safetensors), _seeds("kinds/tensors.safetensors"), _changed
    ),
    "gguf": Target(partial(read_tensors, slow_gguf), _seeds("kinds/model.gguf"), _changed),
    "onnx": Target(
        partial(read_tensors, slow_onnx),
        _seeds("kinds/model.onnx", "zoo/weights.onnx", "zoo/outside.onnx"),
        _changed,
    ),
    "legacy": Target(read_legacy, lambda: [(KINDS / "legacy.pt").read_bytes()], _changed),
}
