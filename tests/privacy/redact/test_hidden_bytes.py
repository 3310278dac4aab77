"""Bytes of a storage that no tensor shows are told."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from tests.support.corpus import FIXTURES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUBLISHED = [FIXTURES / "kinds" / "checkpoint.pt", RELEASES / "torch-2.13.0" / "nested.pt"]


def _text(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _numbers(*numbers: int) -> bytes:
    return b"(" + b"".join(b"K%c" % number for number in numbers) + b"t"


def checkpoint(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int) -> bytes:
    """What ``torch.save`` writes of one tensor with a storage of float32."""
    storage = (
        b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu") + b"K%ctQ" % size
    )
    tensor = b"(" + storage + b"K%c" % offset + _numbers(*shape) + _numbers(*strides) + b"\x89ccollections\n"
    data = b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n" + tensor + b"OrderedDict\n)RtR."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(zipfile.ZipInfo("m/data.pkl"), data)
        made.writestr(zipfile.ZipInfo("m/byteorder"), b"little")
        made.writestr(zipfile.ZipInfo("m/data/0"), np.arange(1, size + 1, dtype="<f4").tobytes())
        made.writestr(zipfile.ZipInfo("m/version"), b"3\n")
    return out.getvalue()


def told(data: bytes) -> Iterator[str]:
    facts = archive.redact(data, io.BytesIO(), io.BytesIO(), preset="publish", partial=True)
    return (one for one in facts.stays if "no tensor shows" in one)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "shown"),
    [
        ((8,), (1,), 0, range(8)),
        ((3,), (1,), 2, range(2, 5)),
        ((4,), (2,), 0, range(0, 8, 2)),
        ((2, 9), (1, 0), 0, range(2)),
    ],
)
def test_bytes_that_no_tensor_shows_are_told(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, shown: range
) -> None:
    numbers = np.arange(1, 9, dtype="<f4")
    numbers[list(shown)] = 0
    hidden = np.count_nonzero(np.frombuffer(numbers.tobytes(), np.uint8))
    expected = [f"{hidden} bytes of data/0 that no tensor shows, and that are not 0"] if hidden else []
    assert list(told(checkpoint(shape, strides, offset, 8))) == expected


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_whole_tensors_hide_nothing(path: Path) -> None:
    assert list(told(path.read_bytes())) == []
