"""Tables that fit any width and keep their numbers.

On a narrow terminal, names lose their middle (``code/…/models/resnet.py``), texts are wrapped, and numbers
stay whole. Where that does not suffice, each row becomes a name with its other cells below it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.text import Text

from archive.base.facts import dataclass
from archive.render.texts import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.style import Style

    Holds = Literal["name", "number", "text"]

GAP = 3
"""Cells of a terminal between columns."""
RULE = "─"
"""Drawn below the headings."""
INDENT = "  "
"""Before a row's cells where they stand below its name."""
SHORTEST_NAME = 14
SHORTEST_TEXT = 10
NAME_WEIGHT, TEXT_WEIGHT = 2, 3
"""The column with the largest product of weight and width is narrowed: texts before names."""
ELLIPSIS = "…"
TOTAL = "total"
"""The name in a table's last row, where that sums up the others."""


@dataclass()
class FittedTable:
    """A table whose columns hold names, numbers or texts; a renderable of rich.

    Attributes:
        columns: heading and content of each column; the first one holds names.
        rows: cells, plain or styled, and a style for each row.
    """

    columns: Sequence[tuple[str, Holds]]
    rows: list[tuple[Sequence[str | Text], str]] = field(default_factory=list)

    @classmethod
    def of(cls, names: str, *numbers: str) -> FittedTable:
        """An empty table: a column of names, the others of numbers."""
        return cls([(names, "name"), *((heading, "number") for heading in numbers)])

    def add(self, *cells: str | Text, style: str = "") -> None:
        """Add a row; each cell is one line, without characters that would move a terminal's cursor."""
        self.rows.append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render as a table if it fits; otherwise the rows one below the other.

        The lines are drawn here: rich's own table takes half a millisecond a row.
        """
        widths = self._widths(options.max_width)
        lines = self._stacked(console, options.max_width) if widths is None else self._table(console, widths)
        for line in lines:
            yield from line
            yield Segment.line()

    def _widths(self, most: int) -> list[int] | None:
        """The width of each column; None if the table does not fit.

        Each column starts as wide as its widest cell. Then the widest one, by weight, is narrowed by one
        until all fit; so wide columns share what is missing, and narrow ones stay whole. A column that is
        as narrow as it may be counts as 0.
        """
        columns = [
            [heading, *(str(cells[at]) for cells, _ in self.rows)]
            for at, (heading, _) in enumerate(self.columns)
        ]
        widths = [max(map(cell_len, cells)) for cells in columns]
        least = [
            min(width, self._least(at, cells))
            for at, (width, cells) in enumerate(zip(widths, columns, strict=True))
        ]
        room = most - GAP * (len(widths) - 1)
        if sum(least) > room:
            return None
        weights = [NAME_WEIGHT if holds == "name" else TEXT_WEIGHT for _, holds in self.columns]
        for _ in range(sum(widths) - room):
            spare = [
                weight * width if width > low else 0
                for weight, width, low in zip(weights, widths, least, strict=True)
            ]
            widths[spare.index(max(spare))] -= 1
        return widths

    def _least(self, at: int, cells: Sequence[str]) -> int:
        """The narrowest width of a column: numbers stay whole, texts are wrapped between words."""
        heading, holds = self.columns[at]
        if holds == "name":
            return max(SHORTEST_NAME, cell_len(heading))
        words = cells if holds == "number" else [word for cell in cells for word in cell.split()]
        return max(SHORTEST_TEXT if holds == "text" else 0, *map(cell_len, words or [""]))

    def _table(self, console: Console, widths: Sequence[int]) -> Iterator[list[Segment]]:
        """The lines of a table: headings, a rule, and the rows."""
        headings = [heading for heading, _ in self.columns]
        yield from self._row(console, widths, headings, "bold")
        yield [Segment(RULE * (sum(widths) + GAP * (len(widths) - 1)))]
        names = shortened([str(cells[0]) for cells, _ in self.rows], widths[0])
        for name, (cells, style) in zip(names, self.rows, strict=True):
            yield from self._row(console, widths, [name, *cells[1:]], style)

    def _row(
        self, console: Console, widths: Sequence[int], cells: Sequence[str | Text], style: str
    ) -> Iterator[list[Segment]]:
        """The lines of a row: as many as its highest cell has."""
        of_cells = [_wrapped(console, str(cell), width) for cell, width in zip(cells, widths, strict=True)]
        styles = [_style(console, cell, style) for cell in cells]
        for texts in zip_longest(*of_cells, fillvalue=""):
            line = list(map(self._padded, texts, widths, self.columns))
            if any(styles):
                gap = Segment(" " * GAP)
                segments = map(Segment, line, styles)
                yield [one for segment in segments for one in (gap, segment)][1:]
            else:
                yield [Segment((" " * GAP).join(line))]

    @staticmethod
    def _padded(text: str, width: int, column: tuple[str, Holds]) -> str:
        """A cell's text as wide as its column: numbers at the right, all else at the left."""
        blank = " " * (width - cell_len(text))
        return blank + text if column[1] == "number" else text + blank

    def _stacked(self, console: Console, most: int) -> Iterator[list[Segment]]:
        """Each row as its name, with its other cells and their headings below it."""
        headings = [heading for heading, _ in self.columns[1:]]
        for cells, style in self.rows:
            one = _style(console, "", style)
            yield from ([Segment(line, one)] for line in _wrapped(console, str(cells[0]), most))
            told = [
                f"{heading} {cell}" for heading, cell in zip(headings, cells[1:], strict=True) if str(cell)
            ]
            below = _wrapped(console, ", ".join(told), most - len(INDENT))
            yield from ([Segment(INDENT), Segment(line, one)] for line in below)


