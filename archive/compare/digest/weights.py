"""The weights of a model, each with its digest: equal in any format that keeps their names.

A part is a tensor, called by its name. Its digest is the sha256 of a line and the 32 bytes that follow it:

- the line is its dtype and its shape, as PyTorch calls them: ``float32 [3, 2]``, then a line feed. After the
  shape stand, each after a blank, the scheme, scale and zero point of a quantised tensor (the axis of one
  with a scale a channel), and ``conj`` or ``neg``, if that is still to be done to the elements;
- the bytes are the digest of its elements, as :mod:`archive.compare.digest.values` has it: in logical order,
  little-endian, in pieces of 8 MiB. Blocks of quantised files are hashed as they lie.

So order, strides, shared storages, byte order, gradients and the places of elements do not count. Names do:
formats that rename tensors, as most GGUF files, have digests of their own. So do files that leave out a name
of tied weights. A sparse tensor is its parts, ``w.indices`` and ``w.values``; its sizes do not count.
The weights of an ETRecord are those of its exported program; there, and in programs of PyTorch 2.1 to 2.7,
names are the model's, without the record that they are in.
In a whole module, tensors in attributes that aren't parameters or buffers count, too.

Constants of code and of exported programs, which PyTorch numbers, aren't weights, nor is what an exported
program keeps among its constants: buffers that are not persistent. No state dict has them.

What backends compiled in a program of ExecuTorch has weights without names. Two models that differ in these
alone would have one digest, so such a program has none.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, in_file, shown
from archive.compare.digest.names import escaped_name
from archive.compare.digest.parts import NO_MODULE
from archive.compare.digest.values import TensorDigests
from archive.formats.record_kinds import BLOBS, NAMED
from archive.formats.tensors.exported import CONSTANTS
from archive.reader.recognition import ARCHIVE_KINDS, PACKAGE_KINDS, PROGRAM_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive


IN_STATE_DICT = "_state_dict:"
"""Ends what an ETRecord has before the names of weights."""
OWN_DICTS = {
    FileKind.ETRECORD: f"exported_program{IN_STATE_DICT}",
    FileKind.LEGACY_EXPORTED: "serialized_state_dict.pt:",
}
"""What is before the names of the model's own."""


class Weights(NamedTuple):
    """The digests of a model's weights, and how many lack the prefix that others have."""

    parts: Mapping[str, str]
    left_out: int


def weights(archive: Archive, prefix: str) -> Weights:
    """The digests of a model's weights, without a prefix of their names: see :func:`archive.digest`."""
    if any(name.startswith((BLOBS, NAMED)) for name in archive.records):
        why = "backends compiled parts of it, whose weights have no names: only the model has a digest"
        raise ArchiveError(why, file=archive.file)
    named = dict(named_weights(archive))
    if not prefix and (prefix := _state_dict(archive, named)):
        named = {name: tensor for name, tensor in named.items() if name.startswith(prefix)}
    wrapped = [name for name in named if name.startswith(prefix)] or list(named)
    if not wrapped:
        raise ArchiveError("has no weights", file=archive.file)
    cut = len(prefix) if wrapped[0].startswith(prefix) else 0
    digests = TensorDigests(archive.tensors, archive.file, archive.size)
    parts = {}
    for name in sorted(wrapped):
        with in_file(archive.file):
            parts[escaped_name(name[cut:])] = _digest(name, named[name], digests)
    return Weights(parts, len(named) - len(wrapped))


def _state_dict(archive: Archive, names: Collection[str]) -> str:
    """What precedes the names of the model's own weights in files that say where they are; "" of others.

    An ETRecord without its exported program has one state dict, of the program lowered from it.
    """
    own = OWN_DICTS.get(archive.recognised.kind)
    if own is None or any(name.startswith(own) for name in names):
        return own or ""
    dicts = {"".join(name.partition(IN_STATE_DICT)[:2]) for name in names if IN_STATE_DICT in name}
    return dicts.pop() if len(dicts) == 1 else ""


def named_weights(archive: Archive) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an archive that are weights: all but constants of code and programs."""
    kind = archive.recognised.kind
    has_code, is_program = kind in ARCHIVE_KINDS | PACKAGE_KINDS, kind in PROGRAM_KINDS
    for name, tensor in archive.tensors.items():
        is_constant = (has_code and NO_MODULE.fullmatch(name)) or (
            is_program and tensor.record.startswith(CONSTANTS)
        )
        if not is_constant:
            yield name, tensor


def _digest(name: str, tensor: Tensor, digests: TensorDigests) -> str:
    if not tensor.record:
        place = f"tensor {shown(name)}"
        raise ArchiveError(place=place, expected="elements", found="none in this file, nor beside it")
    words = (tensor.dtype, list(tensor.shape), *tensor.quantiser, *tensor.math_bits)
    line = f"{' '.join(map(str, words))}\n"
    return hashlib.sha256(line.encode() + digests.of_elements(tensor)).hexdigest()
