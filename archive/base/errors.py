"""The errors that callers see: one class, with the place of the problem.

A message reads ``model.ptl: callstack_debug_map.pkl, row 17, field tag: expected an int, found 'abc'``:
file, record, place, what was expected and what was found, each part left out if unknown.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CHANGED = "the file changed while it was read; nothing is written"
DAMAGED = "damaged bytes: copy or download the file again"
"""What is wrong where bytes contradict their checksum, or cannot be inflated."""
IN_PYTHON = "In Python: "
"""Begins the note that names what Python's callers pass; commands leave it out."""
LONGEST_CAUSE = 200
"""Characters of another library's message that an error repeats."""
NO_BYTE = 0xDC00
"""Added to a byte that isn't UTF-8 to represent it in a ``str``."""
ESCAPED_BYTES = "".join(chr(NO_BYTE + byte) for byte in range(0x80, 0x100))
BACKSLASH = r"\x5c"
_ESCAPED = re.compile(r"[\ud800-\udfff]|\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})")
OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or does not show."""
_NOT_PLAIN = re.compile(r"[^\n\t -~]")
_REPR_OF_BYTE = re.compile(r"(?<!\\)\\udc([89a-f][0-9a-f])")


class ArchiveError(Exception):
    """Raised for everything that this library refuses, with its place.

    Args:
        problem: what is wrong, if "expected … found …" does not say it.
        file: path or name of the archive.
        record: name of the record inside the archive, without root.
        place: where in the record: a row and field, or a byte.
        expected: what the format asks for.
        found: the value found instead.
        in_python: what Python's callers pass where the message names an option of a command. Messages name
            only options; this is a note, which Python prints below the message of an uncaught error.
    """

    def __init__(
        self,
        problem: str = "",
        *,
        file: str | None = None,
        record: str | None = None,
        place: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        in_python: str = "",
    ) -> None:
        self.problem = problem
        self.file = file
        self.record = record
        self.place = place
        self.expected = expected
        self.found = found
        if in_python:
            self.add_note(f"{IN_PYTHON}{in_python}")

    def within(
        self, *, file: str | None = None, record: str | None = None, place: str | None = None
    ) -> ArchiveError:
        """Fill in the outer place, keeping what is already known, and return self."""
        self.file = self.file or file
        self.record = self.record or record
        self.place = self.place or place
        return self

    @property
    def what(self) -> str:
        """The message without file, record and place, for texts that name these themselves."""
        what = self.problem
        if self.expected is not None:
            what += f"{': ' if what else ''}expected {self.expected}"
            if self.found is not None:
                what += f", found {self.found}"
        return what

    @property
    def in_file(self) -> str:
        """The message without the file."""
        where = ", ".join(one_line(part) for part in (self.record, self.place) if part)
        return ": ".join(part for part in (where, self.what) if part)

    def __str__(self) -> str:
        return ": ".join(part for part in (one_line(self.file or ""), self.in_file) if part)


Resource = Literal[
    "memory",
    "depth",
    "frames",
    "name_bytes",
    "output",
    "work",
    "dimensions",
    "effect_depth",
    "compared_bytes",
]
"""The fields of ``Limits``."""


class LimitError(ArchiveError):
    """Input that asks for more than :class:`~archive.base.limits.Limits` allows.

    Args:
        resource: the name of the field of ``Limits``.
        limit: its value.
        actual: the amount that the input asks for, or the first one above the limit.
        what: what the amount is for, in the plural.
    """

    def __init__(
        self,
        resource: Resource,
        limit: int,
        actual: int,
        *,
        what: str = "",
        record: str | None = None,
        place: str | None = None,
    ) -> None:
        super().__init__(
            f"{resource} is limited to {limit:,}, found {actual:,}{f' with {what}' if what else ''}; "
            f"if you trust the file: --limit {resource}={_above(actual)}",
            record=record,
            place=place,
            in_python=f"limits=Limits({resource}=…)",
        )
        self.resource = resource
        self.limit = limit
        self.actual = actual


def _above(amount: int) -> str:
    """A round number well above an amount: ``4G``."""
    bits = (2 * amount).bit_length()
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if bits > shift:
            return f"{1 << bits - shift}{unit}"
    return str(1 << bits)


class ExistsError(ArchiveError):
    """A target exists and may not be replaced."""


class NothingToDoError(ArchiveError):
    """An archive is already what it should become: it has no debug info, say, and should lose it."""


class ImpossibleError(ArchiveError):
    """The request does not fit this archive, though nothing is wrong with it.

    Attributes:
        facts: what is known of the work that was refused, or None.
    """

    facts: object = None


class UnfitOptionsError(ImpossibleError):
    """Options are given that do not fit this archive, which has nothing that they apply to.

    Attributes:
        options: their names.
    """

    def __init__(self, problem: str, *, file: str, options: tuple[str, ...]) -> None:
        super().__init__(problem, file=file)
        self.options = options


class ExhaustedError(LimitError):
    """The machine's memory or the interpreter's stack ran out before a bound of ``Limits`` was reached.

    ``limit`` and ``actual`` are 0: the machine does not say.
    """

    def __init__(self, resource: Resource, problem: str) -> None:
        ArchiveError.__init__(self, problem)
        self.resource = resource
        self.limit = self.actual = 0

    @classmethod
    def of(cls, error: MemoryError | RecursionError) -> ExhaustedError:
        """The error that callers get for such an exception."""
        if isinstance(error, MemoryError):
            return cls("memory", "needs more memory than there is; is the file trusted?")
        return cls("depth", "its values lie deeper inside one another than can be read")


@contextmanager
def forgiving() -> Iterator[None]:
    """Go on without what a broken record spoils. A limit is raised: its message has the way out."""
    try:
        yield
    except LimitError:
        raise
    except ArchiveError:
        return


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors of the system name a file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


class in_file:  # noqa: N801 (called like a function; entered for each record, which a generator would slow)
    """Make errors of the block name a file, and a record and a place of it, unless they already name one."""

    __slots__ = ("_file", "_place", "_record")

    def __init__(self, file: str, record: str | None = None, place: Callable[[], str] | None = None) -> None:
        self._file, self._record, self._place = file, record, place

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ArchiveError):
            raise self._placed(error) from error.__cause__
        if isinstance(error, MemoryError | RecursionError):
            # Without the traceback, whose frames would hold the missing memory.
            raise self._placed(ExhaustedError.of(error)) from error.with_traceback(None)

    def _placed(self, error: ArchiveError) -> ArchiveError:
        return error.within(file=self._file, record=self._record, place=self._place and self._place())


def one_line(text: str) -> str:
    r"""A text whose unprintable characters are escaped; bytes that are not UTF-8 look like ``\xff``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else escape_of(c) for c in text)