def _wrapped(console: Console, text: str, width: int) -> list[str]:
    """A text in lines of a width in cells, between words where that can be."""
    if cell_len(text) <= width:
        return [text]
    return [line.plain for line in Text(text).wrap(console, width, overflow="fold")]


def _style(console: Console, cell: str | Text, row: str) -> Style | None:
    """The style of a cell: its own, or that of its row."""
    own = cell.style if isinstance(cell, Text) else ""
    return console.get_style(own or row) if own or row else None


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Names shortened to a width in cells of a terminal, and still told apart.

    Names that would look the same without the folders in their middle are cut anywhere instead; names that
    would look the same even so stay whole, and are wrapped.
    """
    short = [in_the_middle(name, width) for name in names]
    for way in (_cut, _whole):
        count = Counter(short)
        short = [
            text if count[text] == 1 else way(name, width) for name, text in zip(names, short, strict=True)
        ]
    return short


def in_the_middle(name: str, width: int) -> str:
    """A name without its middle.

    Whole folders are left out as far as possible; of a single long part, the middle.

    >>> in_the_middle("code/__torch__/torchvision/models/resnet.py", 30)
    'code/…/models/resnet.py'
    >>> in_the_middle("a_very_long_name_without_folders.pt", 20)
    'a_very_lo…folders.pt'
    """
    if cell_len(name) <= width:
        return name
    parts = name.split("/")
    front: list[str] = []
    back = [parts.pop()]
    if cell_len(f"{ELLIPSIS}/{back[0]}") > width:
        return _cut(name, width)
    # Folders are added to front and back in turn, as long as the name fits.
    for into_front in (True, False) * len(parts):
        part = parts[len(front)] if into_front else parts[-len(back)]
        tried = [*front, part, ELLIPSIS, *back] if into_front else [*front, ELLIPSIS, part, *back]
        if cell_len("/".join(tried)) > width:
            break
        if into_front:
            front.append(part)
        else:
            back.insert(0, part)
    return "/".join([*front, ELLIPSIS, *back])


def _cut(name: str, width: int) -> str:
    """The beginning and the end of a name."""
    if cell_len(name) <= width:
        return name
    head = (width - 1) // 2
    start = set_cell_size(name, head)
    end = set_cell_size(name[::-1], width - 1 - head)[::-1]
    return f"{start.rstrip()}{ELLIPSIS}{end.lstrip()}"


def _whole(name: str, _: int) -> str:
    return name


@dataclass()
class Harmless:
    """A renderable of rich without the characters of its text that a terminal obeys.

    Attributes:
        renderable: the other one.
    """

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the other one, with escapes in its text."""
        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(for_terminal(segment.text), segment.style)
