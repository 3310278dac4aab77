"""Tables that fit any width and keep their numbers.

On a narrow terminal, columns stand closer, names lose their middle (``code/…/models/resnet.py``), lines of
code their end, texts are wrapped, and numbers stay whole; so do those at the end of a place
(``…linear.py.d…l, byte 220``). Where that does not suffice, columns that a table can spare are left out; then
each row becomes a name with its other cells below it, each with its heading.

All is drawn here. rich, a tenth of a short command to import, styles what a terminal shows, and wraps what is
too wide; its own tables take half a millisecond a row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from itertools import zip_longest
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.tables import Holds

    Rows = list[tuple[Sequence[str], str]]
    Line = list[tuple[str, str]]
    """Parts of a line, each with its style."""
    Printed = Iterable["str | FittedTable"]
    """Lines and tables, one below the other."""

GAP = 3
"""Between columns, where a table does not say otherwise."""
NARROW_GAP = 2
"""The same if the table is wider than the terminal otherwise."""
RULE = "─"
"""Drawn below the headings."""
INDENT = "  "
"""Before a row's cells where they stand below its name."""
HANGING = "    "
"""What the rest of a wrapped line is indented by, besides its own indentation."""
SHORTEST_NAME = 14
SHORTEST_PLACE = 24
"""Its last ten cells stay, which a number of bytes or lines fits in."""
SHORTEST_TEXT = 10
LONGEST_WORD = 32
"""Longer words of texts are broken where the table would not fit otherwise."""
SHORTENED = {"name": SHORTEST_NAME, "place": SHORTEST_PLACE, "code": SHORTEST_TEXT}
"""What is cut, and how narrow it may be."""
NAME_WEIGHT, TEXT_WEIGHT = 2, 3
"""The column with the largest product of weight and width is narrowed: texts before names."""
ELLIPSIS = "…"
TOTAL = "total"
"""The name in a table's last row, where that sums up the others."""


class Bold(str):
    """A cell in bold type."""

    __slots__ = ()


def lines_of(printed: Printed, width: int) -> Iterator[Line]:
    """All lines, none wider than some cells of a terminal."""
    for part in printed:
        if isinstance(part, str):
            yield from ([(line, "")] for line in _wrapped(one_line(part), width))
        else:
            yield from part.lines(width)