def escape_of(character: str) -> str:
    r"""A character as Python writes it in a string; one that stands for a byte (PEP 383) as ``\xff``."""
    if character in ESCAPED_BYTES:
        return f"\\x{ord(character) - NO_BYTE:02x}"
    return character.encode("unicode_escape").decode()


def for_terminal(text: str, escape: Callable[[str], str] = escape_of) -> str:
    r"""Text of several lines with escapes for every character that a terminal obeys or does not show.

    These are the Unicode categories of ``OBEYED``: C0 and C1 controls and DEL, overrides of the direction
    of writing, zero-width characters, separators of lines and paragraphs. Newline and tab stay.

    >>> print(for_terminal("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb

    Args:
        escape: character → its escape.
    """
    import unicodedata  # noqa: PLC0415 (pipes and files do without)

    def escaped_character(match: re.Match[str]) -> str:
        character = match[0]
        return escape(character) if unicodedata.category(character) in OBEYED else character

    return _NOT_PLAIN.sub(escaped_character, text)


def escaped(text: str) -> str:
    r"""Text with escapes for surrogates, which stand for bytes that are not UTF-8, or for nothing.

    No two texts become one: a backslash that begins what reads as such an escape is one itself.

    >>> escaped("a\udcff"), escaped(r"a\xff"), escaped(r"a\b")
    ('a\\xff', 'a\\x5cxff', 'a\\b')
    """
    return _ESCAPED.sub(lambda match: BACKSLASH if match[0] == "\\" else escape_of(match[0]), text)


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "record"), counted(2600, "record")
    ('1 record', '2,600 records')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def several(names: Sequence[str], most: int = 3, *, word: str = "and") -> str:
    """Some names, and how many more there are.

    >>> several(["a", "b", "c", "d", "e"]), several(["a", "b", "c"], 1, word="or")
    ('a, b, c and 2 more', 'a or 2 more')
    """
    between, more = f" {word} ", len(names) - most
    some = (", " if word == "and" else between).join(names[:most])
    return f"{some}{between}{more:,} more" if more > 0 else some


def shown(value: object, width: int = 60) -> str:
    """A short, printable form of a foreign value for a message."""
    text = repr(value)
    if isinstance(value, str) and not value.isprintable():
        text = _REPR_OF_BYTE.sub(r"\\x\1", text)
    return text if len(text) <= width else text[: width - 1] + "…"


class LoweringError(RuntimeError):
    """A module cannot be lowered. The message is PyTorch's own where PyTorch has one."""
