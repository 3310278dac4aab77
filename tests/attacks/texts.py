"""Texts against those who search every text: escapes alone, quotes, headings that never end, zips in zips.

Each stands in a model beside its records, in a program in the place of its JSON, or is the file itself.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import MARK, pickled, ranges
from tests.attacks.pieces import text as pickled_text
from tests.attacks.programs import archive_with
from tests.attacks.records import CODE, ONE_LINE
from tests.attacks.zips import archive_of, entries_of, entry, zipped

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = ("leaks m.pt",)
MANY = 100_000
"""Repetitions of a short motif: texts of 0.2 to 2 MB."""
LINE = 6 * MIB
DEEP = 12
"""JSON in JSON so deep: each level doubles the backslashes."""


def beside(data: bytes) -> Callable[[], dict[str, bytes]]:
    """A model with an extra file."""
    return lambda: {"m.pt": zipped(*entries_of(ONE_LINE), entry("m/extra/x", data))}


def in_program(text: bytes) -> Callable[[], dict[str, bytes]]:
    """A program whose JSON is a text."""
    return lambda: {"m.pt": archive_with({"models/model.json": text}, deflate=False)["m.pt2"]}


def in_modules(pickle: bytes) -> Callable[[], dict[str, bytes]]:
    """A model whose module tree is a pickle."""
    return lambda: {"m.pt": archive_of({**ONE_LINE, "data.pkl": pickle})}


def _of_pytorch() -> dict[str, bytes]:
    """A model whose source has PyTorch's folder as its file name, again and again, and one line more."""
    filename = b"/site-packages/torch/" * 50_000 + b"\n"
    return {"m.pt": archive_of({**CODE, "code/m.py.debug_pkl": ranges(b"x = 1\n", filename=filename)})}


def _zips(levels: int, bomb: int, *, deflate: bool) -> Callable[[], dict[str, bytes]]:
    """Zips in a zip: two at each level, which are the same; in the innermost one, zeros."""

    def made() -> dict[str, bytes]:
        inner = zipped(entry("a/bomb", bytes(bomb), deflate=True))
        for _ in range(levels):
            names = ("a/inner.zip", "a/again.zip")
            inner = zipped(*(entry(name, inner, deflate=deflate) for name in names))
        return beside(inner)()

    return made


def _streams(levels: int) -> bytes:
    data = bytes(16 * MIB)
    for _ in range(levels):
        data = gzip.compress(data, mtime=0)
    return data


def _in_base64(levels: int) -> bytes:
    data = b"/home/ann/model.py" * 100
    for _ in range(levels):
        data = base64.b64encode(data)
    return data


def _json_in_json() -> bytes:
    text = "{}"
    for _ in range(DEEP):
        text = json.dumps({"a": text})
    return text.encode()


def _short_strings() -> bytes:
    return pickled(MARK, *(b"X\4\0\0\0%04x" % (number & 0xFFFF) for number in range(MANY)), b"t")


