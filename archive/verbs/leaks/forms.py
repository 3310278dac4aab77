r"""The texts in a record's bytes: those of a pickle, of JSON, of any other file; in UTF-8 and in UTF-16.

All that is no text becomes NUL, so that nothing runs over a text's end: in a pickle, an opcode that stands
behind a path is a letter, too. JSON is unescaped, and JSON within JSON (``from_node`` of exported programs)
becomes a text of its own.
"""

from __future__ import annotations

import pickletools
import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.pickles.ops import BINUNICODE, BINUNICODE8, CODE_OF
from archive.pickles.scan import Pickle, scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Allowance

    _Spans = tuple[np.ndarray, np.ndarray]
    """Where texts begin and end (n, 2), and the same of those that are names of classes (m, 2)."""

GLOBAL = CODE_OF["GLOBAL"]
HEADS = {BINUNICODE: 5, BINUNICODE8: 9, GLOBAL: 1}
"""Bytes of an instruction before its text."""
PYTHON_HEADS = {
    pickletools.TAKEN_FROM_ARGUMENT1: 2,
    pickletools.TAKEN_FROM_ARGUMENT4: 5,
    pickletools.TAKEN_FROM_ARGUMENT4U: 5,
    pickletools.TAKEN_FROM_ARGUMENT8U: 9,
}
"""The same by how ``pickletools`` finds the end of the text; 1 for all others, which are lines."""
PICKLE = re.compile(rb"\x80[\x02-\x05]")
JSON = re.compile(rb"[ \t\r\n]*[\[{][ \t\r\n]*[\[{\"\]}]")
JSON_IN_JSON = re.compile(rb'"(\[?\{\\"(?:[^"\\]|\\.)*+)"', re.DOTALL)
ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\0", b"f": b"\0"}
SURROGATES, BEHIND_SURROGATES = 0xD800, 0xDC00
DEEPEST = 4
"""JSON within JSON so deep is read."""
WIDE = re.compile(rb"(?:[\x20-\x7e\t\n\r]\0){5,}+")
WIDE_CODE = re.compile(rb"[\x20-\x7e]\0[\x20-\x7e]\0[\x20-\x7e]\0")
CONTROLS = bytes(range(32)) + b"\x7f"
TO_NUL = bytes(0 if code in CONTROLS and code not in b"\t\n\r" else code for code in range(256))
NEWLINE, DOT = b"\n."
COST = 16
"""Bytes of memory that a byte of a record costs while its texts are read."""


@dataclass(frozen=True, slots=True)
class Form:
    """Texts of some bytes, with NUL between them.

    Attributes:
        data: the texts.
        at: places in ``data`` behind each of which places in the bytes are shifted, ascending.
        source: the places in the bytes that stand for those.
    """

    data: bytes
    at: Sequence[int] = (0,)
    source: Sequence[int] = (0,)

    def place(self, position: int) -> int:
        """The byte that a position in ``data`` comes from; that of the same escape, at least."""
        piece = bisect_right(self.at, position) - 1
        return self.source[piece] + position - self.at[piece]


