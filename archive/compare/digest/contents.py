"""Elements of tensors → digests, several at a time.

The values of a tensor are its elements in logical order, little-endian, in pieces of 8 MiB, the last one
shorter. Their digest is the sha256 of the sha256 of all pieces, one behind the other: so a large tensor takes
all cores. The digest of a tensor is that of its dtype, shape, strides, flags and values.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from archive.base.cores import Cores
from archive.base.errors import ArchiveError, in_file
from archive.formats.tensors.elements import READ_BYTES, READ_TIMES, elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.tensors import Tensors

PIECE = 1 << 23
"""Bytes of elements that have a digest of their own."""


class Contents:
    """The digests of an archive's tensors and storages, each computed once.

    Args:
        tensors: the archive's.
        file: its name, for messages.
        size: its bytes.
    """

    def __init__(self, tensors: Tensors, file: str, size: int) -> None:
        self._tensors, self._file = tensors, file
        self._left = READ_TIMES * size + READ_BYTES
        self._cores = Cores()
        self._values: dict[tuple[object, ...], bytes] = {}

    def of(self, tensor: Tensor) -> bytes:
        """The digest of a tensor.

        Raises:
            ArchiveError: its storage is missing, broken, or too small; or tensors have far more elements than
                there are bytes in the file.
        """
        told = (tensor.dtype, tensor.shape, _strides(tensor), tensor.math_bits, tensor.quantiser)
        asks = bool(tensor.requires_grad)
        values = self._of_values(tensor) if tensor.record else b"meta"
        return hashlib.sha256(repr((*told, asks)).encode() + values).digest()

    def of_storage(self, record: str) -> bytes:
        """The digest of all bytes of a storage.

        Raises:
            ArchiveError: there is none, or it is broken.
        """
        with in_file(self._file):
            return self._hashed([self._tensors.storage(record)])

    def of_bytes(self, data: memoryview) -> bytes:
        """The digest of some bytes."""
        return self._hashed([data])

    def _of_values(self, tensor: Tensor) -> bytes:
        key = (tensor.record, tensor.dtype, tensor.shape, tensor.strides, tensor.offset)
        if key not in self._values:
            self._left -= tensor.bytes or 0
            if self._left < 0:
                raise ArchiveError("too many views of one storage", file=self._file, record=tensor.record)
            with in_file(self._file):
                storage, big = self._tensors.storage(tensor.record), self._tensors.is_big_endian
                self._values[key] = self._hashed(elements(tensor, storage, big=big))
        return self._values[key]

    def _hashed(self, data: Iterable[memoryview]) -> bytes:
        whole = hashlib.sha256()
        for digest in self._cores.map(_sha256, _pieces(data)):
            whole.update(digest)
        return whole.digest()


def _sha256(data: memoryview | bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _pieces(data: Iterable[memoryview]) -> Iterator[memoryview | bytes]:
    """Bytes in pieces of one size, the last one shorter; views where a piece is of one view."""
    rest = b""
    for view in data:
        at = 0
        if rest:
            at = min(PIECE - len(rest), len(view))
            rest += bytes(view[:at])
            if len(rest) < PIECE:
                continue
            yield rest
        while at + PIECE <= len(view):
            yield view[at : at + PIECE]
            at += PIECE
        rest = bytes(view[at:])
    if rest:
        yield rest


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """The strides that matter: those of dimensions of one element lead nowhere, nor do those without any."""
    pairs = zip(tensor.shape, tensor.strides, strict=False)
    empty = 0 in tensor.shape
    return tuple(stride if size > 1 and not empty else 0 for size, stride in pairs)
