"""Sizes → a table, largest first, the total last; JSON, with the outcomes of budgets."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from archive.describe.sizes.account import Size, WeightSize
from archive.render.fitted_table import TOTAL, FittedTable
from archive.render.texts import share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.describe.sizes import SizeChange, View
    from archive.describe.sizes.measure import FileSize, Judged, Measures

    Amount = Callable[[int], str]
    """How a number of bytes is written."""

SizeT = TypeVar("SizeT")


def exact(size: int) -> str:
    """All digits of a number of bytes."""
    return f"{size:,}"


def sizes_text(
    whole: int, sizes: Mapping[str, Size], view: View, rows: int, *, amount: Amount = exact
) -> FittedTable:
    """Stored bytes, their share of the whole, and inflated bytes, a label.

    Args:
        rows: the number of labels shown; the others are one row. 0 shows all.
    """
    shown, others = _parted(sizes, rows)
    lines = [*shown.items(), *([(_name(others), _sum(others))] if others else [])]
    lines.append((TOTAL, replace(_sum(sizes) if sizes else Size(), stored=whole)))
    of_weights = any(isinstance(size, WeightSize) for size in sizes.values())
    headings = ("stored", "%", "inflated", *(("elements", "dtype") if of_weights else ()))
    table = FittedTable.of(view.value, *headings)
    for label, size in lines:
        inflated = amount(size.inflated) if size.inflated else ""
        cells = [amount(size.stored), share(size.stored, whole), inflated]
        if isinstance(size, WeightSize):
            cells += [f"{size.elements:,}" if size.elements else "", ", ".join(size.dtypes)]
        _add(table, label, *cells)
    return table


def _sum(sizes: Mapping[str, Size]) -> Size:
    first, *others = sizes.values()
    return reduce(lambda sum_, size: sum_.plus(size), others, first)


def difference_text(
    old: int, new: int, changes: Mapping[str, SizeChange], view: View, rows: int, *, amount: Amount = exact
) -> FittedTable:
    """Stored bytes of the old and the new file, and their difference, a label.

    Args:
        rows: the number of labels shown; the others are one row. 0 shows all.
    """
    table = FittedTable.of(view.value, "old", "new", "difference", "%")
    shown, others = _parted(changes, rows)
    lines = [(label, change.old, change.new) for label, change in shown.items()]
    if others:
        rest = others.values()
        lines.append((_name(others), sum(one.old or 0 for one in rest), sum(one.new or 0 for one in rest)))
    for label, *change in (*lines, (TOTAL, old, new)):
        _add(table, label, *_changed(*change, amount=amount))
    return table


def files_text(files: Sequence[FileSize], amount: Amount = exact) -> FittedTable:
    """Bytes, and those of debug info with their share, a file."""
    table = FittedTable.of("file", "bytes", "debug", "%")
    total = (TOTAL, sum(file.size for file in files), sum(file.debug_bytes for file in files))
    for name, size, debug in [*((file.file, file.size, file.debug_bytes) for file in files), total]:
        _add(table, name, amount(size), amount(debug), share(debug, size))
    return table


def changed_files_text(files: Sequence[FileSize], amount: Amount = exact) -> FittedTable:
    """Bytes of the old and the new file, and their difference, a file."""
    table = FittedTable.of("file", "old", "new", "difference", "%")
    for file in files:
        _add(table, file.file, *_changed(file.old, file.size, amount=amount))
    old, new = sum(file.old or 0 for file in files), sum(file.size for file in files)
    _add(table, TOTAL, *_changed(old, new, amount=amount))
    return table


def _changed(old: int | None, new: int | None, *, amount: Amount) -> list[str]:
    """The cells of a change: old, new, difference, and what that is of the old."""
    difference = (new or 0) - (old or 0)
    sizes = ["" if size is None else amount(size) for size in (old, new)]
    plus = "+" if difference > 0 else ""
    return [*sizes, f"{plus}{amount(difference)}" if difference else "0", _growth(old, new)]


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
    table.add(label, *columns, style="bold" if label == TOTAL else "")


# --- JSON


class FileHead(TypedDict):
    """A file, its size, and its bytes of debug info."""

    file: str
    size: int
    debug_bytes: int


class VerdictFacts(TypedDict):
    """The outcome of a budget.

    Attributes:
        glob: the glob in the file of budgets that gave it; null for one of the command line.
        label: one of the view; "debug" for all debug records; "" for the file.
        growth: whether it bounds the difference from the base file.
        most: the bound in bytes.
        measured: stored bytes, or those by which they grew; null if that was not checked.
        over: bytes over the budget; 0 if it is kept, or was not checked.
        problem: why it was not checked; "" if it was.
    """

    glob: str | None
    label: str
    growth: bool
    most: int
    measured: int | None
    over: int
    problem: str


class SizesFacts(FileHead):
    """Where the bytes of a file go, by label of a view."""

    by: View
    labels: Mapping[str, Size]
    budgets: Sequence[VerdictFacts]


class WeightsFacts(FileHead):
    """Where the bytes of a file go, by tensor, or by module where ``--depth`` is given."""

    by: Literal["weights"]
    labels: Mapping[str, WeightSize]
    budgets: Sequence[VerdictFacts]


class ChangesFacts(FileHead):
    """What changed since ``base``, which is null where that file is missing, by label of a view."""

    by: View
    base: FileHead | None
    labels: Mapping[str, SizeChange]
    budgets: Sequence[VerdictFacts]


def sizes_facts(measures: Measures, view: View, *, since_base: bool) -> SizesFacts | ChangesFacts:
    """The sizes of a file, or what changed since its base, and the verdicts on its budgets."""
    head, budgets = _head(measures), [*map(_verdict_facts, measures.judged)]
    if not since_base:
        return {**head, "by": view, "labels": measures.labels, "budgets": budgets}
    base = _head(measures.base) if measures.base else None
    return {**head, "by": view, "base": base, "labels": measures.changes, "budgets": budgets}


def _head(measures: Measures) -> FileHead:
    return {"file": measures.file, "size": measures.size, "debug_bytes": measures.debug_bytes}


def _verdict_facts(judged: Judged) -> VerdictFacts:
    """The outcome of a budget for JSON."""
    verdict, budget = judged.verdict, judged.verdict.budget
    return {
        "glob": judged.rule.glob if judged.rule else None,
        "label": budget.label,
        "growth": budget.growth,
        "most": budget.most,
        "measured": verdict.measured,
        "over": verdict.over,
        "problem": verdict.problem,
    }