def forms(data: memoryview, allowance: Allowance) -> Iterator[Form]:
    """The texts in a record's bytes, form by form.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    with allowance.lent(COST * len(data), "texts of a record"):
        whole = bytes(data)
        if PICKLE.match(whole):
            yield Form(_masked(whole, _pickled(whole, allowance)))
        elif JSON.match(whole):
            yield from _json(Form(whole), 0)
        else:
            yield Form(whole.translate(TO_NUL))
        if WIDE_CODE.search(whole):
            yield _narrowed(whole)


def _pickled(data: bytes, allowance: Allowance) -> _Spans:
    """Where the texts of a pickle are; of bytes that only begin like one, all of them."""
    try:
        with allowance.part() as part:
            tokens = scan([Pickle("", memoryview(data))], part)
            found = [np.flatnonzero(tokens.op == code) for code in HEADS]
            begins = [tokens.at[some] + head for some, head in zip(found, HEADS.values(), strict=True)]
            ends = [begin + tokens.arg[some] for begin, some in zip(begins, found, strict=True)]
            begins.append(tokens.at[-1:] + 1)
            ends.append(np.array([len(data)]))
            spans = np.stack([np.concatenate(begins), np.concatenate(ends)], 1)
            return spans.astype(np.int64), np.stack([begins[2], ends[2]], 1).astype(np.int64)
    except ArchiveError:
        return _of_python(data)


def _of_python(data: bytes) -> _Spans:
    """The same of a pickle by Python, which has more opcodes than those of TorchScript."""
    spans: list[tuple[int, int]] = []
    names: list[tuple[int, int]] = []
    begin, kept, end = 0, spans, 0
    with suppress(ValueError, OverflowError, UnicodeError):  # no pickle from there on
        for op, argument, at in pickletools.genops(data):
            end = at or 0
            if begin:
                kept.append((begin, end))
            is_text = isinstance(argument, str | bytes | bytearray)
            begin = end + PYTHON_HEADS.get(op.arg.n, 1) if is_text and op.arg else 0
            kept = names if op.name in ("GLOBAL", "INST") else spans
            end += 1
    spans += [*names, (end, len(data))]
    return np.array(spans, np.int64), np.array(names, np.int64).reshape(-1, 2)


def _masked(data: bytes, spans: _Spans) -> bytes:
    """The same bytes, NUL where no text is, and names of classes as ``module.name.``."""
    texts, names = spans
    level = np.zeros(len(data) + 1, np.int32)
    np.add.at(level, texts[:, 0], 1)
    np.add.at(level, texts[:, 1], -1)
    masked = np.frombuffer(data, np.uint8) * (np.cumsum(level[:-1]) > 0)
    for begin, end in names:
        one = masked[begin:end]
        one[one == NEWLINE] = DOT
    return masked.astype(np.uint8).tobytes().translate(TO_NUL)


def _json(form: Form, depth: int) -> Iterator[Form]:
    """JSON, unescaped; JSON in its strings apart."""
    data, inner = form.data, list(JSON_IN_JSON.finditer(form.data)) if depth < DEEPEST else []
    if inner:
        pieces, end = [], 0
        for one in inner:
            pieces += [data[end : one.start()], bytes(one.end() - one.start())]
            end = one.end()
        data = b"".join([*pieces, data[end:]])
    yield _unescaped(Form(data, form.at, form.source))
    for one in inner:
        start = form.place(one.start(1))
        yield from _json(_unescaped(Form(one[1], (0,), (start,))), depth + 1)


def _unescaped(form: Form) -> Form:
    """Strings of JSON, NUL in the place of quotes, escapes undone; places are kept escape by escape."""
    pieces, at, source, end, length = [], [0], [form.place(0)], 0, 0
    for one in ESCAPE.finditer(form.data):
        stands = _stands_for(one)
        pieces += [form.data[end : one.start()].replace(b'"', b"\0"), stands]
        length += one.start() - end + len(stands)
        end = one.end()
        at.append(length)
        source.append(form.place(end))
    pieces.append(form.data[end:].replace(b'"', b"\0"))
    return Form(b"".join(pieces), at, source)


def _stands_for(escape: re.Match[bytes]) -> bytes:
    """What an escape stands for, in UTF-8."""
    first, second, plain = escape.groups()
    if plain is not None:
        return ESCAPED.get(plain, plain)
    code = int(first, 16)
    if second is None:
        return chr(code).encode(errors="surrogatepass")
    if not SURROGATES <= code < BEHIND_SURROGATES:
        return (chr(code) + chr(int(second, 16))).encode(errors="surrogatepass")
    return chr(0x10000 + ((code - SURROGATES) << 10) + int(second, 16) - BEHIND_SURROGATES).encode()


def _narrowed(data: bytes) -> Form:
    """Texts in UTF-16 of either byte order: in both, every second byte of ASCII is NUL."""
    pieces, at, source, length = [], [0], [0], 0
    for one in WIDE.finditer(data):
        for place, code in zip(range(one.start(), one.end(), 2), one[0][::2], strict=True):
            at.append(length)
            source.append(place)
            pieces.append(code)
            length += 1
        pieces.append(0)
        length += 1
    return Form(bytes(pieces), at, source)
