"""Files that aren't zips are recognised by their first bytes.

Sources: each format's own specification. ONNX is a protobuf, recognised by the fields of its ModelProto
(``onnx/onnx.proto``). safetensors begins with the length of its JSON header, and legacy ``torch.save`` with
a pickled magic number (``torch/serialization.py``).
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import zstandard

from archive.base import memory
from archive.base.errors import ArchiveError, forgiving, one_line, shown
from archive.container.headers import LOCAL
from archive.formats.etdump import is_dump
from archive.formats.tensor_files import GGUF_MAGIC, LEGACY_MAGIC
from archive.pickles.machine import plain_value
from archive.reader.recognition.kinds import ADVICE, FileKind, Recognised
from archive.reader.recognition.saved import object_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.io.ranged import Bytes

HEAD = 4096
"""Bytes at the beginning of a file that are examined."""
PICKLES = 1 << 24
"""Bytes of a remote file that are searched for its pickles, and bytes of its header that are read here."""
MEMORY = 1 << 26
"""Bytes of memory that decompressing them may take."""
MAGIC_PICKLE = b"\x8a\x0a" + LEGACY_MAGIC.to_bytes(10, "little") + b"."
"""The pickle of that number, without the PROTO (and FRAME) before it."""
FRAMED = 32
"""Bytes that are searched for it: PROTO, and from protocol 4 on FRAME, come before it."""
OBJECT = 3
"""Pickles after it: the format's version, facts about the system, the object."""
PREFIXES = (
    (b"version https://git-lfs.github.com/spec/", FileKind.LFS),
    (b"7z\xbc\xaf\x27\x1c", FileKind.SEVEN_ZIP),
    (GGUF_MAGIC, FileKind.GGUF),
)
COMPRESSED = (
    (b"\x1f\x8b", FileKind.GZIP),
    (b"\xfd7zXZ\0", FileKind.XZ),
    (b"BZh", FileKind.BZIP2),
    (b"\x28\xb5\x2f\xfd", FileKind.ZSTD),
)
UNPACK: dict[FileKind, Callable[[bytes], bytes]] = {
    FileKind.GZIP: lambda head: zlib.decompressobj(31).decompress(head, HEAD),
    FileKind.XZ: lambda head: lzma.LZMADecompressor(memlimit=MEMORY).decompress(head, HEAD),
    FileKind.BZIP2: lambda head: bz2.BZ2Decompressor().decompress(head, HEAD),
    FileKind.ZSTD: lambda head: (
        zstandard.ZstdDecompressor(max_window_size=MEMORY).stream_reader(head).read(HEAD)
    ),
}
"""The first bytes of a compressed file, decompressed, by its kind."""
IDENTIFIERS = ((b"PTMF", FileKind.FLATBUFFER), (b"ET", FileKind.EXECUTORCH))
"""Identifiers of flatbuffers, at byte 4."""
KIND_WORDS = {
    FileKind.LFS: "a Git LFS pointer",
    FileKind.SEVEN_ZIP: "a 7z archive",
    FileKind.FLATBUFFER: "a lite model in a flatbuffer",
    FileKind.EXECUTORCH: "an ExecuTorch program (.pte)",
    FileKind.ETDUMP: "an ETDump of ExecuTorch's runtime",
    FileKind.HTML: "a web page (HTML)",
    FileKind.JSON: "JSON text",
    FileKind.ONNX: "an ONNX model",
    FileKind.SAFETENSORS: "tensors in the safetensors format",
    FileKind.GGUF: "a model in GGUF",
    FileKind.SHARDED: "an index of a model in several files, as Hugging Face's libraries write it",
    FileKind.LEGACY_TAR: "a tar saved by torch.save before PyTorch 0.4",
}
CONTROLS = {*range(0x20), 0x7F} - {*b"\t\n\r\f\b\x1b"}
"""Characters that no text has."""
SHOWN_TEXT = 32
"""Characters of its first line."""
HTML = re.compile(rb"\s*(?><!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|Error>)")
"""As stores of objects write their errors."""
PICKLE = re.compile(rb"\x80[\2-\5]")
JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:\"|\})|\[\s*[\[{\"\d\]-])")
INDEX = re.compile(rb'\s*\{.*"weight_map"\s*:\s*\{', re.DOTALL)
DATA_END = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d{1,19}\s*,\s*(\d{1,19})\s*\]')
"""The end of a tensor's data, in the header of safetensors."""
SAYS = "safetensors' own reader says"
LFS_SIZE = re.compile(rb"^size (\d{1,19})$", re.MULTILINE)
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
LEGACY_TAR_FILES = {"sys_info", "pickle", "storages", "tensors"}
"""The files of a tar that ``torch.save`` wrote."""
LOADED_FROM_TAR = ("storages", "tensors", "pickle")
"""Those of them that ``torch.load`` extracts, in its order (``torch/serialization.py``, ``_legacy_load``)."""
MOST_TAR_FILES = 16
"""Files of a tar that are looked at."""
TAR_BLOCK, TAR_SIZE = 512, slice(124, 136)
"""Bytes of a header, and where in it the size of its file stands, in octal digits."""
OCTAL = frozenset(b"01234567")


