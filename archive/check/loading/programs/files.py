"""The records of a ``.pt2`` beside its programs: what PyTorch asks for, and what it reads of itself.

Source: ``load_pt2``, ``PT2ArchiveReader`` and ``_load_exported_programs`` in
``torch/export/pt2_archive/_package.py`` of PyTorch 2.13; ``torch/csrc/export/pt2_archive_constants.h``.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import shown
from archive.check.loading.programs.payloads import CONFIGS, NO_FILE
from archive.check.loading.records import INTEGER, LOADED_VERSIONS
from archive.formats.exported.mismatches import JsonFault
from archive.formats.record_kinds import EXPORTED_FORMAT, PROGRAMS, VERSION_RECORDS, is_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.reader.records import ReadableRecord

EXPORTED_VERSION = "archive_version"
VALUES = {
    EXPORTED_FORMAT: ("pt2", "Invalid archive format"),
    EXPORTED_VERSION: ("0", "does not match our current archive version"),
}
"""What these records hold, and what PyTorch says where they hold something else."""
INPUTS = "data/sample_inputs/{}.pt"
"""The record of a program's sample inputs."""
EXTRA = "extra/"
CHUNK_BYTES = 1 << 20
"""Bytes that are decoded at once."""


class RecordFault(NamedTuple):
    """A fault of a record as a whole; ``record`` is "" where there is none."""

    record: str
    fault: JsonFault


def file_faults(records: Mapping[str, ReadableRecord]) -> Iterator[RecordFault]:
    """The faults of the records that PyTorch reads, except programs and tables.

    Args:
        records: those that can be read.
    """
    for name, (value, message) in VALUES.items():
        if name not in records:
            yield _missing(name)
        else:
            found = bytes(records[name].view()[:20])
            if found != value.encode():
                told = message if found.isascii() else ""
                yield RecordFault(name, JsonFault("", f"expected {value!r}, found {shown(found)}", told))
    yield from _version_faults(records)
    for name in records:
        if name.startswith(PROGRAMS[0]):
            yield from _program_faults(records, name)
        elif name.startswith(EXTRA):
            yield from _extra_faults(records, name)


def _version_faults(records: Mapping[str, ReadableRecord]) -> Iterator[RecordFault]:
    """The faults of the zip's version, which is that of all of PyTorch's archives."""
    name = next((name for name in VERSION_RECORDS if name in records), None)
    number = INTEGER.match(bytes(records[name].view()[:64])) if name else None
    if name and number and int(number[1]) not in LOADED_VERSIONS:
        known = f"{LOADED_VERSIONS[0]} to {LOADED_VERSIONS[-1]}"
        problem = f"expected a version from {known}, found {int(number[1])}"
        yield RecordFault(name, JsonFault("", problem, "Attempted to read a PyTorch file with version"))


def _program_faults(records: Mapping[str, ReadableRecord], record: str) -> Iterator[RecordFault]:
    """The faults of what goes with a program: PyTorch takes each record of the folder for one."""
    folder, ending = PROGRAMS
    name = record[len(folder) : -len(ending)]  # whatever the name ends in, as PyTorch does
    if not is_program(record):
        problem = f"expected a name that ends in {ending}, as PyTorch takes it for a program"
        yield RecordFault(record, JsonFault("", problem, None))
    if INPUTS.format(name) not in records:
        yield _missing(INPUTS.format(name))
    for tensors, config in CONFIGS.items():
        table = f"{tensors}{name}{config}"
        if table not in records and f"{tensors}{name}.pt" not in records:
            problem = f"expected a record {table}, found none"
            yield RecordFault("", JsonFault("", problem, f"{table} not found in PT2 archive"))


def _extra_faults(records: Mapping[str, ReadableRecord], name: str) -> Iterator[RecordFault]:
    decoder, data = getincrementaldecoder("utf-8")(), records[name].view()
    try:
        for at in range(0, len(data), CHUNK_BYTES):
            decoder.decode(data[at : at + CHUNK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        fault = JsonFault("", "expected UTF-8, found other bytes", "UnicodeDecodeError")
        yield RecordFault(name, fault)


def _missing(name: str) -> RecordFault:
    return RecordFault("", JsonFault("", f"expected a record {name}, found none", f"{NO_FILE}{name}"))
