"""A kept companion: a file that holds what differs between a companion and another one, its base.

The file is a header and a frame of zstd, whose dictionary is the body of the base.

The *body* is the notes (:class:`KeptNotes`), and then the companion's plain form
(:mod:`~archive.store.plain`). Without a base, the frame holds the companion itself in the place of
its plain form, for LZMA is better than zstd at columns. All digests are blake2b, 16 bytes.

The *notes* are JSON. Digests of lines of code, where there are some, follow it after a newline, and the
JSON says how many bytes of them each code record has: version 2. In version 1 the JSON has them, in base64.
Labels of releases, where there are some, are a list of the JSON in both; older readers pass them over.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import zstandard

from archive.base import memory
from archive.base.digests import DIGEST_WIDTH, digest_of
from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.companion.codecs import unzstd
from archive.companion.layout import check_crc
from archive.formats.release_label import MOST_LABELS, checked_label
from archive.formats.schema.fixed import Layout, Row
from archive.formats.schema.words import Bytes, Const, Int8ul, Int32ul, Int64ul, Struct
from archive.store.plain import companion_of, plain_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Limits
    from archive.store.plain import Step

MAGIC = b"\x89PTKEPT\r\n\x1a"
VERSIONS = VERSION_1, VERSION = 1, 2
"""Those that are read. What has no digests of lines is written as version 1, which older readers know."""
NEWLINE = b"\n"
NOTHING = bytes(DIGEST_WIDTH)
MOST_NOTES, MOST_TIME = 1 << 20, 253_402_300_800
"""Bytes of notes, and seconds from 1970 to the year 10000, in which Python has no day."""
STRONG, GOOD, QUICK, MUCH = 19, 9, 3, 1 << 22
"""Levels of zstd: of what is kept, the same from ``MUCH`` bytes on, and of what chooses a base."""
DENSE = 4
"""Companions with a base are taken to be compressed by this factor at least."""
WIDEST = 27
"""The widest window of a frame, as a power of 2: what readers take by default."""


@dataclass(frozen=True, slots=True)
class KeptNotes:
    """The facts about a companion that it does not hold itself.

    Attributes:
        root: the folder of all records in the archive; "" where it is not known.
        recipe: how the companion comes back from its plain form.
        lines: digests of the lines of each code record, concatenated
            (:mod:`~archive.reader.line_digests`); none where the archive itself was not added.
        labels: of the releases that have it, in the order of adding.
    """

    file: str
    added: int
    root: str
    serialization_id: str
    recipe: list[Step]
    lines: Mapping[str, bytes] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    def built(self) -> bytes:
        """The notes as a kept companion has them."""
        left_out = {"lines"} if self.labels else {"lines", "labels"}
        facts = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        if self.lines:
            facts["lines"] = {name: len(digests) for name, digests in self.lines.items()}
        text = json.dumps(facts, separators=(",", ":")).encode()
        return text + NEWLINE + b"".join(self.lines.values()) if self.lines else text


class CompanionParts(NamedTuple):
    """A companion, taken apart."""

    data: bytes
    notes: bytes
    plain: bytes


HEADER = Layout(
    "kept companion header"
    / Struct(
        "magic" / Const(MAGIC),
        "version" / Int8ul * "of the format",
        "depth" / Int8ul * "how many bases lie below: one more than the base's; 0 where there is none",
        "base_id" / Bytes(16) * "archive id of the base; zeros where there is none",
        "base" / Bytes(DIGEST_WIDTH) * "digest of the base's body; zeros where there is none",
        "body" / Bytes(DIGEST_WIDTH) * "digest of the body",
        "digest" / Bytes(DIGEST_WIDTH) * "digest of the companion, as it was added",
        "size" / Int64ul * "bytes of the companion",
        "inflated" / Int64ul * "bytes of the body",
        "notes" / Int32ul * "bytes of the notes",
        "checksum" / Int32ul * "crc32 of the file, with 0 in the place of this field",
    )
)
KeptHeader: TypeAlias = Row
"""The values of the header."""


def base_name(header: KeptHeader) -> str:
    """The digest of the base's body, in hex; "" without a base."""
    return header.base.hex() if header.depth else ""


class Base(NamedTuple):
    """A base of others."""

    archive_id: bytes
    depth: int
    body: bytes


def build_kept(parts: CompanionParts, base: Base | None, level: int = STRONG) -> bytes:
    """A kept companion's file."""
    frame = _frame(parts, base, level)
    ids = (0, NOTHING, NOTHING) if base is None else (base.depth + 1, base.archive_id, digest_of(base.body))
    body = digest_of(parts.notes, parts.plain)
    sizes = (len(parts.data), len(parts.notes) + len(parts.plain), len(parts.notes))
    version = VERSION if NEWLINE in parts.notes else VERSION_1
    header = HEADER.row(version, *ids, body, digest_of(parts.data), *sizes, checksum=0)
    checksum = zlib.crc32(frame, zlib.crc32(HEADER.pack(header)))
    return HEADER.pack(header._replace(checksum=checksum)) + frame


def difference(parts: CompanionParts, base: Base | None) -> int:
    """About how many bytes a companion takes with a base, or without one."""
    return len(_frame(parts, base, QUICK))