TEXTS = {
    "heads of functions": (b"def " * MANY, "`def `, 100,000 times, on one line."),
    "heads of lines": (b"\ndef a(" * MANY, "100,000 lines that begin a function."),
    "quotes": (b"'''" * MANY + b'"""' * MANY, "Triple quotes, 200,000 of them."),
    "frames without a line": (b'File "' * MANY, '`File "`, 100,000 times.'),
    "frames without an end": (
        b'File "a", line 1, in ' + b"a" * 299 + b"\n " * MANY,
        "A frame of a traceback, and then spaces and line feeds alone.",
    ),
    "slashes": (b"/" * LINE, "6 MB of slashes."),
    "folders": (b"/a" * MANY * 2, "A path of 200,000 folders."),
    "folders with spaces": (b"/home/" + b"a a " * MANY, "A path with 100,000 spaces."),
    "backslashes": (b"\\" * MANY * 4, "400,000 backslashes."),
    "network paths": (b"\\\\a" * MANY, "100,000 beginnings of network paths."),
    "addresses": (b"a." * MANY + b"@" * MANY, "Names with points, and then 100,000 `@`."),
    "domains": (b"a@" + b"a." * MANY, "An address with 100,000 domains."),
    "schemes": (b"http://" * MANY, "`http://`, 100,000 times."),
    "words of keys": (b"token=" * MANY, "`token=`, 100,000 times."),
    "beginnings of tokens": (b"eyJaaaaaaaa" * MANY, "100,000 beginnings of a token, without a point."),
    "parts of tokens": (b"eyJ" + b"eyJaaaaaaaa." * MANY, "A token of 100,000 parts."),
    "heads of keys": (b"-----BEGIN " + b"A " * MANY, "The head of a key that does not end."),
    "assignments": (b"a[" * MANY + b"\n" + b"self.a" * MANY, "Assignments without `=`."),
    "assignments of nothing": (b"a" + b" " * MANY, "A name, then 100,000 spaces."),
    "items of nothing": (b"a" + b"[ ," * MANY, "A name, then 100,000 brackets, spaces and commas."),
    "points": (b"http://" + b"a." * MANY, "An address of 100,000 names."),
    "comments": (b"# " * MANY, "`# `, 100,000 times."),
    "words of frames": (b'File "a", line 1, in a\n' * MANY, "100,000 frames without source."),
    "strings between NULs": (b"a.b\0" * MANY, "100,000 names."),
    "indents": (b" " * LINE + b"\n", "6 MB of spaces on a line."),
    "classes": (b"__torch__" + b".a" * MANY, "A class in 100,000 modules."),
    "one line": (b"x" * LINE, "A line of 6 MB."),
    "heads of zips": (b"PK\3\4" * MANY, "100,000 beginnings of a zip."),
    "ends of zips": (b"PK\3\4PK\5\6" * (MANY // 10), "10,000 zips of a beginning and an end."),
    "heads of gzip": (b"\x1f\x8b\x08\0" * MANY, "100,000 beginnings of gzip."),
    "heads of Zstandard": (b"\x28\xb5\x2f\xfd" * MANY, "100,000 beginnings of Zstandard."),
    "heads of bzip2": (b"BZh91AY&SY" * (MANY // 2), "50,000 beginnings of bzip2."),
    "streams in streams": (_streams(300), "300 streams of gzip, one in another, around 16 MB."),
    "base64": (b"QUJD" * 8 * (MANY // 8) + b"\n", "Base64 of 300,000 bytes on one line."),
    "short base64": (b"QUJDREVGR0hJSktMTU5PUFFSU1Q=\n" * (MANY // 10), "10,000 runs of base64."),
    "base64 in base64": (_in_base64(12), "Base64, 12 deep."),
    "wide": (b"a\0" * MANY * 2, "400 KB of UTF-16."),
    "wide beginnings": (b"a\0b\0c\0\x01" * MANY, "100,000 short texts in UTF-16."),
}
"""Name → text, and a sentence."""

ATTACKS = {
    **{f"text of {name}": Attack(says, beside(text), COMMANDS) for name, (text, says) in TEXTS.items()},
    "folders of PyTorch": Attack(
        "A file name of 50,000 folders of PyTorch.",
        _of_pytorch,
        (*COMMANDS, "redact m.pt -o r.pt -c r.ptdbg --for publish --partial"),
    ),
    "short strings": Attack(
        "A pickle of 100,000 strings of four letters.", beside(_short_strings()), COMMANDS
    ),
    "short names": Attack("A module tree of 100,000 short names.", in_modules(_short_strings()), COMMANDS),
    "name of many parts": Attack(
        "A name of 100,000 parts in a module tree.",
        in_modules(pickled(pickled_text(b"a" + b".a" * MANY))),
        COMMANDS,
    ),
    "escapes": Attack("JSON of 100,000 escapes.", in_program(b'{"' + rb"\u0041" * MANY + b'":1}'), COMMANDS),
    "short escapes": Attack(
        "JSON of 300,000 escapes of two bytes.", in_program(b'{"' + rb"\n" * MANY * 3 + b'":1}'), COMMANDS
    ),
    "empty strings": Attack(
        "JSON of 100,000 empty strings.", in_program(b"[" + b'"",' * MANY + b'""]'), COMMANDS
    ),
    "beginnings of JSON in JSON": Attack(
        "A string that begins like JSON in JSON 100,000 times, and does not end.",
        in_program(b'{"a":"' + rb"{\"" * MANY),
        COMMANDS,
    ),
    "lists in lists": Attack(
        "JSON of 100,000 lists, one in another, around a path.",
        in_program(b"[" * 100_000 + b'"/home/ann/a.py"' + b"]" * 100_000),
        COMMANDS,
    ),
    "paths in lists": Attack(
        "JSON of 100,000 paths in lists.", in_program(b'[["/home/ann/a.py"],' * 100_000), COMMANDS
    ),
    "JSON in JSON": Attack("JSON in JSON, 12 deep.", in_program(_json_in_json()), COMMANDS),
    "zips in zips": Attack(
        "Zips in zips, six deep: 64 of the same, each with 16 MB of zeros.",
        _zips(6, 16 * MIB, deflate=False),
        COMMANDS,
    ),
    "deflated zips in zips": Attack(
        "Zips in zips, four deep, all deflated: 16 of the same, each with 64 MB of zeros.",
        _zips(4, 64 * MIB, deflate=True),
        COMMANDS,
    ),
}
