"""Which PyTorch release an archive comes from, told by all its records together.

Each record was written by some releases and not by others. No single one is trusted: archives are edited,
migrated and shrunk. The answer is the releases that most records speak for, the longest run of them, or of
equally long ones the newest; records that speak against one of them are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo.model import Generation, Layout
from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import BYTECODE
from archive.formats.inert_values import DATA
from archive.formats.lowered import LOWERED_CLASS
from archive.formats.record_kinds import BYTEORDER, LEGACY_TREE, VERSION_RECORDS, is_legacy
from archive.formats.releases import LATEST, RELEASE_NUMBERS, RELEASES, spanned
from archive.formats.source_ranges import DELEGATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.releases import Number
    from archive.reader.archive import Archive

OLDEST = RELEASE_NUMBERS[0]
LAYOUT_RELEASES = {
    Layout.PAIR: ((1, 3), (1, 8)),
    Layout.TAG_FIRST: ((1, 8), (1, 9)),
    Layout.INLINE: ((1, 9), LATEST),
    Layout.STRING_TABLE: ((1, 12), LATEST),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one record says.

    Attributes:
        record: its name, or what is the matter with several.
        says: what was found.
        first: the first release that writes it.
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
    """Where an archive comes from.

    Attributes:
        first: the first release that most records speak for.
        last: the last one.
        evidence: what each record says.
        against: those of it that speak for other releases: something has been changed.
    """

    first: Number
    last: Number
    evidence: tuple[Evidence, ...]
    against: tuple[Evidence, ...]

    def __str__(self) -> str:
        return f"PyTorch {spanned(self.first, self.last)}"

    def includes(self, number: Number) -> bool:
        """Whether a release may have written the archive just as it is."""
        return self.first <= number <= self.last and not self.against


def provenance(archive: Archive) -> Provenance:
    """Which releases may have written an archive.

    Raises:
        ArchiveError: a debug record is broken.
    """
    evidence = tuple(_evidence(archive))
    votes = [sum(one.first <= number <= one.last for one in evidence) for number in RELEASE_NUMBERS]
    runs = [list(run) for best, run in groupby(range(len(votes)), lambda at: votes[at] == max(votes)) if best]
    chosen = max(runs, key=lambda run: (len(run), run))
    first, last = RELEASE_NUMBERS[chosen[0]], RELEASE_NUMBERS[chosen[-1]]
    against = tuple(one for one in evidence if first < one.first or one.last < last)
    return Provenance(first, last, evidence, against)


def _evidence(archive: Archive) -> Iterator[Evidence]:
    yield from _container(archive)
    table = archive.range_table
    legacy = any(map(is_legacy, table.names))
    for layout, (first, last) in LAYOUT_RELEASES.items():
        count = table.layouts.count(layout)
        if count:
            span = ((1, 2), (1, 2)) if legacy else (first, last)
            records = "1 source-range record" if count == 1 else f"{count} source-range records"
            yield Evidence(records, str(layout), *span)
    if archive.handle_table is not None and len(archive.handle_table):
        generation = callstack_map.generation(archive.handle_table)
        three = generation is Generation.CALLSTACK_3
        yield Evidence(
            callstack_map.CALLSTACK_MAP, generation, *(((1, 9), (1, 9)) if three else ((1, 10), LATEST))
        )
    yield from _lowered(archive)
    bytecode = archive.bytecode
    written = [one for one in RELEASES if bytecode is not None and one.bytecode == bytecode.version]
    if bytecode is not None and written:
        yield Evidence(BYTECODE, f"version {bytecode.version}", written[0].first, written[-1].last)


def _container(archive: Archive) -> Iterator[Evidence]:
    records = archive.records
    names = list(records)
    for name, first, last in (
        (LEGACY_TREE, OLDEST, (1, 2)),
        (DATA, (1, 3), LATEST),
        (method_handles.MODULE_PATHS, (1, 7), (1, 8)),
        (method_handles.METHOD_HANDLES, (1, 9), LATEST),
        (DELEGATED, (1, 10), LATEST),
        ("traced_inputs.pkl", (2, 0), LATEST),
    ):
        if name in records:
            yield Evidence(name, "there is one", first, last)
    if method_handles.METHOD_HANDLES in records and DELEGATED not in records:
        yield Evidence(DELEGATED, "there is none beside the handles", (1, 9), (1, 9))
    for name in (BYTEORDER, RECORD_NAME):
        there = name in records
        yield Evidence(
            name, "there is one" if there else "none", *(((2, 1), LATEST) if there else (OLDEST, (2, 0)))
        )
    if any(name.startswith("bytecode/") for name in names):
        yield Evidence("bytecode/", "tensors of its own", (1, 7), (1, 8))
    if any(name.startswith("constants/") and name.endswith(".storage") for name in names):
        yield Evidence("constants/", "storages", (1, 9), LATEST)
    version = next((name for name in VERSION_RECORDS if name in records), None)
    if version is not None:
        yield from _version(version, decoded(records[version].view()[:64]).strip())
        if DATA in records:
            is_first = names[0] == version
            where = "the first record" if is_first else "behind the others"
            yield Evidence(version, where, *(((1, 3), (1, 5)) if is_first else ((1, 6), LATEST)))


def _version(name: str, says: str) -> Iterator[Evidence]:
    spans = {"1": (OLDEST, (1, 4)), "2": ((1, 5), (1, 5))}
    if says.isascii() and says.isdigit():
        yield Evidence(name, says, *spans.get(says, ((1, 6), LATEST)))


def _lowered(archive: Archive) -> Iterator[Evidence]:
    for path, state in archive.lowered.items():
        record = f"{DATA}, {path or 'the top module'}"
        if not LOWERED_CLASS.fullmatch(state.type_name):
            old = state.generation is Generation.LOWERED_2
            yield Evidence(record, state.generation, *(((1, 6), (1, 8)) if old else ((1, 9), (1, 9))))
        elif state.wrapped:
            yield Evidence(record, "in a LoweredWrapper", (1, 11), LATEST)
        else:
            yield Evidence(record, "in no LoweredWrapper", (1, 10), (1, 10))
