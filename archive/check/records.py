"""Rules for records as such: sizes and checksums, required records, readable pickles, texts in UTF-8.

- Every record, tensors too, has the size and the crc that the archive declares. Crc 0 is allowed: PyTorch can
  be asked not to compute it.
- ``.data/version`` or ``version`` exists and holds a number.
- ``byteorder``, if it exists, is ``little``: of these kinds of archives no loader reads it, and on nearly all
  machines ``big`` elements are loaded as other numbers. Only ``torch.load`` turns them.
- ``.data/serialization_id``, if it exists, is the id that some platform's rules give the records.
- ``data.pkl``, ``constants.pkl`` and the other pickles at the root can be read; the other modules check debug
  records.
- Each code record has its record of source ranges, and each of these its code record. PyTorch 1.0 and 1.1
  wrote none, and an archive whose debug info was taken out has none: one note, which of a split archive names
  its companion.
"""

from __future__ import annotations

import re
import zlib
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import distinct_values
from archive.base.errors import counted, shown
from archive.container.serialization_id import PLATFORMS, RECORD_NAME, writers
from archive.formats.record_kinds import (
    BYTECODE,
    BYTEORDER,
    CALLSTACK_MAP,
    DATA,
    DELEGATED,
    LITTLE_ENDIAN,
    METHOD_HANDLES,
    MODULE_PATHS,
    PACKAGE_CODE,
    VERSION_RECORDS,
    code_of,
    is_code,
)
from archive.reader.archive import shared_value
from archive.reader.lacking import why_split_off
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from archive.base.columns import Ints
    from archive.base.diagnostics import Diagnostics
    from archive.base.strings import StringTable
    from archive.reader.archive import Archive

VERSION_NUMBER = re.compile(rb"[0-9]{1,19}\n?")
PARSED_ELSEWHERE = {
    CALLSTACK_MAP,
    METHOD_HANDLES,
    MODULE_PATHS,
    BYTECODE,
}


def check_records(archive: Archive, report: Diagnostics) -> set[str]:
    """Check records as such.

    Returns:
        The names of the records that can be read. Pickles of debug info are only inflated here, not parsed.
    """
    readable = check_intact(archive, report)
    if not any(name in archive.records for name in VERSION_RECORDS):
        report.add("error", "", "", f"expected a record {' or '.join(VERSION_RECORDS)}, found none")
    for name in VERSION_RECORDS:
        content = bytes(archive.records[name].view()[:64]) if name in readable else b"0"
        if not VERSION_NUMBER.fullmatch(content):
            report.add("error", name, "", f"expected a number, found {shown(content)}")
    if BYTEORDER in readable and (order := bytes(archive.records[BYTEORDER].view()[:64])) != LITTLE_ENDIAN:
        message = f"expected {shown(LITTLE_ENDIAN)}, found {shown(order)}"
        unread = "PyTorch 2.13 loads elements as if they were in the order of its machine"
        report.add("warning", BYTEORDER, "", f"{message}: {unread}")
    if RECORD_NAME in readable:
        serialization_id = bytes(archive.records[RECORD_NAME].view()[:64])
        if not writers(archive.records.values(), serialization_id):
            *others, last = (platform.name for platform in PLATFORMS)
            known = f"{', '.join(others)} or {last}"
            expected = f"the id that PyTorch on {known} gives these records"
            message = f"expected {expected}, found {shown(serialization_id)}"
            report.add("warning", RECORD_NAME, "", message)
    _check_pairs(archive, report)
    pickles = {name for name in readable if "/" not in name and name.endswith(".pkl")} - PARSED_ELSEWHERE
    return readable - {
        name for name in pickles if not report.attempt(name, partial(_is_value, archive, name))
    }


def check_intact(archive: Archive, report: Diagnostics) -> set[str]:
    """Check that records have the sizes and checksums that the archive declares; those that have."""
    records = archive.records
    readable = {name for name in records if report.attempt(name, records[name].view) is not None}
    report.looked(len(readable), "record", "read whole")
    unchecked = [record for name, record in records.items() if name in readable and record.crc32 == 0]
    without = [record.name for record in unchecked if zlib.crc32(record.view())]
    note_without_checksums(without, readable, len(records), report)
    return readable


