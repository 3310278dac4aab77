"""``redact_checkpoint`` replaces texts in what ``torch.save`` wrote; all else stays.

Texts that are data are changed if they are the text to be replaced, or contain it. Keys of dicts and elements
of sets are changed only if they are that text as a whole, and if no two become the same. What loading needs
is never changed (:mod:`archive.privacy.redact.saved_texts` says what that is): where the text stands there,
its place is named, and nothing is written.

The pickle is read back and compared instruction by instruction, all other records byte by byte. Then all of
the result is searched like that of an archive (``proof``): a text in bytes, in tensors, or in the name of the
folder of all records is not replaced, and then nothing is written.
"""

from __future__ import annotations

from dataclasses import replace as with_fields
from itertools import chain
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, in_file, one_line, shown
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.container.serialization_id import RECORD_NAME
from archive.container.write import alignment_of, member_from, new_member, write_archive
from archive.formats.record_kinds import DATA
from archive.io.mapped import same_bytes
from archive.privacy.redact.named_text import RedactionText
from archive.privacy.redact.proof import prove
from archive.privacy.redact.removed import Removed
from archive.privacy.redact.result import CheckpointRedaction, check_clean, proven
from archive.privacy.redact.reviewing import ReviewChoice, unaccepted
from archive.privacy.redact.rules import Rules, absent_in, replaced, replacements
from archive.privacy.redact.saved_texts import SavedText, check_same_but, texts_of, with_texts
from archive.reader.halves.slim import with_new_id
from archive.reader.recognition import SAVED_KINDS
from archive.reader.rewriting import rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from archive.container.container import Container
    from archive.container.write import Member
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.privacy.redact.saved_texts import SavedTexts

__all__ = ["CheckpointRedaction", "redact_checkpoint"]

NAMES = {"GLOBAL", "INST"}
"""Instructions with the name of a class or function."""


@bounded
def redact_checkpoint(
    source: Source,
    out: Sink,
    *,
    replace: Sequence[str],
    review: str | PathLike[str] | None = None,
    accept_names: bool = False,
    reviewer: str | None = None,
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> CheckpointRedaction:
    """Replace texts in what ``torch.save`` wrote, and search the result for them.

    Args:
        source: the file: a state dict, a checkpoint, a module or another object.
        out: where to write the redacted one: a path, or a binary file.
        replace: texts to replace, ``VALUE=TEXT``, the longest first: wherever they stand in values, and keys
            that are such a text as a whole.
        review: the review file: texts of the result that are not vocabulary and not accepted in it are added
            to it, and are left. See :func:`archive.review`.
        accept_names: accept all names there.
        reviewer: who accepts, for its header.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace an existing file.
        limits: what hostile input may take.

    Raises:
        ImpossibleError: something is left, since loading needs it or it isn't a text of the pickle, and
            ``partial`` is not given.
        ArchiveError: a replacement is malformed, two keys would be the same, the source is not what
            ``torch.save`` of PyTorch 1.6 or later wrote, is broken or changed meanwhile, or the target exists
            or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    values = replacements(replace)
    choice = ReviewChoice(review, accept_names, reviewer)
    choice.check(source, out)
    if not values:
        raise ArchiveError("nothing to redact: give --replace", in_python="replace=")
    with rewriting(source, out, force=force, limits=limits, kinds=SAVED_KINDS) as work:
        opened, (draft,) = work.archive, work.drafts
        before = opened.container
        with memory.part():
            with in_file(opened.file, DATA):
                data = before.records[DATA].view()
                saved = texts_of(data)
                texts = _replaced(saved, values)
                memory.take(3 * len(data), "bytes of pickles")  # the new one, and both as they are read back
                pickle = with_texts(data, saved, texts) if texts else data
            members = with_new_id(_members(before, pickle), before.records)
            write_archive(draft, before.root, members, alignment=alignment_of(before.records))
            with work.reopened("the result") as after:
                _check_rest(before, after.container)
                with in_file("the result", DATA):
                    check_same_but(data, after.container.records[DATA].view(), texts)
                stays = _staying(saved, values)
                removed = Removed(texts={value.encode() for value in values}, remaining=stays)
                listing = choice.listing(Rules(), after)
                kind = opened.recognised.kind
                proof = prove(after.container, removed, kind, listing=listing)
                changed = (text for text in saved.texts if text.at in texts)
                result = CheckpointRedaction(
                    size=opened.size,
                    out_size=after.size,
                    changed=tuple(f"byte {text.at:,}{', a key' * text.is_key}" for text in changed),
                    absent=absent_in(chain(saved.texts, (one.text for one in stays)), values),
                    unaccepted=unaccepted(listing, after.container.data, choice, removed, kind),
                    **proven(proof, Rules(times="keep"), removed),
                )
        if not partial:
            check_clean(opened.file, result)
        return result


def _replaced(saved: SavedTexts, values: Mapping[str, str]) -> dict[int, str]:
    """What texts become, by their bytes; those that must stay are left out."""
    texts: dict[int, str] = {}
    for text in saved.texts:
        memory.take(sum(text.count(old) * len(new) for old, new in values.items()), "texts")
        new = replaced(text, values)
        if new != text and not _obstacle(text, values):
            texts[text.at] = new
    for keys in saved.keys:
        became: dict[str, str] = {}
        for key in keys:
            if isinstance(key, str):
                new = texts.get(key.at, str(key)) if isinstance(key, SavedText) else key
                if became.setdefault(new, key) != key:
                    raise ArchiveError(
                        f"two keys of a dict, or elements of a set, would both be {shown(new)}"
                    )
    return texts


def _obstacle(text: SavedText, values: Mapping[str, str]) -> str:
    """Why a text with one of the values in it stays; "" where it does not."""
    if text.obstacle or not text.is_key or text in values:
        return text.obstacle
    return f"in the key {shown(str(text))}, which is replaced only as a whole"


def _staying(saved: SavedTexts, values: Mapping[str, str]) -> list[RedactionText]:
    """Values that stay: where each is, and why it stays."""
    letters: list[tuple[int, str | bytes | bytearray, str]] = [
        (text.at, text, why) for text in saved.texts if (why := _obstacle(text, values))
    ]
    for at, name, content in saved.fixed:
        if name in NAMES and isinstance(content, str):  # "module name"
            letters.append((at, content.replace(" ", "."), "the name of a class or function"))
        else:
            letters.append((at, content, "in bytes, or in a text of Python 2"))
    letters += saved.paths
    stays: list[RedactionText] = []
    for at, content, why in letters:
        for value in values:
            if value in content if isinstance(content, str) else value.encode() in content:
                place = f"{DATA}, byte {at:,}: {why}"
                memory.take(memory.ROW + len(place), "places of texts that stay")
                stays.append(RedactionText("text", value, place))
    return stays


def _members(before: Container, pickle: bytes | memoryview) -> Iterator[Member]:
    """All records but the serialization id, with another pickle."""
    for name, record in before.records.items():
        member = member_from(record)
        if name == DATA:
            made = new_member(name, pickle, compress=record.entry.deflated)
            yield with_fields(made, modified=member.modified)
        elif name != RECORD_NAME:
            yield member


def _check_rest(before: Container, after: Container) -> None:
    """Refuse a result whose other records are not those of the original, in their order."""
    old, new = ([name for name in file.records if name != RECORD_NAME] for file in (before, after))
    if old != new or before.root != after.root:
        raise ArchiveError("records would not be the same", file=before.file)
    for name in old:
        if name != DATA and not same_bytes(before.records[name].raw(), after.records[name].raw()):
            raise ArchiveError("a record would not be the same", file=before.file, record=one_line(name))