def hanging(text: str, width: int) -> Iterator[str]:
    """A line as it is, or in several where it is wider than some cells, the further ones indented by more.

    >>> list(hanging("  ~ method forward: source +5 -4", 24))
    ['  ~ method forward: ', '      source +5 -4']
    """
    if cells_of(text) <= width:
        yield text
        return
    indent = text[: len(text) - len(text.lstrip(" "))][: width // 2]
    first, *_ = _wrapped(text[len(indent) :], width - len(indent))
    yield indent + first
    rest = text[len(indent) + len(first) :].lstrip(" ")
    more = (indent + HANGING)[: width // 2]
    yield from (more + line for line in _wrapped(rest, width - len(more)))


@dataclass()
class FittedTable:
    """A table whose columns hold names, places, lines of code, numbers or texts.

    Attributes:
        columns: heading and content of each column.
        rows: the values of cells, and a style for each row.
        gap: cells of a terminal between columns.
        spare: headings of columns that are left out, one after the other, where the table does not fit.
    """

    columns: Sequence[tuple[str, Holds]]
    rows: list[tuple[Sequence[str | int | None], str]] = field(default_factory=list)
    gap: int = GAP
    spare: Sequence[str] = ()

    @classmethod
    def of(cls, names: str, *numbers: str) -> FittedTable:
        """An empty table: a column of names, the others of numbers."""
        return cls([(names, "name"), *((heading, "number") for heading in numbers)])

    def add(self, *cells: str | int | None, style: str = "") -> None:
        """Add a row."""
        self.rows.append((cells, style))

    def lines(self, width: int) -> Iterator[Line]:
        """A table if it fits; otherwise the rows one below the other."""
        rows = self.texts
        widths, gap = self._widths(width, rows)
        if widths is None and self.spare:
            return self._without(*self.spare).lines(width)
        return self._stacked(width, rows) if widths is None else self._table(widths, gap, rows)

    def _without(self, heading: str, *spare: str) -> FittedTable:
        """The table without a column, and those that may be left out next."""
        at = [name for name, _ in self.columns].index(heading)
        rows: list[tuple[Sequence[str | int | None], str]] = [
            ([*cells[:at], *cells[at + 1 :]], style) for cells, style in self.rows
        ]
        return FittedTable([*self.columns[:at], *self.columns[at + 1 :]], rows, self.gap, spare)

    @property
    def texts(self) -> Rows:
        """The rows as texts of one line that cannot drive a terminal; numbers have all their digits."""
        return [([*map(text_of, cells)], style) for cells, style in self.rows]

    def _widths(self, most: int, rows: Rows) -> tuple[list[int] | None, int]:
        """The width of each column, None if the table does not fit; and the gap between them.

        Each column starts as wide as its widest cell. Then the widest one, by weight, is narrowed by one
        until all fit; so wide columns share what is missing, and narrow ones stay whole. A column that is
        as narrow as it may be counts as 0.
        """
        columns = [
            [heading, *(cells[at] for cells, _ in rows)] for at, (heading, _) in enumerate(self.columns)
        ]
        widths = [*map(_widest, columns)]
        least = [
            min(width, self._least(at, cells))
            for at, (width, cells) in enumerate(zip(widths, columns, strict=True))
        ]
        is_wide = sum(widths) + self.gap * (len(widths) - 1) > most
        gap = min(self.gap, NARROW_GAP) if is_wide else self.gap
        room = most - gap * (len(widths) - 1)
        if sum(least) > room:
            return None, gap
        weights = [NAME_WEIGHT if holds in SHORTENED else TEXT_WEIGHT for _, holds in self.columns]
        for _ in range(sum(widths) - room):
            spare = [
                weight * width if width > low else 0
                for weight, width, low in zip(weights, widths, least, strict=True)
            ]
            widths[spare.index(max(spare))] -= 1
        return widths, gap

    def _least(self, at: int, cells: Sequence[str]) -> int:
        """The narrowest width of a column: numbers stay whole, texts are wrapped, mostly between words."""
        heading, holds = self.columns[at]
        if holds in SHORTENED:
            return max(SHORTENED[holds], cells_of(heading))
        if holds == "number":
            return _widest(cells)
        words = (cells_of(word) for cell in cells for word in cell.split())
        return max(SHORTEST_TEXT, min(LONGEST_WORD, max(words, default=0)))

    def _table(self, widths: Sequence[int], gap: int, rows: Rows) -> Iterator[Line]:
        """The lines of a table: headings, a rule, and the rows."""
        yield from self._row(widths, gap, [heading for heading, _ in self.columns], "bold")
        yield [(RULE * (sum(widths) + gap * (len(widths) - 1)), "")]
        of_columns = [
            self._fitted(at, width, [cells[at] for cells, _ in rows]) for at, width in enumerate(widths)
        ]
        if all(_widest(cells) <= width for cells, width in zip(of_columns, widths, strict=True)):
            yield from self._low_rows(widths, gap, of_columns, [style for _, style in rows])
            return
        for (_, style), *cells in zip(rows, *of_columns, strict=True):
            yield from self._row(widths, gap, cells, style)

    def _low_rows(
        self, widths: Sequence[int], gap: int, of_columns: list[list[str]], styles: list[str]
    ) -> Iterator[Line]:
        """The lines of rows of one line each: the same as of each by itself, a column at a time."""
        padded = []
        for cells, width, (_, holds) in zip(of_columns, widths, self.columns, strict=True):
            texts = _padded(cells, width, holds)
            own = ["bold" if isinstance(cell, Bold) else "" for cell in cells]
            padded.append(zip(texts, [a or b for a, b in zip(own, styles, strict=True)], strict=True))
        blank = [(" " * gap, "")] * (2 * len(widths) - 1)
        for row in zip(*padded, strict=True):
            line = blank.copy()
            line[::2] = row
            yield line

    def _fitted(self, at: int, width: int, cells: list[str]) -> list[str]:
        """The cells of a column, shortened to its width; numbers and texts are wrapped later."""
        holds = self.columns[at][1]
        if holds == "code":
            return [_without_end(cell, width) for cell in cells]
        return shortened(cells, width) if holds in SHORTENED else cells

    def _row(self, widths: Sequence[int], gap: int, cells: Sequence[str], style: str) -> Iterator[Line]:
        """The lines of a row: as many as its highest cell has."""
        of_cells = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
        styles = ["bold" if isinstance(cell, Bold) else style for cell in cells]
        for texts in zip_longest(*of_cells, fillvalue=""):
            columns = zip(texts, widths, self.columns, strict=True)
            padded = [_padded([text], width, holds)[0] for text, width, (_, holds) in columns]
            cells_with_gaps = [((" " * gap, ""), cell) for cell in zip(padded, styles, strict=True)]
            yield [part for parts in cells_with_gaps for part in parts][1:]

    def _stacked(self, width: int, rows: Rows) -> Iterator[Line]:
        """Each row as its name, with its other cells and their headings below it."""
        headings = [heading for heading, _ in self.columns[1:]]
        first = f"{self.columns[0][0]} " if self.columns[0][1] == "number" else ""
        for cells, style in rows:
            yield from ([(line, style)] for line in _wrapped(f"{first}{cells[0]}", width))
            values = [f"{heading} {cell}" for heading, cell in zip(headings, cells[1:], strict=True) if cell]
            for line in _listed(values, width - len(INDENT)):
                yield from ([(INDENT, ""), (part, style)] for part in hanging(line, width - len(INDENT)))


def text_of(value: str | int | None) -> str:
    """A cell of a terminal."""
    if isinstance(value, str):
        return value if isinstance(value, Bold) else one_line(value)
    return "" if value is None else f"{value:,}"


def cells_of(text: str) -> int:
    """The cells of a terminal that a text takes."""
    if _is_plain(text):
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 (most texts are ASCII)

    return cell_len(text)


def _widest(texts: Sequence[str]) -> int:
    """The cells that the widest of some texts takes."""
    return max(map(len if _is_plain("".join(texts)) else cells_of, texts), default=0)


def _is_plain(text: str) -> bool:
    """Whether each character takes one cell."""
    return text.isascii() and text.isprintable()


def _padded(texts: Sequence[str], width: int, holds: Holds) -> list[str]:
    """The texts of a column, each as wide as it: numbers at the right, all else at the left."""
    wider = [width] * len(texts)  # in characters, of which some take two cells, or none
    if not _is_plain("".join(texts)):
        wider = [width - cells_of(text) + len(text) for text in texts]
    return [*map(str.rjust if holds == "number" else str.ljust, texts, wider)]


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines of a width in cells, between words where that can be."""
    if cells_of(text) <= width:
        return [text]
    from rich import get_console  # noqa: PLC0415 (most texts fit)
    from rich.text import Text  # noqa: PLC0415 (the same)

    return [line.plain for line in Text(text).wrap(get_console(), width, overflow="fold")]


def _listed(values: Sequence[str], width: int) -> Iterator[str]:
    """Values with commas between them, as many in a line as fit in a width; a longer one has its own line."""
    line = ""
    for value in values:
        longer = f"{line}, {value}" if line else value
        if line and cells_of(longer) > width:
            yield line
            longer = value
        line = longer
    if line:
        yield line


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Names shortened to a width in cells of a terminal; those that differ still do.

    Names that would look the same without the folders in their middle are cut anywhere instead; names that
    would look the same even so stay whole, and are wrapped.
    """
    short = {name: in_the_middle(name, width) for name in names}
    for way in (_cut, _whole):
        count = Counter(short.values())
        short = {name: text if count[text] == 1 else way(name, width) for name, text in short.items()}
    return [short[name] for name in names]


def in_the_middle(name: str, width: int) -> str:
    """A name without its middle.

    Whole folders are left out as far as possible; of a single long part, and of a last one that is too long,
    the middle.

    >>> in_the_middle("code/__torch__/torchvision/models/resnet.py", 30)
    'code/…/models/resnet.py'
    >>> in_the_middle("a_very_long_name_without_folders.pt", 20)
    'a_very_lo…folders.pt'
    """
    if cells_of(name) <= width:
        return name
    parts = name.split("/")
    front: list[str] = []
    back = [parts.pop()]
    if cells_of(f"{ELLIPSIS}/{back[0]}") > width:
        return _cut(back[0] if width >= SHORTEST_NAME else name, width)
    # Folders are added to front and back in turn, as long as the name fits.
    for into_front in (True, False) * len(parts):
        part = parts[len(front)] if into_front else parts[-len(back)]
        tried = [*front, part, ELLIPSIS, *back] if into_front else [*front, ELLIPSIS, part, *back]
        if cells_of("/".join(tried)) > width:
            break
        if into_front:
            front.append(part)
        else:
            back.insert(0, part)
    return "/".join([*front, ELLIPSIS, *back])


def _cut(name: str, width: int) -> str:
    """The beginning and the end of a name."""
    if cells_of(name) <= width:
        return name
    from rich.cells import set_cell_size  # noqa: PLC0415 (most names fit)

    head = (width - 1) // 2
    start = set_cell_size(name, head)
    end = set_cell_size(name[::-1], width - 1 - head)[::-1]
    return f"{start.rstrip()}{ELLIPSIS}{end.lstrip()}"


def _without_end(code: str, width: int) -> str:
    if cells_of(code) <= width:
        return code
    from rich.cells import set_cell_size  # noqa: PLC0415 (most lines fit)

    return f"{set_cell_size(code, width - 1).rstrip()}{ELLIPSIS}"


def _whole(name: str, _: int) -> str:
    return name
