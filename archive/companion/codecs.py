"""Compression of sections. Stated sizes are not trusted: no more is inflated than is allowed.

The section OBJECTS, the bytes after the segments of shared objects, is compressed separately in both layouts,
because only a join needs it. Most of it is DWARF.

All companions share the zstd dictionaries. They are part of the format: changing one makes companions
unreadable. Two are trained: from companions of many exported programs zstd extracted what they have in
common, and how often each byte occurs; none of these programs is among the fixtures. The third is the source
text of the modules and functions of ``torch.nn`` itself, as companions of PyTorch 2.13 hold it: a scripted
model quotes all that it calls, with comments. ``tools/make_words.py`` made them.
"""

from __future__ import annotations

import lzma as xz
import zlib
from enum import IntEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from archive.base import memory
from archive.base.errors import DAMAGED, ArchiveError
from archive.companion.layout import MAPPED_LINE, check_crc
from archive.normalform.columns import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.companion.layout import Directory, SectionLine

# --- codecs

STRONGEST = 19
"""The level of zstd from which on size matters more than time."""
GOOD, BEST = 6, 9 | xz.PRESET_EXTREME
"""Presets of LZMA."""
QUICK, WORTH = 9, 0.9
"""The level of zstd at which dictionaries are compared, and how much smaller the larger one must make texts:
its index takes 20 ms, once in a process."""
PIECE = 1 << 20
"""Bytes that are inflated at once."""
ENCODER_BYTES, ENCODER_WINDOWS = 3 << 19, 12
"""Bytes of memory that LZMA takes to compress anything, plus how many times its window."""
WINDOW, LARGEST_WINDOW = 1 << 21, 1 << 23
"""The largest windows of LZMA: by default, and at its strongest."""
SMALL, MIDDLING = 1 << 16, 1 << 22
"""Up to SMALL bytes both codecs use their strongest setting; up to MIDDLING, any level tries LZMA."""

SEARCHING = (
    *("window_log", "chain_log", "hash_log", "search_log"),
    *("min_match", "target_length", "strategy"),
)
"""The parameters of zstd that its index of a dictionary depends on."""


class Codec(IntEnum):
    """The codecs of sections."""

    NONE = 0
    """The bytes as they are."""
    ZSTD = 1
    """A zstd frame."""
    LZMA = 2
    """A raw LZMA1 stream."""
    TEXTS = 4
    """A zstd frame without its magic number, which refers to the texts of exported programs."""
    COLUMNS = 5
    """The same, referring to their columns."""
    SOURCES = 6
    """The same, referring to the source text of ``torch.nn``, which scripted models quote."""


DICTIONARIES = {
    Codec.TEXTS: Path(__file__).with_name("texts.zdict"),
    Codec.COLUMNS: Path(__file__).with_name("columns.zdict"),
    Codec.SOURCES: Path(__file__).with_name("sources.zst"),
}
"""What strings, or columns, of exported programs are likely to hold; and strings of scripted models."""


@cache
def dictionary(codec: Codec) -> zstandard.ZstdCompressionDict:
    """The dictionary of a codec. Texts that were not trained are in a frame of zstd themselves."""
    words = DICTIONARIES[codec].read_bytes()
    if codec is Codec.SOURCES:
        words = zstandard.ZstdDecompressor().decompress(words)
    return zstandard.ZstdCompressionDict(words)


def compressed(data: bytes, level: int, codec: Codec | None = None) -> tuple[Codec, bytes]:
    """Some bytes, compressed with the codec that makes them smallest.

    Args:
        level: of zstd. Up to 4 MiB, and from level 19 on, LZMA is tried, too.
        codec: the only codec to use; None tries all without a dictionary.
    """
    tried = [codec] if codec is not None else [Codec.NONE, Codec.ZSTD]
    if codec is None and (len(data) <= MIDDLING or level >= STRONGEST):
        tried.append(Codec.LZMA)
    results = [(each, _COMPRESS[each](data, level)) for each in tried]
    return min(results, key=lambda result: len(result[1]))


def quotes_sources(texts: bytes) -> bool:
    """Whether texts are much like the source text of ``torch.nn``, judged by compressing their begin."""
    begin = texts[:SMALL]
    own, others = (
        len(_trained(begin, QUICK, dictionary(words), SMALL)) for words in (Codec.SOURCES, Codec.TEXTS)
    )
    return own < WORTH * others


def encoder_bytes(size: int, level: int) -> int:
    """Bytes of memory that :func:`compressed` takes for ``size`` bytes at a level, besides these."""
    cost = zstd_bytes(size, _level(size, level))
    if size <= MIDDLING or level >= STRONGEST:
        cost = max(cost, ENCODER_BYTES + ENCODER_WINDOWS * _window(size, strongest=level >= STRONGEST))
    return cost


def zstd_bytes(size: int, level: int) -> int:
    """The same for zstd only, as zstd reports it."""
    cost: int = _parameters(max(size, 1), level).estimated_compression_context_size()
    return cost


def lzma(data: bytes, preset: int) -> bytes:
    """A raw LZMA1 stream."""
    window = _window(len(data), strongest=preset == BEST)
    return xz.compress(data, xz.FORMAT_RAW, filters=_filters(window, preset))


def zstd(data: bytes, level: int) -> bytes:
    """A zstd frame without checksum and size, which the directory has."""
    parameters = _parameters(len(data), level)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def _trained(data: bytes, level: int, words: zstandard.ZstdCompressionDict, size: int | None = None) -> bytes:
    """The same without a magic number. zstd also gets the dictionary's size, so it searches more of it.

    Args:
        size: bytes that zstd is to expect: those of one size share an index.
    """
    size = len(data) if size is None else size
    parameters = _parameters(size, level, format=zstandard.FORMAT_ZSTD1_MAGICLESS, dict_size=len(words))
    if len(data) <= SMALL:
        words = _indexed(words, *(getattr(parameters, name) for name in SEARCHING))
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=words).compress(data)


