"""The bytes of a file as one tree, in columns: weights by module, the rest by kind, record and part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.describe.sizes.account import UNNAMED, steps_of
from archive.describe.sizes.stacks import bounded_steps
from archive.formats.record_kinds import Group
from archive.page.units import plain

if TYPE_CHECKING:
    from archive.describe.sizes.account import Account, Piece, Weight

SHOWN_KINDS = ("file", *map(str, Group))
"""The kind of the file itself, and of what is directly below it."""


class SizeTree:
    """The tree of a file, or of an old file and a new one."""

    def __init__(self, name: str, account: Account, base: Account | None = None) -> None:
        self._names = [plain(name)]
        self._parents = [-1]
        self._kinds = [0]
        self._weights: list[Weight | None] = [None]
        self._records = [""]
        self._rows: dict[tuple[int, str], int] = {}
        self._of_container: dict[tuple[str, str | None], int] = {}
        self._sums = {"stored": [0], "inflated": [0], "elements": [0], "old": [0]}
        stored, inflated, elements, old = self._sums.values()
        for piece in account.pieces:
            row = self._row(piece, account.group_of(piece))
            stored[row] += piece.stored
            inflated[row] += piece.inflated
            elements[row] += piece.weight.elements if piece.weight else 0
        if base is not None:
            for piece in base.pieces:
                old[self._row(piece, base.group_of(piece))] += piece.stored
        self._has_base = base is not None

    def _row(self, piece: Piece, group: Group) -> int:
        if group is not Group.CONTAINER:
            return self._new_row(piece, group)
        labels = piece.kind, piece.part  # of very many pieces, all that their rows depend on
        if labels not in self._of_container:
            self._of_container[labels] = self._new_row(piece, group)
        return self._of_container[labels]

    def _new_row(self, piece: Piece, group: Group) -> int:
        kind = SHOWN_KINDS.index(str(group))
        row = self._child(0, str(group), kind)
        for step in _steps(piece, group):
            row = self._child(row, step, kind)
        if piece.weight and (self._weights[row] is None or piece.weight.elements):
            self._weights[row] = piece.weight
        if piece.record is not None and group is not Group.CONTAINER:
            self._records[row] = piece.record
        return row

    def _child(self, parent: int, name: str, kind: int) -> int:
        row = self._rows.setdefault((parent, name), len(self._names))
        if row == len(self._names):
            self._names.append(plain(name))
            self._parents.append(parent)
            self._kinds.append(kind)
            self._weights.append(None)
            self._records.append("")
            for column in self._sums.values():
                column.append(0)
        return row

    def facts(self) -> dict[str, Any]:
        """The columns, a row for each node, parents before what is in them."""
        sums = {name: column for name, column in self._sums.items() if name != "old" or self._has_base}
        return {
            "name": self._names,
            "parent": self._parents,
            **sums,
            "kind": self._kinds,
            "kinds": list(SHOWN_KINDS),
            "what": list(map(_what, self._weights)),
            "record": [plain(record) for record in self._records],
        }


def _steps(piece: Piece, group: Group) -> list[str]:
    """The steps of a piece's path below the first level."""
    if group is Group.WEIGHTS:
        steps = steps_of(piece.weight.name) if piece.weight else [piece.record or UNNAMED]
        separator = "."
    else:
        folders = [] if group is Group.CONTAINER or piece.record is None else piece.record.split("/")
        part = [] if piece.part is None or piece.part == piece.kind else [piece.part]
        steps, separator = [piece.kind, *(step or UNNAMED for step in folders), *part], "/"
    return list(map(str, bounded_steps(steps, separator)))


def _what(weight: Weight | None) -> str:
    """A tensor's type and shape, and how many others share its storage."""
    if weight is None:
        return ""
    shape = " x ".join(map(str, weight.shape)) or "scalar"
    shared = f", shared by {weight.others:,} more" if weight.others else ""
    return plain(f"{weight.dtype} {shape}{shared}")
