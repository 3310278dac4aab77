"""``sizes`` labels every byte of a file, so that the sizes of all labels add up to the file's.

The zip's own bytes:

- *local headers*: the headers before the records, with names and extra fields.
- *padding*: the extra field ``'FB'`` that moves a record's bytes to a multiple of 64, its header included.
- *descriptors*: crc and sizes after the records.
- *directory*: the central headers, and all end records.
- *gaps*: bytes before, between or after all these, and the archive's comment.

All other bytes are a record's, except *padding* in files of tensors that aren't zips. They are labelled by
its kind, :class:`~archive.formats.record_kinds.RecordKind`; those of a record of tensors that is a zip
itself, in an ETRecord or an older exported program, as the bytes of a zip are. A debug record is a pickle,
whose bytes have four parts:

- *text*: the characters of strings, without opcode and length;
- *rows*: numbers, bools, None, and the opcodes that make tuples, lists and dicts of them;
- *pickle overhead*: protocol, MARK, STOP, memo writes and reads, names and calls, opcode and length of
  strings, and bytes after STOP;
- *unreadable*: the whole record, if PyTorch could not have written this pickle.

Deflate mixes the parts, so no stored byte belongs to only one. The stored bytes of a deflated record are
*apportioned* to its parts: in proportion to their inflated bytes, by largest remainder.

An exported program is JSON. Each kind of its nodes' metadata is a kind of bytes, too: keys and values,
without the braces around all. Its parts are the keys. ``split`` takes just these bytes out of a program that
``json.dumps`` wrote, unless it is asked to keep some.

In a compiled model, *kernels* and *sources* are files that its loader does not need, and *object* is what
follows all that is mapped of a shared object. The parts of a shared object begin with ``ELF``.

There are six views, :class:`View`:

- *kind*: as above, each debug record as a whole.
- *part*: as above, each debug record by its parts.
- *record*: a record together with its headers, padding and descriptor.
- *module*: ``code/__torch__/a/b.py`` and its source ranges, headers included, are ``__torch__.a.b``. A node
  of an exported program is its innermost module's, and a tensor its module's: ``encoder.layer.0``.
- *source*: the file of the model's source that rows and texts of source ranges are about, with their
  overhead. A text in a string table belongs to its first user. Traced models record no filename; then it is
  the file of the text's first stack frame, or "(none)". A node is about the file of its innermost
  frame that is not PyTorch's.
- *weights*: the tensor whose storage the bytes are, by its name; a storage that several share belongs to the
  first: see :mod:`archive.describe.sizes.weights`. A tensor that is all of a file is "(unnamed)".

All files of a model in several files are measured together: see :mod:`archive.reader.tensor_files`.

In a companion file, the kinds are its tables, and the parts are their columns: see
:func:`archive.describe.sizes.pieces.companion_pieces`.

Bytes that have no label in a view are labelled by their kind in brackets: ``[tensor]``.

What a kind counts as (weights, code, debug info) is one table for all sums, of stacks, budgets, inventories
and pages: :data:`archive.describe.sizes.account.GROUP_OF_LABEL`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.magic import is_companion
from archive.describe.sizes.account import Account, Part, Piece, Size, SizeChange, View, Weight, WeightSize
from archive.describe.sizes.pieces import companion_pieces, pieces, tensor_pieces
from archive.io.mapped import by_ranges
from archive.reader.archive import Archive
from archive.reader.opening import opened
from archive.reader.recognition import TENSOR_KINDS, head_kind, is_zip, opened_zip

if TYPE_CHECKING:
    from archive.io.mapped import Fetched, Mapped, Source

__all__ = ["Account", "Part", "Piece", "Size", "SizeChange", "View", "Weight", "WeightSize", "sizes"]


@bounded
def sizes(
    source: Archive | Source, *, inside: bool = True, weights: bool = True, limits: Limits = DEFAULT_LIMITS
) -> Account:
    """Label every byte of an archive, or of another zip.

    >>> account = sizes("fixtures/oracles/plain_stack.ptl")
    >>> account.size == sum(size.stored for size in account.by("source").values())
    True

    Args:
        source: an open archive, which stays open, or its file: a path, a bytes-like object, a binary file.
        inside: look into pickles of debug info. Without it, none is inflated or read, and their bytes have no
            label in the views part and source. Programs and compiled models are
            always looked into.
        weights: look for the names of tensors. Without them, no tensor has a label in the view weights.
        limits: what hostile input may cost; an open archive has its own.

    Raises:
        ArchiveError: the source isn't a zip (the message says what it is) or contradicts itself.
        OSError: the source cannot be read.
    """
    if isinstance(source, Archive):
        return _account(source, inside=inside, weights=weights)
    mapped = by_ranges(source)
    with memory.charged(limits.allowance(mapped.weight)), _opened(mapped) as archive:
        return _account(archive, inside=inside, weights=weights)


def _opened(mapped: Mapped | Fetched) -> Archive:
    """Open a companion or any zip. An embedded companion is a record like any other here."""
    if is_companion(mapped.data):
        from archive.reader.companion import Companion  # noqa: PLC0415 (most files aren't companions)

        return Archive(None, companion=Companion(mapped.whole()))
    if not is_zip(mapped.data) and head_kind(mapped) in TENSOR_KINDS:
        return opened(mapped, TENSOR_KINDS)
    return Archive(opened_zip(mapped))


def _account(opened: Archive, *, inside: bool, weights: bool) -> Account:
    if opened.companion is not None and not opened.has_code:
        with in_file(opened.file):
            labelled = list(companion_pieces(opened.companion))
    elif opened.tensor_file is not None:
        labelled = list(tensor_pieces(opened))
    else:  # of an archive, its own file: an embedded companion is a record of it
        labelled = list(pieces(Archive(opened.container), inside=inside, weights=weights))
    return Account(opened.file, opened.size, tuple(labelled), not opened.has_code)