def note_without_checksums(
    without: Sequence[str], readable: Collection[str], count: int, report: Diagnostics
) -> None:
    """Note how many of the readable records, of all ``count``, have checksums, and which have none."""
    report.looked(len(readable) - len(without), "checksum", "compared")
    if without:
        some = ", ".join(map(shown, without[:3])) + ("…" if len(without) > 3 else "")  # noqa: PLR2004 (examples)
        report.add("note", "", "", f"no crc for {len(without):,} of {counted(count, 'record')}: {some}")


def check_bytes(archive: Archive, name: str, build: Callable[..., object], report: Diagnostics) -> None:
    """Note the first byte in which a record differs from what PyTorch would have written.

    Args:
        build: writes the record; calls ``receive`` with its bytes, part by part.
    """
    actual = np.frombuffer(archive.records[name].view(), np.uint8)
    size, other = 0, -1

    def compare(part: bytes) -> None:
        nonlocal size, other
        there = actual[size : size + len(part)]
        if other < 0:
            wrong = np.flatnonzero(there != np.frombuffer(part, np.uint8)[: len(there)])
            other = size + int(wrong[0]) if len(wrong) else -1
        size += len(part)

    if report.attempt(name, partial(build, receive=compare)) is None:
        return
    if other >= 0 or len(actual) != size:
        at = other if other >= 0 else min(len(actual), size)
        message = f"from here on not as PyTorch writes it ({len(actual):,} bytes, which would be {size:,})"
        report.add_each("note", name, "records in other bytes", [at], lambda at: (f"byte {at}", message))


def _is_value(archive: Archive, name: str) -> bool:
    """Read a pickle."""
    _ = archive.data if name == DATA else shared_value(archive, name)
    return True


def _check_pairs(archive: Archive, report: Diagnostics) -> None:
    """Check that code records and records of source ranges come in pairs."""
    package = archive.recognised.kind is FileKind.PACKAGE  # which may have a module of its own named code
    code = [
        name for name in archive.records if is_code(name) and (name.startswith(PACKAGE_CODE) or not package)
    ]
    mapped = {code_of(name): name for name in archive.range_records if name != DELEGATED}
    if not mapped and (split_off := why_split_off(archive)):
        report.add("note", "", "", split_off)
        return
    if len(code) > 1 and not mapped:
        report.add("note", "", "", f"no source ranges for any of {len(code):,} code records")
        return
    for name in code:
        if name not in mapped:
            report.add_each(
                "note", name, "code records without them", [0], lambda _: ("", "code without source ranges")
            )
    for name, debug in mapped.items():
        if name not in archive.records:
            report.add("warning", debug, "", f"source ranges without their code record {shown(name)}")


# --- texts

CHUNK_BYTES = 1 << 24
"""Bytes looked at together; bounds the memory for large buffers."""


def check_texts(strings: StringTable, records: Sequence[str], report: Diagnostics) -> None:
    """Warn about texts that are not UTF-8; PyTorch reads any bytes.

    Args:
        strings: the texts, in the order in which they stand in their buffers.
        records: the name of the record that each buffer holds.
    """
    bounds = np.searchsorted(strings.buffer, np.arange(len(strings.buffers) + 1))
    for number, (record, buffer) in enumerate(zip(records, strings.buffers, strict=True)):
        own = slice(int(bounds[number]), int(bounds[number + 1]))
        wrong: dict[int, str] = {}
        for index in _beyond_ascii(buffer, strings.start[own], strings.length[own]).tolist():
            try:
                str(strings.data(own.start + index), "utf-8")
            except UnicodeDecodeError as error:
                at = int(strings.start[own.start + index]) + error.start
                wrong[at] = f"expected UTF-8, found 0x{buffer[at]:02x} ({error.reason})"

        def describe(at: int, wrong: dict[int, str] = wrong) -> tuple[str, str]:
            return f"byte {at}", wrong[at]

        report.add_each("warning", record, "texts that are not UTF-8", list(wrong), describe)


def _beyond_ascii(buffer: memoryview, start: Ints, length: Ints) -> Ints:
    """The numbers of a buffer's strings that have bytes from 0x80 on, sorted."""
    data = np.frombuffer(buffer, np.uint8)
    owners = [np.zeros(0, np.int64)]
    for low in range(0, len(data) if len(start) else 0, CHUNK_BYTES):
        at = np.flatnonzero(data[low : low + CHUNK_BYTES] >= 0x80) + low  # noqa: PLR2004 (ASCII ends there)
        owner = np.searchsorted(start, at, "right") - 1
        inside = (owner >= 0) & (at < (start + length)[owner])
        owners.append(distinct_values(owner[inside]))
    return distinct_values(np.concatenate(owners))