def recognise_head(data: Bytes, *, most: int) -> Recognised:
    """Recognise a file that isn't a zip.

    Args:
        most: bytes of pickles that are read, to name the object in them; 0: compressed files aren't looked
            into, either.
    """
    head = bytes(data[:HEAD])
    if not head:
        return Recognised(FileKind.EMPTY, "an empty file")
    recognised = _by_prefix(head, look=most > 0)
    if recognised is not None:
        return _legacy_tar(data) if recognised.kind is FileKind.LEGACY_TAR else recognised
    if head[:1] == b"\x80" and (at := head.find(MAGIC_PICKLE, 0, FRAMED)) > 0:
        return _legacy(data, at + len(MAGIC_PICKLE), most=most)
    if cut := _cut_safetensors(data):
        return Recognised(FileKind.CUT_SAFETENSORS, f"{FileKind.CUT_SAFETENSORS}: {cut}")
    for is_it, kind in TESTS:
        if is_it(head, len(data)):
            return Recognised(kind, KIND_WORDS[kind])
    if (text := _text(head)) is not None:
        if XML.match(head):
            advice = "if it was meant to be a model, a download has gone wrong: look at what it says"
            return Recognised(FileKind.TEXT, f"XML text (it begins with {text})", advice)
        return Recognised(FileKind.TEXT, f"a text file (it begins with {text})")
    return _unknown(data, head)


def _unknown(data: Bytes, head: bytes) -> Recognised:
    """A file of no kind that is known, in the words that help most."""
    kind = FileKind.UNKNOWN
    if not head.strip(b"\0"):
        what = f"no known kind of file (its first {len(head):,} bytes are zeros)"
        return Recognised(kind, what, "copying or downloading it has not ended: do it again")
    if PICKLE.match(head) and bytes(data[-1:]) == b".":
        what = "a pickle that Python wrote without `torch.save`"
        return Recognised(kind, what, "load it, if you trust it, and `torch.save` what it gives")
    return Recognised(kind, f"no known kind of file (it begins with {shown(head[:16])})")


def _text(head: bytes) -> str | None:
    """The first words of a text in UTF-8; None for other bytes."""
    if not CONTROLS.isdisjoint(head):
        return None
    with suppress(UnicodeDecodeError):
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
        first = text.lstrip("\ufeff \t\r\n").partition("\n")[0].rstrip()
        return shown(first[:SHOWN_TEXT])
    return None


def _by_prefix(head: bytes, *, look: bool) -> Recognised | None:
    for magic, kind in PREFIXES:
        if head.startswith(magic):
            size = LFS_SIZE.search(head)
            of = f" to a file of {int(size[1]):,} bytes" if size and kind is FileKind.LFS else ""
            return Recognised(kind, KIND_WORDS[kind] + of)
    for magic, kind in COMPRESSED:
        if head.startswith(magic):
            around = _compressed(head, kind) if look else ""
            article = "an" if kind is FileKind.XZ else "a"
            return Recognised(kind, f"{article} {kind} file{around}")
    if is_dump(head):
        return Recognised(FileKind.ETDUMP, KIND_WORDS[FileKind.ETDUMP])
    for magic, kind in IDENTIFIERS:
        if head[4 : 4 + len(magic)] == magic and (kind is FileKind.FLATBUFFER or head[6:8].isdigit()):
            return Recognised(kind, KIND_WORDS[kind])
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] != TAR_MAGIC:
        return None
    name = head[:100].rstrip(b"\0").decode("utf-8", "replace")
    if _tar_name(head) in LEGACY_TAR_FILES:
        return Recognised(FileKind.LEGACY_TAR, KIND_WORDS[FileKind.LEGACY_TAR])
    return Recognised(FileKind.TAR, f"a tar archive, whose first file is {one_line(name)}")


