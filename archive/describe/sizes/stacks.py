"""The bytes of a file as stacks, for flame graphs: the group, and the steps of the path to a label.

In the views kind and part, the folders and the name of the record come next, then the label. The zip's own
bytes have no record there. In the other views, a label is a path, and its steps come next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.describe.sizes.account import SEPARATORS, View, steps_of
from archive.formats.record_kinds import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.describe.sizes.account import Account, Piece

MOST_STEPS = 24
"""Steps of a path below which the rest is one: no model is deeper, and names that are made up may be."""


def bounded_steps(steps: Sequence[str], separator: str) -> list[str]:
    """The steps of a path, the last one the rest of it where there are too many."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    return [*steps[: MOST_STEPS - 1], separator.join(steps[MOST_STEPS - 1 :])]


def stacks(account: Account, view: View, depth: int | None = None) -> dict[tuple[str, ...], int]:
    """The stored bytes of each stack, in the order of the file; together the file's size.

    Args:
        account: the labelled bytes of a file, with the names of tensors.
    """
    sums: dict[tuple[str, ...], int] = {}
    for piece in account.pieces:
        group = account.group_of(piece)
        stack = str(group), *_steps(piece, group, view, depth)
        sums[stack] = sums.get(stack, 0) + piece.stored
    return sums


def _steps(piece: Piece, group: Group, view: View, depth: int | None) -> list[str]:
    label = piece.label(view, depth)
    if view not in SEPARATORS:
        has_record = piece.record is not None and group is not Group.CONTAINER
        return [*(_path(piece.label(View.RECORD, depth), View.RECORD) if has_record else ()), label]
    return [label] if getattr(piece, view) is None else _path(label, view)


def _path(label: str, view: View) -> list[str]:
    """The steps of a label, none of them empty: an absolute path begins with its first folder."""
    steps = steps_of(label) if view is View.WEIGHTS else label.split(SEPARATORS[view])
    return bounded_steps([step for step in steps if step] or [label], SEPARATORS[view])
