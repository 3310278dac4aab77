"""A file → the texts in it that are not vocabulary, each once: names, keys, values.

Names are cut into identifiers, each of which has to be in the vocabulary. A key is known if it is such an
identifier, or if all of its dotted parts are. A value is known only as a whole: a literal of the vocabulary,
a name that is listed or known in the same file, or a text without letters and long numbers. Prose among names
is a value.

Numbers in names and keys are ``N``: ``layer.0`` to ``layer.47`` is one row. So are those in values where two
values differ in nothing else. A text with seven digits, however they are grouped, or with a date, is shown as
it is: a telephone number is no template, and isn't cut into parts. The table of a tokenizer is one row,
unless many of its entries are odd, and so are the pairs that it merges; entries of any other table are keys.
"""

from __future__ import annotations

import json
import re
import struct
from hashlib import sha256
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import GRAPH_ID
from archive.privacy.pieces.walker import BETWEEN
from archive.privacy.review.numbers import texts_of_numbers
from archive.privacy.review.roles import Role, texts_in
from archive.privacy.review.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from archive.base.limits import Allowance
    from archive.privacy.pieces.piece import FilePiece

# --- what is known

IDENTIFIER = re.compile(r"[^\W\d]\w*+")
PROSE = re.compile(r"[^\W\d_]{2}[ \t]++[^\W\d_]{2}|\n")
"""Two words with blanks between, or several lines."""
PRINTED_TYPE = re.compile(r"[\w\[\],. :]{1,200}")
TYPES = frozenset(
    [
        "List",
        "Dict",
        "Tuple",
        "Optional",
        "Union",
        "Any",
        "Tensor",
        "str",
        "int",
        "float",
        "bool",
        "complex",
        "None",
        "NoneType",
        "Device",
        "number",
        "Future",
        "RRef",
        "Generator",
        "Set",
        "builtins",
        "AssertionError",
        "Exception",
        "ValueError",
        "RuntimeError",
        "NotImplementedError",
        "IndexError",
        "KeyError",
        "TypeError",
        "torch",
    ]
)
VERSION = re.compile(
    r"(?:v|GLIBC(?:XX)?_|CXXABI_|GCC_)?\d{1,4}(?:\.\d{1,4}){0,3}(?:[+.-]?(?:cpu|cu\d{1,3}|git[0-9a-f]{1,40}|a\d|b\d|rc\d|dev\d{1,8}))*+"
)
LONG_NUMBER = re.compile(r"(?:\d[ ./()+_-]{0,3}){7}|(?<!\d)\d\d([./_-])\d\d\1\d\d(?!\d)")
"""Seven digits, perhaps grouped, or a date of six: a telephone number, a date of birth, an account."""
SERIALIZATION_ID, PYTHON_ID = re.compile(rb"[0-9]{40}"), re.compile(rb"[0-9]{1,20}")
STORAGE = re.compile(r"(?:[^/]{1,400}/)?(?:data|constants)/\d{1,20}(?:\.storage)?")
SOURCE_ENDING = re.compile(r"\.(?:py|cpp|h|cu|pyi)(?=\Z|\()")
FRAME = re.compile(r'\s*+File "([^"\n]*+)", line \d++(?:, in (\S++))?\s*+')
PRINTED_FUNCTION = re.compile(
    r"<(?:built-in )?(?:function|method|class) '?([\w.]{1,200})'?"
    r"(?: of type object)?(?: at 0x[0-9a-f]{1,16})?>"
)
"""How Python prints a function or a class."""
RAISED = re.compile(r"\A(?:[A-Z][a-z]+)+(?:Error|Exception): ")
"""Stands before the message of an error in generated code."""
OF_INPUTS = re.compile(r"(?:(?:p|b|c|obj)_|L__self___?)(.+)", re.DOTALL)
"""Names that ``torch.export`` makes of those of parameters, buffers, constants."""
ADDRESS = re.compile(r"(?:\A|(?<=;))\d{7,20}(?:@\d{1,6})?(?=,[\w.]*+(?:@\d{1,6})?,[\w.]++(?:;|\Z))")
"""Python's ``id`` of a module in an exported node's stack, ``id,path,class;…``: others in each process."""
NO_WORD = re.compile(r"\W")


def is_telling(text: str) -> bool:
    """Whether a text has letters, or a long number."""
    return any(map(str.isalpha, text)) or LONG_NUMBER.search(text) is not None


def _parts_of_name(text: str) -> list[str]:
    """The identifiers of a name, without the number of a storage, which PyTorch makes."""
    if STORAGE.fullmatch(text):
        return []
    return IDENTIFIER.findall(SOURCE_ENDING.sub("", text))


