"""What a record is about: what makes two files the same model, for ``digest`` and ``diff`` alike.

Two files are *the same model* if all that is of :attr:`Level.MODEL` is the same in both, by what it says:
tensors by their elements, code without the names that a process chose. ``digest`` has parts of that level and
no others; ``diff`` says ``same model`` if no difference is of it.

Two other comparisons are narrower on purpose, and ask for bytes: the archive id
(:mod:`archive.formats.archive_id`) pairs an archive with its companion, and the check of a migration
(:mod:`archive.rewrite.migrate.migrate`) is that nothing was lost on the way.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import BYTEORDER, VERSION_RECORDS, RecordKind
from archive.reader.recognition.kinds import PROGRAM_KINDS, SAVED_KINDS, kind_in

if TYPE_CHECKING:
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
        LAYOUT: how records are named and stored, and in which order.
    """

    MODEL = "model"
    EXTRAS = "extras"
    FORMAT = "format"
    DEBUG = "debug"
    IDS = "ids"
    LAYOUT = "layout"


BY_NAME = {
    **dict.fromkeys(VERSION_RECORDS, Level.FORMAT),
    RECORD_NAME: Level.IDS,
    ".data/python_version": Level.FORMAT,
    BYTEORDER: Level.LAYOUT,
    ".format_version": Level.LAYOUT,
    ".storage_alignment": Level.LAYOUT,
}
"""What some records are about, by name."""
BY_KIND = {
    RecordKind.FORMAT: Level.FORMAT,
    RecordKind.EXTRA: Level.EXTRAS,
    RecordKind.INPUTS: Level.EXTRAS,
    RecordKind.KERNELS: Level.DEBUG,
    RecordKind.INSTRUCTIONS: Level.DEBUG,
}
"""The same by kind; other kinds are debug info, or the model."""
TRACED = ("traced_inputs.pkl", "traced_inputs/")
"""The example inputs that PyTorch 2.0 and later keep of a traced model: a value and its storages."""
RELEASE_KEYS = ("torch_version", "schema_version")
"""What an exported program says of the release that wrote it: :attr:`Level.FORMAT`."""


def level_of(archive: Archive, name: str) -> Level:
    """What a record is about, by its name and the kind of its archive."""
    kind = kind_in(archive.recognised.kind, name)
    if name in archive.spare.records:
        return Level.DEBUG
    if name.startswith(TRACED):
        return Level.EXTRAS
    return BY_NAME.get(name) or BY_KIND.get(kind) or (Level.DEBUG if kind.is_debug else Level.MODEL)


def version_of_operators(archive: Archive) -> bytes | None:
    """What the version record of TorchScript says, which is the model's; None for other kinds of archives.

    Operators of one name may do something else in another version.
    """
    if not archive.has_code or archive.recognised.kind in SAVED_KINDS | PROGRAM_KINDS:
        return None
    record = next((archive.records[name] for name in VERSION_RECORDS if name in archive.records), None)
    return None if record is None else bytes(record.view()).strip()