def _legacy_tar(data: Bytes) -> Recognised:
    """A tar by ``torch.save``, or a part of one: ``torch.load`` wants three of its files, all whole."""
    lacking, at, size = set(LOADED_FROM_TAR), 0, len(data)
    for _ in range(MOST_TAR_FILES):
        header = bytes(data[at : at + TAR_BLOCK])
        if header[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] != TAR_MAGIC:
            break
        digits = header[TAR_SIZE].strip(b" \0")
        stop = at + TAR_BLOCK + (int(digits, 8) if digits and OCTAL.issuperset(digits) else size)
        at = stop + -stop % TAR_BLOCK
        if at <= size:
            lacking.discard(_tar_name(header))
    kind, what = FileKind.LEGACY_TAR, KIND_WORDS[FileKind.LEGACY_TAR]
    if not lacking:
        return Recognised(kind, what)
    names = ", ".join(f"`{name}`" for name in LOADED_FROM_TAR if name in lacking)
    part = FileKind.LEGACY_TAR_PART
    advice = f"torch.load cannot read it without {names}: {ADVICE[part]}"
    return Recognised(part, f"a part of {what}", advice)


def _tar_name(header: bytes) -> str:
    return header[:100].rstrip(b"\0").decode("utf-8", "replace").removeprefix("./").rstrip("/")


def _compressed(head: bytes, kind: FileKind) -> str:
    """The contents of a compressed file, in words, as far as its first bytes show them; else ""."""
    with suppress(zlib.error, lzma.LZMAError, OSError, EOFError, zstandard.ZstdError):
        start = UNPACK[kind](head)
        if start.startswith(LOCAL.magic):
            return " around a zip"
        if start:
            inner = _by_prefix(start, look=False) or recognise_head(memoryview(start), most=0)
            return "" if inner.kind is FileKind.UNKNOWN else f" around {inner.what}"
    return ""


def _legacy(data: Bytes, at: int, *, most: int) -> Recognised:
    """Recognise a pickle stream of legacy ``torch.save``, from the byte after the magic number on."""
    what = "an object"
    pickles = data[: most if isinstance(data, memoryview) else min(most, PICKLES)]
    with forgiving(), memory.part():
        value: object = None
        for _ in range(OBJECT if most else 0):
            value, at = plain_value(pickles, at)
        what = object_words(value) if most else what
    return Recognised(FileKind.LEGACY, f"{what}, saved by torch.save in its format before PyTorch 1.6")


def _is_safetensors(head: bytes, size: int) -> bool:
    from archive.formats.tensor_files.safetensors import LENGTH  # noqa: PLC0415 (few files come so far)

    if len(head) < LENGTH.size:
        return False
    length, text = LENGTH.read(head).length, head[LENGTH.size :]
    return len("{}") <= length <= size - LENGTH.size and text[:1] == b"{" and JSON.match(text) is not None


def _cut_safetensors(data: Bytes) -> str:
    """How a safetensors file was cut short, and what safetensors' own reader says of it; "" if it wasn't."""
    from archive.formats.tensor_files.safetensors import LONGEST_HEADER  # noqa: PLC0415 (few files come so far)

    length, size = int.from_bytes(data[:8], "little"), len(data) - 8
    if not len(b"{}") <= length <= LONGEST_HEADER or bytes(data[8:9]) != b"{":
        return ""
    if JSON.match(data[8 : 8 + HEAD]) is None:
        return ""
    if length > size:
        return f"it has {size:,} of {length:,} bytes of its header ({SAYS} `invalid header length`)"
    if length > PICKLES and not isinstance(data, memoryview):
        return ""  # opening it reports that
    wanted = max((int(end[1]) for end in DATA_END.finditer(data[8 : 8 + length])), default=0)
    if wanted <= size - length:
        return ""
    ends = f"it has {size - length:,} of {wanted:,} bytes of data"
    return f"{ends} ({SAYS} `incomplete metadata, file not fully covered`)"


def _is_onnx(head: bytes, size: int) -> bool:
    """Whether a file's fields are those of a ModelProto, up to its graph."""
    from archive.formats.schema.protobuf import STRING, MessageReader  # noqa: PLC0415 (the same)
    from archive.formats.tensor_files.onnx_messages import MODEL  # noqa: PLC0415 (the same)

    seen = set()
    with suppress(ArchiveError):
        for field in MessageReader(memoryview(head)).fields(MODEL, 0, size):
            value = MODEL.fields[field.number][1].value if field.name else None
            if value is None or value.wire != field.wire:
                return False
            if field.name == "graph":
                return "ir_version" in seen
            text = head[field.start : field.stop] if value is STRING else b""
            if not text.decode("utf-8", "replace").isprintable():
                return False
            seen.add(field.name)
    return False


TESTS: tuple[tuple[Callable[[bytes, int], bool], FileKind], ...] = (
    (_is_safetensors, FileKind.SAFETENSORS),
    (lambda head, _: HTML.match(head) is not None, FileKind.HTML),
    (lambda head, _: INDEX.match(head) is not None, FileKind.SHARDED),
    (lambda head, _: JSON.match(head) is not None, FileKind.JSON),
    (_is_onnx, FileKind.ONNX),
)
