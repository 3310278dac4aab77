"""What a record is about: what makes two files the same model, for ``digest`` and ``diff`` alike.

Two files are *the same model* if all that is of :attr:`Level.MODEL` is the same in both, by what it says:
tensors by their elements, code without the names that a process chose. ``digest`` has parts of that level and
no others; ``diff`` says ``same model`` if no difference is of it. So both ask here which records, which
properties of tensors and which shared storages count. Devices do not, nor what PyTorch itself does not keep
when it saves a loaded program again (:mod:`archive.compare.unkept`).

Two other comparisons are narrower on purpose, and ask for bytes: the archive id
(:mod:`archive.formats.archive_id`) pairs an archive with its companion, and the check of a migration
(:mod:`archive.rewrite.migrate.migrate`) is that nothing was lost on the way.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import (
    BYTEORDER,
    FORMAT_VERSION,
    STORAGE_ALIGNMENT,
    TRACED_INPUTS,
    VERSION_RECORDS,
    Group,
    RecordKind,
    version_record,
)
from archive.reader.recognition.kinds import PROGRAM_KINDS, SAVED_KINDS, FileKind, kind_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive


class Level(StrEnum):
    """What a difference is one of.

    Attributes:
        MODEL: what the model computes, and is called: tensors, attributes, code, instructions, graphs, files.
        EXTRAS: what a loader is given besides the model: extra files, sample inputs, inputs of tracing. The
            model computes the same without them.
        FORMAT: versions of the container and of the release that wrote it, and the file's kind.
        DEBUG: where the code comes from: source, handles, call stacks.
        IDS: numbers that PyTorch counts per process or computes of the file.
        LAYOUT: how records are named and stored, and in which order; which storages tensors share without a
            common element, and the devices that they were on.
    """

    MODEL = "model"
    EXTRAS = "extras"
    FORMAT = "format"
    DEBUG = "debug"
    IDS = "ids"
    LAYOUT = "layout"


IGNORABLE = (Level.EXTRAS, Level.DEBUG, Level.LAYOUT, Level.IDS, Level.FORMAT)
"""The levels whose differences may be left out: all but the model's, on which ``same model`` depends."""


def ignored_levels(ignored: Iterable[Level | str]) -> set[Level]:
    """The levels that are to be left out.

    Raises:
        ValueError: one of them isn't a level that can be.
    """
    levels = set(map(Level, ignored))
    if not levels.issubset(IGNORABLE):
        raise ValueError(f"differences of the model cannot be left out, but of {', '.join(IGNORABLE)}")
    return levels


BY_NAME = {
    **dict.fromkeys(VERSION_RECORDS, Level.FORMAT),
    RECORD_NAME: Level.IDS,
    ".data/python_version": Level.FORMAT,
    BYTEORDER: Level.LAYOUT,
    FORMAT_VERSION: Level.LAYOUT,
    STORAGE_ALIGNMENT: Level.LAYOUT,
}
"""What some records are about, by name."""
BY_KIND = {
    RecordKind.FORMAT: Level.FORMAT,
    RecordKind.EXTRA: Level.EXTRAS,
    RecordKind.INPUTS: Level.EXTRAS,
}
"""The same by kind; other kinds are debug info, or the model."""
TRACED = (TRACED_INPUTS, "traced_inputs/")
"""The example inputs of a traced model: a value and its storages."""
RELEASE_KEYS = ("torch_version", "schema_version")
"""What an exported program says of the release that wrote it: :attr:`Level.FORMAT`."""


def level_of(archive: Archive, name: str) -> Level:
    """What a record is about, by its name and the kind of its archive."""
    kind = kind_in(archive.recognised.kind, name)
    if name in archive.spare.records:
        return Level.DEBUG
    if name.startswith(TRACED):
        return Level.EXTRAS
    return (
        BY_NAME.get(name) or BY_KIND.get(kind) or (Level.DEBUG if kind.group is Group.DEBUG else Level.MODEL)
    )