@lru_cache(16)
def _indexed(words: zstandard.ZstdCompressionDict, *searching: int) -> zstandard.ZstdCompressionDict:
    """A dictionary with zstd's index, which takes longer to build than compressing a little data does."""
    indexed = zstandard.ZstdCompressionDict(words.as_bytes())
    parameters = zstandard.ZstdCompressionParameters(**dict(zip(SEARCHING, searching, strict=True)))
    indexed.precompute_compress(compression_params=parameters)
    return indexed


def _parameters(size: int, level: int, **others: int) -> zstandard.ZstdCompressionParameters:
    return zstandard.ZstdCompressionParameters.from_level(
        level, source_size=size, write_content_size=False, write_checksum=False, write_dict_id=False, **others
    )


def _level(size: int, level: int) -> int:
    return STRONGEST if size <= SMALL else level


def _window(size: int, *, strongest: bool) -> int:
    """How many preceding bytes LZMA searches for matches."""
    return min(max(4096, 1 << max(size - 1, 1).bit_length()), LARGEST_WINDOW if strongest else WINDOW)


def _filters(window: int, preset: int = GOOD) -> list[dict[str, int]]:
    """The filters of a raw LZMA1 stream. ``lp`` and ``pb`` are 0: byte planes have no words to align to."""
    return [{"id": xz.FILTER_LZMA1, "preset": preset, "dict_size": window, "lc": 0, "lp": 0, "pb": 0}]


_COMPRESS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.NONE: lambda data, _: data,
    Codec.ZSTD: lambda data, level: zstd(data, _level(len(data), level)),
    Codec.LZMA: lambda data, level: lzma(data, BEST if _level(len(data), level) >= STRONGEST else GOOD),
    Codec.TEXTS: lambda data, level: _trained(data, _level(len(data), level), dictionary(Codec.TEXTS)),
    Codec.COLUMNS: lambda data, level: _trained(data, _level(len(data), level), dictionary(Codec.COLUMNS)),
    Codec.SOURCES: lambda data, level: _trained(data, _level(len(data), level), dictionary(Codec.SOURCES)),
}


def inflated(codec: int, data: memoryview, size: int) -> bytes | memoryview:
    """The bytes of a section."""
    if codec == Codec.NONE:
        result: bytes | memoryview = data
    elif codec == Codec.ZSTD:
        result = unzstd(data, size)
    elif codec in DICTIONARIES:
        result = unzstd(data, size, dictionary(Codec(codec)), magic=False)
    elif codec == Codec.LZMA:
        result = _unlzma(data, size)
    else:
        raise ArchiveError(expected="a known codec", found=str(codec))
    if len(result) != size:
        raise ArchiveError(expected=f"{size} bytes inflated", found=f"{len(result)} or more")
    return result


def inflated_section(data: memoryview, directory: Directory, number: int) -> bytes | memoryview:
    """The bytes of a section that is compressed as a whole, checked."""
    section, (start, end) = directory.sections[number], directory.places[number]
    place = f"section {number}"
    memory.take(section.inflated, "bytes", place=place)
    check_crc(zlib.crc32(data[start:end]), section.checksum, place)
    try:
        return inflated(section.codec, data[start:end], section.inflated)
    except ArchiveError as problem:
        raise problem.within(place=place) from problem.__cause__


def unzstd(
    data: memoryview, size: int, words: zstandard.ZstdCompressionDict | None = None, *, magic: bool = True
) -> bytes:
    """A zstd frame, inflated: at most one byte more than ``size``."""
    engine = zstandard.ZstdDecompressor(
        dict_data=words,
        max_window_size=1 << 27,
        format=zstandard.FORMAT_ZSTD1 if magic else zstandard.FORMAT_ZSTD1_MAGICLESS,
    )
    try:
        result = bytearray()
        with engine.stream_reader(data, read_across_frames=False) as stream:
            while len(result) <= size and (piece := stream.read(min(PIECE, size + 1))):
                result += piece
        return bytes(result)
    except zstandard.ZstdError as cause:
        raise ArchiveError(DAMAGED) from cause


def _unlzma(data: memoryview, size: int) -> bytes:
    engine = xz.LZMADecompressor(xz.FORMAT_RAW, filters=_filters(_window(size, strongest=True)))
    try:
        return engine.decompress(data, size + 1)
    except xz.LZMAError as cause:
        raise ArchiveError(DAMAGED) from cause


# --- the section of objects


def built_objects(tails: bytes | memoryview, level: int) -> list[tuple[SectionLine, bytes]]:
    """The section, if there is anything in it.

    Up to 4 MiB LZMA is by far the best for DWARF, and as fast as zstd at its best.
    """
    if not tails:
        return []
    small = len(tails) <= MIDDLING
    level = STRONGEST if small else level
    with memory.lent(encoder_bytes(len(tails), level), "bytes of shared objects"):
        codec, data = compressed(bytes(tails), level, Codec.LZMA if small else None)
    return [(MAPPED_LINE.row(OBJECTS, 1, codec, 0, 0, len(tails), len(data), zlib.crc32(data)), data)]


def parsed_objects(data: memoryview, directory: Directory) -> bytes | memoryview:
    """The bytes of the section; empty if there is none."""
    if OBJECTS not in directory.sections:
        return b""
    return inflated_section(data, directory, OBJECTS)
