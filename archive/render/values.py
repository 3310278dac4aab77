"""What the operations of a run computed, and where two runs part, as tables and sentences."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from archive.base.errors import counted, one_line
from archive.debuginfo.values.families import rounds
from archive.debuginfo.values.observed import ROW_NAMES, Summary, elements
from archive.render.fitted_table import FittedTable
from archive.render.value_facts import operators_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.tables import Holds
    from archive.debuginfo.values.gaps import Gap, ValueDiff, ValueGap
    from archive.debuginfo.values.observed import (
        Observed,
        ObservedOperation,
        Odd,
        Range,
        RowView,
        ValueRow,
    )
    from archive.debuginfo.values.pairing import Pair
    from archive.render.fitted_table import Printed

    ValueView: TypeAlias = Literal["operation"] | RowView

RowT = TypeVar("RowT")
VALUE_VIEWS = ("operation", "line", "module", "operator")
"""What a row of a table stands for."""

GAP = 2
"""Between columns: there are many."""
SPARE = ("cosine", "base", "max abs")
"""Columns that a narrow table leaves out, in this order: all are in ``--json``."""
WEAK_MARK = "~"
MOST_EXTRA = 3
"""Of the operations that only one run has, those that are listed."""


# --- a run


def observed_text(observed: Observed, view: ValueView, most: int) -> Printed:
    """The operations of a run in their order, or a row for each line, module or operator.

    Args:
        most: rows to show; 0 for all.
    """
    yield head_line(observed)
    yield ""
    if view == "operation":
        yield operations_table(observed.operations, most)
    else:
        yield rows_table(observed.rows_by(view), view, most)
    for name, operation in (("NaN", observed.first_nan), ("infinite", observed.first_inf)):
        if operation is not None:
            yield ""
            yield from first_lines(f"first {name}", operation)


def head_line(observed: Observed) -> str:
    """A run in one line."""
    head = f"{observed.form}: {counted(len(observed.operations), 'operation')}"
    return head + (f"; not seen: {unseen_text(observed)}" if observed.unseen else "")


def unseen_text(observed: Observed) -> str:
    """What ran without being seen."""
    return ", ".join(f"{many:,} {what}" for what, many in observed.unseen.items())


def operations_table(operations: Sequence[ObservedOperation], most: int) -> FittedTable:
    """A row for each operation."""
    numbers = "min", "max", "mean", "std", "zeros", "NaN", "Inf"
    table = FittedTable([*_columns("operator", "shape"), *((name, "number") for name in numbers)], gap=GAP)
    for operation in _first(operations, most):
        result = operation.results[0]
        times = f" [{operation.visit}]" if operation.visit else ""
        place = operation.line, operation.place.module
        table.add(*place, operation.op + times, _shape(result), *_cells(result))
    _rest(table, len(operations), most)
    return table


def rows_table(rows: Sequence[ValueRow], view: RowView, most: int) -> FittedTable:
    """A row for each line, module or operator."""
    names: list[tuple[str, Holds]] = [(view, "place" if view == "line" else "name")]
    numbers = "runs", "min", "max", "zeros", "NaN", "Inf"
    text: list[tuple[str, Holds]] = (
        [] if view == "operator" else [("source" if view == "line" else "class", "code")]
    )
    table = FittedTable([*names, *((name, "number") for name in numbers), *text], gap=GAP)
    for row in _first(rows, most):
        zeros = f"{row.zeros / row.elements:.0%}" if row.elements else ""
        cells = [f"{row.runs:,}", number(row.low), number(row.high), zeros, _count(row.nan), _count(row.inf)]
        table.add(row.name, *cells, *([row.text] if text else []))
    _rest(table, len(rows), most)
    return table


def watched_text(operations: Sequence[ObservedOperation], values: Iterable[str]) -> Printed:
    """The operations of a line with their values."""
    for operation, value in zip(operations, values, strict=True):
        times = f" [{operation.visit}]" if operation.visit else ""
        yield f"{operation.line} {operation.op}{times} in {operation.place.module}"
        yield f"  {_shape(operation.results[0])}: {_in_words(operation.results[0])}"
        for line in value.splitlines():
            yield f"  {line}"
        yield ""


def first_text(observed: Observed) -> Printed:
    """The first operations that make a NaN and an infinite number, or that there are none.

    Where that one reaches no result of the model, the first that does is named, too.
    """
    kinds: tuple[tuple[str, Odd], ...] = (("NaN", "nan"), ("infinite number", "inf"))
    for name, kind in kinds:
        first = observed.first_nan if kind == "nan" else observed.first_inf
        having = [each for each in observed.operations if each.has(kind)]
        if not having:
            yield f"no {name} in the results of {counted(len(observed.operations), 'operation')}"
            continue
        if first is not None:
            yield from first_lines(f"first {name}", first)
        else:
            asks = ", or an operation asks for it" if kind == "inf" else ""
            yield f"no operation makes the first {name}: a weight or an input has it{asks}"
            first = having[0]
            yield from first_lines("first line that got it", first)
        reaching = observed.reaching(kind)
        if reaching is not None and first not in reaching:
            yield "  no result of the model has it" if not reaching else "  it reaches no result of the model"
            if reaching:
                yield from first_lines(f"first {name} that reaches a result", reaching[0])


def first_lines(what: str, operation: ObservedOperation) -> Iterator[str]:
    """An operation with a NaN or an infinite number, the first that makes one say, and what it was given."""
    yield f"{what}: {operation.line}: {_source(operation)}"
    yield f"  {operation.op} in {operation.place.module}: {_in_words(operation.results[0])}"
    for number_of, given in enumerate(operation.inputs):
        yield f"  input {number_of}: {_shape(given)}: {_in_words(given)}"


def _in_words(tensor: Summary | Range) -> str:
    if not elements(tensor.shape):
        return "no elements"
    words = ["no finite element"]
    if isfinite(tensor.low):
        words = [f"{number(tensor.low)} to {number(tensor.high)}"]
        if isinstance(tensor, Summary):
            words += [f"mean {number(tensor.mean)}", f"std {number(tensor.std)}"]
    words += [f"{many:,} {what}" for what, many in (("NaN", tensor.nan), ("Inf", tensor.inf)) if many]
    return ", ".join(words)


# --- two runs


def comparison_text(diff: ValueDiff, mine: str, base: str, view: ValueView, most: int) -> Printed:
    """Where a run parts from its base: the first line, then each pair or the worst pair of each line.

    Args:
        mine: the run's file.
        base: the base's.
        most: rows to show; 0 for all.
    """
    pairs = diff.pairs
    yield f"{mine} ({diff.mine.form}) beside {base} ({diff.base.form}), tolerance {diff.tolerance:g}"
    yield _counts(diff)
    yield ""
    gaps = gaps_by(diff, view)
    names = _columns("operator", "base")
    numbers = [
        "max abs",
        "max rel",
        "SNR dB",
        "cosine",
        *(["odd"] if any(each.gap.odd for each in gaps) else []),
    ]
    table = FittedTable([*names, *((name, "number") for name in numbers)], gap=GAP, spare=SPARE)
    for each in _first(gaps, most):
        mark = WEAK_MARK if each.pair.is_weak else ""
        style = "red" if each.gap.is_beyond(diff.tolerance) else ""
        cells = [
            mark + each.known.line,
            each.known.place.module,
            *operators_of(each.pair),
            *(_gap_cells(each.gap) if not each.is_shown else [""] * len(numbers)),
        ]
        table.add(*cells[: len(table.columns)], style=style)
    _rest(table, len(gaps), most)
    yield table
    if any(each.pair.is_weak for each in gaps):
        yield f"{WEAK_MARK} may be a neighbour of the operation that computes the same"
    yield ""
    for doubt in diff.doubts:
        yield f"doubtful: {doubt}"
    for at, gap in enumerate(diff.outputs):
        yield f"result {at}: {_gap_in_words(gap)}"
    yield from _start_text(diff, mine, base)
    for file, observed in ((mine, diff.mine), (base, diff.base)):
        if observed.unseen:
            yield f"not seen in {file}: {unseen_text(observed)}"
    for file, left, is_open in zip((mine, base), pairs.left, pairs.is_open, strict=True):
        if only := [each for each in left if not rounds(each)]:
            shown = ", ".join(f"{each.line} {each.op}" for each in only[:MOST_EXTRA])
            rest = ", …" if len(only) > MOST_EXTRA else ""
            yield f"{'seen ' if is_open else ''}only in {file}: {shown}{rest}"


def _start_text(diff: ValueDiff, mine: str, base: str) -> Iterator[str]:
    """Where the difference begins, as far as that is known."""
    first = diff.first
    if first is not None:
        yield f"first line beyond the tolerance: {_at_line(first.known, first.pair)}"
        only = ""
        if first.pair.extra is not None:
            only = f", which only {mine if first.pair.extra is first.pair.mine else base} has"
            only += "; what follows from it" if first.is_shown else ""
        yield f"  {first.known.op} in {first.known.place.module}{only}: {_gap_in_words(first.gap)}"
        if first.layer is not None and first.layer.line != first.known.line:
            yield f"  or where it is folded into: {_at_line(first.layer, first.pair)}"
        if diff.may_hide_norm(first):
            yield "  or a batch normalisation that both may have folded into it, whose line neither has"
    elif diff.is_beyond:
        unsure = (
            "it may be in what was not seen" if diff.may_be_unseen else "what the first was given may be, too"
        )
        what = "the model's result is" if diff.first_sure is None else unsure
        yield f"where the difference begins is not sure; {what}"
    else:
        yield f"no line is {'surely ' if diff.uncertain else ''}beyond the tolerance"
    drop = diff.largest_drop if first is None and diff.first_sure is not None else None
    if drop is not None and drop.known.line != diff.uncertain[0].known.line:
        yield f"largest drop of SNR: {_at_line(drop.known, drop.pair)}"
    if uncertain := diff.uncertain:
        before = ", before it" if first is not None else ""
        where = _at_line(uncertain[0].known, uncertain[0].pair)
        yield f"perhaps beyond it{before}: {where} ({counted(len(uncertain), 'pair')})"


def gaps_by(diff: ValueDiff, view: ValueView) -> Sequence[ValueGap]:
    """All pairs, or that with the largest difference of each line, module or operator, as they ran."""
    if view == "operation":
        return diff.gaps
    worst: dict[str, ValueGap] = {}
    for each in diff.gaps:
        name = ROW_NAMES[view](each.known)
        if name not in worst or each.gap.max_rel > worst[name].gap.max_rel:
            worst[name] = each
    return [*worst.values()]


def _counts(diff: ValueDiff) -> str:
    pairs = diff.pairs
    rounding = [sum(map(rounds, left)) for left in pairs.left]
    words = [f"{counted(len(pairs.pairs), 'operation')} side by side"]
    seen = ["seen " if is_open else "" for is_open in pairs.is_open]
    words += [
        f"{counted(many, 'operation')} {what}"
        for many, what in (
            (sum(pairs.inside), "inside of these"),
            (sum(map(len, pairs.hidden)), "not seen in one of both"),
            (len(pairs.left[0]) - rounding[0], f"{seen[0]}only here"),
            (len(pairs.left[1]) - rounding[1], f"{seen[1]}only in the base"),
            (sum(rounding), "that only quantise, in one of both"),
            (sum(pairs.layout), "that compute nothing"),
            (diff.uncompared, "not compared (truth values, indices)"),
        )
        if many
    ]
    return ", ".join(words)


def _gap_in_words(gap: Gap) -> str:
    words = f"max abs {number(gap.max_abs)}, max rel {number(gap.max_rel)}, SNR {_db(gap.snr_db)} dB"
    return words + (f", {gap.odd:,} finite in only one" if gap.odd else "")


def _gap_cells(gap: Gap) -> list[str]:
    return [number(gap.max_abs), number(gap.max_rel), _db(gap.snr_db), f"{gap.cosine:.6f}", _count(gap.odd)]


# --- cells


def number(value: float) -> str:
    """A number in five digits; "" for NaN."""
    return "" if value != value else f"{value:.5g}"  # noqa: PLR0124 (NaN)


def _db(value: float) -> str:
    return "inf" if value == float("inf") else f"{value:.1f}"


def _count(many: int) -> str:
    return f"{many:,}" if many else ""


def _columns(*names: str) -> list[tuple[str, Holds]]:
    """The columns before the numbers of operations."""
    return [("line", "place"), *((name, "name") for name in ("module", *names))]


def _at_line(operation: ObservedOperation, pair: Pair) -> str:
    """A line, and its text from whichever run knows it: a traced archive has only its function."""
    texts = [_source(each) for each in (operation, pair.mine, pair.base) if each.line == operation.line]
    code = next((text for text in texts if text and not _is_name(text)), "")
    if code:
        return f"{operation.line}: {code}"
    return f"{operation.line}, in {texts[0]}" if texts[0] else operation.line


def _is_name(text: str) -> bool:
    """Whether a text is a function's name: no line that is only a name runs an operation."""
    return text.strip("<>").isidentifier()


def _source(operation: ObservedOperation) -> str:
    source = operation.place.source
    return one_line(source.words) if source else ""


def _shape(result: Summary | Range) -> str:
    return f"{result.dtype}[{'x'.join(map(str, result.shape))}]"


def _cells(result: Summary) -> list[str]:
    zeros = f"{result.zeros / (elements(result.shape) or 1):.0%}"
    numbers = result.low, result.high, result.mean, result.std
    return [*map(number, numbers), zeros, _count(result.nan), _count(result.inf)]


def _first(rows: Sequence[RowT], most: int) -> Sequence[RowT]:
    return rows[:most] if most else rows


def _rest(table: FittedTable, count: int, most: int) -> None:
    if most and count > most:
        table.add(f"[{count - most:,} others]", *[""] * (len(table.columns) - 1))
