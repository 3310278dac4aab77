"""Source text in texts: functions, lines of Python that tracebacks quote, comments, docstrings; names.

Lines of PyTorch's own modules are nobody's secret. In a traceback the frame shows which they are; in other
texts, the lines that source ranges refer to, PyTorch's own and the model's (``known_lines``).
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, windows
from archive.base.errors import ArchiveError
from archive.base.patterns import pattern_of
from archive.base.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo import frames
from archive.formats import mangling
from archive.formats.record_kinds import BUNDLED_INPUTS, RecordKind
from archive.privacy.leaks.vocabulary import Detection, LeakKind, places_of
from archive.reader.opening import open as open_archive
from archive.reader.recognition import ARCHIVE_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.limits import Limits
    from archive.debuginfo.tables import SourceTable
    from archive.io.mapped import Mapped
    from archive.reader.archive import Archive

TRACED = pattern_of(
    (frames.ANY_FILE + frames.LINE).encode() + rb", in [^\n\0]{0,300}\n[ \t]+(?P<code>[^\n\0]+)"
)
"""A frame of a traceback with its line of source; bounded, as each `File` may begin one."""
FUNCTION, CLASS = rb"ef (?=\w+\s*\()", rb"lass (?=\w+\s*[(:])"
DEFINED = pattern_of(
    rb"(?:async \b(?:d" + FUNCTION + rb"|c" + CLASS + rb")"
    rb"|d(?<=\bd)" + FUNCTION + rb"|c(?<=\bc)" + CLASS + rb")[^\n\0]*"
)
"""A first line of a definition. Each alternative begins with a letter: such patterns are found soonest."""
STATEMENT = (
    rb"[ \t]*(?:return\b|import \w|from [\w.]+ import|assert\b|raise\b|with \w[^\n\0]*:|"
    rb"(?:if|elif|for|while) [^\n\0]+:|self\.\w[\w.\[\]]*[ \t]*=|"
    rb"\w[\w.\[\], \t]*+=[ \t]*(?:self|torch|F)\.)[^\n\0]*"
)
FIRST_STATEMENT, NEXT_STATEMENT = pattern_of(STATEMENT), pattern_of(rb"[\n\0](" + STATEMENT + rb")")
COMMENT = pattern_of(rb"#(?<![^ \t\n\0]#)(?!:)[ \t]*([A-Za-z\x80-\xff][^\n\0]{2,})")
LITERAL = pattern_of(
    rb"\"{3}|'{3}|(?:(?<!\w)|(?<=\b[rbfuRBFU])|(?<=\b[rbfRBF]{2}))"
    rb"(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+')",
    re.DOTALL,
)
"""A string of Python in one line: an apostrophe in a word begins none, nor do three quotes."""
LONGEST_LINE = 500
"""Bytes before a ``#`` in which its line has to begin, and after it, that are asked for strings."""
DOCSTRING = pattern_of(rb"[\"'][\"']{2}[ \t]*([A-Za-z\x80-\xff][^\n\0\"]{3,})")
LETTERS = pattern_of(r"[^\W\d_]{3}")
"""Letters in a row, of any script: the bytes of a checksum may be a `#` and a letter or two."""
OF_TOOLS = pattern_of(
    rb"(?:debug handle \d|(?:in|out)puts\s*\Z|type: |noqa|No stacktrace|File: |include [<\"]"
    rb"|(?:define|undef|ifdef|ifndef|pragma) \w|(?:el)?if (?:defined|!)|endif\b|else\s*\Z)"
)
"""Comments that tools read or write, ``# inputs`` in a program's signature; what follows a ``#`` in C++."""
TORCHSCRIPT_CLASS = pattern_of(rb"__torch__((?:\.\w++)++)")
PYTHON_CLASS = pattern_of(rb"(?<![^\0])([A-Za-z_]\w*+(?:\.\w++)++)\.(?![^\0])")
"""A class in a pickle: see :mod:`archive.privacy.pieces.strings`."""
MANGLED = pattern_of(rf"\.{mangling.MANGLED}".encode())
MODULE_STACK = pattern_of(rb'"nn_module_stack"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)')
TEXT = pattern_of(rb'\s*:\s*"(?=[^"])([^"\\]*+(?:\\.[^"\\]*+)*+)')
GRAPH_ID = pattern_of(rb"graph_id[^\w:]{1,16}:\s{0,4}(\d+)")
"""Keys of JSON that each node has, and the values of others that few have."""
INSTANCE_CLASS = pattern_of(rb",([A-Za-z_][\w.]*)(?=;|$)")
PARAMETERS = (b'"parameter_name"', b'"buffer_name"', b'"tensor_name"')
MOST_REPEATED = 1 << 10
"""Names that are cached: code repeats the same few."""
COMMON_NAMES = {b"storage", b"cpu", b"cuda", b"training", b"_is_full_backward_hook"}
"""Strings of PyTorch's own in such pickles."""
OWN_MODULES = (b"torch.", b"collections.", b"builtins.", b"__builtin__.", b"numpy.", b"copyreg.", b"_codecs.")
IDENTIFIER = pattern_of(rb"(?<![^\0])[A-Za-z_]\w*+(?:\.\w++)*+(?![^\0])")
ADDRESS = pattern_of(rb"0x[0-9a-f]{8,16}(?![0-9A-Za-z_])")

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
    *(RecordKind.BYTECODE, RecordKind.EFFECTS, RecordKind.GRAPH, RecordKind.FRAMES, RecordKind.PYTHON),
}
"""Records in which a statement of Python is the model's source; code is generated."""
HOLD_NAMES = {RecordKind.MODULES, RecordKind.OBJECT}
"""Records whose strings are names of attributes."""