def _has_private_number(name: str) -> bool:
    """Whether a name has a long number, which is shown with all that is around it; identifiers are names."""
    return (
        LONG_NUMBER.search(name) is not None
        and IDENTIFIER.fullmatch(name) is None
        and STORAGE.fullmatch(name) is None
    )


def template_of(text: str) -> str:
    """A text with ``N`` for its numbers; one with a long number, which may be anybody's, as it is."""
    return text if LONG_NUMBER.search(text) else NUMBER.sub("N", text)


def _is_odd(entry: str) -> bool:
    """Whether an entry of a table looks unlike a word."""
    return (
        len(entry) > LONGEST_ENTRY or ODD.search(entry) is not None or LONG_NUMBER.search(entry) is not None
    )


def _is_type(text: str) -> bool:
    words = IDENTIFIER.findall(text)
    is_printed = bool(words) and PRINTED_TYPE.fullmatch(text) is not None and TYPES.issuperset(words)
    return is_printed and LONG_NUMBER.search(text) is None


# --- rows

NUMBER = re.compile(r"(?<!\d)\d{1,3}(?!\d)")
"""A number that counts parts of a model; longer ones may be anything."""
MOST_NUMBERS = 2
"""Numbers in values that are templates."""
MOST_ODD, LONGEST_ENTRY = 20, 40
"""Odd entries of a table that is one row, and characters of an entry that is not odd."""
ODD = re.compile(r"\w[@/\\:]\w|\w\W? \w")
LIKE_NAME = re.compile(r"\w['\u2019]\w|[a-z][A-Z]")
"""Part of a name: an apostrophe, or a capital within a word."""
MOST_SHOWN = 50
MANY_ENTRIES, FEWEST_LETTERS, SHARE_OF_MARKS = 1000, 20, 0.05
"""Of a table of a tokenizer: entries, if most begin with no capital; or entries of one letter; or the part
with a mark of parts of words."""
MARKS, END_MARKS = ("\u0120", "\u2581", "##"), ("</w>", "@@")
"""What tells a part of a word from a whole one, in the entries of tokenizers."""
BYTES_MARK = MARKS[0]
"""The blank of tokenizers whose entries are bytes, each written as some letter."""
FEWEST_OF_KIND = 0.1
"""The part of entries that letters beyond ASCII, or of ASCII, are in where these are odd."""
FEWEST_MERGES, MERGES = 1000, "merges"
"""Pairs that are one row, and their word in it."""
NOT_ASCII, ASCII_WORD = re.compile(r"(?![\x00-\x7f])[^\W\d_]"), re.compile(r"[A-Za-z]{3}")
MOST_PLACES, NEAR = 1000, 32
"""Places at which the beginning of a table is looked for, and bytes from an entry to the next."""
ROW_BYTES = 400
"""Bytes of memory that a text takes besides its own."""


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """A table from texts to integers that is one row.

    Attributes:
        entries: how many it has.
        digest: SHA-256 of its texts, in hex, each with a newline, in their order.
        odd: entries that look unlike parts of words, at most 50: with blanks, slashes, ``@``, long numbers,
            very long ones; then those with capitals within, apostrophes, letters of other scripts.
    """

    entries: int
    digest: str
    odd: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A text of a file that is not vocabulary.

    Attributes:
        role: ``name``, ``key`` or ``value``.
        text: the whole text; for names an identifier, for a table a description.
        template: whether ``N`` stands for numbers in it.
        count: how often it was found.
        first: its first place: record, and byte there.
        accepted: whether somebody has looked at it and lets it pass.
        table: the table that it stands for, if any.
    """

    role: Role
    text: str
    template: bool
    count: int
    first: str
    accepted: bool = False
    table: ReviewTable | None = None


@dataclass(slots=True)
class _Found:
    count: int
    first: str


class Listing:
    """Collects the texts of a file's pieces.

    Args:
        allowance: is charged the memory of rows.

    Attributes:
        passed_over: bytes of machine code that were not looked at.
        numbers: bytes of tensors; only those that are texts are listed.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._words = vocabulary()
        self._names: dict[str, _Found] = {}
        self._keys: dict[str, _Found] = {}
        self._values: dict[str, _Found] = {}
        self._tables: dict[ReviewTable | None, ReviewRow] = {}
        self._entries: set[str] = set()
        self._known: set[str] = set()
        self._shown: set[str] = set()
        self.passed_over = self.numbers = 0

    def take(self, piece: FilePiece) -> None:
        """Collect the texts of a piece; packed bytes come as pieces of their own."""
        if piece.is_packed:
            return
        if piece.in_numbers:
            self.numbers += len(piece.data)
            for text in filter(is_telling, texts_of_numbers(piece.data)):
                self._add(self._values, text, 1, piece.record, None)
            return
        if piece.record.endswith(RECORD_NAME) and SERIALIZATION_ID.fullmatch(piece.data):
            return  # PyTorch computes it
        if piece.record == GRAPH_ID and PYTHON_ID.fullmatch(piece.data):
            return  # another one in each process
        texts = texts_in(piece)
        self.passed_over += texts.passed_over
        for role, text, count, at in texts.texts:
            if role == "name":
                self._take_name(text, count, piece.record, at)
            elif is_telling(text) or (role == "key" and text):
                self._add(self._keys if role == "key" else self._values, text, count, piece.record, at)
        for table in texts.tables:
            self._take_table(table, piece)

    def rows(self) -> list[ReviewRow]:
        """The rows: names, keys, values, each sorted."""
        return [*self._rows_of_names(), *self._rows_of_keys(), *self._rows_of_values()]

    # --- names

    def _take_name(self, text: str, count: int, record: str, at: int) -> None:
        text = ADDRESS.sub("", text.strip())
        if (made := PRINTED_FUNCTION.fullmatch(text)) is not None:
            text = made[1]
        if 'File "' in text:
            self._take_frames(text, count, record, at)
        elif PROSE.search(text) or _has_private_number(text):
            self._shown.add(text)
            self._add(self._values, text, count, record, at)
        elif text not in self._known:
            self._allowance.take(ROW_BYTES + len(text), "texts that are listed")
            self._known.update((text, text.partition("/")[2]))
            for word in _parts_of_name(text):
                self._known.add(word)
                if not self._words.has_name(word):
                    self._add(self._names, word, count, record, at)
        else:
            for word in _parts_of_name(text):
                if word in self._names:
                    self._names[word].count += count

    def _take_frames(self, text: str, count: int, record: str, at: int) -> None:
        """Take a Python stack: files and functions are names, lines of source are values."""
        for line in text.split("\n"):
            frame = FRAME.fullmatch(line)
            if frame is None:
                if is_telling(line):
                    self._add(self._values, line.strip(), count, record, at)
                continue
            for name in filter(None, frame.groups()):
                self._take_name(name.replace('File "', ""), count, record, at)

    def _rows_of_names(self) -> Iterator[ReviewRow]:
        flat = {NO_WORD.sub("_", name) for name in self._known | self._shown}
        kept = {}
        for name, found in self._names.items():
            made = OF_INPUTS.fullmatch(name)
            if made is None or made[1] not in flat:
                kept[name] = found
        yield from _merged("name", kept)

    # --- keys and values

    def _rows_of_keys(self) -> Iterator[ReviewRow]:
        left = {text: found for text, found in self._keys.items() if not self._is_known_key(text)}
        yield from _merged("key", left)
        yield from self._tables.values()

    def _is_known_key(self, text: str) -> bool:
        if not is_telling(text) or text in self._known:
            return True
        if LONG_NUMBER.search(text) is not None:
            return False
        parts = text.split(".")
        return all(part.isdigit() or part in self._known or self._words.has_name(part) for part in parts)

    def _rows_of_values(self) -> Iterator[ReviewRow]:
        left = {text: found for text, found in self._values.items() if not self._is_known_value(text)}
        merges = [text for text in left if self._is_merge(text)]
        if len(merges) >= FEWEST_MERGES:
            yield _row_of_table("value", MERGES, merges, left[merges[0]].first)
            for text in merges:
                del left[text]
        templates: dict[str, list[str]] = {}
        for text in left:
            template, numbers = NUMBER.subn("N", text)
            if 0 < numbers <= MOST_NUMBERS and not LONG_NUMBER.search(text):
                templates.setdefault(template, []).append(text)
        shared = {text for texts in templates.values() if len(texts) > 1 for text in texts}
        yield from _merged("value", left, shared)

    def _is_known_value(self, text: str) -> bool:
        plain = RAISED.sub("", text.strip(), 1)
        if plain in self._words.literals or plain in self._known or plain in self._keys:
            return True
        if len(plain) == 1 or plain in {"True", "False", "None", "true", "false", "null", "nan", "inf"}:
            return True
        return _is_type(plain) or (VERSION.fullmatch(plain) is not None and LONG_NUMBER.search(plain) is None)

    def _is_merge(self, text: str) -> bool:
        """Whether a text is two entries of a table that are an entry together, too."""
        one, _, other = text.partition(" ")
        return one in self._entries and other in self._entries and one + other in self._entries

    def _take_table(self, table: Mapping[str, int], piece: FilePiece) -> None:
        """Take the table of a tokenizer as one row, or else its entries as keys."""
        at = _place_of_table(piece.bytes, list(table))
        if not _is_of_tokenizer(table) or sum(map(_is_odd, table)) > MOST_ODD:
            for text in table:
                self._add(self._keys, text, 1, piece.record, None if at is None else piece.place(at))
            return
        place = one_line(piece.record) or BETWEEN
        place = place if at is None else f"{place}, byte {piece.place(at):,}"
        row = _row_of_table("key", "entries", table, place)
        if row.table not in self._tables:
            self._allowance.take(sum(map(len, table)) + ROW_BYTES * len(table), "tables that are listed")
            self._entries.update(table)
            self._tables[row.table] = row

    def _add(self, found: dict[str, _Found], text: str, count: int, record: str, at: int | None) -> None:
        known = found.get(text)
        if known is not None:
            known.count += count
            return
        self._allowance.take(ROW_BYTES + 4 * len(text), "texts that are listed")
        place = one_line(record) or BETWEEN
        found[text] = _Found(count, place if at is None else f"{place}, byte {at:,}")


