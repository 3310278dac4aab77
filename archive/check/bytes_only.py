"""Files whose bytes are compared with what the file says of them, and nothing else: what they say isn't read.

- Checkpoints and other objects by ``torch.save``, packages without TorchScript, and zips of any kind: each
  record has the size and the crc that the zip declares. Nothing of a record is kept, and no pickle is read.
- Files of tensors: the file is as long as its header says, each tensor lies within it, or in a file beside it
  that exists. These formats have no checksums, so nobody can know whether a bit of their weights has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.check.records import note_without_checksums
from archive.container.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.diagnostics import Diagnostics
    from archive.reader.records import TensorRecords

NOT_READ = "what its records say"
NO_CHECKSUMS = "the bits of its data, for which the format has no checksums"


def check_sums(records: Mapping[str, Record], report: Diagnostics) -> None:
    """Compare sizes and checksums of records of zips with their bytes."""
    whole = [name for name, record in records.items() if report.attempt(name, record.check)]
    report.looked(len(whole), "record", "read whole")
    without = [name for name in whole if records[name].size and not records[name].crc32]
    note_without_checksums(without, whole, len(records), report)
    report.unchecked.append(NOT_READ)


def check_tensors(file: TensorRecords, report: Diagnostics) -> None:
    """Check that the tensors of a file are there, which could be opened; and checksums of shards in zips."""
    for name in file.missing:
        report.add("error", one_line(name), "", "expected this file of weights beside it, found none")
    there = [tensor for tensor in file.tensors.values() if tensor.record]
    report.looked(len(there), "tensor", "found where the header says")
    in_zips = {name: record for name, record in file.records.items() if isinstance(record, Record)}
    if in_zips:
        check_sums(in_zips, report)
    if not in_zips or any(tensor.record not in in_zips for tensor in there):
        report.unchecked.append(NO_CHECKSUMS)
