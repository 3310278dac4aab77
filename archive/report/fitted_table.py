"""Tables that keep their numbers at any width.

Where a terminal is too narrow, names lose their middle (``code/…/models/resnet.py``), texts are wrapped, and
numbers stay as they are. Where even that does not fit, each row becomes a name with its cells below it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    Holds = Literal["name", "number", "text"]

GAP = 3
"""Between columns."""
SHORTEST_NAME = 14
SHORTEST_TEXT = 10
NAME_WEIGHT, TEXT_WEIGHT = 2, 3
"""The column with the largest product of weight and width gives way: texts before names."""
ELLIPSIS = "…"


@dataclass
class FittedTable:
    """A table whose columns hold names, numbers or texts; a renderable of rich.

    Attributes:
        columns: what each is called, and what it holds; the first one holds names.
        rows: their cells, plain or styled.
    """

    columns: Sequence[tuple[str, Holds]]
    rows: list[tuple[Sequence[str | Text], str]] = field(default_factory=list)

    @classmethod
    def of(cls, names: str, *numbers: str) -> FittedTable:
        """An empty one, of names and numbers."""
        return cls([(names, "name"), *((heading, "number") for heading in numbers)])

    def add(self, *cells: str | Text, style: str = "") -> None:
        """A row; its cells are one line each, without anything that would move a terminal's cursor."""
        self.rows.append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table that fits, or its rows one below the other."""
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._stacked()
        else:
            yield self._table(widths)

    def _widths(self, most: int) -> list[int] | None:
        """Of each column; None if they do not fit."""
        columns = [self._cells(at) for at in range(len(self.columns))]
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

    def _cells(self, at: int) -> list[str]:
        return [self.columns[at][0], *(str(cells[at]) for cells, _ in self.rows)]

    def _least(self, at: int, cells: Sequence[str]) -> int:
        heading, holds = self.columns[at]
        if holds == "name":
            return max(SHORTEST_NAME, cell_len(heading))
        words = cells if holds == "number" else [word for cell in cells for word in cell.split()]
        return max(SHORTEST_TEXT if holds == "text" else 0, *map(cell_len, words or [""]))

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for (heading, holds), width in zip(self.columns, widths, strict=True):
            table.add_column(
                heading, width=width, overflow="fold", justify="right" if holds == "number" else "left"
            )
        names = shortened([str(cells[0]) for cells, _ in self.rows], widths[0])
        for name, (cells, style) in zip(names, self.rows, strict=True):
            table.add_row(Text(name), *cells[1:], style=style)
        return table

    def _stacked(self) -> Iterator[Text | Padding]:
        """Each row as its name, and below it its other cells with their headings."""
        headings = [heading for heading, _ in self.columns[1:]]
        for cells, style in self.rows:
            yield Text(str(cells[0]), style=style, overflow="fold")
            told = [
                f"{heading} {cell}" for heading, cell in zip(headings, cells[1:], strict=True) if str(cell)
            ]
            yield Padding(Text(", ".join(told), style=style), (0, 0, 0, 2), expand=False)


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Names in so many columns of a terminal, each another.

    Those that look the same without the folders in their middle are cut anywhere; those that look the same
    even so stay whole, to be wrapped.
    """
    short = [in_the_middle(name, width) for name in names]
    for way in (_cut, _whole):
        count = Counter(short)
        short = [one if count[one] == 1 else way(name, width) for name, one in zip(names, short, strict=True)]
    return short


def in_the_middle(name: str, width: int) -> str:
    """A name without its middle: whole folders as far as possible, of the last part the end.

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
    """A name's beginning and end."""
    if cell_len(name) <= width:
        return name
    head = (width - 1) // 2
    start = set_cell_size(name, head)
    end = set_cell_size(name[::-1], width - 1 - head)[::-1]
    return f"{start.rstrip()}{ELLIPSIS}{end.lstrip()}"


def _whole(name: str, _: int) -> str:
    return name
