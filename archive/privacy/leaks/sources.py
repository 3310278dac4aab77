"""Source text in texts: functions, lines of Python that tracebacks quote, comments, docstrings; names.

Lines of PyTorch's own modules are nobody's secret: in a traceback its frame tells, elsewhere the caller.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from archive.formats.record_kinds import BUNDLED_INPUTS, RecordKind
from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.vocabulary import Found

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

TRACED = re.compile(rb'File "([^"\n\0]*)", line \d+, in [^\n\0]{0,300}\n[ \t]+([^\n\0]+)')
"""A frame of a traceback with its line of source; bounded, as each `File` may begin one."""
OWN = re.compile(
    rb"[\\/](?:site|dist)-packages[\\/]torch[\\/]"
    rb"|(?:^|[\\/])torch[\\/](?:nn[\\/]modules[\\/]\w+|nn[\\/](?:functional|init)|jit[\\/]_\w+|_?[a-z]\w+)\.py\Z"
)
"""Files of PyTorch itself."""
DEFINED = re.compile(rb"(?:async )?\b(?:def (?=\w+\s*\()|class (?=\w+\s*[(:]))[^\n\0]*")
STATEMENT = re.compile(
    rb"(?m)(?:^|(?<=\0))[ \t]*(?:return\b|import \w|from [\w.]+ import|assert\b|raise\b|with \w[^\n\0]*:|"
    rb"(?:if|elif|for|while) [^\n\0]+:|self\.\w[\w.\[\]]*[ \t]*=|"
    rb"\w[\w.\[\], \t]*+=[ \t]*(?:self|torch|F)\.)[^\n\0]*"
)
COMMENT = re.compile(rb"(?:^|(?<=[ \t\n\0]))#(?!:)[ \t]*([A-Za-z\x80-\xff][^\n\0]{2,})")
DOCSTRING = re.compile(rb"[\"']{3}[ \t]*([A-Za-z\x80-\xff][^\n\0\"]{3,})")
WORD = re.compile(r"[^\W\d_]{3}")
"""Letters in a row, of any script: the bytes of a checksum may be a `#` and a letter or two."""
HANDLE = re.compile(
    rb"(?:debug handle \d|type: |noqa|No stacktrace|File: |include [<\"]"
    rb"|(?:define|undef|ifdef|ifndef|pragma) \w|(?:el)?if (?:defined|!)|endif\b|else\s*\Z)"
)
"""Comments that tools read or write, and what C++ has behind a ``#``."""
TORCHSCRIPT_CLASS = re.compile(rb"__torch__((?:\.\w+)+)")
PYTHON_CLASS = re.compile(rb"(?<![^\0])([A-Za-z_]\w*(?:\.\w+)+)\.(?![^\0])")
"""A class in a pickle: see :mod:`archive.privacy.pieces.strings`."""
MANGLED = re.compile(rb"\.___torch_mangle_\d+")
MODULE_STACK = re.compile(rb'"nn_module_stack"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)')
TEXT = re.compile(rb'\s*:\s*"(?=[^"])([^"\\]*+(?:\\.[^"\\]*+)*+)')
GRAPH_ID = re.compile(rb"graph_id[^\w:]{1,16}:\s{0,4}(\d+)")
"""Keys of JSON that each node has, and the values of others that few have."""
INSTANCE_CLASS = re.compile(rb",([A-Za-z_][\w.]*)(?=;|$)")
PARAMETERS = (b'"parameter_name"', b'"buffer_name"', b'"tensor_name"')
COMMON_NAMES = {b"storage", b"cpu", b"cuda", b"training", b"_is_full_backward_hook"}
"""Strings of PyTorch's own in such pickles."""
OWN_MODULES = (b"torch.", b"collections.", b"builtins.", b"__builtin__.", b"numpy.", b"copyreg.", b"_codecs.")
IDENTIFIER = re.compile(rb"(?<![^\0])[A-Za-z_]\w*(?:\.\w+)*(?![^\0])")
ADDRESS = re.compile(rb"0x[0-9a-f]{8,16}(?![0-9A-Za-z_])")

HOLD_RANGES = {
    *(RecordKind.RANGES, RecordKind.DELEGATED, RecordKind.CALLSTACKS),
    *(RecordKind.COMPANION, RecordKind.ASIDE),
}
"""Records that hold source ranges, or are made of such."""
HOLD_PROGRAMS = {RecordKind.COMPANION, RecordKind.ASIDE}
"""Records that may be made of exported programs and kernels, whose lines no source range refers to."""
HOLD_SOURCE = {
    *HOLD_RANGES,
    *(RecordKind.PROGRAM, RecordKind.KERNELS, RecordKind.MODULES, RecordKind.EXTRA, RecordKind.OTHER),
    *(RecordKind.BYTECODE, RecordKind.EFFECTS),
}
"""Records in which a statement of Python is the model's source; code is generated."""
HOLD_NAMES = {RecordKind.MODULES, RecordKind.OBJECT}
"""Records whose strings are names of attributes."""


