"""A file → the texts in it that are not vocabulary, each once: names, keys, values.

Names are cut into identifiers, each of which has to be in the vocabulary. A key is known if it is such an
identifier, or if all of its dotted parts are. A value is known only as a whole: a literal of the vocabulary,
a name that is listed or known in the same file, or a text without letters and long numbers. Prose among names
is a value.

Numbers in names and keys are ``N``: ``layer.0`` to ``layer.47`` is one row. So are those in values where two
values differ in nothing else. A text with seven digits, however they are grouped, or with a date, is shown as
it is: a telephone number isn't a template, and isn't cut into parts. The table of a tokenizer is one row,
unless many of its entries are odd, and so are the pairs that it merges, and numbers that are many or count.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, one_line
from archive.base.quick_dataclass import dataclass
from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo import frames
from archive.formats.record_kinds import GRAPH_ID
from archive.privacy.pieces.walker import BETWEEN
from archive.privacy.review.numbers import texts_of_numbers, whole_numbers
from archive.privacy.review.roles import Role, texts_in
from archive.privacy.review.spelled import FEWEST_DIGITS, FEWEST_LETTERS, is_no_alphabet, may_identify
from archive.privacy.review.tables import (
    FEWEST_MERGES,
    FEWEST_NUMBERS,
    LONG_NUMBER,
    MERGES,
    NUMBERS,
    ReviewTable,
    described,
    kind_of_table,
    place_of_table,
)
from archive.privacy.review.vocabulary import DIGITS, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from archive.privacy.pieces.piece import FilePiece
    from archive.reader.tensors import Tensors

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
FIVE_DIGITS = re.compile(r"\d{5}")
SERIALIZATION_ID, PYTHON_ID = re.compile(rb"[0-9]{40}"), re.compile(rb"[0-9]{1,20}")
STORAGE = re.compile(r"(?:[^/]{1,400}/)?(?:data|constants)/\d{1,20}(?:\.storage)?")
SOURCE_ENDING = re.compile(r"\.(?:py|cpp|h|cu|pyi)(?=\Z|\()")
FRAME = re.compile(rf"\s*+{frames.ANY_FILE}{frames.LINE}(?:, in (?P<function>\S++))?\s*+")
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
    """Whether a text has letters, or a number that may be somebody's."""
    return any(map(str.isalpha, text)) or has_number(text)


def has_number(text: str) -> bool:
    """Whether a text has a number that may be somebody's: of staff, say, which has five digits."""
    if FIVE_DIGITS.search(text) is not None or LONG_NUMBER.search(text) is not None:
        return True
    return sum(map(str.isdigit, text)) >= FEWEST_DIGITS and not any(map(str.isalpha, text))


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


def _is_type(text: str) -> bool:
    words = IDENTIFIER.findall(text)
    is_printed = bool(words) and PRINTED_TYPE.fullmatch(text) is not None and TYPES.issuperset(words)
    return is_printed and LONG_NUMBER.search(text) is None


# --- rows

