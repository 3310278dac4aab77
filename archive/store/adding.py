"""A file that is added: its companion is made, read and checked, and stored as its difference from a base.

What is kept of a file is the companion itself, or the one that ``split`` would make of it. Its base is the
companion among its kin from which it differs least.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, in_file, one_line, several, shown
from archive.base.strings import decoded
from archive.companion.contents import LINE_DIGESTS
from archive.companion.magic import is_companion
from archive.companion.parse import parse_companion
from archive.formats.record_kinds import KINDS_TO_SOURCE, MetadataKind, place_of_companion
from archive.formats.release_label import MOST_LABELS, checked_label
from archive.io.mapped import Mapped, in_memory
from archive.reader import opening
from archive.reader.collect import line_digests_of
from archive.reader.facts import facts_of
from archive.reader.halves.companions import companion_of as split_companion_of
from archive.reader.line_digests import packed_digests
from archive.reader.recognition import SHRUNK_KINDS, kind_in
from archive.store.files import MOST_SHARED
from archive.store.kept import (
    GOOD,
    HEADER,
    MOST_TIME,
    STRONG,
    CompanionParts,
    Given,
    KeptNotes,
    build_kept,
    difference,
)
from archive.store.plain import PlainForm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.base.limits import Limits
    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.reader.facts import Facts
    from archive.store.entries import StoreEntry
    from archive.store.files import KeptFiles
    from archive.store.kept import Base, Inflated

EPOCH = "SOURCE_DATE_EPOCH"
"""The environment variable that has the time to note, where builds are to be the same each time."""
SECONDS = re.compile("[0-9]{1,12}")
MOST_DEPTH = 50
"""The most bases in a chain: reading the first companion of a chain inflates all of them."""
MOST_TRIED = 4
"""Companions that are tried as the base."""
LITTLE = 64
"""Bytes that differ from a base so little that no other one is tried: less than the header takes."""
WORTH = 0.8
"""A base must make the file smaller by this factor: a companion without one is read at once."""


class NoDebugInfoError(ArchiveError):
    """An archive from which no companion can be made."""


class TakenError(ArchiveError):
    """A companion whose archive id or handle prefix another one has already."""


# --- a file → its companion


class MadeCompanion(NamedTuple):
    """A companion, and the facts about its archive that it does not hold itself.

    Attributes:
        lines: digests of the lines of each code record, concatenated; none where it has no code.
        facts: by which failures name the companion, where it was opened to make this.
        labels: of releases that have it.
        form: its plain form, where that was made already.
    """

    companion: bytes
    file: str
    root: str
    serialization_id: str
    lines: Mapping[str, bytes] = MappingProxyType({})
    facts: Facts | None = None
    labels: tuple[str, ...] = ()
    form: PlainForm | None = None

    def labelled(self, label: str) -> MadeCompanion:
        """The same with one more label; "" is none."""
        return self._replace(labels=united(self.labels, [checked_label(label)])) if label else self

    def plain_form(self, limits: Limits) -> PlainForm:
        """Its plain form, whose proof takes half of the time of adding it."""
        with in_file(self.file), memory.charged(limits.allowance(len(self.companion))):
            return self.form or PlainForm.of(memoryview(self.companion))


def made_of(
    source: Source, name: str, limits: Limits, label: str = "", *, has_lines: bool = False
) -> MadeCompanion:
    """The companion of a companion, or of an archive with debug info; ``label`` is one of its releases.

    Args:
        has_lines: let the companion that is made of an archive have the digests of its lines itself.
    """
    file = Mapped(in_memory(source), name or None)
    file_name = one_line(PurePath(os.fspath(name) or file.name).name)
    data = bytes(file.data) if is_companion(file.data) else b""
    with (
        memory.charged(limits.allowance(len(file.data))),
        opening.opened(file, SHRUNK_KINDS) as archive,
        in_file(archive.file),
    ):
        own = archive.companion.label if archive.companion else ""
        if data:
            _ = archive.records  # all of it is read and checked
            return MadeCompanion(data, file_name, "", "", {}, facts_of(archive)).labelled(own).labelled(label)
        companion = _companion_of(archive, has_lines=has_lines)
        lines = {name: packed_digests(digests) for name, digests in line_digests_of(archive).items()}
        root, serialization_id = one_line(archive.root), facts_of(archive).serialization_id
        made = MadeCompanion(companion, file_name, root, serialization_id, lines)
        return made.labelled(own).labelled(label)


def _companion_of(archive: Archive, *, has_lines: bool) -> bytes:
    """The companion in an archive, or the one that ``split`` would make of it."""
    if archive.companion is not None:
        records = archive.container.records
        return bytes(records[place_of_companion(records)].view())
    kinds = {kind_in(archive.recognised.kind, name) for name in archive.container.records}
    traced = MetadataKind.TRACES in archive.programs.kinds or bool(archive.spare.records)
    if not kinds & KINDS_TO_SOURCE and not traced:  # handles that a split archive keeps lead nowhere
        raise NoDebugInfoError("no debug info in it", file=archive.file)
    return split_companion_of(archive, fingerprints=has_lines)


# --- a companion → what is kept


class NewCompanion(NamedTuple):
    """A companion that is about to be added."""

    parts: CompanionParts
    notes: KeptNotes
    facts: Facts


def new_of(made: MadeCompanion, limits: Limits) -> NewCompanion:
    """A companion that is about to be added, read and checked."""
    plain, recipe = made.plain_form(limits)
    facts = (made.file, _now(), made.root, made.serialization_id, recipe, made.lines, made.labels)
    notes = KeptNotes(*facts)
    parts = CompanionParts(made.companion, notes.built(), plain)
    if made.facts is not None:
        return NewCompanion(parts, notes, made.facts)
    with (
        opening.open(made.companion, limits=limits, name=made.file) as archive,
        memory.charged(archive.allowance),
    ):
        return NewCompanion(parts, notes, facts_of(archive))


def _now() -> int:
    """The time to note, in seconds since 1970."""
    given = os.environ.get(EPOCH, "")
    if not given:
        return int(time.time())
    if not SECONDS.fullmatch(given) or int(given) >= MOST_TIME:
        expected = f"seconds since 1970, fewer than {MOST_TIME:,}"
        raise ArchiveError(file=f"${EPOCH}", expected=expected, found=shown(given))
    return int(given)


def united(labels: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """The labels of a companion, and others that it gets."""
    return tuple(dict.fromkeys([*labels, *others]))


def check_labels(labels: Sequence[str], name: str) -> None:
    """Refuse a companion with more labels than one may have."""
    if len(labels) > MOST_LABELS:
        raise ArchiveError(
            file=name, expected=f"labels of {MOST_LABELS} releases at most", found=f"{len(labels)}"
        )


def with_notes(new: NewCompanion, kept: Inflated, limits: Limits) -> NewCompanion:
    """A companion with line digests of its code: its own ones, or those kept under its archive id.

    Archives of one id have the same code. Where the new companion adds nothing but lines noted beside it or
    labels, the kept one gets them. One that brings line digests itself gets the kept one's labels.
    """
    notes, data, plain = new.notes, new.parts.data, new.parts.plain
    if is_same(kept, new.parts):
        notes = replace(notes, labels=united(kept.notes.labels, notes.labels))
        is_kept = has_lines(kept.notes, kept.plain) or not _has_lines(plain)
        if is_kept and not holds_all(kept, new):
            lines = {} if _has_lines(kept.plain) else kept.notes.lines or notes.lines
            notes = replace(kept.notes, lines=lines, labels=notes.labels)
            data, plain = Given.of(kept, limits).data, bytes(kept.plain)
    notes = replace(notes, lines=notes.lines or kept.notes.lines)
    return NewCompanion(CompanionParts(data, notes.built(), plain), notes, new.facts)


def holds_all(kept: Inflated, new: NewCompanion) -> bool:
    """Whether the kept companion has the facts of a new one, its line digests and its labels."""
    lacks_lines = has_lines(new.notes, new.parts.plain) and not has_lines(kept.notes, kept.plain)
    return not lacks_lines and set(new.notes.labels) <= set(kept.notes.labels) and is_same(kept, new.parts)


def has_lines(notes: KeptNotes, plain: bytes | memoryview) -> bool:
    """Whether a companion has line digests: itself, or noted beside it."""
    return bool(notes.lines) or _has_lines(plain)


def is_same(kept: Inflated, parts: CompanionParts) -> bool:
    """Whether a companion has the facts of the kept one, in any layout; either may lack line digests."""
    if kept.header.digest == digest_of(parts.data):
        return True
    if _has_lines(kept.plain) and _has_lines(parts.plain):
        return _content(kept.plain) == _content(parts.plain)
    return _content(kept.plain, lines=False) == _content(parts.plain, lines=False)


def _has_lines(plain: bytes | memoryview) -> bool:
    """Whether a companion itself has line digests."""
    return LINE_DIGESTS[0] in parse_companion(memoryview(plain)).columns


def _content(plain: bytes | memoryview, *, lines: bool = True) -> tuple[dict[str, bytes], list[bytes], bytes]:
    """All facts of a companion, in whichever layout and release: columns by name, strings, raw records.

    Args:
        lines: with its line digests, if it has any.
    """
    parsed = parse_companion(memoryview(plain)).unlabelled()
    parsed = parsed if lines else parsed.without_line_digests()
    columns: dict[str, bytes] = {
        name: np.ascontiguousarray(values, "<i8").tobytes() for name, values in parsed.columns.items()
    }
    return columns, parsed.strings.copies(), bytes(parsed.raw)


def differing(kept: Inflated, parts: CompanionParts) -> str:
    """How a companion differs from the one that is kept under its archive id, in words."""
    both = [_content(plain, lines=False) for plain in (kept.plain, parts.plain)]
    if both[0] == both[1]:
        return "not the digests of its lines"
    was, now = (dict.fromkeys(strings) for _, strings, _ in both)
    new, old = ([text for text in some if text not in others] for some, others in ((now, was), (was, now)))
    if not (new or old):
        return "not what leads to its source, as where the same text stands at other lines"
    has, lacks, texts = ("has", "lacks", new) if new else ("lacks", "has", old)
    shown_texts = several([shown(decoded(text).strip()) for text in texts], 1)
    return f"its source {has} {shown_texts}, which the kept one {lacks}"


def content_of(kept: Inflated) -> str:
    """A digest, in hex, of all that :func:`is_same` compares, and of line digests and labels beside it."""
    columns, strings, raw = _content(kept.plain)
    pairs = [*sorted(kept.notes.lines.items()), *sorted(columns.items())]
    pairs += [("label", label.encode()) for label in sorted(kept.notes.labels)]
    parts = [part for name, data in pairs for part in (name.encode(), data)]
    parts += [*strings, raw]
    lengths = np.array([len(part) for part in parts], "<i8")
    return digest_of(lengths.tobytes(), *parts).hex()


def taken_prefix(prefix: int, owner: str) -> TakenError:
    """The refusal of a companion whose prefix is another archive's."""
    return TakenError(
        f"is the prefix of another archive already, {owner}; "
        "`split --salt TEXT` gives this archive another one",
        file=f"prefix {prefix}",
    )


