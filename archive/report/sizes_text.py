"""Sizes → a table for a terminal, largest first, the total last."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import one_line
from archive.report.fitted_table import TOTAL, FittedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.verbs.sizes import Account, Size, SizeChange, View

SizeT = TypeVar("SizeT")


def sizes_text(account: Account, sizes: Mapping[str, Size], view: View, rows: int) -> FittedTable:
    """Stored bytes, their share of the file, and inflated bytes, a label.

    Args:
        account: the account of the file.
        sizes: the account's sizes by some view.
        view: that view.
        rows: the number of labels shown; the others are one row. 0 shows all.
    """
    table = FittedTable.of(view.value, "stored", "%", "inflated")
    shown, others = _parted(sizes, rows)
    lines = [(label, size.stored, size.inflated) for label, size in shown.items()]
    if others:
        rest = others.values()
        lines.append((_name(others), sum(one.stored for one in rest), sum(one.inflated for one in rest)))
    lines.append((TOTAL, account.size, sum(size.inflated for size in sizes.values())))
    for label, stored, inflated in lines:
        _add(table, label, f"{stored:,}", f"{stored / account.size:.1%}", f"{inflated:,}" if inflated else "")
    return table


def difference_text(
    account: Account, base: Account, changes: Mapping[str, SizeChange], view: View, rows: int
) -> FittedTable:
    """Stored bytes of the old and the new file, and their difference, a label.

    Args:
        account: the account of the new file.
        base: the account of the old file.
        changes: the changes between them by some view.
        view: that view.
        rows: the number of labels shown; the others are one row. 0 shows all.
    """
    table = FittedTable.of(view.value, "old", "new", "difference", "%")
    shown, others = _parted(changes, rows)
    lines = [(label, change.old, change.new) for label, change in shown.items()]
    if others:
        rest = others.values()
        lines.append((_name(others), sum(one.old or 0 for one in rest), sum(one.new or 0 for one in rest)))
    lines.append((TOTAL, base.size, account.size))
    for label, old, new in lines:
        difference = (new or 0) - (old or 0)
        columns = ("" if size is None else f"{size:,}" for size in (old, new))
        _add(table, label, *columns, f"{difference:+,}" if difference else "0", _growth(old, new))
    return table


def _growth(old: int | None, new: int | None) -> str:
    if old is None:
        return "new"
    if new is None:
        return "gone"
    return f"{(new - old) / old:+.1%}" if old and new != old else ""


def _parted(labels: Mapping[str, SizeT], rows: int) -> tuple[dict[str, SizeT], dict[str, SizeT]]:
    """The labels that are shown, and the others. A single other one is shown: it takes no more space."""
    items = list(labels.items())
    if rows == 0 or len(items) <= rows + 1:
        return dict(items), {}
    return dict(items[:rows]), dict(items[rows:])


def _name(others: Mapping[str, object]) -> str:
    return f"[{len(others):,} others]"


def _add(table: FittedTable, label: str, *columns: str) -> None:
    table.add(one_line(label), *columns, style="bold" if label == TOTAL else "")