def sources(kind: RecordKind, data: bytes, known: frozenset[bytes] | None = None) -> Iterator[Detection]:
    """The source text, comments and docstrings in a text of a record.

    Args:
        kind: of the record.
        data: lines, with NULs between them.
        known: the lines that source ranges refer to; None where that is not known, and looks decide.
    """
    if kind not in HOLD_SOURCE:
        return
    for frame in TRACED.finditer(data):
        if not is_pytorchs(decoded(frame["file"])):
            yield Detection(LeakKind.SOURCE, frame.start("code"), frame["code"])
            if kind is RecordKind.PROGRAM:
                yield from _comments(frame["code"], frame.start("code"))
    if kind is RecordKind.PROGRAM:
        return
    if known is not None and kind in HOLD_RANGES:
        at = 0
        for line in data.split(b"\0"):
            text = line.strip()
            if text in known and not text.startswith(b"#"):
                yield Detection(LeakKind.SOURCE, at, text)
            at += len(line) + 1
    if known is None or kind not in HOLD_RANGES or kind in HOLD_PROGRAMS:
        for at, text in _statements(data):
            if text.strip() not in (known or ()):
                yield Detection(LeakKind.SOURCE, at, text.strip())
    yield from _comments(data, 0)


def _statements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """First lines of definitions, then statements: where each begins, and its line."""
    for definition in DEFINED.finditer(data):
        yield definition.start(), definition[0]
    first = FIRST_STATEMENT.match(data)
    if first:
        yield 0, first[0]
    for statement in NEXT_STATEMENT.finditer(data, first.end() if first else 0):
        yield statement.start(1), statement[1]


def _comments(data: bytes, at: int) -> Iterator[Detection]:
    for comment in chain(_marked(data), DOCSTRING.finditer(data)):
        if not OF_TOOLS.match(comment[1]) and _has_letters(comment[1]):
            yield Detection(LeakKind.COMMENT, at + comment.start(1), comment[1].strip())


def _marked(data: bytes) -> Iterator[re.Match[bytes]]:
    """What follows a ``#``, to the end of the line; in a string, a ``#`` marks nothing."""
    at = 0
    while comment := COMMENT.search(data, at):
        end = _end_of_literal(data, comment, at)
        if not end:
            yield comment
        at = end or comment.end()


def _end_of_literal(data: bytes, comment: re.Match[bytes], seen: int) -> int:
    """The end of the string that a ``#`` stands in, in one line; 0 if it stands in none.

    Args:
        seen: where the last string or comment ended: none goes on after it.
    """
    at = comment.start()
    low = max(at - LONGEST_LINE, seen, 0)
    begin = max(data.rfind(b"\n", low, at), data.rfind(b"\0", low, at)) + 1
    if not begin and low > seen:
        return 0
    for literal in LITERAL.finditer(data, max(begin, low), min(comment.end(), at + LONGEST_LINE)):
        if literal.start() > at:
            break
        if literal.end() > at:
            return literal.end()
    return 0


def _has_letters(text: bytes) -> bool:
    try:
        return LETTERS.search(text.decode()) is not None
    except UnicodeDecodeError:
        return False


# --- names


def names(kind: RecordKind, data: bytes) -> Iterator[Detection]:
    """The names of classes and attributes that are not PyTorch's, and ids of a run."""
    if b"__torch__" in data:
        for name in TORCHSCRIPT_CLASS.finditer(data):
            yield from _class(name.start(1) + 1, _without_mangling(name[1]))
    if kind is RecordKind.PROGRAM:
        for address in ADDRESS.finditer(data):
            yield Detection(LeakKind.ID, address.start(), address[0])
    if kind in HOLD_NAMES:
        for name in PYTHON_CLASS.finditer(data):
            if not name[1].startswith(b"__torch__."):
                yield from _class(name.start(1), name[1])
        for name in IDENTIFIER.finditer(data):
            if name[0].startswith(BUNDLED_INPUTS):
                yield Detection(LeakKind.INPUTS, name.start(), name[0])
            elif name[0] not in COMMON_NAMES:
                yield Detection(LeakKind.ATTRIBUTE, name.start(), name[0])