def read_header(data: memoryview) -> KeptHeader:
    """The header of a kept companion, whose file is checked to be whole."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise ArchiveError(place="byte 0", expected="a kept companion's header", found="other bytes")
    header = HEADER.read(data)
    if header.version not in VERSIONS:
        newer = "; a newer debug-archive may read it" if header.version > VERSION else ""
        raise ArchiveError(
            place=f"byte {HEADER.offset('version')}",
            expected=f"version {VERSION_1} or {VERSION}",
            found=f"version {header.version}{newer}",
        )
    begin = HEADER.pack(header._replace(checksum=0))
    check_crc(zlib.crc32(data[HEADER.size :], zlib.crc32(begin)), header.checksum, "file")
    if not 0 < header.notes <= min(header.inflated, MOST_NOTES):
        raise ArchiveError(place="header", expected="notes", found=f"{header.notes} bytes")
    if (header.base == NOTHING) != (header.depth == 0):
        raise ArchiveError(place="header", expected="a base, or depth 0", found=f"depth {header.depth}")
    return header


def is_base(header: KeptHeader, above: KeptHeader) -> bool:
    """Whether a file is the base of the one above. Depth decreases along a chain, so there are no cycles."""
    return bool(header.body == above.base and header.depth < above.depth)


def why_lost(header: KeptHeader) -> str:
    """What is wrong with a companion whose base is not there."""
    return f"its base is lost: {header.base.hex()}"


class Inflated(NamedTuple):
    """What a kept companion holds.

    Attributes:
        body: notes and plain form.
        data: the companion, where the file holds it as it is; else None.
        weight: bytes of a file whose limits this one gets: its own, as long as it has no base.
    """

    header: KeptHeader
    notes: KeptNotes
    body: bytes
    data: bytes | None
    weight: int

    @property
    def plain(self) -> memoryview:
        """The plain form."""
        return memoryview(self.body)[self.header.notes :]


def inflate(data: memoryview, header: KeptHeader, base: bytes) -> Inflated:
    """What a kept companion holds; ``base`` is the body of its base, empty where it has none."""
    size = header.inflated if header.depth else header.notes + header.size
    memory.take(size, "bytes of a kept companion")
    content = unzstd(data[HEADER.size :], size, _dictionary(base))
    if len(content) != size:
        raise ArchiveError(expected=f"{size} bytes inflated", found=f"{len(content)} or more")
    notes = _parsed(content[: header.notes], header.version)
    if header.depth:
        inflated = Inflated(header, notes, content, None, min(header.size, size // DENSE))
    else:
        companion = content[header.notes :]
        plain = plain_of(memoryview(companion), notes.recipe)
        inflated = Inflated(header, notes, content[: header.notes] + plain, companion, len(data))
    if digest_of(inflated.body) != header.body:
        raise ArchiveError(expected="the body that was kept", found="another")
    return inflated


class Given(NamedTuple):
    """A companion that is given out: what was added, to the byte, if ``is_exact``.

    Else it has the same facts: the libraries that compress give other bytes than at that time.
    """

    data: bytes
    is_exact: bool

    @classmethod
    def of(cls, inflated: Inflated, limits: Limits) -> Given:
        """What is kept, as it was added."""
        data = inflated.data
        if data is None:
            with memory.charged(limits.allowance(len(inflated.plain))):
                data = companion_of(inflated.plain, inflated.notes.recipe)
        return cls(data, digest_of(data) == inflated.header.digest)


def _parsed(data: bytes, version: int) -> KeptNotes:
    """The notes; nothing of them is trusted."""
    text, _, digests = (data, b"", b"") if version == VERSION_1 else data.partition(NEWLINE)
    try:
        values = json.loads(text)
        lines = values.get("lines", {})
        return KeptNotes(
            one_line(str(values["file"])),
            int(values["added"]) % MOST_TIME,
            one_line(str(values["root"])),
            one_line(str(values["serialization_id"])),
            [(int(codec), int(level)) for codec, level in values["recipe"]],
            {str(name): b64decode(line_digests, validate=True) for name, line_digests in lines.items()}
            if version == VERSION_1
            else _cut(digests, {str(name): int(size) for name, size in lines.items()}),
            tuple(checked_label(str(label)) for label in values.get("labels", [])[:MOST_LABELS]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ArchiveError(place="notes", expected="notes in JSON", found="others") from None


def _cut(digests: bytes, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The digests of each code record."""
    if min(sizes.values(), default=0) < 0 or sum(sizes.values()) != len(digests):
        raise ValueError
    ends = accumulate(sizes.values())
    return {name: digests[end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}


def _frame(parts: CompanionParts, base: Base | None, level: int) -> bytes:
    """The frame of a kept companion's file."""
    if base is None:
        return _compressed(parts.notes + parts.data, b"", level)
    return _compressed(parts.notes + parts.plain, base.body, level)


def _dictionary(base: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if base else None


def _compressed(body: bytes, base: bytes, level: int) -> bytes:
    """A zstd frame whose window reaches over its dictionary."""
    window = min((len(body) + len(base)).bit_length(), WIDEST)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level if len(body) <= MUCH else min(level, GOOD),
        source_size=len(body),
        dict_size=len(base),
        window_log=max(window, zstandard.WINDOWLOG_MIN),
        write_content_size=False,
        write_checksum=False,
        write_dict_id=False,
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters, dict_data=_dictionary(base))
    return compressor.compress(body)