def sources(kind: RecordKind, data: bytes, known: frozenset[bytes] | None = None) -> Iterator[Found]:
    """The source text, comments and docstrings in a text of a record.

    Args:
        kind: of the record.
        data: lines, with NULs between them.
        known: the lines that source ranges refer to; None where that is not known, and looks have to tell.
    """
    if kind not in HOLD_SOURCE:
        return
    for one in TRACED.finditer(data):
        if not OWN.search(one[1]):
            yield Found(LeakKind.SOURCE, one.start(2), one[2])
            if kind is RecordKind.PROGRAM:
                yield from _comments(one[2], one.start(2))
    if kind is RecordKind.PROGRAM:
        return
    if known is not None and kind in HOLD_RANGES:
        yield from _lines(data, known)
    if known is None or kind not in HOLD_RANGES or kind in HOLD_PROGRAMS:
        yield from _like_lines(data, known or frozenset())
    yield from _comments(data, 0)


def _lines(data: bytes, known: Container[bytes]) -> Iterator[Found]:
    """The lines that are known to be source text, but for those that are comments alone."""
    at = 0
    for line in data.split(b"\0"):
        text = line.strip()
        if text in known and not text.startswith(b"#"):
            yield Found(LeakKind.SOURCE, at, text)
        at += len(line) + 1


def _like_lines(data: bytes, known: Container[bytes]) -> Iterator[Found]:
    """What looks like a line of source text, but for lines that are known."""
    for pattern in (DEFINED, STATEMENT):
        for one in pattern.finditer(data):
            if one[0].strip() not in known:
                yield Found(LeakKind.SOURCE, one.start(), one[0].strip())


def _comments(data: bytes, at: int) -> Iterator[Found]:
    for pattern in (COMMENT, DOCSTRING):
        for one in pattern.finditer(data):
            if not HANDLE.match(one[1]) and _has_word(one[1]):
                yield Found(LeakKind.COMMENT, at + one.start(1), one[1].strip())


def _has_word(text: bytes) -> bool:
    try:
        return WORD.search(text.decode()) is not None
    except UnicodeDecodeError:
        return False


def names(kind: RecordKind, data: bytes) -> Iterator[Found]:
    """The names of classes and attributes that are not PyTorch's, and ids of a run."""
    if b"__torch__" in data:
        for one in TORCHSCRIPT_CLASS.finditer(data):
            yield from _class(one.start(1) + 1, MANGLED.sub(b"", one[1])[1:])
    if kind is RecordKind.PROGRAM:
        for one in ADDRESS.finditer(data):
            yield Found(LeakKind.ID, one.start(), one[0])
    if kind in HOLD_NAMES:
        yield from _in_pickle(data)


def of_nodes(json: bytes) -> Iterator[tuple[Found, int]]:
    """Names of classes and parameters in a program's JSON, and ids of a run, with how often each is there.

    Args:
        json: the program.
    """
    times: Counter[bytes] = Counter()
    first: dict[bytes, tuple[bytes, int]] = {}
    for stack, count in Counter(MODULE_STACK.findall(json)).items():
        for one in INSTANCE_CLASS.finditer(stack):
            times[one[1]] += count
            first.setdefault(one[1], (stack, one.start(1)))
    for name, (stack, at) in first.items():
        for found in _class(json.find(stack) + at, name):
            yield found, times[name]
    parameters = [one for key in PARAMETERS for one in _texts(json, key)]
    for at, name in sorted(parameters):
        yield Found(LeakKind.ATTRIBUTE, at, name), 1
    for number, count in Counter(GRAPH_ID.findall(json)).items():
        yield Found(LeakKind.ID, json.find(number), number), count


def _texts(json: bytes, key: bytes) -> Iterator[tuple[int, bytes]]:
    """The texts behind a key of JSON, and where they begin: bytes are found much sooner than patterns."""
    at = json.find(key)
    while at >= 0:
        one = TEXT.match(json, at + len(key))
        if one:
            yield one.start(1), one[1]
        at = json.find(key, at + len(key))


def _in_pickle(data: bytes) -> Iterator[Found]:
    for one in PYTHON_CLASS.finditer(data):
        if not one[1].startswith(b"__torch__."):
            yield from _class(one.start(1), one[1])
    for one in IDENTIFIER.finditer(data):
        if one[0].startswith(BUNDLED_INPUTS):
            yield Found(LeakKind.INPUTS, one.start(), one[0])
        elif one[0] not in COMMON_NAMES:
            yield Found(LeakKind.ATTRIBUTE, one.start(), one[0])


def _class(at: int, name: bytes) -> Iterator[Found]:
    if name and not (name + b".").startswith(OWN_MODULES):
        yield Found(LeakKind.CLASS, at, name)