@lru_cache(MOST_REPEATED)
def _without_mangling(name: bytes) -> bytes:
    """The name of a class of TorchScript after its first dot, without what makes it unique."""
    return MANGLED.sub(b"", name)[1:]


def of_nodes(json: bytes) -> Iterator[tuple[Detection, int]]:
    """Names of classes and parameters in a program's JSON, and ids of a run, with how often each is there."""
    times: Counter[bytes] = Counter()
    first: dict[bytes, tuple[bytes, int]] = {}
    for stack, count in Counter(MODULE_STACK.findall(json)).items():
        for name in INSTANCE_CLASS.finditer(stack):
            times[name[1]] += count
            first.setdefault(name[1], (stack, name.start(1)))
    for class_name, (stack, at) in first.items():
        for detection in _class(json.find(stack) + at, class_name):
            yield detection, times[class_name]
    texts = (TEXT.match(json, at + len(key)) for key in PARAMETERS for at in places_of(json, key))
    for at, parameter in sorted((text.start(1), text[1]) for text in texts if text):
        yield Detection(LeakKind.ATTRIBUTE, at, parameter), 1
    for number, count in Counter(GRAPH_ID.findall(json)).items():
        yield Detection(LeakKind.ID, json.find(number), number), count


def _class(at: int, name: bytes) -> Iterator[Detection]:
    if name and not (name + b".").startswith(OWN_MODULES):
        yield Detection(LeakKind.CLASS, at, name)


# --- lines that source ranges refer to

HAVE_RANGES = ARCHIVE_KINDS | {FileKind.COMPANION}
"""Kinds of files that have source ranges."""
NO_FILE = {b"", b"<string>"}
"""Names of the files of text that is from none."""
WRITTEN = pattern_of(
    rb"\s*def __len__\(self\):\s+return \d+\s*\Z"
    rb"|.*\bself\.__(?:backend|processed_module|method_compile_spec|create_backend|loweredModule__)",
    re.DOTALL,
)
"""Methods that PyTorch writes itself, for containers of modules and for lowered ones:
``torch/jit/_recursive.py``, ``torch/csrc/jit/backends/backend_detail.cpp``."""
BUILT_IN = pattern_of(
    rb"\ndef (?:"
    rb"(?:mul|lt)\(a : \w+, b : Tensor\) -> Tensor:\n  return b "
    rb"|_\w+\(x: BroadcastingList\d\[\w+\]\) -> List\[\w+\]:\n  return x\n\Z"
    rb"|floordiv\(self : Tensor, other : \w+\) -> Tensor:\n  return torch\.floor_divide\(self, other\)\n\Z"
    rb"|_assert_int_or_pair\(vals: List\[int\], name: str, message: str\):\n  pass\n"
    rb"|_assert\(condition : Tensor, message : str\):\n  assert bool\(condition\), message\n"
    rb"|ndim\(a : Tensor\) -> int:\n  return a\.dim\(\)\n"
    rb"|(?:div|full|linspace|logspace|gelu)\w*_0_\d\()"
)
"""What texts begin with that PyTorch has in TorchScript: ``torch/csrc/jit/frontend/builtin_functions.cpp``,
``torch/csrc/jit/operator_upgraders/upgraders_entry.cpp``. Each of all these texts has a line with ``def `` or
``self.__``."""
LOWERED = pattern_of(rb"\s*def \w+\(self[^\n]*\n\s+if not self\.__is_available\(\):\n")
"""What the text of a method begins with that ``archive.backend`` has lowered."""
GENERATED = pattern_of(
    rb"[^\"'\n]*  # debug handle \d+|r\d+ = self\.__constants\[\d+\]|return r\d+|pass"
    rb"|if not self\.__is_available\(\):|raise Exception\(\"Backend is not available\.\"\)"
)
"""Its lines in which nothing is of the model: neither a text nor the names of arguments."""
WORD = pattern_of(rb"[^\W\d]\w")


class SourceLines(NamedTuple):
    """Lines of source text, without blanks at either end.

    Attributes:
        own: those that only PyTorch's own modules have.
        model: those of others; None where source ranges are not read: then looks decide.
        problem: why they are not, though the file should have them; "" else.
    """

    own: frozenset[bytes]
    model: frozenset[bytes] | None
    problem: str = ""