NUMBER = re.compile(r"(?<!\d)\d{1,3}(?!\d)")
"""A number that counts parts of a model; longer ones may be anything."""
MOST_NUMBERS = 2
"""Numbers in values that are templates."""
FEWEST_LONG, SPARSE = 10_000, 20
"""Numbers of names that are long, and how many more there may be than the file's names have."""
FEWEST_OF_RANGE, NEXT_NUMBER = 3, 16
"""Numbers of a range that is one row, and the most from one to the next."""


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
        tensors: gives the file's tensors, for the types of numbers.

    Attributes:
        passed_over: bytes of machine code that were not looked at.
        numbers: bytes of tensors; only those that are texts are listed.
    """

    def __init__(self, tensors: Callable[[], Tensors] | None = None) -> None:
        self._tensors = tensors
        self._words = vocabulary()
        self._names: dict[str, _Found] = {}
        self._keys: dict[str, _Found] = {}
        self._values: dict[str, _Found] = {}
        self._tables: dict[ReviewTable | None, ReviewRow] = {}
        self._entries: set[str] = set()
        self._known: set[str] = set()
        self._shown: set[str] = set()
        self._counters: set[int] = set()
        self._counted: dict[int, list[str]] = {}
        self.passed_over = self.numbers = 0

    def take(self, piece: FilePiece) -> None:
        """Collect the texts of a piece; packed bytes come as pieces of their own."""
        if piece.is_packed:
            return
        if piece.in_numbers:
            self.numbers += len(piece.data)
            for text in filter(is_telling, texts_of_numbers(piece.data)):
                self._add(self._values, text, 1, piece.record, None)
            types, is_big_endian = self._types
            numbers = whole_numbers(piece.data, types.get(piece.record, ()), is_big_endian=is_big_endian)
            for number in filter(may_identify, numbers):
                self._add(self._values, str(number), 1, piece.record, None)
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

    @cached_property
    def _types(self) -> tuple[Mapping[str, Collection[str]], bool]:
        """The types of the elements of each storage, and whether its bytes are big-endian.

        Of a file whose tensors cannot be read, none is known.
        """
        try:
            tensors = None if self._tensors is None else self._tensors()
            if tensors is None:
                return {}, False
            named = tensors.storages.items()
            types = {record: {tensors[name].dtype for name in names} for record, names in named}
        except LimitError:
            raise
        except ArchiveError:
            return {}, False
        return types, tensors.is_big_endian

    def rows(self) -> list[ReviewRow]:
        """The rows: names, keys, values, each sorted."""
        return [*self._rows_of_names(), *self._rows_of_keys(), *self._rows_of_values()]

    # --- names

    def _take_name(self, text: str, count: int, record: str, at: int) -> None:
        text = ADDRESS.sub("", text.strip())
        if (made := PRINTED_FUNCTION.fullmatch(text)) is not None:
            text = made[1]
        if frames.BEGINNING in text:
            self._take_frames(text, count, record, at)
        elif PROSE.search(text) or _has_private_number(text):
            self._shown.add(text)
            self._add(self._values, text, count, record, at)
        elif text not in self._known:
            memory.take(memory.ROW + len(text), "texts that are listed")
            self._known.update((text, text.partition("/")[2]))
            words = _parts_of_name(text)
            if _is_spelled(words):
                self._add(self._names, text, count, record, at)
            for word in words:
                self._known.add(word)
                if not self._words.has_name(word) or self._is_uncounted(word):
                    self._add(self._names, word, count, record, at)
        else:
            for word in _parts_of_name(text):
                if word in self._names:
                    self._names[word].count += count

    def _is_uncounted(self, word: str) -> bool:
        """Whether a known word ends in a number that is long; it counts if enough of the file's do."""
        stem = word.rstrip(DIGITS)
        if len(stem) == len(word) or word in self._words.identifiers:
            return False
        number = int(word[len(stem) :])
        self._counters.add(number)
        if number < FEWEST_LONG:
            return False
        self._counted.setdefault(number, []).append(word)
        return True

    def _take_frames(self, text: str, count: int, record: str, at: int) -> None:
        """Take a Python stack: files and functions are names, lines of source are values."""
        for line in text.split("\n"):
            frame = FRAME.fullmatch(line)
            if frame is None:
                if is_telling(line):
                    self._add(self._values, line.strip(), count, record, at)
                continue
            for name in filter(None, frame.group("file", "function")):
                self._take_name(name.replace(frames.BEGINNING, ""), count, record, at)

    def _rows_of_names(self) -> Iterator[ReviewRow]:
        for number, words in self._counted.items():
            if len(self._counters) * SPARSE >= number:
                for word in words:
                    self._names.pop(word, None)
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
        yield from _rows_of_numbers("key", left)
        yield from _merged("key", left)
        yield from self._tables.values()

    def _is_known_key(self, text: str) -> bool:
        if not is_telling(text) or text in self._known:
            return True
        parts = text.split(".")
        if has_number(text) or _is_spelled(parts):
            return False
        return all(part.isdigit() or part in self._known or self._words.has_name(part) for part in parts)

    def _rows_of_values(self) -> Iterator[ReviewRow]:
        left = {text: found for text, found in self._values.items() if not self._is_known_value(text)}
        merges = [text for text in left if self._is_merge(text)]
        if len(merges) >= FEWEST_MERGES:
            yield _row_of_table("value", MERGES, merges, left[merges[0]].first)
            for text in merges:
                del left[text]
        yield from _rows_of_numbers("value", left)
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
        at, what = place_of_table(piece.bytes, list(table)), kind_of_table(table)
        if what is None:
            for text in table:
                self._add(self._keys, text, 1, piece.record, None if at is None else piece.place(at))
            return
        place = one_line(piece.record) or BETWEEN
        place = place if at is None else f"{place}, byte {piece.place(at):,}"
        row = _row_of_table("key", what, table, place)
        if row.table not in self._tables:
            memory.take(sum(map(len, table)) + memory.ROW * len(table), "tables that are listed")
            self._entries.update(table)
            self._tables[row.table] = row

    def _add(self, found: dict[str, _Found], text: str, count: int, record: str, at: int | None) -> None:
        known = found.get(text)
        if known is not None:
            known.count += count
            return
        memory.take(memory.ROW + 4 * len(text), "texts that are listed")
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


def _rows_of_numbers(role: Role, left: dict[str, _Found]) -> Iterator[ReviewRow]:
    """Take numbers out that are many, or count: one row of a table, or of each range."""
    numbers = [text for text in left if text.isascii() and text.isdigit() and not text.startswith("0")]
    if len(numbers) >= FEWEST_NUMBERS:
        yield _row_of_table(role, NUMBERS, numbers, left[numbers[0]].first)
        for text in numbers:
            del left[text]
        return
    numbers.sort(key=int)
    begin = 0
    for at in range(1, len(numbers) + 1):
        if at < len(numbers) and int(numbers[at]) - int(numbers[at - 1]) <= NEXT_NUMBER:
            continue
        if (some := numbers[begin:at]) and len(some) >= FEWEST_OF_RANGE:
            found = [left.pop(text) for text in some]
            text = f"{some[0]} to {some[-1]}, {len(some)} numbers"
            yield ReviewRow(
                role, text, template=False, count=sum(one.count for one in found), first=found[0].first
            )
        begin = at


def _is_spelled(parts: Sequence[str]) -> bool:
    """Whether letters that are names by themselves may be a text together."""
    letters = "".join(part if len(part) == 1 and part.isalpha() else " " for part in parts).split()
    return any(len(some) >= FEWEST_LETTERS and is_no_alphabet(some) for some in letters)


def _row_of_table(role: Role, what: str, texts: Collection[str], first: str) -> ReviewRow:
    text, table = described(what, texts)
    return ReviewRow(role, text, template=False, count=1, first=first, table=table)
