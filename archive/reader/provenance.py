"""The PyTorch releases that may have written an archive, judged by all its records.

Each record is written by some releases and not by others. No single one is trusted, because archives are
edited, migrated and shrunk. So each record votes for the releases that write it. The longest run of releases
with the most votes wins; among equally long runs, the newest. Records that did not vote for the whole run are
reported, because they show a change.

``torch.save`` and ``torch.package`` write their zips with the same C++ code, so version, ``byteorder`` and id
are evidence there, too. What ``torch.save`` writes has more, in its folder and its storages, ``data/KEY``:

==========  ==================  =========  ==========  ===================================
releases    folder              keys       sorted as   records
==========  ==================  =========  ==========  ===================================
1.6 - 1.8   ``archive``         addresses  texts       the version is last
1.9 - 1.12  ``archive``         0, 1, 2 …  texts       the same
1.13 - 2.0  as the file's name  0, 1, 2 …  texts       the same
2.1 - 2.6   as the file's name  0, 1, 2 …  texts       ``byteorder`` and id
2.7 - 2.13  as the file's name  0, 1, 2 …  numbers     those of ``SAVED_RECORDS`` as well
==========  ==================  =========  ==========  ===================================

All releases call the folder ``archive`` in what is saved to a stream, so that name proves nothing. Before 1.6
zips were an option, with the version first. Source: ``_save`` of ``torch/serialization.py`` in each release
from 1.4 to 2.13; seen in files of 1.5, 1.6, 1.8, 1.12, 1.13, 2.0, 2.6, 2.7 and 2.13.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats import callstack_map
from archive.formats.lowered import LOWERED_CLASS
from archive.formats.record_kinds import (
    BYTECODE,
    BYTEORDER,
    CALLSTACK_MAP,
    DATA,
    DATA_FOLDER,
    DELEGATED,
    FORMAT_VERSION,
    LEGACY_TREE,
    METHOD_HANDLES,
    MODULE_PATHS,
    STORAGE_ALIGNMENT,
    TRACED_INPUTS,
    UNNAMED_ROOT,
    is_legacy,
    version_record,
)
from archive.formats.releases import LATEST, RELEASE_NUMBERS, RELEASES, spanned, writers, writers_of_ranges
from archive.reader.recognition import ARCHIVE_KINDS, SAVED_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.releases import Number
    from archive.reader.archive import Archive

NAMED_RELEASES = {
    LEGACY_TREE: writers(legacy=True),
    DATA: writers(legacy=False),
    MODULE_PATHS: writers(instructions=Generation.MODULE_PATHS),
    METHOD_HANDLES: writers(instructions=Generation.METHOD_HANDLES),
    DELEGATED: writers(delegated=True),
    TRACED_INPUTS: ((2, 0), LATEST),
}
"""The first and last release that writes a record of this name."""
VERSION_RELEASES = {"1": (RELEASE_NUMBERS[0], (1, 4)), "2": ((1, 5), (1, 5))}
"""The first and last release that writes this archive version. 1.6 and later write higher ones."""
SAVED_RECORDS = (FORMAT_VERSION, STORAGE_ALIGNMENT)
"""Records that ``torch.save`` has written since 2.7."""
ADDRESS = re.compile("[1-9][0-9]{4,19}")
"""A storage's key up to 1.8: its address in memory, which is never in the first 4 KiB."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The releases that write a record as it was found.

    Attributes:
        record: its name, or a count of several alike.
        says: the property of it that is evidence.
        first: the first release that writes it so.
        last: the last one.
    """

    record: str
    says: str
    first: Number
    last: Number

    def __str__(self) -> str:
        return f"{self.record}: {self.says} ({spanned(self.first, self.last)})"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The run of releases that may have written an archive.

    Attributes:
        first: the first release of the run.
        last: the last one.
        evidence: the votes of all records.
        against: the votes that leave out a release of the run: something was changed.
    """

    first: Number
    last: Number
    evidence: tuple[Evidence, ...]
    against: tuple[Evidence, ...]

    def __str__(self) -> str:
        return f"PyTorch {spanned(self.first, self.last)}"

    def includes(self, number: Number) -> bool:
        """Whether a release may have written the archive exactly as it is."""
        return self.first <= number <= self.last and not self.against


def provenance(archive: Archive) -> Provenance:
    """Find the releases that may have written an archive, or a zip by ``torch.save`` or ``torch.package``."""
    evidence = tuple(_evidence(archive))
    votes = [sum(vote.first <= number <= vote.last for vote in evidence) for number in RELEASE_NUMBERS]
    wins = [count == max(votes) for count in votes]
    runs = [list(places) for win, places in groupby(range(len(wins)), wins.__getitem__) if win]
    run = max(reversed(runs), key=len)  # the last of equally long ones
    first, last = RELEASE_NUMBERS[run[0]], RELEASE_NUMBERS[run[-1]]
    against = tuple(vote for vote in evidence if first < vote.first or vote.last < last)
    return Provenance(first, last, evidence, against)