def _merged(role: Role, texts: Mapping[str, _Found], shared: set[str] | None = None) -> Iterator[ReviewRow]:
    """Rows of texts, those of a template as one; without ``shared`` each text with a number is a template."""
    rows: dict[tuple[str, bool], _Found] = {}
    for text, found in texts.items():
        template = template_of(text) if shared is None or text in shared else text
        known = rows.setdefault((template, template != text), _Found(0, found.first))
        known.count += found.count
    for text, is_template in sorted(rows):
        found = rows[text, is_template]
        yield ReviewRow(role, text, is_template, found.count, found.first)


# --- tables


def _is_of_tokenizer(table: Mapping[str, int]) -> bool:
    marked = sum(text.startswith(MARKS) or text.endswith(END_MARKS) for text in table)
    letters = sum(len(text) == 1 for text in table)
    if letters >= FEWEST_LETTERS or marked >= SHARE_OF_MARKS * len(table):
        return True
    names = sum(text[:1].isupper() for text in table)
    return len(table) >= MANY_ENTRIES and names < len(table) / 2


def _odd_entries(texts: Collection[str]) -> list[str]:
    """Entries that may be names, the oddest first."""
    odd = [text for text in texts if _is_odd(text)]
    like_name = {text for text in texts if LIKE_NAME.search(text)}
    if not any(text.startswith(BYTES_MARK) for text in texts):
        foreign = {text for text in texts if not text.isascii() and NOT_ASCII.search(text)}
        latin = {text for text in texts if ASCII_WORD.search(text)} - foreign
        for some in (foreign, latin):
            if len(some) < FEWEST_OF_KIND * len(texts):
                like_name |= some
    return odd + [text for text in texts if text in like_name and not _is_odd(text)]


