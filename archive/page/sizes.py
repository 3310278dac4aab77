"""The bytes of a file as one tree, in columns: weights by module, all else by kind, record and part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.describe.sizes.account import DEBUG, STRUCTURE, steps_of
from archive.formats.record_kinds import RecordKind
from archive.page.units import plain

if TYPE_CHECKING:
    from archive.describe.sizes.account import Account, Piece, Weight

MOST_STEPS = 24
"""Steps of a path below which the rest is one: no model is deeper, and names that are made up may be."""
FILE, WEIGHTS, CODE, DEBUG_INFO, CONTAINER, OTHER = (
    "file",
    "weights",
    "code",
    "debug info",
    "container",
    "other",
)
KINDS = (FILE, WEIGHTS, CODE, DEBUG_INFO, CONTAINER, OTHER)
"""The first level below the file, which is the first of them itself."""
CODE_KINDS = frozenset(
    {
        RecordKind.MODULES,
        RecordKind.CONSTANTS,
        RecordKind.CODE,
        RecordKind.BYTECODE,
        RecordKind.PROGRAM,
        RecordKind.COMPILED,
        RecordKind.SHARED_OBJECT,
        RecordKind.CPP,
        RecordKind.EFFECTS,
        RecordKind.OBJECT,
    }
)


class SizeTree:
    """The tree of a file, or of an old file and a new one.

    Args:
        name: of the file.
        account: of the file; a companion's has only debug info.
        base: of the old one.
    """

    def __init__(self, name: str, account: Account, base: Account | None = None) -> None:
        self._names = [plain(name)]
        self._parents = [-1]
        self._kinds = [0]
        self._weights: list[Weight | None] = [None]
        self._records = [""]
        self._rows: dict[tuple[int, str], int] = {}
        self._sums = {"stored": [0], "inflated": [0], "elements": [0], "old": [0]}
        for piece in account.pieces:
            row = self._row(piece, is_companion=account.is_companion)
            self._sums["stored"][row] += piece.stored
            self._sums["inflated"][row] += piece.inflated
            self._sums["elements"][row] += piece.weight.elements if piece.weight else 0
        for piece in base.pieces if base else ():
            self._sums["old"][self._row(piece, is_companion=account.is_companion)] += piece.stored
        self._has_base = base is not None

    def _row(self, piece: Piece, *, is_companion: bool) -> int:
        kind = DEBUG_INFO if is_companion else kind_of_piece(piece)
        row = self._child(0, kind, KINDS.index(kind))
        for step in _steps(piece, kind):
            row = self._child(row, step, KINDS.index(kind))
        if piece.weight and (self._weights[row] is None or piece.weight.elements):
            self._weights[row] = piece.weight
        if piece.record is not None and kind != CONTAINER:
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
            "kinds": list(KINDS),
            "what": list(map(_what, self._weights)),
            "record": [plain(record) for record in self._records],
        }


def kind_of_piece(piece: Piece) -> str:
    """The first level that bytes belong to."""
    if piece.kind in DEBUG:
        return DEBUG_INFO
    if piece.kind in STRUCTURE:
        return CONTAINER
    if piece.weight or piece.kind == RecordKind.TENSOR:
        return WEIGHTS
    return CODE if piece.kind in CODE_KINDS else OTHER


def _steps(piece: Piece, kind: str) -> list[str]:
    """The steps of a piece's path below the first level."""
    if kind == WEIGHTS:
        steps = steps_of(piece.weight.name) if piece.weight else [piece.record or "[unnamed]"]
        separator = "."
    else:
        record = [] if kind == CONTAINER or piece.record is None else piece.record.split("/")
        part = [] if piece.part is None or piece.part == piece.kind else [piece.part]
        steps, separator = [piece.kind, *record, *part], "/"
    if len(steps) > MOST_STEPS:
        steps = [*steps[: MOST_STEPS - 1], separator.join(steps[MOST_STEPS - 1 :])]
    return list(map(str, steps))


def _what(weight: Weight | None) -> str:
    """A tensor's type and shape, and how many others share its storage."""
    if weight is None:
        return ""
    shape = " x ".join(map(str, weight.shape)) or "scalar"
    shared = f", shared by {weight.others:,} more" if weight.others else ""
    return plain(f"{weight.dtype} {shape}{shared}")