# --- the base


def kin_of(facts: Facts, entries: dict[str, StoreEntry]) -> Sequence[StoreEntry]:
    """The companions that may resemble one, likeliest first: those of its top class, those added last.

    Entries are in the order of adding. Their depths are the index's; :func:`smallest` looks them up.
    """
    kin: list[StoreEntry] = []
    others: list[StoreEntry] = []
    for archive_id, entry in reversed(entries.items()):
        if archive_id != facts.archive_id and entry.depth < MOST_DEPTH:
            if entry.facts.qualified_top == facts.qualified_top:
                kin.append(entry)
            elif len(others) < MOST_TRIED:
                others.append(entry)
            if len(kin) == MOST_TRIED:
                break
    return [*kin, *others][:MOST_TRIED]


def smallest(parts: CompanionParts, kin: Iterable[StoreEntry], files: KeptFiles) -> bytes:
    """The smallest file that keeps a companion: with one of its kin as base, or without a base."""
    if len(parts.plain) > MOST_SHARED:
        return build_kept(parts, None)
    best: tuple[int, Base] | None = None
    for entry in kin:
        try:
            base = files.base(entry.archive_id)
        except (ArchiveError, OSError):  # it is broken or was removed meanwhile; `check` reports it
            continue
        if len(base.body) <= MOST_SHARED and base.depth < MOST_DEPTH:
            size = difference(parts, base)
            if best is None or size < best[0]:
                best = size, base
            if size <= LITTLE:
                break
    if best is not None:
        with_base = build_kept(parts, best[1], GOOD if best[0] <= LITTLE else STRONG)
        if len(with_base) < WORTH * (HEADER.size + difference(parts, None)):
            return with_base
    return build_kept(parts, None)
