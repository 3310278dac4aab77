"""A kept companion: a file that holds what differs between a companion and its base.

=======  =====  ========  ================================================================
offset   bytes  field     meaning
=======  =====  ========  ================================================================
0        10     magic     ``MAGIC``
10       2      version   1
12       16     base      blake2b digest of the base; zeros where there is none
28       16     digest    blake2b digest of the companion, as it was added
44       8      size      bytes of the companion
52       8      inflated  bytes of the notes and the plain form together
60       4      notes     bytes of the notes
64       4      checksum  crc32 of the file, with 0 in the place of this field
68       …      frame     a zstd frame whose dictionary is the plain form of the base
=======  =====  ========  ================================================================

The frame holds the notes, in JSON (:class:`Notes`), and then the companion's plain form
(:mod:`~archive.store.plain`).
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from archive.base.errors import ArchiveError, one_line
from archive.companion.codecs import unzstd
from archive.companion.layout import check_crc

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.store.plain import Recipe

MAGIC = b"\x89PTKEPT\r\n\x1a"
VERSION = 1
HEADER = Struct("<10sH16s16sQQII")
CHECKSUM_BYTES = 4
DIGEST_BYTES = 16
NO_BASE = bytes(DIGEST_BYTES)
MOST_TIME = 1 << 40
MOST_NOTES = 1 << 20
"""Bytes of notes."""
STRONG, GOOD, MUCH = 19, 9, 1 << 22
"""Levels of zstd, and the bytes from which on the second one is used."""
LONGEST_WINDOW = 27
"""Of zstd, as a power of 2: what a reader of frames takes by default."""


def digest_of(data: bytes | memoryview) -> bytes:
    """The digest by which a companion is known to be the one that was added."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Notes:
    """The facts about a companion that it does not hold itself.

    Attributes:
        file: the name of the file that was added, without folder.
        added: when, in seconds since 1970.
        root: the folder of all records in the archive; "" where only its companion was added.
        serialization_id: of the archive, where it is known.
        recipe: how the companion comes back from its plain form.
    """

    file: str = ""
    added: int = 0
    root: str = ""
    serialization_id: str = ""
    recipe: Recipe = field(default_factory=list)


class KeptHeader(NamedTuple):
    """The header of a kept companion."""

    base: bytes
    digest: bytes
    size: int
    inflated: int
    notes: int

    @property
    def base_name(self) -> str:
        """The digest of the base in hex; "" where there is none."""
        return self.base.hex() if any(self.base) else ""


class KeptParts(NamedTuple):
    """A kept companion, inflated."""

    notes: Notes
    plain: memoryview


def build_kept(
    companion: bytes, notes: Notes, plain: bytes, base: bytes = NO_BASE, words: bytes = b""
) -> bytes:
    """A kept companion.

    Args:
        companion: the companion.
        notes: the facts beside it.
        plain: its plain form.
        base: the digest of the base.
        words: the plain form of the base.
    """
    told = json.dumps(asdict(notes), separators=(",", ":")).encode()
    body = told + plain
    frame = _compressed(body, words)
    fields = (MAGIC, VERSION, base, digest_of(companion), len(companion), len(body), len(told))
    checksum = zlib.crc32(frame, zlib.crc32(HEADER.pack(*fields, 0)))
    return HEADER.pack(*fields, checksum) + frame


def read_header(data: memoryview) -> KeptHeader:
    """The header of a kept companion, whose file is checked to be whole.

    Raises:
        ArchiveError: it is none, of an unknown version, cut short, or changed.
    """
    if len(data) < HEADER.size or bytes(data[: len(MAGIC)]) != MAGIC:
        raise ArchiveError(place="byte 0", expected="a kept companion's header", found="other bytes")
    _, version, *fields, checksum = HEADER.unpack_from(data)
    if version != VERSION:
        raise ArchiveError(place="byte 10", expected="version 1", found=f"version {version}")
    begin = bytes(data[: HEADER.size - CHECKSUM_BYTES]) + bytes(CHECKSUM_BYTES)
    check_crc(zlib.crc32(data[HEADER.size :], zlib.crc32(begin)), checksum, "file")
    return KeptHeader(*fields)


def read_parts(data: memoryview, header: KeptHeader, words: bytes, allowance: Allowance) -> KeptParts:
    """What a kept companion holds.

    Args:
        data: the file.
        header: its header.
        words: the plain form of its base.
        allowance: the memory that it may cost.

    Raises:
        ArchiveError: it was changed, or its base is another.
        LimitError: it would inflate to more than allowed.
    """
    if not 0 < header.notes <= min(header.inflated, MOST_NOTES):
        raise ArchiveError(place="header", expected="notes", found=f"{header.notes} bytes")
    allowance.take(header.inflated, "bytes of a kept companion")
    body = unzstd(data[HEADER.size :], header.inflated, _dictionary(words))
    if len(body) != header.inflated:
        raise ArchiveError(expected=f"{header.inflated} bytes inflated", found=f"{len(body)} or more")
    return KeptParts(_parsed(body[: header.notes]), memoryview(body)[header.notes :])


def _parsed(told: bytes) -> Notes:
    """The notes in JSON; nothing of them is trusted."""
    try:
        found = json.loads(told)
        notes = Notes(
            one_line(str(found["file"])),
            int(found["added"]) % MOST_TIME,
            one_line(str(found["root"])),
            one_line(str(found["serialization_id"])),
            [(int(codec), int(level)) for codec, level in found["recipe"]],
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise ArchiveError(place="notes", expected="notes in JSON", found="others") from None
    return notes


def _dictionary(words: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(words, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if words else None


def _compressed(body: bytes, words: bytes) -> bytes:
    """A zstd frame whose window reaches over its dictionary."""
    window = min((len(body) + len(words)).bit_length(), LONGEST_WINDOW)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        STRONG if len(body) <= MUCH else GOOD,
        source_size=len(body),
        dict_size=len(words),
        window_log=max(window, zstandard.WINDOWLOG_MIN),
        write_content_size=False,
        write_checksum=False,
        write_dict_id=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=_dictionary(words)).compress(
        body
    )