def _evidence(archive: Archive) -> Iterator[Evidence]:
    yield from _by_names(archive)
    yield from _by_version(archive)
    if archive.recognised.kind in SAVED_KINDS:
        yield from _by_storages(archive)
    if archive.recognised.kind not in ARCHIVE_KINDS:
        return
    yield from _by_debug_records(archive)
    yield from _by_lowered_modules(archive)
    if archive.bytecode is not None:
        version = archive.bytecode.version
        if any(release.bytecode == version for release in RELEASES):
            span = writers(bytecode=version)
            yield Evidence(BYTECODE, f"version {version}", *span)


def _by_names(archive: Archive) -> Iterator[Evidence]:
    """Records that only some releases write."""
    records = archive.records
    for name, span in NAMED_RELEASES.items():
        if name in records:
            yield Evidence(name, "there is one", *span)
    if METHOD_HANDLES in records and DELEGATED not in records:
        span = writers(instructions=Generation.METHOD_HANDLES, delegated=False)
        yield Evidence(DELEGATED, "there is none beside the handles", *span)
    for name in (BYTEORDER, RECORD_NAME):
        there = name in records
        span = writers(byteorder=there)
        yield Evidence(name, "there is one" if there else "none", *span)
    if any(name.startswith("bytecode/") for name in records):
        yield Evidence("bytecode/", "tensors of its own", (1, 7), (1, 8))
    if any(name.startswith("constants/") and name.endswith(".storage") for name in records):
        yield Evidence("constants/", "storages", (1, 9), LATEST)


def _by_version(archive: Archive) -> Iterator[Evidence]:
    """The archive's version, and its position among the records."""
    records = archive.records
    name = version_record(records)
    if name is None:
        return
    version = decoded(records[name].view()[:64]).strip()
    if version.isascii() and version.isdigit():
        yield Evidence(name, version, *VERSION_RELEASES.get(version, ((1, 6), LATEST)))
    if DATA in records:
        first = next(iter(records)) == name
        span = writers(version_first=first, legacy=False)
        yield Evidence(name, "the first record" if first else "after the others", *span)


def _by_storages(archive: Archive) -> Iterator[Evidence]:
    """How ``torch.save`` names and orders what it writes."""
    records, first = archive.records, RELEASE_NUMBERS[0]
    for name in SAVED_RECORDS:
        if name in records:
            yield Evidence(name, "there is one", (2, 7), LATEST)
        else:
            yield Evidence(name, "none", first, (2, 6))
    if archive.root != UNNAMED_ROOT and next(iter(records)) == DATA:
        yield Evidence(f"{archive.root}/", "the folder is named as a file", (1, 13), LATEST)
    keys = [name.removeprefix(DATA_FOLDER) for name in records if name.startswith(DATA_FOLDER)]
    numbers = [str(number) for number in range(len(keys))]
    as_texts = sorted(numbers)
    if not keys:
        return
    if sorted(keys) == as_texts:
        yield Evidence(DATA_FOLDER, "storages are numbered", (1, 9), LATEST)
        if keys == numbers != as_texts:
            yield Evidence(DATA_FOLDER, "in the order of their numbers", (2, 7), LATEST)
        elif keys == as_texts != numbers:
            yield Evidence(DATA_FOLDER, "in the order of texts", first, (2, 6))
    elif all(map(ADDRESS.fullmatch, keys)):
        yield Evidence(DATA_FOLDER, "storages are named by addresses", first, (1, 8))


def _by_debug_records(archive: Archive) -> Iterator[Evidence]:
    """The layouts of source ranges and of the call-stack map."""
    table = archive.range_table
    legacy = any(map(is_legacy, table.names))
    for layout in RangeLayout:
        count = table.layouts.count(layout)
        if count and layout is not RangeLayout.EMPTY:
            records = f"{count} source-range record{'' if count == 1 else 's'}"
            span = writers(legacy=True, ranges=RangeLayout.PAIR) if legacy else writers_of_ranges(layout)
            yield Evidence(records, str(layout), *span)
    if archive.handle_table is not None and len(archive.handle_table):
        generation = callstack_map.generation(archive.handle_table)
        span = writers(callstacks=generation)
        yield Evidence(CALLSTACK_MAP, generation, *span)


def _by_lowered_modules(archive: Archive) -> Iterator[Evidence]:
    """The classes and states of lowered modules."""
    for path, state in archive.lowered.items():
        record = f"{DATA}, {path or 'the top module'}"
        if LOWERED_CLASS.fullmatch(state.type_name):
            if state.wrapped:
                yield Evidence(record, "in a LoweredWrapper", (1, 11), LATEST)
            else:
                yield Evidence(record, "in no LoweredWrapper", (1, 10), (1, 10))
        elif state.generation is Generation.LOWERED_2:
            yield Evidence(record, state.generation, (1, 6), (1, 8))
        else:
            yield Evidence(record, state.generation, (1, 9), (1, 9))
