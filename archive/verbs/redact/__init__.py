"""``redact`` takes paths and source text out of the debug information of an archive, and proves that.

Source ranges and stack traces stay, each on the lines that it was on: ``rules`` says what becomes of paths
and lines, ``ranges`` rewrites TorchScript's records by it, ``programs`` the metadata of exported programs.
The model is the same, and so is its archive id; dates of the zip go, and the serialization id is computed
anew.

``proof`` searches the result for every path, folder and line that was removed. Where one is left, or where
something cannot be searched, nothing is written, unless that is asked for.

A companion keeps what the archive was: with it, logs of the redacted archive are explained as before, and a
join gives the original.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, ImpossibleError, NothingToDoError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped, unchanged
from archive.base.output import is_path, replacing_all
from archive.base.strings import decoded
from archive.companion.build import build_companion
from archive.container.container import Container, member_from, new_member, write_archive
from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import MIGRATED
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from archive.reader import opening
from archive.reader.archive import Archive
from archive.reader.collect import collect
from archive.reader.recognition import ARCHIVE_KINDS, FileKind
from archive.verbs.join import check_gives, with_digest
from archive.verbs.loading import loaded_like
from archive.verbs.redact.programs import redacted_programs
from archive.verbs.redact.proof import prove
from archive.verbs.redact.ranges import check_lines, redacted
from archive.verbs.redact.rules import PathChoice, Removed, Rules, SourceChoice
from archive.verbs.slim import with_new_id
from archive.verbs.split import check_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.base.mapped import Source
    from archive.base.output import Sink
    from archive.companion.contents import Contents
    from archive.container.container import Member
    from archive.verbs.redact.proof import Proof

REDACTED_KINDS = ARCHIVE_KINDS | {FileKind.EXPORTED}
"""The kinds of files that are redacted."""
SHOWN = 3
"""Texts that a message names."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of a redaction; sizes in bytes.

    Attributes:
        size: of the archive.
        out_size: of the redacted archive.
        companion_size: of the companion.
        paths: how many removed paths the result was searched for.
        folders: the same of their folders.
        lines: the same of lines of source text.
        unsought: removed texts that the result was not searched for: too short, or part of what stays.
        left: those that are still there, each with its first place.
        in_code: lines that stand in generated code, too, which PyTorch runs.
        unread: records of the result that could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        exact: whether a join gives the whole original back to the byte, or its records alone.
        archive_id: in hex; the same before and after.
        refused: why PyTorch 2.13 refuses to load the result: the loader and its message. Of exported
            programs, this is not known.
    """

    size: int
    out_size: int
    companion_size: int
    paths: int
    folders: int
    lines: int
    unsought: int
    left: tuple[str, ...]
    in_code: int
    unread: tuple[str, ...]
    read: int
    exact: bool
    archive_id: str
    refused: tuple[str, ...]


@bounded
def redact(
    source: Source,
    out: Sink,
    companion: Sink,
    *,
    maps: Sequence[str] = (),
    paths: PathChoice = "keep",
    text: SourceChoice = "keep",
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Redaction:
    """Take paths and source text out of an archive's debug information, and search the result for them.

    Args:
        source: the archive.
        out: where to write the redacted one: a path, or a binary file.
        companion: where to write the debug information as it was: the same.
        maps: prefixes of paths to replace, ``OLD=NEW``; of several that fit the longest one counts.
        paths: what becomes of other paths: ``keep``; ``relative`` to site-packages, to Python's library, or
            to the folder that all others are in; ``basename``; ``none``.
        text: which lines of source text stay: ``keep`` all; ``lines``, those that a range is on; ``none``.
            Python stacks of traced operations stay.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace existing files.
        limits: what hostile input may cost.

    Raises:
        ImpossibleError: something is left, and ``partial`` is not given; the archive has no debug
            information, or is of a kind that is not redacted.
        ArchiveError: an option is wrong, the archive cannot be read or changed meanwhile, or a target exists
            or is no regular file.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    rules = Rules.of(maps, paths, text)
    if is_path(out) and is_path(companion) and os.path.abspath(out) == os.path.abspath(companion):  # noqa: PTH100 (links are no matter)
        raise ArchiveError("archive and companion need two names", file=os.fspath(out))
    with (
        replacing_all(companion, out, force=force) as (companion_file, out_file),
        unchanged(source),
        opening.open_whole(source, limits=limits, kinds=REDACTED_KINDS) as opened,
    ):
        check_archive(opened)
        contents, removed = _contents(opened), Removed()
        made = {**_ranges(opened, rules, removed), **redacted_programs(opened, rules, removed)}
        data = build_companion(contents)
        companion_file.write(data)
        members = with_new_id(_members(opened, made), opened.container.records)
        write_archive(out_file, opened.root, members)
        with (
            opened.allowance.part() as part,
            Archive(Container(Mapped(out_file, "the result"), part)) as after,
        ):
            check_gives(contents, memoryview(data), after.archive_id, part)
            proof = prove(after.container, removed, part)
            exported = opened.recognised.kind is FileKind.EXPORTED
            refused = () if exported else tuple(one.told for one in loaded_like(after, opened))
            if not exported:
                check_lines(opened.range_table, after.range_table, part)
            sizes = opened.size, after.size, len(data)
            result = _result(sizes, contents, proof, refused)
        if (result.left or result.unread) and not partial:
            raise _refusal(opened.file, result)
        return result