def _place_of_table(data: bytes, texts: list[str]) -> int | None:
    """The byte of the first entry that the second is near, as a pickle or JSON has it; None if none is."""
    first, second = (text.encode(errors="surrogatepass") for text in texts[:2])
    of_json = [json.dumps(text)[1:-1].encode() for text in texts[:2]]
    begins = [b'"', b"X" + struct.pack("<I", len(first)), b"\x8c" + bytes([len(first) & 0xFF])]
    for begin, one, other in [(b'"', *of_json), *((begin, first, second) for begin in begins)]:
        at = data.find(begin + one)
        for _ in range(MOST_PLACES):
            if at < 0:
                break
            end = at + len(begin) + len(one)
            if other in data[end : end + len(other) + NEAR]:
                return at + len(begin)
            at = data.find(begin + one, end)
    return None


def _row_of_table(role: Role, what: str, texts: Collection[str], first: str) -> ReviewRow:
    digest = sha256("".join(f"{text}\n" for text in texts).encode(errors="backslashreplace")).hexdigest()
    odd = [] if what == MERGES else _odd_entries(texts)
    more = f", {len(odd) - MOST_SHOWN:,} more odd ones" if len(odd) > MOST_SHOWN else ""
    text = f"table of {len(texts):,} {what}{more}, SHA-256 {digest[:16]}"
    table = ReviewTable(len(texts), digest, tuple(odd[:MOST_SHOWN]))
    return ReviewRow(role, text, template=False, count=1, first=first, table=table)