def version_of_operators(archive: Archive) -> bytes | None:
    """What the version record of TorchScript says, which is the model's; None for other kinds of archives.

    Operators of one name may do something else in another version.
    """
    if not archive.has_code or archive.recognised.kind in SAVED_KINDS | PROGRAM_KINDS:
        return None
    name = version_record(archive.records)
    return None if name is None else bytes(archive.records[name].view()).strip()


def keeps_gradients(archive: Archive) -> bool:
    """Whether ``requires_grad`` in a file is what it is in the model: ``state_dict()`` detaches tensors."""
    kind, what = archive.recognised.kind, archive.recognised.what
    is_old_dict = kind is FileKind.LEGACY and what.startswith(("a state dict", "a checkpoint"))
    return kind not in (FileKind.STATE_DICT, FileKind.CHECKPOINT) and not is_old_dict


class TensorProperties(NamedTuple):
    """What a tensor is besides its elements; see :class:`archive.formats.tensors.tensor.Tensor`.

    Attributes:
        strides: 0 where they lead nowhere: in dimensions of one element, and in a tensor without elements.
        requires_grad: False where the file does not record it.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    math_bits: tuple[str, ...]
    quantiser: tuple[object, ...]
    requires_grad: bool


def properties_of(tensor: Tensor) -> TensorProperties:
    """The properties of a tensor that make two tensors of the same elements different ones."""
    pairs = zip(tensor.shape, tensor.strides, strict=False)
    empty = 0 in tensor.shape
    return TensorProperties(
        tensor.dtype,
        tensor.shape,
        tuple(stride if size > 1 and not empty else 0 for size, stride in pairs),
        tensor.math_bits,
        tensor.quantiser,
        bool(tensor.requires_grad),
    )


class AliasedTensor(NamedTuple):
    """A tensor that may share elements with others, and its offset from the first of them, in elements."""

    name: str
    offset: int
    strides: tuple[int, ...]


METHODS = "bytecode:"
"""What stands before the constants of a lite archive's methods."""


def storage_key(name: str, tensor: Tensor) -> tuple[str, bool]:
    """What tensors have in common that share a storage when they are loaded.

    Constants of methods may lie in the storages of constants of code, which they repeat, but no loader reads
    both: the lite interpreter reads the methods, and ``torch.jit.load`` the code.
    """
    return tensor.record, name.startswith(METHODS)


def aliases(tensors: Mapping[str, Tensor]) -> Iterator[list[AliasedTensor]]:
    """The groups of tensors whose stretches of a storage overlap when loaded, in each the names sorted.

    A stretch reaches from a tensor's first element to its last. What is written into one may change others;
    tensors whose stretches do not overlap share no element.
    """
    storages: dict[tuple[str, bool], list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.record:
            storages.setdefault(storage_key(name, tensor), []).append(name)
    for names in storages.values():
        if len(names) > 1:
            yield from _aliases_in(tensors, names)


def _aliases_in(tensors: Mapping[str, Tensor], names: Sequence[str]) -> Iterator[list[AliasedTensor]]:
    """The groups in one storage."""
    groups: list[list[str]] = []
    end = -1
    for start, stop, name in sorted((*_bytes_of(tensors[name]), name) for name in names):
        if stop <= start:
            continue
        if start >= end:
            groups.append([])
        groups[-1].append(name)
        end = max(end, stop)
    for group in groups:
        if len(group) > 1:
            first = min(tensors[name].offset for name in group)
            yield [
                AliasedTensor(name, tensors[name].offset - first, properties_of(tensors[name]).strides)
                for name in sorted(group)
            ]


def _bytes_of(tensor: Tensor) -> tuple[int, int]:
    """The bytes of its storage from a tensor's first element to the end of its last."""
    if not tensor.count or len(tensor.shape) != len(tensor.strides):
        return 0, 0
    far = sum(stride * (size - 1) for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    width = tensor.width or 1
    return tensor.offset * width, (tensor.offset + far + 1) * width