def _contents(opened: Archive) -> Contents:
    """What the companion keeps.

    Raises:
        ImpossibleError: the archive has no debug information.
    """
    try:
        return with_digest(collect(opened), opened.container, opened.programs.left)
    except NothingToDoError as problem:
        raise ImpossibleError(
            "no debug info in it, and `redact` takes nothing else out", file=opened.file
        ) from problem


def _ranges(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes]:
    """The records of source ranges, rewritten, by name."""
    if not opened.range_records:
        return {}
    table = redacted(opened.range_table, rules, removed, opened.allowance)
    made = DebugRecords(FormBuilder.of(table, allowance=opened.allowance).form())
    records = {}
    for name in made:
        records[name] = made[name]
        opened.allowance.take(len(records[name]), "bytes of a record", record=name)
    return records


def _members(opened: Archive, made: Mapping[str, bytes]) -> Iterator[Member]:
    """The records but the serialization id and what a migration kept aside, without dates."""
    for name, record in opened.container.records.items():
        if name in (RECORD_NAME, MIGRATED):
            continue
        if name in made and made[name] != record.view():
            yield new_member(name, made[name], compress=record.entry.deflated)
        else:
            yield replace(member_from(record), modified=0)


def _result(
    sizes: tuple[int, int, int], contents: Contents, proof: Proof, refused: tuple[str, ...]
) -> Redaction:
    left = [f"{what} {one_line(decoded(text))} in {place}" for (what, text), place in proof.left.items()]
    return Redaction(
        *sizes,
        proof.sought["path"],
        proof.sought["folder"],
        proof.sought["line"],
        proof.unsought,
        tuple(sorted(left)),
        len(proof.in_code),
        tuple(proof.unread),
        proof.read,
        "file.digest" in contents.columns,
        contents.archive_id.hex(),
        refused,
    )


def _refusal(file: str, result: Redaction) -> ImpossibleError:
    """The error for a result that is not clean."""
    parts = []
    for what, texts in (("would be left", result.left), ("could not be searched", result.unread)):
        if texts:
            more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
            parts.append(f"{what}: {', '.join(texts[:SHOWN])}{more}")
    why = f"{'; '.join(parts)}; pass --partial (partial=True) to write it all the same"
    refusal = ImpossibleError(why, file=file)
    refusal.facts = result
    return refusal