NO_LINES = SourceLines(frozenset(), None)
"""Of a file whose source ranges are not read."""
BY_LOOKS = "so lines are source text by their looks, PyTorch's own, too"


def known_lines(mapped: Mapped, kind: FileKind, limits: Limits) -> SourceLines:
    """The lines of source text in a file of a kind: see :func:`lines_of`."""
    if kind not in HAVE_RANGES:
        return NO_LINES
    try:
        with open_archive(mapped, limits=limits) as archive, memory.charged(archive.allowance):
            return lines_of(archive, kind)
    except ArchiveError as problem:
        return _unread(problem)


def lines_of(archive: Archive, kind: FileKind) -> SourceLines:
    """The lines of source text in an open file; of texts, no more than ``compared_bytes`` are read."""
    if kind not in HAVE_RANGES:
        return NO_LINES
    try:
        table = archive.range_table.sources
        size, most = (
            int(table.lengths.sum()),
            min(archive.limits.compared_bytes, archive.allowance.memory // 4),
        )
        if size > most:
            why = f"{size:,} bytes of source text are not compared with PyTorch's own, at most {most:,} are"
            return SourceLines(frozenset(), None, f"{why}, {BY_LOOKS}")
        own, model = _lines(table)
    except ArchiveError as problem:
        return _unread(problem)
    revealing = {line for line in model if WORD.search(line) and not _is_call(line)}
    return SourceLines(frozenset(own - model), frozenset(revealing))


def _is_call(line: bytes) -> bool:
    """Whether a line is one of a Python stack; patterns say so later than two bytes of it."""
    return b"): " in line and frames.BYTES_CALL.fullmatch(line) is not None


def _unread(problem: ArchiveError) -> SourceLines:
    return SourceLines(frozenset(), None, f"source ranges cannot be read, {BY_LOOKS}: {problem.in_file}")


def _lines(table: SourceTable) -> tuple[set[bytes], set[bytes]]:
    """The lines of PyTorch's own sources and those of all others, without blanks at either end.

    Texts share pieces, nearly all of which are a line with its newline. Such a piece is read once, not once
    for each text: only texts that are no rows of lines, or that PyTorch may have written, are put together.
    """
    strings = table.strings
    own_name, no_name, ends_line, may_be_written, in_own, in_model = np.zeros((6, len(strings) + 1), np.bool_)
    no_name[-1] = True  # sources without a file have the number -1
    names = _distinct(table.filename, len(strings))
    for number, name in zip(names.tolist(), strings.copies(names), strict=True):
        own_name[number] = is_pytorchs(decoded(name))
        no_name[number] = name in NO_FILE
    pieces = _distinct(table.piece, len(strings))
    texts = strings.copies(pieces)
    ends_line[pieces] = [text.endswith(b"\n") for text in texts]
    may_be_written[pieces] = [b"def " in text or b"self.__" in text for text in texts]

    own, model = set[bytes](), set[bytes]()
    for low, high in windows(table.first):
        first, filename = table.first[low : high + 1] - table.first[low], table.filename[low:high]
        piece = table.piece[int(table.first[low]) : int(table.first[high])]
        is_own = own_name[filename]
        is_open = ~ends_line[piece]
        counts = np.diff(first)
        is_open[first[1:][counts > 0] - 1] = False  # nothing follows the last piece
        needs_whole = is_open | (may_be_written[piece] & np.repeat(no_name[filename], counts))
        is_whole = np.diff(firsts(needs_whole.astype(np.int64))[first]) > 0
        for row in np.flatnonzero(is_whole).tolist():
            text = str(table[low + row].text).encode()
            is_written = bool(no_name[filename[row]]) and (WRITTEN.match(text) or BUILT_IN.match(text))
            lines = {line.strip() for line in text.split(b"\n")}
            if no_name[filename[row]] and LOWERED.match(text):
                generated = set(filter(GENERATED.fullmatch, lines))
                own |= generated
                lines -= generated
            (own if is_own[row] or is_written else model).update(lines)
        in_own[piece[np.repeat(is_own & ~is_whole, counts)]] = True
        in_model[piece[np.repeat(~is_own & ~is_whole, counts)]] = True
    for lines, numbers in ((own, np.flatnonzero(in_own)), (model, np.flatnonzero(in_model))):
        shown = (text if text.isascii() else decoded(text).encode() for text in strings.copies(numbers))
        lines.update(map(bytes.strip, b"\n".join(shown).split(b"\n")))
    return own, model


def _distinct(numbers: Ints, count: int) -> Ints:
    """Which of ``count`` numbers there are, -1 left out."""
    is_there = np.zeros(count + 1, np.bool_)
    is_there[numbers] = True
    return np.flatnonzero(is_there[:-1])
