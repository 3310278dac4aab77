"""Where the bytes of an archive go: every byte of the file is labelled, and the sizes add up to the file's.

The zip's own bytes:

- *local headers*: those before the records, with names and extra fields.
- *padding*: the extra field ``'FB'`` that moves a record's bytes to a multiple of 64, its header included.
- *descriptors*: crc and sizes behind the records.
- *directory*: the central headers, and all end records.
- *gaps*: what belongs to nothing: bytes before, between or behind these, and the archive's comment.

All others are a record's, labelled by its kind, :class:`~archive.formats.record_kinds.RecordKind`.
The bytes of a debug record, which is a pickle, are one of

- *text*: what strings say, without opcode and length;
- *rows*: numbers, bools, None, and the opcodes that make tuples, lists and dicts of them;
- *pickle overhead*: all else: protocol, MARK, STOP, memo writes and reads, names and calls, opcode and length
  of strings, and bytes behind STOP;
- *unreadable*: the whole record, where it is no pickle that PyTorch could have written.

Deflate mixes these, so that no stored byte is of one part alone: the stored bytes of a deflated record are
*apportioned* to its parts, in proportion to their inflated bytes and by largest remainder.

There are five views, :class:`View`:

- *kind*: as above, debug records as a whole.
- *part*: as above, debug records by their parts.
- *record*: with a record go its headers, padding and descriptor.
- *module*: ``code/__torch__/a/b.py`` and its source ranges are ``__torch__.a.b``, headers included.
- *source*: the file of the model's source that the rows and texts of source ranges are about, with their
  overhead; a text of a string table is its first user's. Where no filename is recorded (traced models), it is
  the file of the text's first stack frame, or "(none)".

Of a companion file, the kinds are its tables, and the parts their columns: see
:func:`archive.verbs.sizes.pieces.companion_pieces`.

Bytes to which a view has no answer are labelled by their kind in brackets: ``[tensor]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped
from archive.companion.magic import is_companion
from archive.reader.archive import Archive
from archive.reader.companion import Companion
from archive.reader.recognition import opened_zip
from archive.verbs.sizes.account import Account, Part, Piece, Size, SizeChange, View
from archive.verbs.sizes.pieces import companion_pieces, pieces

if TYPE_CHECKING:
    from archive.base.mapped import Source

__all__ = ["Account", "Part", "Piece", "Size", "SizeChange", "View", "sizes"]


def sizes(source: Archive | Source, *, inside: bool = True, limits: Limits = DEFAULT_LIMITS) -> Account:
    """Label every byte of an archive, or of another zip.

    >>> account = sizes("fixtures/oracles/plain_stack.ptl")
    >>> account.size == sum(size.stored for size in account.by("source").values())
    True

    Args:
        source: an open archive, which stays open, or its file: a path, a bytes-like object, a binary file.
        inside: look into debug records. Without it, none is inflated or read, and the views part and source
            have no answer for their bytes.
        limits: what hostile input may cost; an open archive has its own.

    Raises:
        ArchiveError: the source is no zip (the error says what it is), or one that contradicts itself.
        OSError: it cannot be read.
    """
    if isinstance(source, Archive):
        return _account(source, inside=inside)
    with _opened(Mapped(source), limits) as opened:
        return _account(opened, inside=inside)


def _opened(mapped: Mapped, limits: Limits) -> Archive:
    """A companion, or any zip, as its bytes are: an embedded companion is a record like any other."""
    if is_companion(mapped.data):
        return Archive(None, limits, companion=Companion(mapped, limits))
    return Archive(opened_zip(mapped, limits), limits)


def _account(opened: Archive, *, inside: bool) -> Account:
    if opened.companion and not opened.has_code:
        with in_file(opened.file):
            labelled = list(companion_pieces(opened.companion, opened.limits))
    else:
        labelled = list(pieces(Archive(opened.container, opened.limits), inside=inside))
    return Account(opened.file, opened.size, tuple(labelled))
